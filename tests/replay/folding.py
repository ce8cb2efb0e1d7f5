"""Stored histories: how they are read, and what the fold tells of them in short."""

import json
from pathlib import Path

from temporalio.client import WorkflowHistory

from sojourn import Event, data_converter
from sojourn.core.history.fold import Fold
from sojourn.events import (
    AgentRunStartedEvent,
    AwaitClarificationEvent,
    LimitReachedEvent,
    RetriesStoppedEvent,
    RunCompletedEvent,
    ToolEndEvent,
    ToolResultReceivedEvent,
    ToolStartEvent,
)
from sojourn.events.history import HistoryReader

__all__ = ["folded", "load", "told_by"]


def load(path: Path) -> WorkflowHistory:
    """A stored history; its first event names the run."""
    stored = json.loads(path.read_text())
    run_id = stored["events"][0]["workflowExecutionStartedEventAttributes"]["workflowId"]
    return WorkflowHistory.from_json(run_id, stored)


async def folded(history: WorkflowHistory) -> list[Event]:
    """The events of a history."""
    reader, fold = HistoryReader(data_converter), Fold(history.workflow_id)
    records = [await reader.record(event) for event in history.events]
    return [event for record in records if record for event in fold.feed(record)]


async def told_by(history: WorkflowHistory) -> list[str]:
    """Each event in a few words: its type, and the call, question, limit or reason it is about."""
    return [
        f"{event.type} {subject}".rstrip() for event in await folded(history) for subject in [about(event)]
    ]


def about(event: Event) -> str:
    """What an event is about."""
    match event:
        case ToolEndEvent() | ToolResultReceivedEvent():
            return f"{event.tool_call_id} {event.error.code or 'failed' if event.error else 'ok'}"
        case ToolStartEvent() | AgentRunStartedEvent():
            return event.tool_call_id
        case AwaitClarificationEvent():
            return event.question.id
        case LimitReachedEvent() | RetriesStoppedEvent():
            return event.limit.reason
        case RunCompletedEvent():
            return event.output.reason if event.output else ""
        case _:
            said = [getattr(event, name, None) for name in ("await_id", "code", "text")]
            return next((each for each in said if each), "")
