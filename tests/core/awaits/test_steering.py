"""Steering: what operators send to a run beside answers, as an object, a text, or nothing at all."""

import pytest

from sojourn.core.awaits.sent import Refused
from sojourn.core.awaits.steering import (
    PAUSE,
    RESUME,
    STOP_ASKING,
    Paused,
    Resumed,
    is_overtaken,
    not_understood,
    read_pause,
    read_release,
    read_resume,
)
from sojourn.core.awaits.waits import Released
from sojourn.core.values.sizes import MAX_ANSWER_CHARS


def resume(*values):
    return read_resume(values, is_paused=True)


def reason(judged: object) -> str:
    assert isinstance(judged, Refused)
    assert judged.kind == "InvalidAnswer"
    return judged.reason


@pytest.mark.parametrize(
    ("values", "paused"),
    [
        ([], Paused("", None)),
        ([None], Paused("", None)),
        ([{}], Paused("", None)),
        (["lunch"], Paused("lunch", None)),
        ([{"reason": "lunch", "by": "ana", "more": 1}], Paused("lunch", "ana")),
        ([{"reason": None, "by": ""}, "left out"], Paused("", None)),
    ],
    ids=str,
)
def test_a_run_is_paused_for_a_reason_or_none(values: list, paused: Paused) -> None:
    """From a UI's form or typed in a hurry: an operator's pause always works (D-18)."""
    assert read_pause(values) == paused


@pytest.mark.parametrize(
    ("values", "resumed"),
    [
        ([], Resumed("", None, ())),
        (["go on"], Resumed("go on", None, ())),
        ([{"note": "done", "by": "ana"}], Resumed("done", "ana", ())),
        ([{"messages": ["now Bern", "and hurry"]}], Resumed("", None, ("now Bern", "and hurry"))),
        ([{"messages": "now Bern"}], Resumed("", None, ("now Bern",))),
        ([{"messages": []}], Resumed("", None, ())),
        ([{"messages": ["x"] * 20}], Resumed("", None, ("x",) * 20)),
    ],
    ids=str,
)
def test_a_run_goes_on_with_or_without_new_messages(values: list, resumed: Resumed) -> None:
    """A note is for the record, messages are for the planner; one may stand by itself."""
    assert resume(*values) == resumed


@pytest.mark.parametrize(
    "messages",
    [[""], "", ["x", " "], ["x", 5], {"a": "b"}, 5, ["x"] * 21, ["\ud800"]],
    ids=lambda messages: repr(messages)[:20],
)
def test_messages_are_texts_that_say_something(messages: object) -> None:
    """At most twenty, and none empty: each becomes a user's message."""
    assert "`messages` is a list of at most 20 texts" in reason(resume({"messages": messages}))


def test_messages_are_bounded_together() -> None:
    """As long as an answer, all of them."""
    half = "x" * (MAX_ANSWER_CHARS // 2)
    assert isinstance(resume({"messages": [half, half]}), Resumed)
    assert "together at most 64,000 characters" in reason(resume({"messages": [half, half, "x"]}))


def test_only_a_paused_run_is_resumed() -> None:
    """A run that is not paused says so, whatever is sent; it may be about to be."""
    for values in ([], [{"messages": ["x"]}], [5]):
        assert read_resume(values, is_paused=False) == Refused("the run is not paused", "AwaitNotOpen")


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
    """Some, a family, or all, for the rest of the run."""
    assert read_release([value]) == released


@pytest.mark.parametrize(
    "value",
    [
        None,
        "*",
        {},
        {"tools": [], "tags": []},
        {"tools": "a.b.c"},
        {"tools": ["a.b.c", 5]},
        {"tools": ["a.b.c"], "tags": [""]},
        {"tools": ["x" * 201]},
        {"tools": ["x"] * 101},
    ],
    ids=lambda value: str(value)[:30],
)
def test_nothing_is_approved_by_accident(value: object) -> None:
    """What names no tool and no tag, or one thing that is no name, releases nothing."""
    assert "`tools` and `tags` are lists of at most 100 names" in reason(read_release([value]))


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
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
    ],
    ids=str,
)
def test_what_a_reader_would_pass_over_is_told(name: str, values: list, told: str | None) -> None:
    """A misspelt field does nothing, so that whoever sent it hears of it."""
    judged = not_understood(name, values)
    assert (judged is None) is (told is None)
    assert told is None or reason(judged).startswith(told)


@pytest.mark.parametrize(
    ("read", "text"),
    [(read_pause, "reason"), (lambda values: resume(*values), "note"), (read_release, "reason")],
)
def test_who_and_why_are_short_texts(read, text: str) -> None:
    """The same bounds as for answers."""
    assert f"`{text}` is a text of at most 2,000" in reason(read([{text: ["x"], "tools": ["*"]}]))
    assert f"`{text}` is a text of at most 2,000" in reason(read([{text: "x" * 2_001, "tools": ["*"]}]))
    assert f"`{text}` is a text of at most 2,000" in reason(read([[text]]))
    assert "`by` is a name" in reason(read([{"by": 5, "tools": ["*"]}]))


def test_what_a_parent_told_later_is_heeded() -> None:
    """Signals between workflows may overtake each other, so a parent numbers what it tells."""
    paused, resumed = read_pause([{"number": 1}]), read_resume([{"number": 2}], is_paused=False)
    assert (paused, resumed) == (Paused("", None, 1), Resumed("", None, (), 2))
    assert is_overtaken(paused, 2)
    assert is_overtaken(resumed, 2)  # the same word, come twice
    assert not is_overtaken(resumed, 1)
    assert not is_overtaken(Paused("", None), 9)


@pytest.mark.parametrize("number", [0, -1, True, 1.0, "1", None])
def test_only_a_number_is_one(number: object) -> None:
    """Whatever else somebody sends there counts nothing."""
    assert read_pause([{"number": number}]) == Paused("", None)
    assert isinstance(read_resume([{"number": number}], is_paused=False), Refused)
