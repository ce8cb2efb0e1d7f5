"""How the events of a run are drawn, without a terminal and as a tree."""

import asyncio
import io
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from sojourn import (
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    ExternalCall,
    ToolError,
    ToolRequest,
    ToolResult,
)
from sojourn.cli.screen.calls import Detail
from sojourn.cli.screen.run_trees import RunTrees
from sojourn.cli.screen.text import text_lines
from sojourn.cli.screen.view import RunView
from sojourn.contracts import ArgumentReading, Finalize, RunLink
from sojourn.contracts.event import EVENT_CLASSES
from sojourn.policy import PolicyDecision


def drawn(kind: str, *, terminal: bool = False, detail: Detail = Detail.ALL, **fields: Any) -> str:
    """The text drawn for one event."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200, highlight=False, color_system=None)
    event = EVENT_CLASSES[kind](run_id="r", event_id="1", time=datetime(2027, 1, 4, tzinfo=UTC), **fields)
    with RunView("r", console, detail) as view:
        view.show(event)
    return out.getvalue()


CONFIRM = AwaitConfirmation(
    id="c", tool_call_id="c1", tool="ops.disks.wipe", prompt="Wipe disk a?", payload={"disk": "a"}
)
OUTSIDE = AwaitExternalTools(
    id="o", items=[ExternalCall(tool_call_id="c1", tool="ops.disks.weigh", payload={"disk": "a"})]
)
STOPPED = Finalize(
    reason="retries_stopped",
    message="`ops.disks.wipe` failed 3 times in a row: no space.\nWhat you can do:\n- free some",
)


def test_a_whole_text_is_cut_nowhere() -> None:
    """Escapes of invisible characters make a line longer than its text."""
    text = "a\u200bb" * 1_000
    assert text_lines(text, whole=True)[0].text == "a\\u200bb" * 1_000
    assert text_lines(text)[0].text.endswith("…")


def test_an_event_and_its_lines() -> None:
    """Each event is drawn as plain lines; an event without meaning for a person draws none."""
    rows = [
        (
            "await_confirmation",
            {"confirmation": CONFIRM},
            ["? Wipe disk a?", "  ops.disks.wipe", '    disk = "a"'],
        ),
        (
            "await_external_tools",
            {"external": OUTSIDE},
            ["? outside: ops.disks.weigh as c1", '    disk = "a"'],
        ),
        (
            "await_clarification",
            {"question": AwaitClarification(question="Which?", server="ops.disks")},
            ["? ops.disks asks: Which?"],
        ),
        ("await_clarification", {"question": AwaitClarification(question="Which?")}, ["? Which?"]),
        (
            "await_answered",
            {"await_id": "q", "text": "this", "by": "ana", "identity": "1@host"},
            ["! answered by ana (identity 1@host): this"],
        ),
        ("await_answered", {"await_id": "o", "by": "ana"}, ["! all results are here, the last by ana"]),
        ("await_answered", {"await_id": "q", "approved": True, "by": "ana"}, ["! approved by ana"]),
        (
            "await_answered",
            {"await_id": "q", "approved": False, "identity": "1@host", "text": "no"},
            ["! denied (identity 1@host): no"],
        ),
        ("await_answered", {"await_id": "q", "code": "expired"}, ["! nobody answered in time"]),
        ("run_paused", {"by": "ana", "text": "lunch"}, ["‖ paused by ana: lunch"]),
        ("run_resumed", {"identity": "1@host"}, ["▶ resumed (identity 1@host)"]),
        (
            "policy_decision",
            {"decision": PolicyDecision(disable_tools=["ops.disks.wipe"], reason="at night")},
            ['§ policy: at night: {"disable_tools": ["ops.disks.wipe"]}'],
        ),
        ("policy_decision", {"decision": PolicyDecision(ask=["x"])}, ['§ policy: {"ask": ["x"]}']),
        ("limit_reached", {"limit": Finalize(reason="max_cost", message="All spent.")}, ["! All spent."]),
        (
            "retries_stopped",
            {"limit": STOPPED},
            [
                "! `ops.disks.wipe` failed 3 times in a row: no space.",
                "  What you can do:",
                "  - free some",
            ],
        ),
        ("plan_started", {}, []),
    ]
    assert [
        (kind, fields, found)
        for kind, fields, shown in rows
        if (found := drawn(kind, **fields).splitlines()) != shown
    ] == []


@pytest.mark.parametrize("kind", ["run_paused", "await_answered"])
def test_text_from_people_is_printed_as_text(kind):
    """Control characters and markup from outside have no effect."""
    of = {"await_id": "q"} if kind == "await_answered" else {}
    lines = drawn(kind, by="a\x1b[2Jna", text="[red]x[/red]\nsecond line", **of)
    assert lines.count("\n") == 1
    assert "\x1b" not in lines
    assert r"[red]x[/red]\nsecond line" in lines
    assert r'by "a\u001b[2Jna"' in lines


async def test_a_terminal_gets_a_tree():
    """On a terminal the question of an approval is part of the live tree: one branch, however many lines it has."""
    lines = drawn("await_confirmation", terminal=True, confirmation=CONFIRM)
    assert "? Wipe disk a?" in lines
    assert "\n  ops.disks.wipe" in lines
    assert '\n    disk = "a"' in lines


@pytest.mark.parametrize(("count", "shown"), [(1, "1 call"), (2, "2 calls")])
def test_the_calls_of_a_child_run_are_counted(count, shown):
    """The end of a call that started a child run has the number of the child's calls."""
    link = RunLink(run_id="r/c1", agent_id="ops.advisor", parent_run_id="r", parent_tool_call_id="c1")
    result = ToolResult(
        name="ops.advice.ask", tool_call_id="c1", result=1, run_link=link, children_count=count
    )
    ended = drawn("tool_end", result=result, duration=timedelta(seconds=2))
    assert ended == f"← ops.advice.ask (2.0 s, {shown} in the child run): 1\n"


def test_a_call_is_drawn_with_its_outcome():
    """A call reads as a call; the end of a denied call shows the reason, and not the time that a person took."""
    result = ToolResult(
        name="ops.disks.wipe", tool_call_id="c1", error=ToolError.new("denied: not today", code="denied")
    )
    call = ToolRequest(name="ops.disks.wipe", payload={"disk": "a"}, tool_call_id="c1")
    assert drawn("tool_start", call=call, detail=Detail.BRIEF) == '→ ops.disks.wipe(disk="a")\n'
    ended = drawn("tool_end", result=result, duration=timedelta(seconds=2), detail=Detail.BRIEF)
    assert ended == "← ops.disks.wipe denied: not today\n"


async def test_a_tree_is_redrawn_in_the_thread_that_prints_above_it():
    """Two threads would write into each other's lines: one moves the cursor by what the other has not written yet."""
    drawn_again, threads = asyncio.Event(), []

    class Screen(io.StringIO):
        def write(self, text: str) -> int:
            threads.append(threading.get_ident())
            if len(threads) > 5:
                loop.call_soon_threadsafe(drawn_again.set)
            return super().write(text)

    loop = asyncio.get_running_loop()
    with RunView("r", Console(file=Screen(), force_terminal=True, width=200)):
        await drawn_again.wait()
    assert {*threads} == {threading.get_ident()}


@pytest.mark.parametrize("terminal", [False, True], ids=["lines", "tree"])
async def test_what_was_read_of_a_call_is_shown_in_detail(terminal):
    """With `-v` a call shows how its arguments were read; without it, only what was read."""
    sent = ToolRequest(
        name="ops.disks.wipe", raw='{"disk": "a", "size": 1.0, "note": null}', tool_call_id="c1"
    )
    readings = [
        ArgumentReading(kind="whole_number", field="/size"),
        ArgumentReading(kind="left_out", field="/note"),
        ArgumentReading(kind="of_a_later_version"),
    ]
    call = sent.read_as({"disk": "a", "size": 1}, readings)
    assert call.written == sent.raw
    line = "read: /size read as an integer; /note left out (null or blank); the arguments of_a_later_version"
    start = {"run_id": "r", "event_id": "", "time": datetime(2027, 1, 4, tzinfo=UTC)}
    for detail in Detail:
        out = io.StringIO()
        console = Console(file=out, force_terminal=terminal, width=200, highlight=False, color_system=None)
        with RunView("r", console, detail) as view:
            view.show(EVENT_CLASSES["tool_start"](**start, call=call))
            result = ToolResult(name=call.name, tool_call_id="c1", result=1)
            view.show(EVENT_CLASSES["tool_end"](**start, result=result, duration=timedelta(seconds=1)))
        assert (line in out.getvalue()) is (detail > Detail.BRIEF)


def test_a_failed_run_shows_each_cause_once() -> None:
    """Each cause is indented below the error that it caused, the root cause last, and a gap names the number left out."""
    error = ToolError.new("root")
    for hop in range(9):
        error = ToolError.with_cause(f"hop {hop}", error)
    lines = drawn("run_failed", error=error, text=str(error)).splitlines()
    assert lines == [
        "✗ failed: hop 8",
        "  because: hop 7",
        "    because: hop 6",
        "      because: hop 5",
        "        (3 more)",
        "          because: hop 1",
        "            because: hop 0",
        "              because: root",
    ]
    result = ToolResult(name="a.b.c", tool_call_id="c1", error=ToolError.with_cause("no", KeyError("k")))
    ends = {"result": result, "duration": timedelta(seconds=1)}
    lines = drawn("tool_end", **ends, detail=Detail.ALL).splitlines()
    assert lines == ["← a.b.c (1.0 s): error: no", "    because: KeyError: 'k'"]
    brief = drawn("tool_end", **ends, detail=Detail.BRIEF)
    assert brief == "← a.b.c (1.0 s): error: no; because: KeyError: 'k'\n"


def test_a_failed_child_run_is_shown_by_its_call() -> None:
    """The error of a failed child run is drawn once, at the end of its call."""
    out = io.StringIO()
    at = {"event_id": "", "time": datetime(2027, 1, 4, tzinfo=UTC)}
    link = RunLink(run_id="r/c1", agent_id="a.b", parent_run_id="r", parent_tool_call_id="c1")
    call = ToolRequest(name="a.b.c", tool_call_id="c1")
    error = ToolError.new("root")
    failed = ToolResult(
        name="a.b.c", tool_call_id="c1", run_link=link, error=ToolError.with_cause("failed", error)
    )
    events = [
        EVENT_CLASSES["tool_start"](run_id="r", call=call, **at),
        EVENT_CLASSES["agent_run_started"](run_id="r", run_link=link, call=call, **at),
        EVENT_CLASSES["run_failed"](run_id="r/c1", error=error, text="root", **at),
        EVENT_CLASSES["tool_end"](run_id="r", result=failed, duration=timedelta(0), **at),
    ]
    console = Console(file=out, width=200, highlight=False, color_system=None)
    tree = RunTrees("r")
    with RunView("r", console) as view:
        for event in events:
            view.show(event)
            tree.feed(event)
    out.write("---")
    console.print(tree)
    plain, drawn_tree = out.getvalue().split("---")
    assert [part.count("root") for part in (plain, drawn_tree)] == [1, 1]
