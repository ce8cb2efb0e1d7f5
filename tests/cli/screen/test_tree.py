"""The tree of a run: what its planner does now, notes below their step, who denied a call, and the answer as Markdown."""

import io
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from rich.console import Console

from sojourn import AwaitConfirmation, Message, ToolError, ToolRequest, ToolResult
from sojourn.cli.screen.calls import Detail
from sojourn.cli.screen.run_trees import RunTrees
from sojourn.contracts import RunLink
from sojourn.contracts.event import EVENT_CLASSES, Event
from sojourn.contracts.run import RunOutput

NUMBERS = count(1)


def event(
    kind: str, *, recorded: bool = True, at: datetime | None = None, run_id: str = "r", **fields
) -> Event:
    event_id = f"0-{next(NUMBERS):06}-00000" if recorded else ""
    time = at or datetime(2027, 1, 4, tzinfo=UTC)
    return EVENT_CLASSES[kind](run_id=run_id, agent_id="a.b", event_id=event_id, time=time, **fields)


def drawn(*events: Event, width: int = 60, detail: Detail = Detail.BRIEF) -> list[str]:
    """The lines of a tree that got these events."""
    tree, out = RunTrees("r", detail=detail), io.StringIO()
    for number, each in enumerate(events, 1):
        in_order = {"event_id": f"0-{number:06}-00000"} if each.event_id else {}
        tree.feed(each.model_copy(update=in_order))
    Console(file=out, width=width, highlight=False, color_system=None).print(tree)
    return [line.rstrip() for line in out.getvalue().splitlines()]


WIPE = ToolRequest(name="ops.disks.wipe", payload={"disk": "a", "note": "x" * 100}, tool_call_id="c1")
ASKED = event("await_confirmation", confirmation=AwaitConfirmation(id="w", tool_call_id="c1", tool=WIPE.name))
DENIED = ToolResult(
    name=WIPE.name, tool_call_id="c1", error=ToolError.new("denied: not today", code="denied")
)
ANSWER = "# Dark\n\nfirst line\nsecond line\n\n- \x1b[31mone\n- [bold]two[/bold]\n\n[here](http://x.example)"


def test_a_planner_at_work_has_a_line_until_it_has_planned():
    """The line says how long it plans, by the server's time of its start, and goes once the plan is there."""
    began = event("plan_started", at=datetime.now(UTC) - timedelta(minutes=1))
    (line,) = drawn(began)
    assert line.startswith("… planning for 6")
    assert drawn(began, event("tool_start", call=WIPE.model_copy(update={"payload": {}}))) == [
        "… ops.disks.wipe()"
    ]


def test_a_planner_that_is_tried_again_says_why_and_when():
    """A retry of the plan, which names no call, is told: the attempt, the error without its preface, and the next try."""
    due = datetime.now(UTC) + timedelta(minutes=1)
    error = "the planner of a.b failed: ConnectionError: away (desk.py:4)"
    fields = {"tool_call_id": "", "attempt": 3, "error": error}
    waits = event("tool_retry", recorded=False, due=due, **fields)
    (line,) = drawn(event("plan_started"), waits, width=120)
    assert line.startswith("… planning, attempt 3 after: ConnectionError: away (desk.py:4); next try in ")
    (line,) = drawn(event("plan_started"), event("tool_retry", recorded=False, **fields), width=120)
    assert line.endswith("(desk.py:4)")


def test_a_call_that_ends_after_a_pause_keeps_its_arguments():
    """A call that began before a person was asked about it again ends in the tree below the question, with its arguments."""
    tree, out = RunTrees("r"), io.StringIO()
    begun = event("tool_start", call=WIPE.model_copy(update={"payload": {"disk": "a"}}))
    tree.feed(begun)
    tree.go_on()
    result = ToolResult(name=WIPE.name, tool_call_id="c1", result="wiped")
    tree.feed(event("tool_end", result=result, duration=timedelta(milliseconds=5)))
    Console(file=out, width=60, color_system=None).print(tree)
    assert out.getvalue().splitlines()[0].rstrip() == '✓ ops.disks.wipe(disk="a") (5 ms)'


def test_a_child_run_that_goes_on_after_a_question_stays_below_its_call():
    """The tree after a question begins with the call above the child run, and draws the child's calls below it."""
    ask = ToolRequest(name="ops.below.ask", tool_call_id="p1")
    link = RunLink(run_id="r/p1", agent_id="ops.child", parent_run_id="r", parent_tool_call_id="p1")
    tree, out = RunTrees("r"), io.StringIO()
    tree.feed(event("tool_start", call=ask))
    tree.feed(event("agent_run_started", run_link=link, call=ask))
    tree.go_on()
    tree.feed(event("tool_start", call=WIPE.model_copy(update={"payload": {"disk": "a"}}), run_id="r/p1"))
    wiped = ToolResult(name=WIPE.name, tool_call_id="c1", result="wiped")
    tree.feed(event("tool_end", result=wiped, duration=timedelta(milliseconds=5), run_id="r/p1"))
    asked = ToolResult(name=ask.name, tool_call_id="p1", result="done")
    tree.feed(event("tool_end", result=asked, duration=timedelta(seconds=5)))
    Console(file=out, width=60, color_system=None).print(tree)
    lines = [line.rstrip() for line in out.getvalue().splitlines()]
    assert [line for line in lines if line.strip().startswith("✓")] == [
        "✓ ops.below.ask() (5.0 s)",
        '  ✓ ops.disks.wipe(disk="a") (5 ms)',
    ]


def test_notes_stand_below_the_first_call_of_their_step():
    """The notes of a plan move below its first call, past the message with the calls."""
    note = event("planner_note", text="the disk is full")
    message = event("assistant_message", message=Message.assistant("").model_copy(update={"parts": []}))
    start = event("tool_start", call=WIPE.model_copy(update={"payload": {}}))
    lines = drawn(event("plan_started"), note, message, start)
    assert lines == ["… ops.disks.wipe()", "  · the disk is full"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_call_keeps_its_end_in_sight(width):
    """A call is one line of the width, with its duration; its arguments are cut, and so is its result."""
    result = ToolResult(name=WIPE.name, tool_call_id="c1", result="y" * 200)
    ends = event("tool_end", result=result, duration=timedelta(seconds=2))
    call, answer = drawn(event("tool_start", call=WIPE), ends, width=width)
    assert (len(call), len(answer)) == (width, width)
    assert call.startswith('✓ ops.disks.wipe(disk="a", note="xx')
    assert call.endswith("…) (2.0 s)")
    assert answer.endswith("y…")


def test_a_denied_call_says_who_denied_it():
    """The person is named in place of the time that the person took."""
    answered = event("await_answered", await_id="w", approved=False, by="ana", text="not today")
    ends = event("tool_end", result=DENIED, duration=timedelta(seconds=20))
    lines = drawn(ASKED, answered, event("tool_start", call=WIPE), ends)
    assert lines[-2].startswith('✗ ops.disks.wipe(disk="a"')
    assert lines[-2].endswith("…) denied by ana")
    assert lines[-1] == "  not today"
    assert not any("20 s" in line for line in lines)


def test_an_answer_is_drawn_as_markdown_and_as_text():
    """Its lines stay lines, and neither control characters, markup of rich nor the address of a link are interpreted or hidden."""
    output = RunOutput(agent_id="a.b", run_id="r", final=Message.assistant(ANSWER))
    lines = drawn(event("run_completed", output=output))
    assert lines[0] == "= Dark"
    assert [line.strip() for line in lines[2:4]] == ["first line", "second line"]
    assert r"• \u001b[31mone" in lines[5]
    assert "• [bold]two[/bold]" in lines[6]
    assert "here (http://x.example)" in lines[-1]
    assert not any("\x1b" in line for line in lines)
