"""Stored histories: how they are read, and what the fold tells of them in short.

The short form leaves out times and payloads; whatever else of an event may go wrong stands in it.
"""

import json
from pathlib import Path

from temporalio.client import WorkflowHistory

from sojourn import Event, RunOutput, ToolError, ToolResult, ToolTelemetry, Usage, data_converter
from sojourn.core.history.fold import Fold
from sojourn.events import (
    AgentRunStartedEvent,
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    AwaitClarificationEvent,
    AwaitConfirmationEvent,
    AwaitExternalToolsEvent,
    LimitReachedEvent,
    RetriesStoppedEvent,
    RunCompletedEvent,
    ToolEndEvent,
    ToolResultReceivedEvent,
    ToolStartEvent,
    UsageEvent,
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
    """Each event in a line: its turn, its type, and what it is about."""
    return [
        " ".join(filter(None, [event.turn_id, event.type, *about(event)])) for event in await folded(history)
    ]


def about(event: Event) -> list[str]:
    """What an event is about: ids, codes, reasons, decisions and figures; texts where there is nothing else."""
    match event:
        case ToolEndEvent() | ToolResultReceivedEvent():
            return answered(event.result)
        case ToolStartEvent():
            return [event.tool_call_id, event.tool_name]
        case AgentRunStartedEvent():
            return [event.tool_call_id, event.run_link.run_id, event.run_link.agent_id]
        case AssistantMessageEvent():
            return [call.tool_call_id for call in event.message.tool_calls] or [event.message.text]
        case UsageEvent():
            return figures(event.usage)
        case LimitReachedEvent() | RetriesStoppedEvent():
            return [event.limit.reason]
        case RunCompletedEvent():
            return ended(event.output) if event.output else []
        case _:
            return waited(event) or said(event)


def waited(event: Event) -> list[str]:
    """What is waited for, or what became of it."""
    match event:
        case AwaitClarificationEvent():
            return [event.question.id, *event.question.missing_fields]
        case AwaitConfirmationEvent():
            return [event.confirmation.id, event.confirmation.tool]
        case AwaitExternalToolsEvent():
            return [event.external.id, *(item.tool_call_id for item in event.external.items)]
        case AwaitAnsweredEvent():
            decided = [] if event.approved is None else ["approved" if event.approved else "denied"]
            return [event.await_id, *decided, *said(event)]
        case _:
            return []


def said(event: Event) -> list[str]:
    """The code of an event, what was said with it, and who said it, as far as it has these."""
    error: ToolError | None = getattr(event, "error", None)
    code = codes(error) if error else getattr(event, "code", None)
    by = getattr(event, "by", None)
    texts = [getattr(event, "text", None), *getattr(event, "messages", [])]
    return [each for each in (code, *texts, by and f"by {by}") if each]


def answered(result: ToolResult) -> list[str]:
    """A call, its outcome, and what it says of a repair and of what was done."""
    hint = result.retry_hint
    return [
        result.tool_call_id,
        codes(result.error) if result.error else "ok",
        *([f"hint={hint.reason}", *(f"{one.field}:{one.constraint}" for one in hint.issues)] if hint else []),
        *([f"run={result.run_link.run_id}"] if result.run_link else []),
        *([f"calls={result.children_count}"] if result.children_count else []),
        *(figures(result.telemetry) if result.telemetry else []),
        *(f"artifact={one.kind}" for one in result.artifacts),
    ]


def ended(output: RunOutput) -> list[str]:
    """Why a run ended, and what it did."""
    return [
        output.reason,
        *([f"error={codes(output.error)}"] if output.error else []),
        f"calls={output.tool_calls}/{output.children_count}",
        f"rounds={output.rounds}",
        *figures(output.telemetry),
        *(f"used.{each}" for each in figures(output.usage)),
        *(f"artifact={one.kind}" for one in output.artifacts),
    ]


def figures(spent: ToolTelemetry | Usage) -> list[str]:
    """What was used, less what is nothing; times are no one's."""
    used = spent.model_dump(exclude={"duration_ms"})
    return [f"{name}={used[name]}" for name in _FIGURES if used.get(name)]


_FIGURES = ("attempts", "input_tokens", "output_tokens", "cached_tokens", "cost", "model")


def codes(error: ToolError) -> str:
    """The codes of a chain, outermost first."""
    return "<".join(link.code or "failed" for link in error.chain())
