"""Which open runs are stuck: a workflow task that fails again and again, until code or server are mended.

`describe` counts the attempts; why the first failed is in the history, and the later ones leave no event.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.service import RPCError, RPCStatusCode

from sojourn.client import Client
from sojourn.rpc_errors import translated

__all__ = ["ATTEMPTS", "Stuck", "stuck_runs"]

ATTEMPTS = 3
"""Attempts from which a workflow task counts as failing again and again; a killed worker costs one."""

AT_ONCE = 20
"""Runs that are asked about at a time."""

_LAST = 20

Stuck = dict[str, Any]
"""`attempt`, `since` (aware datetime or None) and `reason` (a text, empty where the history does not tell)."""


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
        if not raw.HasField("pending_workflow_task") or task.attempt < ATTEMPTS:
            return None
        since = task.original_scheduled_time
        return {
            "attempt": task.attempt,
            "since": since.ToDatetime(UTC) if since.seconds else None,
            "reason": await _reason(client, run_id),
        }
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None  # visibility told of it too late
        raise translated(error, run_id) from error


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
            return event.workflow_task_failed_event_attributes.failure.message
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT:
            return "no worker finished it in time"
    return ""
