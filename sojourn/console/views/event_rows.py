"""Rows of the list of events: when, which kind, and in a line what it says."""

from dataclasses import dataclass
from datetime import datetime

from sojourn.console.views.text import one_line
from sojourn.console.views.values import json_text, line_of
from sojourn.contracts.event import BaseEvent, Event

__all__ = ["EventRow", "event_row", "event_text"]

_COMMON = set(BaseEvent.model_fields) | {"type"}


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
    fields = event.model_dump(mode="json", exclude=_COMMON, exclude_defaults=True)
    only = next(iter(fields.values())) if len(fields) == 1 else None
    line = line_of(only if isinstance(only, dict) else fields, 160)
    return EventRow(event.event_id, event.time, event.type, one_line(f"{name} {line}".strip(), 300), call_id)


def event_text(event: Event) -> str:
    """All of an event, as JSON."""
    return json_text(event.model_dump(mode="json", exclude_defaults=True))
