"""Lines of text for one call.

They say how it was called, how it ended, and what it returned, in the detail that the user chose.
"""

import json
import math
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

from sojourn.cli.screen.text import Line, plain, took
from sojourn.contracts.event import ToolRetryEvent, ToolUpdateEvent
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import LEFT_OUT, RetryHint, ToolError
from sojourn.contracts.tool_result import Artifact, Bounds, ToolResult
from sojourn.timeline import Attempt, Call, Plan
from sojourn.values.json_value import is_object
from sojourn.values.text import counted

__all__ = [
    "Detail",
    "arguments",
    "called",
    "chain_lines",
    "detailed",
    "ended",
    "in_flight",
    "payload_of",
    "pending",
    "read_line",
    "running",
]


class Detail(IntEnum):
    """The detail in which to show a call."""

    BRIEF = 0
    """One line for a call and one for its result."""
    PAYLOADS = 1
    """With `-v`: the payload, the result, its bounds and artifacts too."""
    ALL = 2
    """With `-vv`: everything, such as hints, causes and decisions of the policy engine."""


def payload_of(call: ToolRequest) -> str:
    """Return the payload of a call as JSON on one line.

    If it is no JSON, return it as the planner wrote it.
    """
    return plain(call.raw if call.raw is not None else call.payload)


def read_line(call: ToolRequest) -> str:
    """Return how the arguments of a call were read.

    For example `read: /country left out (null or blank)`. Empty if they were read as written.
    """
    return plain(f"read: {'; '.join(each.text for each in call.readings)}", 300) if call.readings else ""


def arguments(call: ToolRequest) -> str:
    """Return the payload of a call as arguments, such as `a=1, b="x"`."""
    if call.raw is not None or not is_object(call.payload):
        return payload_of(call)
    return plain(", ".join(f"{name}={_json(value)}" for name, value in call.payload.items()))


def called(call: ToolRequest) -> str:
    """Return a call on one line, such as `ops.disks.wipe(disk="a")`."""
    return f"{plain(call.name)}({arguments(call)})"


def ended(call: Call) -> str:
    """Return how a call ended, with its duration, attempts and calls of its child run.

    For a denied call, return who denied it, because the time that a person took says nothing about
    the call.
    """
    result, decision = call.result, call.decision
    if result is None:
        return ""
    if result.error and result.error.code == "denied":
        who = plain(decision.who) if decision and decision.event.approved is False else ""
        return f"denied by {who}" if who else "denied"
    attempts = result.telemetry.attempts if result.telemetry and not result.run_link else 1
    attempt = f", attempt {attempts}" if attempts > 1 else ""
    below = f", {counted(result.children_count, 'call')} in the child run" if result.run_link else ""
    return f"({took(call.duration or timedelta(0))}{attempt}{below})"


def detailed(result: ToolResult, detail: Detail = Detail.BRIEF) -> list[Line]:
    """Return the lines of a call's result or error.

    More detail adds its bounds, its artifacts and its hint.
    """
    if detail == Detail.BRIEF:
        if result.error:
            causes = "; because: ".join(link.text for link in result.error.chain())
            is_denied = result.error.code == "denied"  # `ended` prints that
            return [
                Line(plain(causes.removeprefix("denied: ") if is_denied else f"error: {causes}", 300), "red")
            ]
        return [Line(plain(result.result), "dim")]
    lines = chain_lines("error", result.error, "red", 300) if result.error else [Line(plain(result.result))]
    lines += [Line(plain(remark), "dim") for remark in result.remarks]
    if result.bounds:
        lines.append(Line(_bounds_line(result.bounds), "yellow" if result.bounds.truncated else "dim"))
    lines += [Line(_artifact_line(artifact), "magenta") for artifact in result.artifacts]
    if result.retry_hint and detail == Detail.ALL:
        lines += _hint_lines(result.retry_hint)
    return lines


def in_flight(event: ToolRetryEvent | ToolUpdateEvent) -> str:
    """Return the progress of a call or a plan in flight.

    For a retry, return its attempt, the error of the previous attempt, and when it begins.
    """
    if isinstance(event, ToolRetryEvent):
        return _attempt(Attempt(event.attempt, event.error, event.due), event.agent_id)
    return _progress(event.note, event.done, event.total)


def running(call: Call) -> str:
    """Return a call that runs, with its progress or its attempt."""
    flight = ""
    if call.progress or call.done is not None:
        flight = _progress(call.progress, call.done, call.total)
    elif call.attempts:
        flight = _attempt(call.attempts[-1])
    return f"{called(call.call)}  {flight}" if flight else called(call.call)


def pending(plan: Plan, agent_id: str = "") -> str:
    """Return the present work of a planner, with its last note.

    This is how long it has been planning, or which attempt is next.
    """
    if plan.attempts and not (plan.progress or plan.done is not None):
        return f"planning, {_attempt(plan.attempts[-1], agent_id)}"
    elapsed = max(0, int((datetime.now(UTC) - plan.at).total_seconds()))
    note = _progress(plan.progress, plan.done, plan.total)
    return f"planning for {elapsed} s" + (f": {note}" if note else "")


def _attempt(attempt: Attempt, agent_id: str = "") -> str:
    error = attempt.error.removeprefix(f"the planner of {agent_id} failed: ")
    due = _due(attempt.due)
    text = plain(error, 200)
    after = f" after: {text.rstrip('.') if due else text}" if error else ""
    return f"attempt {attempt.number}{after}{due}"


def _progress(note: str, done: float | None, total: float | None) -> str:
    if done is None:
        return plain(note)
    return f"{plain(note)} {100 * done / total:.0f} %" if total else f"{plain(note)} {done:g}"


def chain_lines(head: str, error: ToolError, style: str, most: int) -> list[Line]:
    """Return an error and its causes, each indented below the error that it caused.

    The root cause comes last.
    """
    links = list(error.chain())
    lines = [Line(f"{head}: {plain(links[0].text, most)}", style)]
    for depth, link in enumerate(links[1:], 1):
        text = plain(link.text, most)
        lines.append(Line(f"{'  ' * depth}{text if link.code == LEFT_OUT else f'because: {text}'}", style))
    return lines


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _due(due: datetime | None) -> str:
    """Return how soon the next attempt begins, or an empty text if it has begun."""
    left = math.ceil((due - datetime.now(UTC)).total_seconds()) if due else 0
    return f"; next try in {left} s" if left > 0 else ""


def _bounds_line(bounds: Bounds) -> str:
    total = "an unknown number" if bounds.total is None else str(bounds.total)
    more = f"; {plain(bounds.refinement_hint)}" if bounds.refinement_hint else ""
    return f"[{bounds.returned} of {total}{', cut' if bounds.truncated else ''}{more}]"


def _artifact_line(artifact: Artifact) -> str:
    size = f", {counted(artifact.size, 'byte')}" if artifact.size else ""
    return f"+ artifact {plain(artifact.kind)}{size}: {plain(artifact.ref)}"


def _hint_lines(hint: RetryHint) -> list[Line]:
    text = plain(hint.message or hint.clarifying_question or "", 300)
    lines = [Line(f"↻ {plain(hint.reason)}: {text}", "yellow")]
    if hint.missing_fields:
        lines.append(Line(f"  missing: {', '.join(plain(field) for field in hint.missing_fields)}", "yellow"))
    if hint.example_input:
        lines.append(Line(f"  for example {plain(hint.example_input)}", "yellow"))
    return lines
