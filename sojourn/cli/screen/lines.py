"""Lines of text for one event.

The live tree, the plain output and `sojourn show` print them.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from sojourn.cli.screen.calls import Detail, chain_lines
from sojourn.cli.screen.text import Line, plain, text_lines
from sojourn.cli.screen.waits import texts_of
from sojourn.contracts.event import (
    AgentRunStartedEvent,
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    Event,
    LimitReachedEvent,
    MemoryChangedEvent,
    MessageReceivedEvent,
    PlannerNoteEvent,
    PolicyDecisionEvent,
    RetriesStoppedEvent,
    RunCanceledEvent,
    RunCompletedEvent,
    RunContinuedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunResumedEvent,
    RunStartedEvent,
    RunTerminatedEvent,
    RunTimedOutEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    wait_in,
)
from sojourn.contracts.message import Message
from sojourn.contracts.run import ForkedFrom, RunOutput
from sojourn.contracts.tool_error import LEFT_OUT
from sojourn.core.run.state import INTERRUPTED
from sojourn.timeline import verdict_of
from sojourn.values.text import counted

__all__ = [
    "is_drawn",
    "lines_of",
    "name_of",
    "spoken_lines",
    "summed",
]

CLOSED = "closed"
"""The `reason` of a conversation that a caller closed."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_@.:+-]([A-Za-z0-9_@.:+ -]*[A-Za-z0-9_@.:+-])?")


def is_drawn(event: Event, detail: Detail, *, is_below: bool) -> bool:
    """Return whether an event is shown in this detail.

    Args:
        event: The event.
        detail: The detail of the output.
        is_below: Whether the event is of a child run: its call shows its task, how it ended, and its result.
    """
    match event:
        case RunStartedEvent() | RunFailedEvent():
            return not is_below
        case RunCompletedEvent():
            return not is_below or detail > Detail.BRIEF
        case PolicyDecisionEvent():
            return detail == Detail.ALL
        case _:
            return True


def lines_of(event: Event, *, whole: bool = False) -> list[Line]:
    """Return the lines of an event.

    Empty for the start and the end of a call, which `calls` formats.

    Args:
        event: The event.
        whole: Whether to show all of a wait, however long.
    """
    wait = wait_in(event)
    if wait is not None:
        return texts_of(wait).lines(wait, whole)
    lines = _LINES.get(event.type)
    return lines(event) if lines else []


def summed(output: RunOutput) -> str:
    """Return the calls, the tokens and the cost of a run, on one line."""
    parts = [counted(output.tool_calls, "call")]
    below = output.children_count - output.tool_calls
    if below > 0:
        parts.append(f"{below} in child runs")
    used = output.total_usage
    if tokens := used.input_tokens + used.output_tokens:
        parts.append(counted(tokens, "token"))
    if used.cost:
        parts.append(f"${used.cost:.4f}")
    return ", ".join(parts)


def spoken_lines(message: Message) -> list[Line]:
    """Return the text of a message that has calls, too.

    Empty for other messages, because an answer is printed when the run completes.
    """
    if not message.tool_calls or not message.text:
        return []
    return text_lines(message.text, "italic", "“ ")


def _run_started(event: RunStartedEvent) -> list[Line]:
    head = Line(f"{plain(event.agent_id)}  {plain(event.run_id)}", "bold")
    origin = event.forked_from
    return [
        head,
        *(_forked(origin) if origin else []),
        *(text_lines(event.message.text, mark="> ") if event.message else []),
    ]


def _forked(origin: ForkedFrom) -> list[Line]:
    """Return the lines about a fork's origin, the user who forked, and the changes."""
    by = f" by {name_of(origin.forked_by)}" if origin.forked_by else ""
    return [
        Line(f"· forked from {plain(origin.run_id, 300)} at {plain(origin.event_id)}{by}", "dim"),
        *(Line(f"· the fork was given the {plain(text, 700)}", "dim") for text in origin.change_texts),
    ]


def _assistant_message(event: AssistantMessageEvent) -> list[Line]:
    return spoken_lines(event.message)


def _agent_run_started(event: AgentRunStartedEvent) -> list[Line]:
    return [Line(f"⤷ child run {plain(event.run_link.run_id)} of {plain(event.run_link.agent_id)}", "dim")]


def _note(event: PlannerNoteEvent) -> list[Line]:
    name = f"by {name_of(event.by)}" if event.by else ""
    sender = ", ".join(filter(None, [name, event.identity and _identity(event.identity)]))
    who = f" ({sender})" if sender else ""
    return [Line(f"· {plain(event.text, 500)}{who}", "dim")]


def _memory(event: MemoryChangedEvent) -> list[Line]:
    return [Line(f"· memory: {plain(json.dumps(event.patch, ensure_ascii=False), 500)}", "dim")]


def _continued(event: RunContinuedEvent) -> list[Line]:
    """Return a line if the beginning of the events is gone.

    That a run continues in a new execution does not concern the user.
    """
    earlier = counted(event.executions, "earlier execution")
    return [Line(f"· the beginning is gone: Temporal has deleted {earlier}", "dim")] if event.is_start else []


def _limit(event: LimitReachedEvent | RetriesStoppedEvent) -> list[Line]:
    return text_lines(event.limit.message, "yellow", "! ")


def _policy_decision(event: PolicyDecisionEvent) -> list[Line]:
    decision = event.decision.model_dump(mode="json", exclude_defaults=True, exclude={"reason"})
    why = f"{plain(event.decision.reason)}: " if event.decision.reason else ""
    return [Line(f"§ policy: {why}{plain(decision)}", "dim")]


def _answered(event: AwaitAnsweredEvent) -> list[Line]:
    if event.code == "expired":
        return [Line("! nobody answered in time", "yellow")]
    if event.code is None and event.approved is None and event.text is None:
        return [Line(f"! all results are here, the last{_by(event)}", "yellow")]
    return [
        Line(
            f"! {verdict_of(event)}{_by(event)}{_reason(event)}",
            "red" if event.approved is False else "yellow",
        )
    ]


def _paused(event: RunPausedEvent) -> list[Line]:
    return [Line(f"‖ paused{_by(event)}{_reason(event)}", "bold yellow")]


def _resumed(event: RunResumedEvent) -> list[Line]:
    head = Line(f"▶ resumed{_by(event)}{_reason(event)}", "bold yellow")
    return [head, *(line for message in event.messages for line in text_lines(message, mark="> "))]


def _received(event: MessageReceivedEvent) -> list[Line]:
    return text_lines(event.message.text, mark="> ")


def _turn_failed(event: TurnFailedEvent) -> list[Line]:
    if event.error.code == INTERRUPTED:
        return [Line(f"✗ {plain(event.error.message, 1_000)}", "bold red")]
    return chain_lines("✗ turn failed", event.error, "bold red", 1_000)


def _completed(event: RunCompletedEvent | TurnCompletedEvent) -> list[Line]:
    output = event.output
    if output is None:
        return [Line("= ended", "bold green")]
    if output.reason == CLOSED:
        why = f": {output.text}" if output.text else ""
        return text_lines(f"the conversation was closed{why}", "bold green", "= ")
    limit = "" if output.reason == "answered" else f" ({plain(output.reason)})"
    return text_lines(output.text + limit, "bold green", "= ")


def _failed(event: RunFailedEvent | RunCanceledEvent | RunTerminatedEvent | RunTimedOutEvent) -> list[Line]:
    kind = event.type.removeprefix("run_").replace("_", " ")
    if event.type == "run_failed" and event.error:
        codes = dict.fromkeys(
            link.code for link in event.error.chain() if link.code and link.code != LEFT_OUT
        )
        lines = chain_lines(f"✗ {kind}", event.error, "bold red", 1_000)
        return [*lines, Line(f"  code: {plain(', '.join(codes))}", "dim")] if codes else lines
    return [Line(f"✗ {kind}: {plain(event.text or '', 1_000)}", "bold red")]


_LINES: dict[str, Callable[[Any], list[Line]]] = {
    "run_started": _run_started,
    "assistant_message": _assistant_message,
    "agent_run_started": _agent_run_started,
    "memory_changed": _memory,
    "planner_note": _note,
    "limit_reached": _limit,
    "retries_stopped": _limit,
    "policy_decision": _policy_decision,
    "await_answered": _answered,
    "run_continued": _continued,
    "run_paused": _paused,
    "run_resumed": _resumed,
    "message_received": _received,
    "turn_completed": _completed,
    "turn_failed": _turn_failed,
    "run_completed": _completed,
    "run_failed": _failed,
    "run_canceled": _failed,
    "run_terminated": _failed,
    "run_timed_out": _failed,
}


def _by(event: AwaitAnsweredEvent | RunPausedEvent | RunResumedEvent) -> str:
    """Return the sender's given name, and the identity that Temporal recorded."""
    name = f" by {name_of(event.by)}" if event.by else ""
    return f"{name} ({_identity(event.identity)})" if event.identity else name


def _identity(identity: str) -> str:
    return f"identity {name_of(identity)}"


def name_of(name: str) -> str:
    """Return a name, in quotes if it could be read as more than a name."""
    return plain(name) if _PLAIN_NAME.fullmatch(name) else plain(json.dumps(name, ensure_ascii=False))


def _reason(event: AwaitAnsweredEvent | RunPausedEvent | RunResumedEvent) -> str:
    return f": {plain(event.text)}" if event.text else ""
