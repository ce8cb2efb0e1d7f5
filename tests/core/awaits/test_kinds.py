"""Answers to open waits of each kind: accepted when they fit the wait, else refused with a reason."""

import pytest

from sojourn import AwaitClarification, AwaitConfirmation, AwaitExternalTools, ExternalCall, Principal
from sojourn.contracts.wire_names import PROVIDE_CLARIFICATION, PROVIDE_CONFIRMATION, PROVIDE_TOOL_RESULTS
from sojourn.core.awaits.clarification import Clarified
from sojourn.core.awaits.confirmation import Decided
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.awaits.external_tools import Supplied
from sojourn.core.awaits.kinds import KINDS, digest_of_answer, kind_of, read_answer
from sojourn.core.awaits.principals import write_principal
from sojourn.values.json_fault import MAX_DEPTH, MAX_DIGITS
from sojourn.values.wire import MAX_ANSWER_CHARS, MAX_RESULT_BYTES

QUESTION = AwaitClarification(id="fix-a.b.c#2", question="Which site?")
FORM = {
    "type": "object",
    "properties": {"site": {"type": "string", "maxLength": 5}, "count": {"type": "integer", "minimum": 1}},
    "required": ["site"],
}
ONE_FIELD = {"type": "object", "properties": {"count": {"type": "integer", "minimum": 1}}}
CONFIRM = AwaitConfirmation(id="confirm-c1", tool_call_id="c1", tool="a.b.c", payload_digest="d1")
OUTSIDE = AwaitExternalTools(
    id="external-c1", items=[ExternalCall(tool_call_id=id, tool="a.b.c") for id in ("c1", "c2")]
)


def planners(form: dict) -> AwaitClarification:
    """A planner's question, whose answer the planner reads."""
    return QUESTION.model_copy(update={"form": form})


def tools(form: dict) -> AwaitClarification:
    """A tool's question, whose answer goes to the tool unchanged."""
    return QUESTION.model_copy(update={"form": form, "tool_call_id": "c1", "server": "a.b"})


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


def reason(judged: object) -> str:
    assert isinstance(judged, Rejection)
    assert judged.kind == "InvalidAnswer"
    return judged.reason


# Questions.


@pytest.mark.parametrize(
    ("wait", "kind"),
    [(QUESTION, PROVIDE_CLARIFICATION), (CONFIRM, PROVIDE_CONFIRMATION), (OUTSIDE, PROVIDE_TOOL_RESULTS)],
)
def test_each_kind_of_wait_has_its_own_message(wait, kind: str) -> None:
    """The name of the update or signal that answers a wait follows from the wait's kind."""
    assert kind_of(wait).name == kind


def test_a_text_answers_a_question() -> None:
    """A text answer is accepted unchanged, with the sender's name."""
    assert read_answer(QUESTION, {"answer": "s-1", "by": "ana"}) == Clarified(QUESTION.id, "s-1", "ana")


def test_values_by_field_are_kept_as_json() -> None:
    """An object of values becomes JSON without ASCII escapes."""
    answer = {"site": "Zürich"}
    assert read_answer(QUESTION, {"answer": answer}) == Clarified(QUESTION.id, '{"site": "Zürich"}', None)


def test_an_empty_answer_is_refused(subtests: pytest.Subtests) -> None:
    """An answer has to be a text or an object that is not empty."""
    rows = [None, "", {}, 3, True, ["x"]]
    for answer in rows:
        with subtests.test(answer=answer):
            assert "the answer to fix-a.b.c#2 is a text or an object" in reason(
                read_answer(QUESTION, {"answer": answer})
            )


def test_by_is_a_name(subtests: pytest.Subtests) -> None:
    """`by` is a text of at most 200 characters, for every kind of wait; an empty one is None."""
    waits = [QUESTION, CONFIRM, OUTSIDE]
    bys = [3, "x" * 201, ["ana"], "\ud800"]
    for by in bys:
        for wait in waits:
            with subtests.test(str((wait, by))):
                sent = {"answer": "x", "approved": True, "results": [{"tool_call_id": "c1", "result": 1}]}
                assert "`by` is a name" in reason(read_answer(wait, {**sent, "by": by}))
                assert read_answer(wait, {**sent, "by": ""}).by is None
                assert read_answer(wait, {**sent, "by": "x" * 200}).by == "x" * 200


def test_an_answer_has_a_bounded_length() -> None:
    """An answer has at most 64,000 characters, as a text or as JSON."""
    assert isinstance(read_answer(QUESTION, {"answer": "x" * MAX_ANSWER_CHARS}), Clarified)
    for answer in ("x" * (MAX_ANSWER_CHARS + 1), {"a": "x" * MAX_ANSWER_CHARS}):
        assert "at most 64,000 characters" in reason(read_answer(QUESTION, {"answer": answer}))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("half \ud800", "surrogate"),
        ({"half \udc00": 1}, "surrogate"),
        ({"a": nested(MAX_DEPTH)}, "deeper than 64"),
        ({"a": 10**MAX_DIGITS}, "300 digits"),
        ({"a": 10**5_000}, "as JSON"),
        ({"a": float("nan")}, "not a JSON number"),
    ],
    ids=["half a character", "in a name", "nesting", "a long number", "an endless number", "no number"],
)
def test_an_answer_can_be_written_and_read_again(answer: object, said: str) -> None:
    """An answer that cannot be written as JSON and read back is refused: it would stop the run for ever."""
    assert said in reason(read_answer(QUESTION, {"answer": answer}))


@pytest.mark.parametrize("why", [None, "", "I do not know"], ids=str)
def test_a_question_may_be_declined(why: str | None) -> None:
    """A question may be declined with or without a reason, also where its form asks for values."""
    for question in (QUESTION, tools(FORM)):
        declined = read_answer(question, {"declined": True, "reason": why, "answer": "ignored"})
        assert declined == Clarified(QUESTION.id, why or "", None, declined=True)


@pytest.mark.parametrize("why", [5, ["no"], "x" * 2_001, "\ud800"], ids=lambda why: repr(why)[:10])
def test_a_reason_is_a_short_text(why: object) -> None:
    """A reason has at most 2,000 characters, in a decline and in a decision."""
    assert "`reason` is a text of at most 2,000" in reason(
        read_answer(QUESTION, {"declined": True, "reason": why})
    )
    assert "`reason` is a text of at most 2,000" in reason(
        read_answer(CONFIRM, {"approved": True, "reason": why})
    )


@pytest.mark.parametrize("declined", ["true", 1, {}], ids=str)
def test_only_true_declines(declined: object) -> None:
    """A `declined` that is not `true` is ignored, and the answer counts."""
    answered = read_answer(QUESTION, {"declined": declined, "answer": "s-1"})
    assert isinstance(answered, Clarified)
    assert (answered.text, answered.declined) == ("s-1", False)


# Questions with a form.


def test_values_fit_the_form(subtests: pytest.Subtests) -> None:
    """Values have to fit the form: those that are there for a planner's question, all of them for a tool's."""
    rows = [
        ({"site": "s-1", "count": 2}, {"site": "s-1", "count": 2}, {"site": "s-1", "count": 2}),
        ('{"site": "s-1"}', {"site": "s-1"}, {"site": "s-1"}),
        # A planner accepts any of the fields; a tool needs its required fields and accepts no others.
        ({"count": 2}, {"count": 2}, "site is missing"),
        ({"site": "s-1", "why": 1}, {"site": "s-1", "why": 1}, "there is no field 'why', only site, count"),
        # Only a planner accepts a text that gives no values.
        ("the one in Bern", None, "values by field are wanted: site, count"),
        ({"site": 5}, "site must be a string, not an integer", "site must be a string, not an integer"),
        ({"site": "s-1", "count": 0}, "count must be at least 1", "count must be at least 1"),
        (
            '{"site": "sixsix"}',
            "site must be at most 5 characters long",
            "site must be at most 5 characters long",
        ),
    ]
    for answer, planner, tool in rows:
        with subtests.test(answer=answer, planner=planner, tool=tool):
            for question, wanted in ((planners(FORM), planner), (tools(FORM), tool)):
                judged = read_answer(question, {"answer": answer})
                if isinstance(wanted, str):
                    assert reason(judged) == f"the answer to fix-a.b.c#2 does not fit: {wanted}"
                else:
                    assert isinstance(judged, Clarified)
                    assert judged.values == wanted


@pytest.mark.parametrize(("text", "values"), [("5", {"count": 5}), ('{"count": 5}', {"count": 5})])
def test_a_text_gives_the_value_of_the_only_field(text: str, values: dict) -> None:
    """Where a form has one field, a person may answer with the value alone or with a JSON object."""
    judged = read_answer(tools(ONE_FIELD), {"answer": text})
    assert judged == Clarified(QUESTION.id, text, None, values)


def test_json_in_a_text_is_checked_as_json() -> None:
    """A text answer whose JSON no payload can carry is refused, for a planner's and for a tool's question."""
    texts = [
        ('{"any": "\\ud800"}', "surrogate"),
        (f'{{"any": {"[" * 100}{"]" * 100}}}', "deeper than 64"),
        (f'{{"any": 1{"0" * MAX_DIGITS}}}', "300 digits"),
        ('{"any": NaN}', "not a JSON number"),
        ('{"any": 1e999}', "not a JSON number"),
    ]
    askeds = [planners, tools]
    assert [
        (text, said, asked)
        for asked in askeds
        for text, said in texts
        if said not in reason(read_answer(asked({"properties": {"any": {}}}), {"answer": text}))
    ] == []


def test_a_malformed_form_raises_nothing(subtests: pytest.Subtests) -> None:
    """With a malformed form, a planner's question accepts any answer; a tool's only if the form has properties."""
    rows = [
        ({}, False),
        ({"properties": {}}, False),
        ({"properties": ["a"]}, False),
        ({"properties": {"a": True}, "required": {"a": 1}}, True),
        ({"properties": {"a": {"type": {}, "enum": 5, "minimum": "b"}}, "required": [[], 5]}, True),
    ]
    for form, takes in rows:
        with subtests.test(form=form, takes=takes):
            assert isinstance(read_answer(planners(form), {"answer": {"a": 1}}), Clarified)
            assert isinstance(
                read_answer(tools(form), {"answer": {"a": 1}}), Clarified if takes else Rejection
            )


# Decisions.


def test_a_decision_is_true_or_false(subtests: pytest.Subtests) -> None:
    """A decision approves or denies a call, with an optional reason, name and scope."""
    rows = [
        ({"approved": True}, Decided("confirm-c1", True, "", None)),
        ({"approved": False, "reason": "too late"}, Decided("confirm-c1", False, "too late", None)),
        ({"approved": True, "by": "ana", "scope": "tool"}, Decided("confirm-c1", True, "", "ana", "tool")),
        ({"approved": False, "scope": "call"}, Decided("confirm-c1", False, "", None)),
        ({"approved": True, "scope": None}, Decided("confirm-c1", True, "", None)),
        ({"approved": True, "payload_digest": "d1"}, Decided("confirm-c1", True, "", None)),
    ]
    for sent, decided in rows:
        with subtests.test(sent=sent, decided=decided):
            assert read_answer(CONFIRM, sent) == decided
            assert decided.text == decided.reason


def test_an_unclear_decision_is_refused(subtests: pytest.Subtests) -> None:
    """A decision needs the boolean `approved`, a known scope that fits it, and the digest of this call's arguments."""
    rows = [
        ({}, "needs `approved`: true or false"),
        ({"approved": 1}, "needs `approved`: true or false"),
        ({"approved": "yes"}, "needs `approved`: true or false"),
        ({"approved": True, "scope": "run"}, "`scope` is `call`"),
        ({"approved": True, "scope": ["tool"]}, "`scope` is `call`"),
        ({"approved": False, "scope": "tool"}, "with an approval `tool`"),
        ({"approved": True, "payload_digest": "d2"}, "about other arguments"),
        ({"approved": True, "payload_digest": 5}, "about other arguments"),
    ]
    for sent, said in rows:
        with subtests.test(sent=sent, said=said):
            assert said in reason(read_answer(CONFIRM, sent))


# Results of external calls.


def test_a_call_is_answered_by_a_result_or_an_error(subtests: pytest.Subtests) -> None:
    """A message may answer some or all calls, each by a result or an error; unknown fields are left out."""
    rows = [
        {"result": {"n": 1}},
        {"result": None},
        {"error": "no such site"},
        {"error": {"message": "no such site", "code": "NoSite"}, "retry_hint": {"reason": "timeout"}},
        {"result": nested(MAX_DEPTH)},
    ]
    for given in rows:
        with subtests.test(str(str(given)[:40])):
            one = {"tool_call_id": "c1", **given, "more": "left out"}
            supplied = read_answer(OUTSIDE, {"results": [one], "by": "scada"})
            assert supplied == Supplied("external-c1", {"c1": given}, "scada")
            assert supplied.text == ""
            both = read_answer(OUTSIDE, {"results": [one, {**one, "tool_call_id": "c2"}]})
            assert both == Supplied("external-c1", {"c1": given, "c2": given}, None)


def test_what_answers_no_call_is_refused(subtests: pytest.Subtests) -> None:
    """One bad result makes the whole message refused, so that its sender knows that none was accepted."""
    rows = [
        (None, "`results` is a list"),
        ([], "`results` is a list"),
        ({"tool_call_id": "c1", "result": 1}, "`results` is a list"),
        (["c1"], "an object with `tool_call_id`"),
        ([{"result": 1}], "no call null waits here; open: c1, c2"),
        ([{"tool_call_id": "c3", "result": 1}], 'no call "c3" waits here; open: c1, c2'),
        ([{"tool_call_id": 10**5_000, "result": 1}], "no call a huge integer waits here"),
        ([{"tool_call_id": "c1"}], "by either `result` or `error`"),
        ([{"tool_call_id": "c1", "result": 1, "error": "no"}], "by either `result` or `error`"),
        ([{"tool_call_id": "c1", "error": ""}], "the error of call c1 is a text"),
        ([{"tool_call_id": "c1", "error": {"code": "x"}}], "an object with a `message`"),
        ([{"tool_call_id": "c1", "result": 1}] * 2, "call c1 is answered twice"),
        ([{"tool_call_id": "c1", "result": nested(65)}], "the result of call c1 cannot be used: the nesting"),
        ([{"tool_call_id": "c1", "error": "\ud800"}], "the error of call c1 cannot be used"),
        ([{"tool_call_id": "c1", "error": "x", "retry_hint": {"\ud800": 1}}], "the retry_hint of call c1"),
        ([{"tool_call_id": "c1", "result": float("inf")}], "not a JSON number"),
    ]
    for results, said in rows:
        with subtests.test(said):
            good = {"tool_call_id": "c2", "result": 1}
            assert said in reason(read_answer(OUTSIDE, {"results": results}))
            if isinstance(results, list) and results:
                assert said in reason(read_answer(OUTSIDE, {"results": [good, *results]}))


@pytest.mark.parametrize("letter", ["x", "字"])
def test_results_are_bounded_together(letter: str) -> None:
    """All results of a message have at most 1,000,000 bytes in UTF-8: they are an activity's input, which is bounded."""
    size = len(letter.encode())
    for count, taken in ((MAX_RESULT_BYTES // size - 100, True), (MAX_RESULT_BYTES // size, False)):
        judged = read_answer(OUTSIDE, {"results": [{"tool_call_id": "c1", "result": letter * count}]})
        assert isinstance(judged, Supplied if taken else Rejection)


def test_the_refusal_of_a_large_message_says_what_to_send_instead() -> None:
    """One result over the limit has to be smaller; several that are over it only together go in several messages."""
    half, whole = "x" * 600_000, "x" * 1_100_000
    many = [{"tool_call_id": id, "result": half} for id in ("c1", "c2")]
    one = {"tool_call_id": "c2", "result": whole}
    assert reason(read_answer(OUTSIDE, {"results": many})) == (
        "the results of one message have together at most 1,000,000 bytes, and these have 1,200,044; "
        "send them in several messages"
    )
    for results in ([one], [one, {"tool_call_id": "c1", "result": 1}]):
        assert reason(read_answer(OUTSIDE, {"results": results})) == (
            "the result of call c2 has 1,100,022 bytes, and one result has at most 1,000,000; "
            "send a smaller one, such as a link to the data"
        )


# Repetitions and refusals.


def test_a_repetition_has_the_digest_of_the_answer(subtests: pytest.Subtests) -> None:
    """Two answers have the same digest if they decide the same, whatever their sender and reason."""
    rows = [
        (QUESTION, {"answer": "a"}, {"answer": "a", "by": "bo"}, [{"answer": "b"}, {"declined": True}]),
        (QUESTION, {"answer": {"a": 1}}, {"answer": {"a": 1}}, [{"answer": {"a": 2}}, {}]),
        (QUESTION, {"declined": True}, {"declined": True, "reason": "x"}, [{"answer": "declined"}, {}]),
        (QUESTION, {"answer": "declined"}, {"answer": "declined"}, [{"declined": True}]),
        (
            CONFIRM,
            {"approved": True},
            {"approved": True, "scope": "call", "reason": "x"},
            [{"approved": False}, {"approved": True, "scope": "tool"}, {"answer": "a"}],
        ),
    ]
    for wait, sent, same, others in rows:
        with subtests.test(wait=wait, sent=sent, same=same, others=others):
            digest, kind = read_answer(wait, sent).digest, kind_of(wait)
            assert digest_of_answer(kind, sent) == digest_of_answer(kind, same) == digest
            assert digest not in [digest_of_answer(kind, other) for other in others]


def test_an_answer_that_cannot_be_written_repeats_nothing() -> None:
    """An answer with an endless number has the digest of no answer; results have none, being compared call by call."""
    assert Supplied("external-c1", {"c1": {"result": 1}}, None).digest == ""
    endless = {"answer": {"n": 10**5_000}, "approved": 10**5_000, "results": [10**5_000]}
    assert {digest_of_answer(kind, endless) for kind in KINDS.values()} == {"no answer"}


def test_a_refusal_is_one_short_printable_line() -> None:
    """A refusal's reason, which may repeat what was sent, is shortened and has no control characters."""
    refused = Rejection("a\x1b[31m\n\ud800\u202e" + "b" * 1_000)
    assert len(refused.reason) < 500
    assert refused.reason.isprintable()
    assert refused.reason.endswith("b…")


@pytest.mark.parametrize("wait", [QUESTION, OUTSIDE])
def test_who_answers_is_beside_the_answer_and_nowhere_in_it(wait) -> None:
    """An answer's principal is a field of its own: its values and results name nobody, and old signals with other fields are read as before."""
    ana = Principal(subject="ana", tenant="acme")
    said: dict = {"answer": {"principal": {"subject": "kim"}}}
    if wait is OUTSIDE:
        call_id, kim = OUTSIDE.items[0].tool_call_id, {"subject": "kim"}
        said = {"results": [{"tool_call_id": call_id, "result": {"principal": kim}, "principal": kim}]}
    named = {"id": wait.id, **said, "principal": write_principal(ana)}
    for channel in ("update", "signal", "accepted"):
        assert read_answer(wait, {"id": wait.id, **said}, channel).principal is None
        assert read_answer(wait, named, channel).principal == ana
    for odd in ("kim", {"subject": ""}, {"subject": "kim", "tenant": "a'b"}, ["kim"]):
        odd_sent = {**named, "principal": odd}
        assert "principal" in read_answer(wait, odd_sent, "update").reason
        assert read_answer(wait, odd_sent, "signal").principal is None
