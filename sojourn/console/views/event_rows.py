"""Rows of the list of events, with a buffer of the newest ones for open pages."""

from collections import deque
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
from sojourn.contracts.ids import place_of
from sojourn.contracts.message import ToolCallPart
from sojourn.values.visible import one_line

__all__ = ["MOST_ROWS", "EventRow", "LatestRows", "event_row", "event_text"]

MOST_ROWS = 600
"""Most rows that are added to an open page."""

_COMMON = set(BaseEvent.model_fields)


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event in the list, as one line of text."""

    event_id: str
    at: datetime
    type: str
    line: str
    call_id: str


def event_row(event: Event) -> EventRow:
    """Return what the list of events shows of an event."""
    call_id = str(getattr(event, "tool_call_id", "") or "")
    name = str(getattr(event, "tool_name", "") or "")
    return EventRow(
        event.event_id, event.time, event.type, one_line(f"{name} {_said(event)}".strip(), 300), call_id
    )


def _said(event: Event) -> str:
    """Return an event's content in one line, without its actor, place and time."""
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
    """Return all of an event, as JSON."""
    return json_text(event.model_dump(mode="json", exclude_defaults=True))


class LatestRows:
    """Buffer of the newest rows of a run's events.

    Args:
        begin: The last event before the first row, or empty if there is none.
        most: Most rows in the buffer.
    """

    def __init__(self, begin: str = "", most: int = MOST_ROWS) -> None:
        self._begin = begin
        self._since = -1
        self._most = most
        self._rows: deque[tuple[int, EventRow]] = deque()

    def add(self, row: EventRow, version: int) -> None:
        """Add the next row.

        Args:
            row: The row.
            version: The version of the watched run when the event came.
        """
        self._rows.append((version, row))
        if len(self._rows) > self._most:
            self._since, gone = self._rows.popleft()
            self._begin = gone.event_id

    def since(self, version: int) -> list[EventRow] | None:
        """Return the rows added after a version.

        Return None if the buffer has dropped some of them.
        """
        if version < self._since:
            return None
        return [row for came, row in self._rows if came > version]

    def after(self, event_id: str) -> list[EventRow] | None:
        """Return the rows after an event.

        Return None if the buffer has dropped some of them, or does not reach back to the event.
        """
        place = place_of(event_id)
        if place < place_of(self._begin):
            return None
        return [row for _, row in self._rows if place_of(row.event_id) > place]
