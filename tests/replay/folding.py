"""Stored histories: reading them, and their events in a short form.

The short form leaves out times and payloads, and has all else of an event that may be wrong.
"""

import json
from functools import cache
from pathlib import Path

from temporalio.client import WorkflowHistory

from sojourn import RunOutput, ToolError, ToolResult, Usage, data_converter
from sojourn.contracts import ToolTelemetry
from sojourn.core.history.fold import Fold
from sojourn.events import (
    AgentRunStartedEvent,
    ApprovalEscalatedEvent,
    ApprovalGivenEvent,
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    AwaitClarificationEvent,
    AwaitConfirmationEvent,
    AwaitExternalToolsEvent,
    Event,
    LimitReachedEvent,
    RetriesStoppedEvent,
    RunCompletedEvent,
    ToolEndEvent,
    ToolResultReceivedEvent,
    ToolStartEvent,
    UsageEvent,
)
from sojourn.events.history import HistoryReader

__all__ = ["event_lines", "folded", "lines_of", "load"]


@cache
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


async def event_lines(history: WorkflowHistory) -> list[str]:
    """The lines of a history's events."""
    return lines_of(await folded(history))


def lines_of(events: list[Event]) -> list[str]:
    """One line for each event: its turn, its type and its short form."""
    return [" ".join(filter(None, [event.turn_id, event.type, *about(event)])) for event in events]


def about(event: Event) -> list[str]:
    """The short form of an event: ids, codes, reasons, decisions and figures; texts where there is nothing else."""
    match event:
        case ToolEndEvent() | ToolResultReceivedEvent():
            return result_of(event.result)
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
            return output_of(event.output) if event.output else []
        case _:
            return wait_of(event) or texts_of(event)


def wait_of(event: Event) -> list[str]:
    """The short form of a wait, or of its answer; empty for other events."""
    match event:
        case AwaitClarificationEvent():
            return [event.question.id, *event.question.missing_fields]
        case AwaitConfirmationEvent():
            return [event.confirmation.id, event.confirmation.tool]
        case AwaitExternalToolsEvent():
            return [event.external.id, *(item.tool_call_id for item in event.external.items)]
        case AwaitAnsweredEvent():
            decided = [] if event.approved is None else ["approved" if event.approved else "denied"]
            return [event.await_id, *decided, *texts_of(event)]
        case ApprovalGivenEvent(confirmation=call):
            return [event.await_id, f"{len(call.given)} of {call.approvals_needed}", call.given[-1].name]
        case ApprovalEscalatedEvent(confirmation=call):
            return [event.await_id, *call.escalate_to]
        case _:
            return []


def texts_of(event: Event) -> list[str]:
    """The code, the texts and the author of an event, as far as it has these."""
    error: ToolError | None = getattr(event, "error", None)
    code = codes(error) if error else getattr(event, "code", None)
    by = getattr(event, "by", None)
    texts = [getattr(event, "text", None), *getattr(event, "messages", [])]
    return [each for each in (code, *texts, by and f"by {by}") if each]


def result_of(result: ToolResult) -> list[str]:
    """The short form of a result: call, error codes, hint, child run, figures and artifacts."""
    hint = result.retry_hint
    return [
        result.tool_call_id,
        codes(result.error) if result.error else "ok",
        *(
            [f"hint={hint.reason}", *(f"{issue.field}:{issue.constraint}" for issue in hint.issues)]
            if hint
            else []
        ),
        *([f"run={result.run_link.run_id}"] if result.run_link else []),
        *([f"calls={result.children_count}"] if result.children_count else []),
        *(figures(result.telemetry) if result.telemetry else []),
        *(f"artifact={artifact.kind}" for artifact in result.artifacts),
    ]


def output_of(output: RunOutput) -> list[str]:
    """The short form of a run's output: its reason, error, counts, figures and artifacts."""
    return [
        output.reason,
        *([f"error={codes(output.error)}"] if output.error else []),
        f"calls={output.tool_calls}/{output.children_count}",
        f"rounds={output.rounds}",
        *figures(output.telemetry),
        *(f"used.{each}" for each in figures(output.usage)),
        *(f"artifact={artifact.kind}" for artifact in output.artifacts),
    ]


def figures(spent: ToolTelemetry | Usage) -> list[str]:
    """The figures that are not zero, without durations, which differ in each recording."""
    used = spent.model_dump(exclude={"duration_ms"})
    return [f"{name}={used[name]}" for name in _FIGURES if used.get(name)]


_FIGURES = ("attempts", "input_tokens", "output_tokens", "cached_tokens", "cost", "model")


def codes(error: ToolError) -> str:
    """The codes of a chain, outermost first."""
    return "<".join(link.code or "failed" for link in error.chain())
