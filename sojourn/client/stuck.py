"""Find out why a run is stuck.

A workflow task or a planner fails again and again, no worker polls for a task, or a call blocks its
worker's event loop. `describe` has the number of attempts. Of failed attempts of a workflow task
only the first is in the history.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from sojourn.client.access import Access
from sojourn.connection.rpc_errors import translate_error
from sojourn.events.history import HistoryReader
from sojourn.events.pending import BLOCKS_LOOP, heartbeat_note, is_plan, when

__all__ = ["ATTEMPTS", "MAX_CHECKED", "Stuck", "find_stuck", "stuck_of"]

ATTEMPTS = 3
"""Failed attempts after which a workflow task or a planner counts as stuck; a killed worker costs one."""

MAX_CHECKED = 500
"""Most open runs that a list of stuck runs checks, the newest first."""

AT_ONCE = 20
"""Most runs that are described at the same time."""

_LAST_EVENTS = 20
"""Events of the history that are searched for the failure, from the last."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """The reason why an open run does not make progress."""

    kind: Literal["task", "planner", "blocked", "unserved"]
    """`task`: its workflow task fails; `planner`: its planner; `blocked`: a call blocks its worker's event loop; `unserved`: no worker polls."""
    attempt: int
    """The number of the current attempt."""
    since: datetime | None
    """The start of the problem, or None if unknown."""
    reason: str
    """The reason that the history or the server gives; empty if they give none."""
    queue: str
    """The run's task queue."""


async def find_stuck(client: Access, run_ids: Sequence[str]) -> dict[str, Stuck]:
    """Return those of these open runs that are stuck, by run id."""
    gate = asyncio.Semaphore(AT_ONCE)
    asked: dict[str, asyncio.Task[bool]] = {}

    async def is_served(queue: str) -> bool:
        if queue not in asked:
            asked[queue] = asyncio.ensure_future(client.is_served(queue))
        return await asyncio.shield(asked[queue])

    async def look(run_id: str) -> Stuck | None:
        async with gate:
            return await _look(client, run_id, is_served)

    found = await asyncio.gather(*(look(run_id) for run_id in run_ids))
    return {run_id: stuck for run_id, stuck in zip(run_ids, found, strict=True) if stuck}


async def _look(client: Access, run_id: str, is_served: Callable[[str], Awaitable[bool]]) -> Stuck | None:
    try:
        described = await client.temporal.get_workflow_handle(run_id).describe()
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None  # visibility lags: the run is already deleted
        raise translate_error(error, run_id) from error
    return await stuck_of(client, described, is_served)


async def stuck_of(
    client: Access,
    described: WorkflowExecutionDescription,
    is_served: Callable[[str], Awaitable[bool]] | None = None,
) -> Stuck | None:
    """Return why an open run does not make progress, or None if it does."""
    try:
        raw, queue = described.raw_description, described.task_queue
        task = raw.pending_workflow_task
        if raw.HasField("pending_workflow_task") and task.attempt >= ATTEMPTS:
            reason = await _reason(client, described.id)
            return Stuck("task", task.attempt, _moment(task.original_scheduled_time), reason, queue)
        for pending in raw.pending_activities:
            note = await heartbeat_note(pending, client.temporal.data_converter)
            if is_plan(pending) and pending.attempt > ATTEMPTS and pending.HasField("last_failure"):
                failure = await HistoryReader(client.temporal.data_converter).error_of(pending.last_failure)
                reason = f"{failure}; attempt {pending.attempt} {when(pending)}"
                since = _moment(pending.last_attempt_complete_time)
                return Stuck("planner", pending.attempt, since, reason, queue)
            if note.get(BLOCKS_LOOP) is True:
                call = f"call {pending.activity_id} {note['note']}"
                return Stuck("blocked", pending.attempt, _moment(pending.last_started_time), call, queue)
        waits = (
            [(task.attempt, task.original_scheduled_time)] if raw.HasField("pending_workflow_task") else []
        )
        waits += [
            (each.attempt, each.scheduled_time) for each in raw.pending_activities if _is_scheduled(each)
        ]
        if not waits or await (is_served or client.is_served)(queue):
            return None
        attempt, since = waits[0]
        return Stuck("unserved", attempt, _moment(since), f"no worker polls task queue {queue}", queue)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise translate_error(error, described.id) from error


def _moment(since: Timestamp) -> datetime | None:
    return since.ToDatetime(UTC) if since.seconds else None


def _is_scheduled(pending: PendingActivityInfo) -> bool:
    return pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED


async def _reason(client: Access, run_id: str) -> str:
    answer = await client.temporal.workflow_service.get_workflow_execution_history_reverse(
        GetWorkflowExecutionHistoryReverseRequest(
            namespace=client.temporal.namespace,
            execution=WorkflowExecution(workflow_id=run_id),
            maximum_page_size=_LAST_EVENTS,
        )
    )
    for event in answer.history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            failure = event.workflow_task_failed_event_attributes.failure
            return (await HistoryReader(client.temporal.data_converter).error_of(failure)).message
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
            return "no worker finished the workflow task in time"
    return ""
