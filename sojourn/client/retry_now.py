"""End the backoff of a run's activities, so that the next attempts begin at once.

Temporal has no request that only ends a backoff. One that resets an activity makes its next attempt the first one, and
an attempt that takes itself for the first repeats a call that must not be repeated. An activity that is paused and
resumed keeps its number of attempts, and begins at once. So each one is paused for the time between two requests.

No request ends the backoff of a workflow task, which has failed in the workflow's code: Temporal repeats it by itself.
"""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta

import temporalio.client
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import PauseActivityRequest, UnpauseActivityRequest
from temporalio.service import RPCError, RPCStatusCode

from sojourn.connection.rpc_errors import translate_error
from sojourn.errors import InvalidInput

__all__ = ["retry_now"]

LEAST = timedelta(seconds=1)
"""Shortest rest of a backoff that is ended. An attempt that begins in between would be paused while it runs."""

REASON = "sojourn retries it now"
"""The reason of a pause. The next request resumes an activity if the process that paused it was lost."""


async def retry_now(client: temporalio.client.Client, run_id: str) -> list[str]:
    """Begin the attempts that wait, and return the ids of their activities.

    Raises:
        InvalidInput: This Temporal server cannot pause an activity.
        RunNotFound: There is no such run.
    """
    try:
        described = await client.get_workflow_handle(run_id).describe()
        now = datetime.now(UTC)
        pending = described.raw_description.pending_activities
        waiting = [each for each in pending if _waits(each, now) or _is_paused_here(each)]
        execution = WorkflowExecution(workflow_id=described.id, run_id=described.run_id)
        done = await asyncio.gather(*(asyncio.shield(_retry(client, execution, each)) for each in waiting))
    except RPCError as error:
        if error.status == RPCStatusCode.UNIMPLEMENTED:
            raise InvalidInput(
                "this Temporal server cannot end a backoff: that needs version 1.28 or newer", run_id=run_id
            ) from error
        raise translate_error(error, run_id) from error
    return [each.activity_id for each, is_done in zip(waiting, done, strict=True) if is_done]


def _waits(pending: PendingActivityInfo, now: datetime) -> bool:
    is_between = (
        pending.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED and pending.attempt > 1
    )
    due = pending.next_attempt_schedule_time
    return is_between and bool(due.seconds) and due.ToDatetime(UTC) - now > LEAST


def _is_paused_here(pending: PendingActivityInfo) -> bool:
    return pending.paused and pending.pause_info.manual.reason == REASON


async def _retry(
    client: temporalio.client.Client, execution: WorkflowExecution, pending: PendingActivityInfo
) -> bool:
    """Pause and resume an activity. Return False if it has ended meanwhile."""
    pause = PauseActivityRequest(
        namespace=client.namespace,
        execution=execution,
        identity=client.identity,
        id=pending.activity_id,
        reason=REASON,
        request_id=str(uuid.uuid4()),
    )
    resume = UnpauseActivityRequest(
        namespace=client.namespace, execution=execution, identity=client.identity, id=pending.activity_id
    )
    try:
        if not pending.paused:
            await client.workflow_service.pause_activity(pause, retry=True)
        await client.workflow_service.unpause_activity(resume, retry=True)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return False
        raise
    return True
