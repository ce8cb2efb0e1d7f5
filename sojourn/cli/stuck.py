"""Which open runs are stuck: a workflow task fails again and again, nobody takes it, or a call blocks its worker.

`describe` counts the attempts; why the first failed is in the history, and the later ones leave no event.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.service import RPCError, RPCStatusCode

from sojourn.authoring.progress import BLOCKS_LOOP
from sojourn.cli.options import given_again
from sojourn.client.client import Client
from sojourn.connection.rpc_errors import translated
from sojourn.events.history import HistoryReader
from sojourn.events.pending import heartbeat_note

__all__ = ["ATTEMPTS", "Stuck", "stuck_runs"]

ATTEMPTS = 3
"""Attempts from which a workflow task counts as failing again and again; a killed worker costs one."""

AT_ONCE = 20
"""Runs that are asked about at a time."""

_LAST = 20

_MEND = "fix the error in the worker's log, and deploy the fix; or end the run: temporal workflow terminate --workflow-id {run}"
_UNBLOCK = "make the tool await, or make it a plain function: it then runs in a thread"
_SERVE = "sojourn worker MODULE:APP --task-queue {queue}"

Stuck = dict[str, Any]
"""`attempt`, `since` (aware datetime or None), `reason` (a text, empty where the history does not tell) and `next`."""


async def stuck_runs(client: Client, run_ids: Sequence[str]) -> dict[str, Stuck]:
    """Those of these open runs that are stuck, with why.

    Raises:
        ServerUnavailable: the server does not answer.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def look(run_id: str) -> Stuck | None:
        async with gate:
            return await _look(client, run_id)

    found = await asyncio.gather(*(look(run_id) for run_id in run_ids))
    return {run_id: stuck for run_id, stuck in zip(run_ids, found, strict=True) if stuck}


async def _look(client: Client, run_id: str) -> Stuck | None:
    try:
        described = await client.temporal.get_workflow_handle(run_id).describe()
        raw = described.raw_description
        task = raw.pending_workflow_task
        if raw.HasField("pending_workflow_task") and task.attempt >= ATTEMPTS:
            since, reason = task.original_scheduled_time, await _reason(client, run_id)
            return _told(task.attempt, since, reason, _MEND.format(run=run_id))
        for one in raw.pending_activities:
            said = await heartbeat_note(one, client.temporal.data_converter)
            if said.get(BLOCKS_LOOP) is True:
                call = f"call {one.activity_id} {said['note']}"
                return _told(one.attempt, one.last_started_time, call, _UNBLOCK)
        waits = (
            [(task.attempt, task.original_scheduled_time)] if raw.HasField("pending_workflow_task") else []
        )
        waits += [(one.attempt, one.scheduled_time) for one in raw.pending_activities if _is_scheduled(one)]
        queue = described.task_queue
        if not waits or await client.has_worker(queue):
            return None
        return _told(
            *waits[0], f"no worker polls task queue {queue}", _SERVE.format(queue=queue) + given_again()
        )
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None  # visibility told of it too late
        raise translated(error, run_id) from error


def _told(attempt: int, since: Timestamp, reason: str, mend: str) -> Stuck:
    began = since.ToDatetime(UTC) if since.seconds else None
    return {"attempt": attempt, "since": began, "reason": reason, "next": mend}


def _is_scheduled(pending: PendingActivityInfo) -> bool:
    return pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED


async def _reason(client: Client, run_id: str) -> str:
    """What the newest workflow task failure in the history says."""
    answer = await client.temporal.workflow_service.get_workflow_execution_history_reverse(
        GetWorkflowExecutionHistoryReverseRequest(
            namespace=client.temporal.namespace,
            execution=WorkflowExecution(workflow_id=run_id),
            maximum_page_size=_LAST,
        )
    )
    for event in answer.history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            failure = event.workflow_task_failed_event_attributes.failure
            return (await HistoryReader(client.temporal.data_converter).error_of(failure)).message
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
            return "no worker finished the workflow task in time"
    return ""
