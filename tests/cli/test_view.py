"""How a run is drawn, event by event, where there is no terminal."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from sojourn import (
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    ExternalCall,
    Finalize,
    PolicyDecision,
    ToolError,
    ToolRequest,
    ToolResult,
)
from sojourn.cli.view import RunView
from sojourn.contracts.event import EVENT_CLASSES


def drawn(kind: str, *, terminal: bool = False, **fields: Any) -> str:
    """What one event looks like."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=200, highlight=False, color_system=None)
    event = EVENT_CLASSES[kind](run_id="r", event_id="1", time=datetime(2027, 1, 4, tzinfo=UTC), **fields)
    with RunView(console) as view:
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


@pytest.mark.parametrize(
    ("kind", "fields", "shown"),
    [
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
    ],
)
def test_an_event_and_its_lines(kind, fields, shown):
    """Each event is drawn as plain lines; one that says nothing to a person is passed over."""
    assert drawn(kind, **fields).splitlines() == shown


@pytest.mark.parametrize("kind", ["run_paused", "await_answered"])
def test_what_people_said_is_printed_as_text(kind):
    """Control characters and markup from outside do nothing."""
    of = {"await_id": "q"} if kind == "await_answered" else {}
    said = drawn(kind, by="a\x1b[2Jna", text="[red]x[/red]\nsecond line", **of)
    assert said.count("\n") == 1
    assert "\x1b" not in said
    assert r"[red]x[/red]\nsecond line" in said
    assert r'by "a\u001b[2Jna"' in said


def test_a_terminal_gets_a_tree():
    """What is asked stands in the live tree, under its run."""
    assert "? Wipe disk a?" in drawn("await_confirmation", terminal=True, confirmation=CONFIRM)


def test_a_call_is_drawn_with_its_outcome():
    """A denied call shows why it did not run."""
    result = ToolResult(
        name="ops.disks.wipe", tool_call_id="c1", error=ToolError.new("denied: not today", code="denied")
    )
    call = ToolRequest(name="ops.disks.wipe", payload={"disk": "a"}, tool_call_id="c1")
    assert drawn("tool_start", call=call) == '→ ops.disks.wipe {"disk": "a"}\n'
    ended = drawn("tool_end", result=result, duration=timedelta(seconds=2))
    assert ended == "← ops.disks.wipe (2.0 s): error: denied: not today\n"
