"""Outcomes and usage of runs, and the last messages of conversations.

These are read from the ends of histories.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import WorkflowHistoryEventFilterType
from temporalio.service import RPCError

from sojourn.client.access import Access
from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.event import MessageReceivedEvent
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.wire_names import SEND
from sojourn.core.history.fold import Fold
from sojourn.core.history.record import HistoryRecord
from sojourn.events.history import HistoryReader
from sojourn.events.one_run import executions_before, present_execution, records_of

__all__ = ["Preview", "RunEnd", "Turns", "decode_preview", "read_end", "read_tail", "read_turns"]

EVENTS = 24
"""Last events of a history to read for a preview. A turn without calls has about as many."""

MAX_TEXT = 1_000
"""Most characters of a preview's text."""

MAX_BEFORE = 2
"""Most executions before the last one to read for a message, if the last one received none."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    output: RunOutput | None = None
    error: ToolError | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    at: datetime | None = None
    """Time of the last event."""
    text: str = ""
    is_agent: bool = False
    """Whether the agent wrote it."""


@dataclass(frozen=True, slots=True)
class Turns:
    ended: int
    queued: int
    """Messages that wait for their turn."""
    last: MessageReceivedEvent | None = None
    """The last message, or None if there was none, or none for long."""


async def read_end(client: Access, run_id: str) -> RunEnd:
    """Read how a run ended, from the last event of its history."""
    reader, end = HistoryReader(client.temporal.data_converter), RunEnd()
    history = client.temporal.get_workflow_handle(run_id).fetch_history_events(
        event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
    )
    try:
        async for event in history:
            if (record := await reader.record(event)) is not None:
                end = RunEnd(record.value if isinstance(record.value, RunOutput) else None, record.error)
    except RPCError as error:
        raise translate_error(error, run_id) from error
    return end


async def read_tail(client: Access, run_id: str) -> Sequence[HistoryEvent]:
    """Return the last events of a history in order, or none if the history is gone."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.temporal.namespace,
        execution=WorkflowExecution(workflow_id=run_id),
        maximum_page_size=EVENTS,
    )
    try:
        answer = await client.temporal.workflow_service.get_workflow_execution_history_reverse(request)
    except RPCError:
        return ()
    return list(answer.history.events)[::-1]


async def decode_preview(client: Access, events: Sequence[HistoryEvent]) -> Preview:
    reader = HistoryReader(client.temporal.data_converter)
    at = events[-1].event_time.ToDatetime(UTC)
    found = Preview(at)
    for event in events:
        record = await reader.record(event)
        text, is_agent = _message_in(record) if record else ("", False)
        if text:
            found = Preview(at, text[:MAX_TEXT], is_agent)
    return found


def _message_in(record: HistoryRecord) -> tuple[str, bool]:
    value = record.value
    if isinstance(value, PlanOutcome):
        final = value.final or value.message
        return (value.await_.summary if value.await_ else final.text if final else ""), True
    if record.kind == "sent" and record.name == SEND and isinstance(value, list) and value:
        sent = cast("list[Any]", value)[0]
        text = cast("dict[str, Any]", sent).get("text") if isinstance(sent, dict) else None
        return (text if isinstance(text, str) else ""), False
    return "", False


async def read_turns(client: Access, run_id: str) -> Turns:
    """Read a conversation's turns from its last execution, without querying a worker.

    This reads a whole execution, so no list refreshes it.
    """
    try:
        present = await present_execution(client.temporal, run_id)
        found = await _turns_since(client, run_id, present)
        if found.last is not None or not found.ended:
            return found
        for before in await executions_before(client.temporal, run_id, present, MAX_BEFORE):
            found = await _turns_since(client, run_id, before)
            if found.last is not None:
                break
        return found
    except RPCError as error:
        raise translate_error(error, run_id) from error


async def _turns_since(client: Access, run_id: str, execution: str) -> Turns:
    fold, last = Fold(run_id), None
    async for _, events in records_of(client.temporal, fold, execution, follow=False):
        last = next((each for each in reversed(events) if isinstance(each, MessageReceivedEvent)), last)
    status = fold.status()
    return Turns(status.turns, status.queued, last)
