"""A task queue: who polls it for workflows and for activities, in which versions, and which of its runs are stuck."""

import time
from collections.abc import Sequence
from itertools import islice

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, ListWorkersRequest
from temporalio.client import Client as Connection
from temporalio.service import RPCError

import sojourn
from sojourn.cli.checks import Check
from sojourn.cli.options import given_again
from sojourn.cli.screen.text import plain
from sojourn.cli.stuck import stuck_runs
from sojourn.client.access import POLLER_SEEN
from sojourn.client.client import Client, quoted

__all__ = ["check_queue", "check_runs"]

LOOKED_AT = 100
"""Open runs that are asked about, the newest."""

_SHOWN = 5
_SHOWN_RUNS = 3


async def check_queue(client: Connection, queue: str, *, activities_only: bool = False) -> Check:
    """Whether somebody polls it, and who.

    Args:
        client: Connected.
        queue: The task queue.
        activities_only: Whether only tools are served there.
    """
    name = f"workers on {queue}"
    for_activities = await _pollers(client, queue, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
    for_runs = (
        for_activities
        if activities_only
        else await _pollers(client, queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW)
    )
    missing = [what for what, pollers in (("runs", for_runs), ("calls", for_activities)) if not pollers]
    if missing:
        return Check(
            name,
            False,
            f"no worker polls it for {' and '.join(missing)}",
            f"sojourn worker MODULE:APP --task-queue {queue}{given_again()}",
        )
    versions = await _sdk_versions(client, queue)
    told = [_line(poller, versions) for poller in for_runs]
    more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    return Check(name, True, f"{len(told)}: {'; '.join(told[:_SHOWN])}{more}")


async def check_runs(client: Client) -> Check:
    """Whether the newest open runs go on, or wait for somebody; visibility tells of them about a second late."""
    name = f"runs on {client.task_queue}"
    query = f"WorkflowType = 'AgentRun' AND ExecutionStatus = 'Running' AND TaskQueue = {quoted(client.task_queue)}"
    try:
        runs = [run.id async for run in client.temporal.list_workflows(query, limit=LOOKED_AT)]
    except RPCError as error:
        return Check(name, None, f"could not be checked: {plain(error.message)}")
    stuck = await stuck_runs(client, runs)
    newest = f"the newest {LOOKED_AT} open" if len(runs) == LOOKED_AT else f"{len(runs)} open"
    if not stuck:
        return Check(name, True, f"{newest}, none is stuck")
    told = [
        f"{plain(run_id)} ({plain(why['reason'], 300)})" for run_id, why in islice(stuck.items(), _SHOWN_RUNS)
    ]
    more = f" and {len(stuck) - _SHOWN_RUNS} more" if len(stuck) > _SHOWN_RUNS else ""
    return Check(
        name, False, f"{newest}, {len(stuck)} stuck: {'; '.join(told)}{more}", "sojourn list --stuck"
    )


async def _pollers(client: Connection, queue: str, kind: "TaskQueueType.ValueType") -> Sequence[PollerInfo]:
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
    )
    oldest = time.time() - POLLER_SEEN.total_seconds()
    return [poller for poller in answer.pollers if poller.last_access_time.seconds >= oldest]


async def _sdk_versions(client: Connection, queue: str) -> dict[str, str]:
    """The SDK of each worker by its identity, where the server knows of workers."""
    try:
        answer = await client.workflow_service.list_workers(ListWorkersRequest(namespace=client.namespace))
    except RPCError:
        return {}
    return {
        worker.worker_identity: f"{worker.sdk_name} {worker.sdk_version}"
        for worker in answer.workers
        if worker.task_queue == queue
    }


def _line(poller: PollerInfo, versions: dict[str, str]) -> str:
    build = poller.worker_version_capabilities.build_id or poller.deployment_options.build_id
    differs = f", here it is {sojourn.__version__}" if build and build != sojourn.__version__ else ""
    parts = [f"sojourn {plain(build)}{differs}" if build else "", plain(versions.get(poller.identity, ""))]
    said = ", ".join(part for part in parts if part)
    return f"{plain(poller.identity)}{f' ({said})' if said else ''}"
