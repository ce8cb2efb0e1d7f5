"""Folds: calls of one tool in a row that went well are one row, and nothing else hides in it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.contracts import event as events
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.message import Message, TextPart
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import Artifact, RunLink, ToolResult
from sojourn.timeline import Call, CallFold, Plan, Timeline, fold_calls

BEGIN = datetime(2027, 1, 2, tzinfo=UTC)

STEPS = st.one_of(
    st.just(("plan", "")),
    st.tuples(st.just("said"), st.just("I look")),
    st.tuples(st.sampled_from(["ok", "failed", "running", "approved"]), st.sampled_from(["sync", "find"])),
)


class Story:
    """A timeline that grows by steps: a plan, one with a text, or a call with its end."""

    def __init__(self, most: int = 400) -> None:
        self.timeline, self.count = Timeline("r", most), 0

    def feed(self, kind, **fields) -> None:
        self.count += 1
        place = {"run_id": "r", "event_id": f"0-{self.count:06}-00000", "turn_id": "t1"}
        self.timeline.feed(kind(**place, time=BEGIN + timedelta(seconds=self.count), **fields))

    def step(self, kind: str, name: str) -> None:
        if kind in ("plan", "said"):
            self.feed(events.PlanStartedEvent)
            said = [TextPart(type="text", text=name)] if name else []
            calls = Message.calls([ToolRequest(name="x", tool_call_id=f"p{self.count}")])
            message = Message(role="assistant", parts=[*said, *calls.parts])
            self.feed(events.AssistantMessageEvent, message=message)
            return
        self.begin(name, is_approved=kind == "approved")
        if kind != "running":
            error = ToolError(code="internal", message="no") if kind == "failed" else None
            self.end(f"c{self.count}", error=error)

    def begin(self, name: str, *, is_approved: bool = False) -> str:
        call = ToolRequest(name=name, tool_call_id=f"c{self.count + 1 + 2 * is_approved}")
        if is_approved:
            wait = AwaitConfirmation(
                id=f"w{self.count}", tool_call_id=call.tool_call_id, tool=name, payload={"n": 1}
            )
            self.feed(events.AwaitConfirmationEvent, confirmation=wait)
            self.feed(events.AwaitAnsweredEvent, await_id=wait.id, approved=True, by="eve")
        self.feed(events.ToolStartEvent, call=call)
        return call.tool_call_id

    def end(self, call_id: str, **fields) -> None:
        call = self.timeline.call(call_id)
        assert call is not None
        result = ToolResult(name=call.call.name, tool_call_id=call_id, **fields)
        self.feed(events.ToolEndEvent, result=result, duration=timedelta(seconds=1))


def shape(story: Story) -> list[str]:
    """Each row in a word: a fold by its tool and its calls."""
    return [
        f"{row.name} x{len(row.calls)}" if isinstance(row, CallFold) else row.kind
        for row in fold_calls(story.timeline.entries)
    ]


@given(st.lists(STEPS, max_size=40))
def test_a_fold_hides_nothing_that_did_not_go_well(steps):
    """The rows have every entry once and in order; a fold has three calls or more, of one tool, all done and undecided, and plans without a text."""
    story = Story()
    for kind, name in steps:
        story.step(kind, name)
    rows = fold_calls(story.timeline.entries)
    flat = [entry for row in rows for entry in (row.entries if isinstance(row, CallFold) else [row])]
    assert flat == story.timeline.entries
    for row in rows:
        if not isinstance(row, CallFold):
            continue
        assert len(row.calls) >= 3
        assert isinstance(row.entries[0], Call)
        assert isinstance(row.entries[-1], Call)
        assert {(call.call.name, call.state, call.decision) for call in row.calls} == {
            (row.name, "done", None)
        }
        assert not any(entry.text for entry in row.entries if isinstance(entry, Plan))


def test_calls_of_one_tool_are_one_row():
    """Also across plans that said nothing; another tool, a text and two calls only are rows of their own."""
    story = Story()
    for kind, name in [("plan", ""), *[("ok", "sync")] * 3, ("plan", ""), ("ok", "sync"), ("plan", "")]:
        story.step(kind, name)
    assert shape(story) == ["plan", "sync x4", "plan"]
    for kind, name in [("ok", "find")] * 2 + [("said", "I look"), ("ok", "find")]:
        story.step(kind, name)
    assert shape(story) == ["plan", "sync x4", "plan", "call", "call", "plan", "call"]
    (fold,) = [row for row in fold_calls(story.timeline.entries) if isinstance(row, CallFold)]
    assert (fold.plans, fold.took) == (1, timedelta(seconds=9))


@pytest.mark.parametrize(
    "fields",
    [
        {"error": ToolError(code="internal", message="no")},
        {"artifacts": [Artifact(kind="curve", data=[1], size=3)]},
        {"run_link": RunLink(run_id="r/c", agent_id="a.b", parent_run_id="r", parent_tool_call_id="c1")},
    ],
)
def test_a_call_with_more_to_see_stands_by_itself(fields):
    """A failure, an artifact and a child run are seen without opening anything."""
    story = Story()
    for _ in range(3):
        story.step("ok", "sync")
    story.end(story.begin("sync"), **fields)
    for _ in range(3):
        story.step("ok", "sync")
    assert shape(story) == ["sync x3", "call", "sync x3"]
