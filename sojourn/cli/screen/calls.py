"""Format one call, with its arguments, its end and its result."""

import json
import math
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

from sojourn.cli.screen.text import Line, format_duration, plain
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import LEFT_OUT, RetryHint, ToolError
from sojourn.contracts.tool_result import Artifact, Bounds, RunLink, ToolResult
from sojourn.timeline import Attempt, Call, Plan
from sojourn.values.json_value import is_object
from sojourn.values.text import count_noun

__all__ = [
    "Detail",
    "argument_text",
    "call_text",
    "chain_lines",
    "child_line",
    "end_text",
    "payload_of",
    "pending_text",
    "progress_text",
    "read_line",
    "result_lines",
    "running_text",
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
    return plain(call.raw if call.raw is not None else call.payload)


def read_line(call: ToolRequest) -> str:
    """Return how the arguments of a call were read, if not as written."""
    return plain(f"read: {'; '.join(each.text for each in call.readings)}", 300) if call.readings else ""


def argument_text(call: ToolRequest) -> str:
    if call.raw is not None or not is_object(call.payload):
        return payload_of(call)
    return plain(", ".join(f"{name}={_json(value)}" for name, value in call.payload.items()))


def call_text(call: ToolRequest) -> str:
    return f"{plain(call.name)}({argument_text(call)})"


def child_line(link: RunLink) -> Line:
    return Line(f"⤷ child run {plain(link.run_id)} of {plain(link.agent_id)}", "dim")


def end_text(call: Call) -> str:
    """Return how a call ended. The time until a denial says nothing about it."""
    result, decision = call.result, call.decision
    if result is None:
        return ""
    if result.error and result.error.code == "denied":
        event = decision.event if decision and decision.event.approved is False else None
        who = plain(event.by or event.identity or "") if event else ""
        return f"denied by {who}" if who else "denied"
    attempts = result.telemetry.attempts if result.telemetry and not result.run_link else 1
    attempt = f", attempt {attempts}" if attempts > 1 else ""
    below = f", {count_noun(result.children_count, 'call')} in the child run" if result.run_link else ""
    return f"({format_duration(call.duration or timedelta(0))}{attempt}{below})"


def result_lines(result: ToolResult, detail: Detail = Detail.BRIEF) -> list[Line]:
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


def progress_text(entry: Call | Plan, agent_id: str = "") -> str:
    """Return the progress of a call or a plan, or its next attempt."""
    if entry.progress or entry.done is not None:
        return _progress(entry.progress, entry.done, entry.total)
    return _attempt(entry.attempts[-1], agent_id) if entry.attempts else ""


def running_text(call: Call) -> str:
    flight = progress_text(call)
    return f"{call_text(call.call)}  {flight}" if flight else call_text(call.call)


def pending_text(plan: Plan, agent_id: str = "") -> str:
    """Return how long a planner has been at work, with its note, or its next attempt."""
    if plan.attempts and not (plan.progress or plan.done is not None):
        return f"planning, {progress_text(plan, agent_id)}"
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
    """Return an error and its causes, each indented below the error that it caused."""
    links = list(error.chain())
    lines = [Line(f"{head}: {plain(links[0].text, most)}", style)]
    for depth, link in enumerate(links[1:], 1):
        text = plain(link.text, most)
        lines.append(Line(f"{'  ' * depth}{text if link.code == LEFT_OUT else f'because: {text}'}", style))
    return lines


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _due(due: datetime | None) -> str:
    left = math.ceil((due - datetime.now(UTC)).total_seconds()) if due else 0
    return f"; next try in {left} s" if left > 0 else ""


def _bounds_line(bounds: Bounds) -> str:
    total = "an unknown number" if bounds.total is None else str(bounds.total)
    more = f"; {plain(bounds.refinement_hint)}" if bounds.refinement_hint else ""
    return f"[{bounds.returned} of {total}{', cut' if bounds.truncated else ''}{more}]"


def _artifact_line(artifact: Artifact) -> str:
    if file := artifact.attachment:
        return f"+ file {plain(file.name)} ({plain(file.media_type)}, {count_noun(file.size, 'byte')}): {file.id}"
    size = f", {count_noun(artifact.size, 'byte')}" if artifact.size else ""
    return f"+ artifact {plain(artifact.kind)}{size}: {plain(artifact.ref)}"


def _hint_lines(hint: RetryHint) -> list[Line]:
    text = plain(hint.message or hint.clarifying_question or "", 300)
    lines = [Line(f"↻ {plain(hint.reason)}: {text}", "yellow")]
    if hint.missing_fields:
        lines.append(Line(f"  missing: {', '.join(plain(field) for field in hint.missing_fields)}", "yellow"))
    if hint.example_input:
        lines.append(Line(f"  for example {plain(hint.example_input)}", "yellow"))
    return lines
