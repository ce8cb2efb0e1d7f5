"""Steering: an operator's messages beside answers, each an object, a text or nothing."""

import pytest

from sojourn.contracts.wire_names import (
    PAUSE,
    PROVIDE_CLARIFICATION,
    PROVIDE_CONFIRMATION,
    PROVIDE_TOOL_RESULTS,
    RESUME,
    STOP_ASKING,
)
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.awaits.steering import (
    PauseRequest,
    ResumeRequest,
    is_overtaken,
    read_pause,
    read_release,
    read_resume,
    refuse_ignored_fields,
)
from sojourn.core.awaits.waits import Released
from sojourn.values.wire import MAX_ANSWER_CHARS


def resume(*values):
    return read_resume(values, is_paused=True)


def reason(judged: object) -> str:
    assert isinstance(judged, Rejection)
    assert judged.kind == "InvalidAnswer"
    return judged.reason


def test_a_run_is_paused_for_a_reason_or_none(subtests: pytest.Subtests) -> None:
    """A pause is read from an object, a text or no argument, and unknown fields do not stop it."""
    rows = [
        ([], PauseRequest("", None)),
        ([None], PauseRequest("", None)),
        ([{}], PauseRequest("", None)),
        (["lunch"], PauseRequest("lunch", None)),
        ([{"reason": "lunch", "by": "ana", "more": 1}], PauseRequest("lunch", "ana")),
        ([{"reason": None, "by": ""}, "left out"], PauseRequest("", None)),
    ]
    for values, paused in rows:
        with subtests.test(values=values, paused=paused):
            assert read_pause(values) == paused


def test_a_run_is_resumed_with_or_without_messages(subtests: pytest.Subtests) -> None:
    """A resume takes a note, messages and a name; a single message need not be a list."""
    rows = [
        ([], ResumeRequest("", None, ())),
        (["go on"], ResumeRequest("go on", None, ())),
        ([{"note": "done", "by": "ana"}], ResumeRequest("done", "ana", ())),
        ([{"messages": ["now Bern", "and hurry"]}], ResumeRequest("", None, ("now Bern", "and hurry"))),
        ([{"messages": "now Bern"}], ResumeRequest("", None, ("now Bern",))),
        ([{"messages": []}], ResumeRequest("", None, ())),
        ([{"messages": ["x"] * 20}], ResumeRequest("", None, ("x",) * 20)),
    ]
    for values, resumed in rows:
        with subtests.test(values=values, resumed=resumed):
            assert resume(*values) == resumed


def test_messages_are_nonempty_texts(subtests: pytest.Subtests) -> None:
    """`messages` has at most 20 texts, of which none is blank."""
    rows = [[""], "", ["x", " "], ["x", 5], {"a": "b"}, 5, ["x"] * 21, ["\ud800"]]
    for messages in rows:
        with subtests.test(str(repr(messages)[:20])):
            assert "`messages` is a list of at most 20 texts" in reason(resume({"messages": messages}))


def test_messages_are_bounded_together() -> None:
    """All messages of a resume have at most 64,000 characters together, as an answer has."""
    half = "x" * (MAX_ANSWER_CHARS // 2)
    assert isinstance(resume({"messages": [half, half]}), ResumeRequest)
    assert "together at most 64,000 characters" in reason(resume({"messages": [half, half, "x"]}))


def test_only_a_paused_run_is_resumed() -> None:
    """A resume of a run that is not paused is refused as `AwaitNotOpen`, whatever it holds."""
    for values in ([], [{"messages": ["x"]}], [5]):
        assert read_resume(values, is_paused=False) == Rejection("the run is not paused", "AwaitNotOpen")


@pytest.mark.parametrize(
    ("value", "released"),
    [
        ({"tools": ["a.b.c", "d.e.*"], "by": "ana"}, Released(("a.b.c", "d.e.*"), (), "", "ana")),
        ({"tags": ["read"], "tools": None, "reason": "safe"}, Released((), ("read",), "safe", None)),
        ({"tools": ["*"], "tags": []}, Released(("*",), (), "", None)),
        ({"tools": ["x" * 200] * 100}, Released(("x" * 200,) * 100, (), "", None)),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, dict) else "",
)
def test_tools_are_approved_by_name_or_tag(value: dict, released: Released) -> None:
    """A release names tools by id, by toolset or as `*`, and tags."""
    assert read_release([value]) == released


def test_nothing_is_approved_by_accident(subtests: pytest.Subtests) -> None:
    """A release without tools and tags, or with an entry that is no name, is refused."""
    rows = [
        None,
        "*",
        {},
        {"tools": [], "tags": []},
        {"tools": "a.b.c"},
        {"tools": ["a.b.c", 5]},
        {"tools": ["a.b.c"], "tags": [""]},
        {"tools": ["x" * 201]},
        {"tools": ["x"] * 101},
    ]
    for value in rows:
        with subtests.test(str(str(value)[:30])):
            assert "`tools` and `tags` are lists of at most 100 names" in reason(read_release([value]))


def test_an_ignored_field_is_named(subtests: pytest.Subtests) -> None:
    """`not_understood` names a field or an argument that the reader would ignore."""
    rows = [
        (PAUSE, [{"reason": "x", "by": "ana"}], None),
        (PAUSE, ["lunch"], None),
        (PAUSE, [], None),
        (PAUSE, [{"anything": 1}], 'pause does not know "anything"; it takes `reason`, `by`'),
        (RESUME, [{"message": "x"}], 'resume does not know "message"; it takes `note`, `by`, `messages`'),
        (
            STOP_ASKING,
            [{"tools": ["*"], "until\u200b": "noon"}],
            r'stop_asking does not know "until\u200b"; ',
        ),
        (PAUSE, ["a", "b"], "pause takes one object, not 2"),
        (
            PROVIDE_CLARIFICATION,
            [{"id": "q", "answer": "x", "by": "ana", "declined": False, "reason": ""}],
            None,
        ),
        (
            PROVIDE_CLARIFICATION,
            [{"answer": "x", "byy": 3}],
            'provide_clarification does not know "byy"; it takes `id`, `answer`, `by`',
        ),
        (
            PROVIDE_CONFIRMATION,
            [{"approved": True, "number": 1}],
            'provide_confirmation does not know "number"; ',
        ),
        (
            PROVIDE_CONFIRMATION,
            [{"approved": True, "args": {}}],
            'provide_confirmation does not know "args"; it takes `id`, `approved`, `payload_digest`, ',
        ),
        (
            PROVIDE_TOOL_RESULTS,
            [{"results": [], "sender": "x"}],
            'provide_tool_results does not know "sender"; ',
        ),
    ]
    for name, values, refusal in rows:
        with subtests.test(str((name, values, refusal))):
            judged = refuse_ignored_fields(name, values)
            assert (judged is None) is (refusal is None)
            assert refusal is None or reason(judged).startswith(refusal)


@pytest.mark.parametrize(
    ("read", "text"),
    [(read_pause, "reason"), (lambda values: resume(*values), "note"), (read_release, "reason")],
)
def test_who_and_why_are_short_texts(read, text: str) -> None:
    """Texts and names of a pause, a resume and a release have the same bounds as those of answers."""
    assert f"`{text}` is a text of at most 2,000" in reason(read([{text: ["x"], "tools": ["*"]}]))
    assert f"`{text}` is a text of at most 2,000" in reason(read([{text: "x" * 2_001, "tools": ["*"]}]))
    assert f"`{text}` is a text of at most 2,000" in reason(read([[text]]))
    assert "`by` is a name" in reason(read([{"by": 5, "tools": ["*"]}]))


def test_the_later_signal_of_a_parent_run_counts() -> None:
    """A parent run numbers its signals, since they may arrive out of order; an earlier or repeated one is overtaken."""
    paused, resumed = read_pause([{"number": 1}]), read_resume([{"number": 2}], is_paused=False)
    assert (paused, resumed) == (PauseRequest("", None, 1), ResumeRequest("", None, (), 2))
    assert is_overtaken(paused, 2)
    assert is_overtaken(resumed, 2)  # the same signal again
    assert not is_overtaken(resumed, 1)
    assert not is_overtaken(PauseRequest("", None), 9)


def test_only_a_positive_integer_numbers_a_signal(subtests: pytest.Subtests) -> None:
    """A `number` that is no positive integer is ignored."""
    rows = [0, -1, True, 1.0, "1", None]
    for number in rows:
        with subtests.test(number=number):
            assert read_pause([{"number": number}]) == PauseRequest("", None)
            assert isinstance(read_resume([{"number": number}], is_paused=False), Rejection)
