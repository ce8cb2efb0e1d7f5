"""The waits of a run: each is opened under its own id, and answered once."""

from dataclasses import replace

import pytest

from sojourn import (
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    ExternalCall,
    ToolError,
    ToolResult,
)
from sojourn.contracts.tool_spec import ShownTool
from sojourn.contracts.wire_names import PROVIDE_CLARIFICATION, PROVIDE_CONFIRMATION, PROVIDE_TOOL_RESULTS
from sojourn.core.awaits.clarification import Clarified
from sojourn.core.awaits.confirmation import Decided
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.awaits.external_tools import Supplied
from sojourn.core.awaits.waits import MAX_TRIES, Released, Repeated

from .current_waits import CurrentWaits

QUESTION = AwaitClarification(id="q", question="Which site?")
GOOD = ToolResult(result=1)
BAD = ToolResult(error=ToolError.new("no such field", code="malformed_response"))


def confirm(call_id: str, tool: str = "a.b.c", tags: tuple[str, ...] = ()) -> AwaitConfirmation:
    return AwaitConfirmation(id=f"confirm-{call_id}", tool_call_id=call_id, tool=tool, tags=list(tags))


def outside(*call_ids: str) -> AwaitExternalTools:
    return AwaitExternalTools(
        id="out", items=[ExternalCall(tool_call_id=call_id, tool="a.b.c") for call_id in call_ids]
    )


def opened(*waits) -> CurrentWaits:
    made = CurrentWaits()
    for wait in waits:
        made.add(wait)
    return made


def answer(waits: CurrentWaits, kind: str = PROVIDE_CLARIFICATION, **sent):
    """Send an answer, and apply it if it is accepted."""
    judged = waits.read(kind, sent)
    if not isinstance(judged, Rejection | Repeated):
        waits.take(judged)
    return judged


def supply(waits: CurrentWaits, **results):
    """Send results of external calls."""
    sent = [{"tool_call_id": call_id, "result": result} for call_id, result in results.items()]
    return answer(waits, PROVIDE_TOOL_RESULTS, results=sent)


# Opening a wait, and finding it for an answer.


def test_a_wait_opens_under_an_id_of_its_own() -> None:
    """An id that was used before, open or closed, gets a number; a missing one is made from the tool."""
    waits = CurrentWaits()
    tool = QUESTION.model_copy(update={"id": "", "restrict_to_tool": "a.b.c"})
    ids = [waits.add(wait).id for wait in (QUESTION, QUESTION, tool, tool, confirm("c1"), confirm("c1"))]
    assert ids == ["q", "q#2", "fix-a.b.c", "fix-a.b.c#2", "confirm-c1", "confirm-c1#2"]
    waits.close("q")
    assert waits.add(QUESTION).id == "q#3"
    assert list(waits.open) == [*ids[1:], "q#3"]


@pytest.mark.parametrize("id", [{}, {"id": ""}, {"id": None}, {"id": "q"}], ids=str)
def test_without_an_id_the_only_open_wait_of_the_kind_is_answered(id: dict) -> None:
    """Open waits of other kinds do not count."""
    waits = opened(QUESTION, confirm("c1"), outside("c2"))
    assert waits.read(PROVIDE_CLARIFICATION, {**id, "answer": "s-1"}) == Clarified("q", "s-1", None)


def test_a_new_answer_without_an_id_needs_to_be_the_only_wait() -> None:
    """Of several open waits, of whatever kind, the sender may have meant another one: the refusal lists them."""
    answer = {"answer": "s-1"}
    alone, several = opened(QUESTION), opened(QUESTION, confirm("c1"), outside("c2"))
    assert alone.read(PROVIDE_CLARIFICATION, answer, "update") == Clarified("q", "s-1", None)
    refused = Rejection("name the wait by its `id`; open: q, confirm-c1, out")
    assert several.read(PROVIDE_CLARIFICATION, answer, "update") == refused
    assert several.read(PROVIDE_CLARIFICATION, answer, "accepted") == Clarified("q", "s-1", None)
    results = {"results": [{"tool_call_id": "c2", "result": 1}]}
    assert several.read(PROVIDE_TOOL_RESULTS, results, "update").results == {"c2": {"result": 1}}


def test_an_answer_to_one_of_several_open_waits_names_it() -> None:
    """With several open waits an answer without an id is refused, and the refusal lists at most five of them."""
    waits = opened(*(confirm(f"c{n}") for n in range(6)))
    refused = waits.read(PROVIDE_CONFIRMATION, {"approved": True})
    listed = ", ".join(f"confirm-c{n}" for n in range(5))
    assert refused == Rejection(f"name the wait by its `id`; open: {listed} ...")
    assert waits.read(PROVIDE_CONFIRMATION, {"id": "confirm-c5", "approved": True}).await_id == "confirm-c5"


def test_an_answer_is_an_object() -> None:
    """A value that is no object is refused, with a sample of the object for this update or signal."""
    values = [None, "s-1", 3, [], [{"answer": "x"}]]
    kinds = [
        (PROVIDE_CLARIFICATION, '{"id": "...", "answer": "text"}'),
        (PROVIDE_CONFIRMATION, '{"id": "...", "approved": true, "payload_digest": "..."}'),
        (PROVIDE_TOOL_RESULTS, '{"id": "...", "results": [{"tool_call_id": "...", "result": ...}]}'),
    ]
    assert [
        (value, kind, form, found)
        for kind, form in kinds
        for value in values
        if (found := opened(QUESTION).read(kind, value)) != Rejection(f"an answer is an object: {form}")
    ] == []


def test_an_answer_finds_an_open_wait_of_its_kind(subtests: pytest.Subtests) -> None:
    """A refusal names the open waits of the kind, or the update or signal that answers the named wait."""
    rows = [
        (PROVIDE_CLARIFICATION, "other", "nothing called other is open; open: q", "AwaitNotOpen"),
        (PROVIDE_CLARIFICATION, 5, "nothing called int is open; open: q", "AwaitNotOpen"),
        (PROVIDE_CLARIFICATION, ["q"], "nothing called list is open; open: q", "AwaitNotOpen"),
        (
            PROVIDE_CLARIFICATION,
            "confirm-c1",
            "confirm-c1 is answered by provide_confirmation",
            "InvalidAnswer",
        ),
        (PROVIDE_CONFIRMATION, "q", "q is answered by provide_clarification", "InvalidAnswer"),
        (PROVIDE_TOOL_RESULTS, "", "the run waits for nothing of this kind", "AwaitNotOpen"),
        (PROVIDE_TOOL_RESULTS, "other", "the run waits for nothing of this kind", "AwaitNotOpen"),
    ]
    for kind, id, reason, refusal in rows:
        with subtests.test(kind=kind, id=id, reason=reason, refusal=refusal):
            waits = opened(QUESTION, confirm("c1"))
            sent = {"id": id, "answer": "x", "approved": True, "results": []}
            assert waits.read(kind, sent) == Rejection(reason, refusal)


@pytest.mark.parametrize("name", ["int", "x" * 120])
def test_only_the_whole_id_names_a_wait(name: str) -> None:
    """A sent id that is no text, or too long, does not match a wait whose id equals its shortened form."""
    waits = opened(QUESTION.model_copy(update={"id": name}))
    for id in (5, "x" * 5_000):
        assert waits.read(PROVIDE_CLARIFICATION, {"id": id, "answer": "x"}).kind == "AwaitNotOpen"


def test_reading_changes_nothing() -> None:
    """`read` leaves the waits unchanged, as an update's validator must."""
    waits = opened(QUESTION)
    assert waits.read(PROVIDE_CLARIFICATION, {"answer": "a"}) == waits.read(
        PROVIDE_CLARIFICATION, {"answer": "a"}
    )
    assert list(waits.open) == ["q"]


# Answered once.


def test_an_answer_sent_again_changes_nothing() -> None:
    """The same answer sent again is `Repeated`; another answer to a closed wait is refused."""
    waits = opened(QUESTION)
    assert answer(waits, id="q", answer="first") == Clarified("q", "first", None)
    assert answer(waits, id="q", answer="first", by="ana") == Repeated("q")
    for late in ({"answer": "second"}, {"declined": True}, {}):
        assert answer(waits, id="q", **late) == Rejection(
            "q was answered before, or is given up", "AwaitClosed"
        )
    assert waits.open == {}


def test_an_answer_is_never_used_for_a_later_wait() -> None:
    """A second question with the same name has its own id, and the first id stays closed."""
    waits = opened(QUESTION)
    answer(waits, id="q", answer="first")
    waits.add(QUESTION)
    assert answer(waits, id="q", answer="second").kind == "AwaitClosed"
    assert answer(waits, id="q", answer="first") == Repeated("q")
    assert list(waits.open) == ["q#2"]


def test_an_expired_wait_takes_no_answer() -> None:
    """A wait that was closed without an answer refuses every answer as `AwaitClosed`."""
    waits = opened(QUESTION, confirm("c1"), outside("c2"))
    for id in list(waits.open):
        waits.close(id)
        waits.close(id)
    assert answer(waits, id="q", answer="x").kind == "AwaitClosed"
    assert answer(waits, PROVIDE_CONFIRMATION, id="confirm-c1", approved=True).kind == "AwaitClosed"
    sent = [{"tool_call_id": "c2", "result": 1}]
    assert answer(waits, PROVIDE_TOOL_RESULTS, id="out", results=sent).kind == "AwaitClosed"


def test_a_decision_is_repeated_only_with_its_scope() -> None:
    """An approval with a wider scope, or a denial, of an approved call is refused as `AwaitClosed`."""
    waits = opened(confirm("c1"))
    sent = {"id": "confirm-c1", "approved": True}
    assert answer(waits, PROVIDE_CONFIRMATION, **sent) == Decided("confirm-c1", True, "", None)
    assert answer(waits, PROVIDE_CONFIRMATION, **sent) == Repeated("confirm-c1")
    assert answer(waits, PROVIDE_CONFIRMATION, **sent, scope="tool").kind == "AwaitClosed"
    assert answer(waits, PROVIDE_CONFIRMATION, id="confirm-c1", approved=False).kind == "AwaitClosed"


# A decision names the arguments that the person saw.

SEEN = AwaitConfirmation(id="confirm-c1", tool_call_id="c1", tool="a.b.c", payload_digest="d1", binds=True)


def test_a_decision_names_the_arguments_that_were_seen(subtests: pytest.Subtests) -> None:
    """A decision without a digest is refused with the right message, except in histories that accepted it."""
    channels = [
        ("update", True, False),
        ("update", False, False),
        ("signal", True, False),
        ("signal", False, True),
        ("accepted", True, True),
        ("accepted", False, True),
    ]
    decisions = [{"approved": True}, {"approved": True, "scope": "tool"}, {"approved": False}]
    for decision in decisions:
        for channel, binds, is_taken in channels:
            with subtests.test(str((channel, binds, is_taken, decision))):
                waits = opened(SEEN.model_copy(update={"binds": binds}))
                judged = waits.read(PROVIDE_CONFIRMATION, {"id": "confirm-c1", **decision}, channel)
                assert isinstance(judged, Decided) is is_taken
                if not is_taken:
                    approved = str(decision["approved"]).lower()
                    assert judged == Rejection(
                        "a decision names the arguments that were seen: look at them, and send "
                        f'{{"id": "confirm-c1", "approved": {approved}, "payload_digest": "d1"}}',
                        "NotBound",
                    )
                assert isinstance(
                    waits.read(PROVIDE_CONFIRMATION, {"payload_digest": "d1", **decision}, channel), Decided
                )
                other = waits.read(
                    PROVIDE_CONFIRMATION, {"id": "confirm-c1", "payload_digest": "d2", **decision}, channel
                )
                assert other == Rejection("confirm-c1 is about other arguments than those of this digest")


def test_a_decision_with_another_field_decides_nothing(subtests: pytest.Subtests) -> None:
    """A signal with a field that is none of a decision is refused, except in histories that accepted it."""
    approveds = [True, False]
    names = ["args", "arguments", "payload", "edited_action", "Approved"]
    for name in names:
        for approved in approveds:
            with subtests.test(str((approved, name))):
                decision = {
                    "id": "confirm-c1",
                    "approved": approved,
                    "payload_digest": "d1",
                    name: {"path": "b"},
                }
                for strict in (True, False):
                    waits = opened(SEEN.model_copy(update={"strict": strict}))
                    judged = waits.read(PROVIDE_CONFIRMATION, decision, "signal")
                    assert isinstance(judged, Rejection) is strict
                    if strict:
                        known = "with the arguments as they are" if name == "arguments" else f'know "{name}"'
                        assert known in judged.reason
                    assert isinstance(waits.read(PROVIDE_CONFIRMATION, decision, "accepted"), Decided)


@pytest.mark.parametrize("how", ["decided", "released", "expired"])
def test_a_decision_on_other_arguments_is_no_repetition(how: str) -> None:
    """A decision with another digest, under the id of a closed wait, is refused and not taken for a repetition."""
    waits = opened(SEEN)
    if how == "released":
        waits.release(Released(("*",), (), "", None))
    elif how == "decided":
        answer(waits, PROVIDE_CONFIRMATION, id="confirm-c1", approved=True, payload_digest="d1")
    else:
        waits.close("confirm-c1")
    sent = {"id": "confirm-c1", "approved": True}
    refused = "confirm-c1 was about other arguments than those of this digest"
    for channel in ("update", "signal"):
        judged = waits.read(PROVIDE_CONFIRMATION, {**sent, "payload_digest": "d2"}, channel)
        assert judged == Rejection(refused, "AwaitClosed")
    for digest in ({}, {"payload_digest": "d1"}):
        assert isinstance(waits.read(PROVIDE_CONFIRMATION, {**sent, **digest}, "update"), Repeated) is (
            how != "expired"
        )
    known = waits.read(PROVIDE_CONFIRMATION, {**sent, "payload_digest": "d2"}, "accepted")
    assert isinstance(known, Repeated) is (how != "expired")


# Releases.


def test_approving_a_tool_settles_its_open_calls() -> None:
    """An approval with the scope `tool` also approves the tool's other open calls and its later ones."""
    waits = opened(confirm("c1"), confirm("c2", "a.b.other"), confirm("c3"), QUESTION)
    decided = waits.read(
        PROVIDE_CONFIRMATION,
        {"id": "confirm-c1", "approved": True, "scope": "tool", "by": "ana", "reason": "safe"},
    )
    assert waits.take(decided) == [
        Decided("confirm-c1", True, "safe", "ana", "tool"),
        Decided("confirm-c3", True, "safe", "ana", is_release=True),
    ]
    assert list(waits.open) == ["confirm-c2", "q"]
    assert [waits.asks(confirm("c9", tool)) for tool in ("a.b.c", "a.b.other")] == [False, True]


def test_deciding_a_call_settles_no_other() -> None:
    """A decision without a scope applies to one call."""
    waits = opened(confirm("c1"), confirm("c2"))
    for approved in (True, False):
        decided = waits.read(PROVIDE_CONFIRMATION, {"id": next(iter(waits.open)), "approved": approved})
        assert waits.take(decided) == [decided]
    assert waits.asks(confirm("c3"))


def test_a_release_approves_the_open_calls_that_it_names(subtests: pytest.Subtests) -> None:
    """A release names tools by id, by toolset, as `*` or by tag; their open and later calls run unasked."""
    rows = [
        (Released(("a.b.c",), (), "", None), ["c1", "c3"]),
        (Released(("a.b.*",), (), "", None), ["c1", "c2", "c3"]),
        (Released(("*",), (), "", None), ["c1", "c2", "c3", "c4"]),
        (Released((), ("write",), "", None), ["c3", "c4"]),
        (Released(("a.b.d",), ("read", "write"), "", None), ["c2", "c3", "c4"]),
        (Released(("x.y.z",), ("read",), "", None), []),
    ]
    for released, settled in rows:
        with subtests.test(released=released, settled=settled):
            asked = [
                confirm("c1"),
                confirm("c2", "a.b.d"),
                confirm("c3", tags=("write",)),
                confirm("c4", "o.p.q", ("write",)),
            ]
            waits = opened(*asked, QUESTION)
            given = waits.release(released)
            assert given == [Decided(f"confirm-{id}", True, "", None, is_release=True) for id in settled]
            assert "q" in waits.open
            for wait in asked:
                assert waits.asks(wait) is (wait.id in waits.open) is (wait.tool_call_id not in settled)


@pytest.mark.parametrize(("stop_asking", "counts_in"), [("run", [0, 1]), ("turn", [0]), ("never", [])])
def test_a_release_counts_for_as_long_as_the_call_says(stop_asking: str, counts_in: list[int]) -> None:
    """A release counts for the rest of the run, of its turn, or not at all, as the call says that runs by it."""
    later = confirm("c1").model_copy(update={"stop_asking": stop_asking})
    waits = opened()
    waits.release(Released(("a.b.c",), (), "", None))
    assert [turn for turn in (0, 1) if not replace(waits.waits, turn=turn).asks(later)] == counts_in


def test_a_release_counts_for_the_tool_as_it_was_shown() -> None:
    """A tool that was changed since a person saw it is asked about again; a change of another tool matters nothing."""
    was, now = ShownTool(schema_digest="1"), ShownTool(schema_digest="2")
    waits = opened()
    waits.release(Released(("a.b.c",), (), "", None, shown=was))
    asked = [waits.asks(confirm("c1").model_copy(update={"shown": shown})) for shown in (was, now)]
    assert asked == [False, True]
    assert waits.asks(confirm("c2", tool="a.b.d").model_copy(update={"shown": was}))


def test_approving_a_released_call_is_a_repetition() -> None:
    """An approval of a call that a release has approved is `Repeated`; a denial is refused."""
    waits = opened(confirm("c1"))
    waits.release(Released(("*",), (), "", None))
    assert answer(waits, PROVIDE_CONFIRMATION, id="confirm-c1", approved=True) == Repeated("confirm-c1")
    assert answer(waits, PROVIDE_CONFIRMATION, id="confirm-c1", approved=False).kind == "AwaitClosed"


# Results of external calls.


def test_results_come_in_parts() -> None:
    """Each call's result is accepted once, and the wait is closed when every call is answered."""
    waits = opened(outside("c1", "c2", "c3"))
    assert supply(waits, c1=1) == Supplied("out", {"c1": {"result": 1}}, None)
    assert supply(waits, c1=1) == Repeated("out")
    assert supply(waits, c1=1, c2=2) == Supplied("out", {"c2": {"result": 2}}, None)
    assert waits.checked("out", "c1", GOOD)
    assert waits.checked("out", "c2", GOOD)
    assert list(waits.open) == ["out"]
    assert supply(waits, c3=3) == Supplied("out", {"c3": {"result": 3}}, None)
    assert waits.checked("out", "c3", GOOD)
    assert waits.open == {}


def test_a_call_is_not_answered_twice() -> None:
    """A message with another result of an answered call is refused as a whole, before and after the first is checked."""
    waits = opened(outside("c1", "c2"))
    supply(waits, c1=1)
    for _ in range(2):
        assert supply(waits, c2=2, c1="other") == Rejection("call c1 was answered before", "AwaitClosed")
        assert waits.checked("out", "c1", GOOD)
    assert supply(waits, c2=2) == Supplied("out", {"c2": {"result": 2}}, None)


def test_results_sent_again_after_the_last_are_a_repetition() -> None:
    """A sender that delivers at least once gets `Repeated` for accepted results, also after the wait is closed."""
    waits = opened(outside("c1", "c2"))
    for call_id in ("c1", "c2"):
        supply(waits, **{call_id: 1})
        waits.checked("out", call_id, GOOD)
    again = [{"tool_call_id": "c1", "result": 1}, {"tool_call_id": "c2", "result": 1}]
    other = [{"tool_call_id": "c1", "result": 2}]
    for sent in (again, again[:1]):
        assert waits.read(PROVIDE_TOOL_RESULTS, {"id": "out", "results": sent}) == Repeated("out")
    for sent in (other, [*again[:1], *other], [{"tool_call_id": "c3", "result": 1}], []):
        assert waits.read(PROVIDE_TOOL_RESULTS, {"id": "out", "results": sent}).kind == "AwaitClosed"


def test_a_result_that_does_not_fit_is_awaited_again() -> None:
    """A result that does not fit the tool may be corrected twice; the third one answers the call as it is."""
    waits = opened(outside("c1"))
    finals = []
    for n in range(MAX_TRIES):
        assert supply(waits, c1="same") == Supplied("out", {"c1": {"result": "same"}}, None), n
        finals.append(waits.checked("out", "c1", BAD))
    assert finals == [False, False, True]
    assert waits.open == {}


def test_tries_are_counted_call_by_call() -> None:
    """Results that do not fit are counted for each call by itself."""
    waits = opened(outside("c1", "c2"))
    for call_id in ("c1", "c1", "c2", "c2"):
        supply(waits, **{call_id: 1})
        assert not waits.checked("out", call_id, BAD)


@pytest.mark.parametrize("code", ["timeout", "ValueError", None], ids=str)
def test_an_error_of_an_external_call_is_an_answer(code: str | None) -> None:
    """A call that failed outside, or expired, is answered and not awaited again."""
    waits = opened(outside("c1"))
    assert waits.checked("out", "c1", ToolResult(error=ToolError.new("no", code=code)))
    assert waits.open == {}


def test_a_wait_lists_the_calls_that_have_no_result() -> None:
    """A call that has its result is left out; other waits are listed as they are."""
    waits = opened(outside("c1", "c2"), QUESTION)
    (wait, asked) = waits.open.values()
    supply(waits, c1=1)
    assert waits.remaining(wait) == wait  # it is not checked yet
    waits.checked("out", "c1", GOOD)
    assert [item.tool_call_id for item in waits.remaining(wait).items] == ["c2"]
    assert waits.remaining(asked) == asked


def test_a_late_result_of_an_expired_call_is_refused() -> None:
    """A call that expired stays answered while other calls of the wait are open."""
    waits = opened(outside("c1", "c2"))
    assert waits.checked("out", "c1", ToolResult(error=ToolError.new("late", code="timeout")))
    assert supply(waits, c1=1) == Rejection("call c1 was answered before", "AwaitClosed")
    assert supply(waits, c2=1) == Supplied("out", {"c2": {"result": 1}}, None)


def test_a_check_that_ends_after_its_wait_changes_nothing() -> None:
    """A result whose check ends after its wait was closed is final, and opens nothing."""
    waits = opened(outside("c1"))
    supply(waits, c1=1)
    waits.close("out")
    assert waits.checked("out", "c1", GOOD)
    assert waits.open == {}


def test_a_new_answer_has_each_name_once() -> None:
    """A text of JSON in which a name stands twice is refused; what a history has accepted is read as it was."""
    sent = {"id": "q", "answer": '{"site": "a", "site": "b"}'}
    judged = opened(QUESTION).read(PROVIDE_CLARIFICATION, sent, "update")
    assert isinstance(judged, Rejection)
    assert "'site' is given twice" in judged.reason
    for channel in ("signal", "accepted"):
        assert isinstance(opened(QUESTION).read(PROVIDE_CLARIFICATION, sent, channel), Clarified)
