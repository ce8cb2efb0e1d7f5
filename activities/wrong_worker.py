"""Wrong worker: a task that reached a worker without its agent goes to one that has it.

During a deploy that adds an agent, or where two apps share a task queue, only some of a queue's workers serve an
agent. The worker without it fails the attempt so that Temporal makes another one, which another worker may get, and
has the run's next workflow task offered to all workers: those that start eagerly would come here again.
"""

import asyncio
from datetime import timedelta

from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetStickyTaskQueueRequest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from sojourn.connection.announced import announced
from sojourn.contracts.dispatch import WRONG_WORKER

__all__ = ["leave", "pass_on"]

PAUSE = timedelta(milliseconds=100)
"""Before the attempt fails, and again before the next one: this worker might get that one too."""


async def pass_on(agent_id: str) -> list[str]:
    """Return the other task queues whose workers serve an agent that this worker lacks.

    Raises:
        ApplicationError: `WRONG_WORKER`: another worker of this activity's own task queue serves the agent.
    """
    info = activity.info()
    try:
        client = activity.client()
        serving = [worker.task_queue for worker in await announced(client) if agent_id in worker.agents]
    except (RPCError, RuntimeError):
        return []  # the server does not answer; or no server knows this activity
    if info.task_queue not in serving:
        return sorted({*serving})
    await leave(client, info)
    await asyncio.sleep(PAUSE.total_seconds())
    raise ApplicationError(
        f"no agent {agent_id!r} on this worker; another worker of task queue {info.task_queue} serves it",
        type=WRONG_WORKER,
        next_retry_delay=PAUSE,
        non_retryable=info.is_local,
    )


async def leave(client: Client, info: activity.Info) -> None:
    """Have the run's next workflow task offered to all workers of its queue."""
    execution = WorkflowExecution(workflow_id=info.workflow_id or "", run_id=info.workflow_run_id or "")
    request = ResetStickyTaskQueueRequest(namespace=client.namespace, execution=execution)
    try:
        await client.workflow_service.reset_sticky_task_queue(request)
    except RPCError:
        return  # the next attempt tries again
