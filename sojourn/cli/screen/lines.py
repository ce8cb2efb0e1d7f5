"""What is printed about one event, in lines of text: by the live tree, by plain output and by `show`."""

import json
import re
from collections.abc import Callable
from typing import Any

from sojourn.cli.screen.text import Line, plain, text_lines, took
from sojourn.cli.screen.wait_views import view_of
from sojourn.contracts.artifact import Artifact
from sojourn.contracts.bounds import Bounds
from sojourn.contracts.event import (
    AgentRunStartedEvent,
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    Event,
    LimitReachedEvent,
    PlannerNoteEvent,
    PolicyDecisionEvent,
    RetriesStoppedEvent,
    RunCanceledEvent,
    RunCompletedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunResumedEvent,
    RunStartedEvent,
    RunTerminatedEvent,
    RunTimedOutEvent,
    ToolEndEvent,
    ToolRetryEvent,
    ToolStartEvent,
    ToolUpdateEvent,
)
from sojourn.contracts.retry_hint import RetryHint
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_error import LEFT_OUT, ToolError
from sojourn.core.awaits.kinds import wait_in

__all__ = [
    "called",
    "detailed",
    "ended",
    "in_flight",
    "lines_of",
    "summed",
]

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_@.:+-]([A-Za-z0-9_@.:+ -]*[A-Za-z0-9_@.:+-])?")


def lines_of(event: Event, *, whole: bool = False) -> list[Line]:
    """What an event says on its own; calls and their ends are drawn by `called`, `ended` and `detailed`.

    Args:
        event: Which.
        whole: All that a person decides on or answers, however long.
    """
    wait = wait_in(event)
    if wait is not None:
        return view_of(wait).lines(wait, whole)
    told = _TOLD.get(event.type)
    return told(event) if told else []


def called(event: ToolStartEvent) -> str:
    """A call: its tool and payload."""
    call = event.call
    return f"{plain(call.name)} {plain(call.raw if call.raw is not None else call.payload)}"


def ended(event: ToolEndEvent) -> str:
    """How long a call took, and its tries."""
    result = event.result
    attempts = result.telemetry.attempts if result.telemetry and not result.run_link else 1
    tries = f", attempt {attempts}" if attempts > 1 else ""
    below = f", {result.children_count} calls in the child run" if result.run_link else ""
    return f"{plain(result.name)} ({took(event.duration)}{tries}{below})"


def detailed(event: ToolEndEvent) -> list[Line]:
    """What a call gave: its result or error, what was cut, what comes beside it, and how to repair it."""
    result = event.result
    if result.error:
        lines = _chain("error", result.error, "red", 300)
    else:
        lines = [Line(plain(result.result))]
    if result.bounds:
        lines.append(Line(_bounded(result.bounds), "yellow" if result.bounds.truncated else "dim"))
    lines += [Line(_beside(artifact), "magenta") for artifact in result.artifacts]
    if result.retry_hint:
        lines += _repair(result.retry_hint)
    return lines


def in_flight(event: ToolRetryEvent | ToolUpdateEvent) -> str:
    """What a call that is not over says, or what its last try ended with."""
    if event.type == "tool_retry":
        after = f" after: {plain(event.error, 200)}" if event.error else ""
        return f"attempt {event.attempt}{after}"
    share = ""
    if event.done is not None and event.total:
        share = f" {100 * event.done / event.total:.0f} %"
    elif event.done is not None:
        share = f" {event.done:g}"
    return f"{plain(event.note)}{share}"


def summed(output: RunOutput) -> str:
    """What a run cost, in a line."""
    parts = [f"{output.tool_calls} calls" if output.tool_calls != 1 else "1 call"]
    below = output.children_count - output.tool_calls
    if below > 0:
        parts.append(f"{below} in child runs")
    used = output.total_usage
    if tokens := used.input_tokens + used.output_tokens:
        parts.append(f"{tokens:,} tokens")
    if used.cost:
        parts.append(f"${used.cost:.4f}")
    return ", ".join(parts)


def _run_started(event: RunStartedEvent) -> list[Line]:
    head = Line(f"{plain(event.agent_id)}  {plain(event.run_id)}", "bold")
    return [head, *(text_lines(event.message.text, mark="> ") if event.message else [])]


def _assistant_message(event: AssistantMessageEvent) -> list[Line]:
    """Only words beside calls: an answer is told at the end."""
    if not event.message.tool_calls or not event.message.text:
        return []
    return text_lines(event.message.text, "italic", "“ ")


def _agent_run_started(event: AgentRunStartedEvent) -> list[Line]:
    return [Line(f"⤷ child run {plain(event.run_link.run_id)} of {plain(event.run_link.agent_id)}", "dim")]


def _note(event: PlannerNoteEvent) -> list[Line]:
    who = f" ({_identity(event.identity)})" if event.identity else ""
    return [Line(f"· {plain(event.text, 500)}{who}", "dim")]


def _limit(event: LimitReachedEvent | RetriesStoppedEvent) -> list[Line]:
    return text_lines(event.limit.message, "yellow", "! ")


def _policy_decision(event: PolicyDecisionEvent) -> list[Line]:
    said = event.decision.model_dump(mode="json", exclude_defaults=True, exclude={"reason"})
    why = f"{plain(event.decision.reason)}: " if event.decision.reason else ""
    return [Line(f"§ policy: {why}{plain(said)}", "dim")]


def _answered(event: AwaitAnsweredEvent) -> list[Line]:
    if event.code == "expired":
        return [Line("! nobody answered in time", "yellow")]
    done = event.code or {True: "approved", False: "denied", None: "answered"}[event.approved]
    return [Line(f"! {done}{_by(event)}{_said(event)}", "red" if event.approved is False else "yellow")]


def _paused(event: RunPausedEvent) -> list[Line]:
    return [Line(f"‖ paused{_by(event)}{_said(event)}", "bold yellow")]


def _resumed(event: RunResumedEvent) -> list[Line]:
    head = Line(f"▶ resumed{_by(event)}{_said(event)}", "bold yellow")
    return [head, *(line for message in event.messages for line in text_lines(message, mark="> "))]


def _completed(event: RunCompletedEvent) -> list[Line]:
    output = event.output
    if output is None:
        return [Line("= ended", "bold green")]
    limit = "" if output.reason == "answered" else f" ({plain(output.reason)})"
    return text_lines(output.text + limit, "bold green", "= ")


def _failed(event: RunFailedEvent | RunCanceledEvent | RunTerminatedEvent | RunTimedOutEvent) -> list[Line]:
    kind = event.type.removeprefix("run_").replace("_", " ")
    if event.type == "run_failed" and event.error:
        return _chain(f"✗ {kind}", event.error, "bold red", 1_000)
    return [Line(f"✗ {kind}: {plain(event.text or '', 1_000)}", "bold red")]


_TOLD: dict[str, Callable[[Any], list[Line]]] = {
    "run_started": _run_started,
    "assistant_message": _assistant_message,
    "agent_run_started": _agent_run_started,
    "planner_note": _note,
    "limit_reached": _limit,
    "retries_stopped": _limit,
    "policy_decision": _policy_decision,
    "await_answered": _answered,
    "run_paused": _paused,
    "run_resumed": _resumed,
    "run_completed": _completed,
    "run_failed": _failed,
    "run_canceled": _failed,
    "run_terminated": _failed,
    "run_timed_out": _failed,
}


def _by(event: AwaitAnsweredEvent | RunPausedEvent | RunResumedEvent) -> str:
    """Who it was: as they say, and as Temporal recorded them."""
    said = f" by {_name(event.by)}" if event.by else ""
    return f"{said} ({_identity(event.identity)})" if event.identity else said


def _identity(identity: str) -> str:
    return f"identity {_name(identity)}"


def _name(name: str) -> str:
    """A name, in quotes where it could be taken for more than a name."""
    return plain(name) if _PLAIN_NAME.fullmatch(name) else plain(json.dumps(name, ensure_ascii=False))


def _said(event: AwaitAnsweredEvent | RunPausedEvent | RunResumedEvent) -> str:
    return f": {plain(event.text)}" if event.text else ""


def _chain(head: str, error: ToolError, style: str, most: int) -> list[Line]:
    """An error and its causes, each further in than what it led to; the root is the last."""
    links = list(error.chain())
    lines = [Line(f"{head}: {plain(links[0].message, most)}", style)]
    for depth, link in enumerate(links[1:], 1):
        said = plain(link.message, most)
        lines.append(Line(f"{'  ' * depth}{said if link.code == LEFT_OUT else f'because: {said}'}", style))
    return lines


def _bounded(bounds: Bounds) -> str:
    total = "an unknown number" if bounds.total is None else str(bounds.total)
    more = f"; {plain(bounds.refinement_hint)}" if bounds.refinement_hint else ""
    return f"[{bounds.returned} of {total}{', cut' if bounds.truncated else ''}{more}]"


def _beside(artifact: Artifact) -> str:
    size = f", {artifact.size:,} bytes" if artifact.size else ""
    return f"+ artifact {plain(artifact.kind)}{size}: {plain(artifact.ref)}"


def _repair(hint: RetryHint) -> list[Line]:
    said = plain(hint.message or hint.clarifying_question or "", 300)
    lines = [Line(f"↻ {plain(hint.reason)}: {said}", "yellow")]
    if hint.missing_fields:
        lines.append(Line(f"  missing: {', '.join(plain(field) for field in hint.missing_fields)}", "yellow"))
    if hint.example_input:
        lines.append(Line(f"  for example {plain(hint.example_input)}", "yellow"))
    return lines
