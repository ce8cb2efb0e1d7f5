"""Steps of a run in a line each: what somebody said, which call began and how it ended, who answered what."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.event import (
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    AwaitClarificationEvent,
    Event,
    MessageReceivedEvent,
    PlannerNoteEvent,
    RunPausedEvent,
    RunResumedEvent,
    RunStartedEvent,
    ToolEndEvent,
    ToolStartEvent,
)
from sojourn.core.values.visible import one_line

__all__ = ["Step", "step_of", "verdict_of"]

MAX_TEXT = 600


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a run."""

    kind: str
    """`user` `agent` `call` `result` `fault` `answer` or `note`; its shape in a page goes by the same name."""
    who: str
    """Who, or which tool."""
    text: str
    at: datetime
    event_id: str


def step_of(event: Event, calls: Mapping[str, AwaitConfirmation]) -> Step | None:
    """The step that an event tells of; None for one that is not worth a line.

    Args:
        event: The event.
        calls: By wait, the calls that somebody was asked about.
    """
    told = _told(event, calls)
    if told is None:
        return None
    kind, who, text = told
    return Step(kind, one_line(who, 80), one_line(text, MAX_TEXT), event.time, event.event_id or "")


def _told(event: Event, calls: Mapping[str, AwaitConfirmation]) -> tuple[str, str, str] | None:
    match event:
        case RunStartedEvent(message=message) if message:
            return "user", "Asked", message.text
        case MessageReceivedEvent(message=message, by=by):
            return "user", by or "User", message.text
        case AssistantMessageEvent(message=message) if message.text:
            return "agent", "Agent", message.text
        case AwaitClarificationEvent(question=question):
            return "agent", "Asked", question.question
        case ToolStartEvent(call=call):
            return "call", call.name, _json(call.payload) if call.raw is None else call.raw
        case ToolEndEvent(result=result):
            failed = result.error is not None
            return (
                "fault" if failed else "result",
                result.name,
                str(result.error) if failed else _json(result.result),
            )
        case AwaitAnsweredEvent():
            return (
                "answer",
                event.by or event.identity or "Nobody",
                _decision(event, calls.get(event.await_id)),
            )
        case _:
            return _beside(event)


def _beside(event: Event) -> tuple[str, str, str] | None:
    match event:
        case RunPausedEvent(by=by, text=text):
            return "note", by or "Somebody", f"paused the run{f': {text}' if text else ''}"
        case RunResumedEvent(by=by, text=text):
            return "note", by or "Somebody", f"resumed the run{f': {text}' if text else ''}"
        case PlannerNoteEvent(text=text):
            return "note", "Note", text
        case _:
            return None


def _decision(event: AwaitAnsweredEvent, call: AwaitConfirmation | None) -> str:
    said = ": ".join(filter(None, (verdict_of(event).lower(), event.text or "")))
    return f"{said} ({call.tool})" if call else said


def verdict_of(event: AwaitAnsweredEvent) -> str:
    """How a wait ended, in a word."""
    if event.code == "expired":
        return "Expired"
    if event.code == "declined":
        return "Declined"
    if event.approved is not None:
        return "Approved" if event.approved else "Denied"
    return "Answered" if event.code is None else event.code.replace("_", " ").capitalize()


def _json(value: Any) -> str:
    if isinstance(value, str):
        return value[:10_000]
    try:
        return json.dumps(value, ensure_ascii=False, default=str)[:10_000]
    except ValueError:  # an integer with more digits than Python formats
        return hex(value) if isinstance(value, int) else "…"
