"""Stored histories: how they are read, and what the fold tells of them in short."""

import json
from pathlib import Path

from temporalio.client import WorkflowHistory

from sojourn import Event, data_converter
from sojourn.core.fold import Fold
from sojourn.events import HistoryReader

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
    if event.result:
        error = event.result.error
        return f"{event.result.tool_call_id} {error.code or 'failed' if error else 'ok'}"
    if event.call:
        return event.call.tool_call_id
    if event.question:
        return event.question.id
    if event.limit:
        return event.limit.reason
    return event.await_id or event.code or event.text or (event.output.reason if event.output else "")
