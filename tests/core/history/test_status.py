"""How a run stands, told by its events alone."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sojourn import AwaitClarification, Event, Finalize, Message, RunLink, ToolError, ToolRequest, ToolResult
from sojourn.contracts.event import EVENT_CLASSES
from sojourn.core.history.status import MAX_CALLS_SHOWN, MAX_NOTES, StatusProjection, status_of

LINK = RunLink(run_id="r/c1", agent_id="a.child", parent_run_id="r", parent_tool_call_id="c1")


def event(type: str, **payload: Any) -> Event:
    return EVENT_CLASSES[type](
        run_id="r",
        agent_id="a.b",
        session_id="s",
        turn_id="t1",
        event_id="1",
        time=datetime.now(UTC),
        **payload,
    )


def start(id: str) -> Event:
    return event("tool_start", call=ToolRequest(name="a.b.c", tool_call_id=id))


def end(id: str, error: ToolError | None = None, **fields: Any) -> Event:
    return event(
        "tool_end",
        result=ToolResult(name="a.b.c", tool_call_id=id, error=error, **fields),
        duration=timedelta(seconds=1),
    )


def standing(*events: Event):
    told = StatusProjection("r")
    for each in events:
        told.feed(each)
    return told.status()


def test_a_run_of_which_nothing_is_known_is_running() -> None:
    """Before the first event there is the id alone."""
    status = standing()
    assert (status.run_id, status.agent_id, status.status, status.phase) == ("r", "", "running", "")


def test_the_latest_event_says_who_and_where() -> None:
    """Agent, session and turn are those of the last event."""
    status = standing(event("run_started"), event("plan_started"))
    assert (status.agent_id, status.session_id, status.turn_id) == ("a.b", "s", "t1")
    assert (status.status, status.phase) == ("running", "planning")


def test_calls_run_and_end() -> None:
    """A call is shown as running until it ends as done, failed or not executed; the last are not counted."""
    refused = ToolError.new("not executed: ...", code="not_executed")
    calls = [ToolRequest(name="a.b.c", tool_call_id=id) for id in ("c1", "c2", "c3", "c4")]
    under_way = (
        event("assistant_message", message=Message.calls(calls)),
        start("c1"), start("c2"), start("c3"), start("c4"),
        end("c2", run_link=LINK), end("c3", ToolError.new("x" * 500)), end("c4", refused),
    )  # fmt: skip
    status = standing(*under_way)
    assert [(call.tool_call_id, call.state) for call in status.calls] == [
        ("c1", "running"),
        ("c2", "done"),
        ("c3", "failed"),
        ("c4", "not_executed"),
    ]
    assert status.calls[1].run_link == LINK
    assert status.calls[2].error == "x" * 200
    assert (status.tool_calls, status.rounds, status.phase) == (0, 0, "executing_tools")
    settled = standing(*under_way, end("c1"))
    assert (settled.tool_calls, settled.rounds) == (3, 1)


def test_only_the_last_calls_and_notes_are_kept() -> None:
    """A status is small, however long the run: 100 calls, 20 notes."""
    status = standing(
        *(start(f"c{n}") for n in range(MAX_CALLS_SHOWN + 5)),
        *(event("planner_note", text=str(n)) for n in range(MAX_NOTES + 5)),
    )
    assert [call.tool_call_id for call in status.calls][:1] == ["c5"]
    assert len(status.calls) == MAX_CALLS_SHOWN
    assert status.notes == [str(n) for n in range(5, MAX_NOTES + 5)]


def test_a_question_is_open_until_it_is_answered() -> None:
    """A run that asks is waiting, and shows the question; the answer closes it."""
    asked = event("await_clarification", question=AwaitClarification(id="q", question="?"))
    status = standing(asked)
    assert (status.status, status.phase, [a.id for a in status.awaits]) == ("waiting", "waiting", ["q"])
    status = standing(asked, event("await_answered", await_id="q"))
    assert (status.status, status.awaits) == ("running", [])


@pytest.mark.parametrize("kind", ["run_failed", "run_canceled", "run_terminated", "run_timed_out"])
def test_a_run_that_ended_says_why(kind: str) -> None:
    """The end closes an open question and leaves the reason, past the end of the stream."""
    asked = event("await_clarification", question=AwaitClarification(id="q", question="?"))
    status = standing(asked, event(kind, text="too slow"), event("run_stream_end"))
    assert (status.phase, status.awaits, status.failure) == ("", [], "too slow")


def test_a_run_that_answered_has_no_failure() -> None:
    """An end without a reason is none."""
    assert standing(event("run_completed"), event("run_stream_end")).failure is None


def test_events_that_say_nothing_of_the_standing_are_ignored() -> None:
    """What a call says of its progress changes nothing."""
    assert standing(start("c1"), event("tool_update", tool_call_id="c1")).phase == "executing_tools"


def test_the_state_of_an_ended_call_is_its_results() -> None:
    """One call's place in the tree is made of its `tool_end` alone."""
    assert status_of(end("c1", run_link=LINK).result).model_dump(exclude_none=True) == {
        "tool_call_id": "c1",
        "name": "a.b.c",
        "state": "done",
        "run_link": LINK.model_dump(),
    }


@pytest.mark.parametrize("stopped", [False, True])
def test_the_safeguards_are_those_that_the_run_was_judged_by(stopped: bool) -> None:
    """Equal calls of one plan were a loop once: whether they are one here shows in what came after."""
    calls = [ToolRequest(name="a.b.c", tool_call_id=f"c{n}") for n in range(8)]
    said = event("assistant_message", message=Message.calls(calls))
    limit = Finalize(reason="retries_stopped", message="!")
    after = [event("retries_stopped", limit=limit)] if stopped else []
    status = standing(said, *(end(call.tool_call_id) for call in calls), *after, event("plan_started"))
    assert (status.safeguards is not None and status.safeguards.stopped) is stopped
