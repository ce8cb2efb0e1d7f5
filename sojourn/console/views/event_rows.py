"""Rows of the list of events: when, which kind, and in a line what it says."""

from dataclasses import dataclass
from datetime import datetime

from sojourn.console.views.values import json_text, line_of
from sojourn.contracts.event import (
    AgentRunStartedEvent,
    AssistantMessageEvent,
    BaseEvent,
    Event,
    MessageReceivedEvent,
    RunStartedEvent,
    ToolEndEvent,
    ToolResultReceivedEvent,
    ToolStartEvent,
)
from sojourn.contracts.message import ToolCallPart
from sojourn.core.values.visible import one_line

__all__ = ["EventRow", "event_row", "event_text"]

_COMMON = set(BaseEvent.model_fields)


@dataclass(frozen=True, slots=True)
class EventRow:
    """A row."""

    event_id: str
    at: datetime
    type: str
    line: str
    call_id: str


def event_row(event: Event) -> EventRow:
    """The row of an event."""
    call_id = str(getattr(event, "tool_call_id", "") or "")
    name = str(getattr(event, "tool_name", "") or "")
    return EventRow(
        event.event_id, event.time, event.type, one_line(f"{name} {_said(event)}".strip(), 300), call_id
    )


def _said(event: Event) -> str:
    """What an event says, beside who, where and when."""
    if isinstance(event, RunStartedEvent | AssistantMessageEvent | MessageReceivedEvent):
        message = event.message
        if message is None or message.text:
            return message.text if message else ""
        return ", ".join(part.name for part in message.parts if isinstance(part, ToolCallPart))
    if isinstance(event, ToolStartEvent | AgentRunStartedEvent):
        return event.call.raw or line_of(event.call.payload, 160)
    if isinstance(event, ToolEndEvent | ToolResultReceivedEvent):
        return event.error.text if event.error else line_of(event.result.result, 160)
    fields = event.model_dump(mode="json", exclude=_COMMON, exclude_defaults=True)
    fields.pop("type", None)
    only = next(iter(fields.values())) if len(fields) == 1 else None
    return only if isinstance(only, str) else line_of(only if isinstance(only, dict) else fields, 160)


def event_text(event: Event) -> str:
    """All of an event, as JSON."""
    return json_text(event.model_dump(mode="json", exclude_defaults=True))
