"""Check the pollers of a task queue, their versions, and its stuck runs.

Pollers for workflows and for activities are checked separately.
"""

import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, ListWorkersRequest
from temporalio.client import Client as Connection
from temporalio.service import RPCError

import sojourn
from sojourn.checks import Check
from sojourn.checks.given import connection_options
from sojourn.checks.stuck import stuck_runs
from sojourn.client.client import Client
from sojourn.client.listing import quoted
from sojourn.connection.announced import POLLER_SEEN
from sojourn.search_attributes import AGENT
from sojourn.values.visible import plain, shell_word

__all__ = ["check_elsewhere", "check_queue", "check_runs", "pollers"]

LOOKED_AT = 100
"""Most open runs that are checked, the newest first."""

_SHOWN = 5
_PAGES = 20
_SHOWN_RUNS = 3


async def check_queue(client: Connection, queue: str, *, activities_only: bool = False) -> Check:
    """Check that workers poll a task queue, and list them with their versions.

    Args:
        client: The connection.
        queue: The task queue.
        activities_only: Whether only tools are served there, so that a poller for workflows is not required.
    """
    name = f"workers on {queue}"
    for_activities = await pollers(client, queue, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
    for_runs = (
        for_activities
        if activities_only
        else await pollers(client, queue, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW)
    )
    missing = [what for what, pollers in (("runs", for_runs), ("calls", for_activities)) if not pollers]
    if missing:
        return Check(
            name,
            False,
            f"no worker polls it for {' and '.join(missing)}",
            f"sojourn worker MODULE:APP --task-queue {shell_word(queue)}{connection_options()}",
        )
    versions = await _sdk_versions(client, queue)
    lines = [_line(poller, versions) for poller in for_runs]
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return Check(name, True, f"{len(lines)}: {'; '.join(lines[:_SHOWN])}{more}")


async def check_runs(client: Client, queue: str) -> Check:
    """Check that none of the newest open runs of a task queue is stuck.

    Visibility lags by about a second.
    """
    name = f"runs on {queue}"
    query = f"WorkflowType = 'AgentRun' AND ExecutionStatus = 'Running' AND TaskQueue = {quoted(queue)}"
    try:
        runs = [run.id async for run in client.temporal.list_workflows(query, limit=LOOKED_AT)]
    except RPCError as error:
        return Check(name, None, f"could not be checked: {plain(error.message)}")
    stuck = await stuck_runs(client, runs)
    newest = f"the newest {LOOKED_AT} open" if len(runs) == LOOKED_AT else f"{len(runs)} open"
    if not stuck:
        return Check(name, True, f"{newest}, none is stuck")
    lines = [
        f"{plain(run_id)} ({plain(why['reason'], 300)})" for run_id, why in islice(stuck.items(), _SHOWN_RUNS)
    ]
    more = f" and {len(stuck) - _SHOWN_RUNS} more" if len(stuck) > _SHOWN_RUNS else ""
    return Check(
        name, False, f"{newest}, {len(stuck)} stuck: {'; '.join(lines)}{more}", "sojourn list --stuck"
    )


async def check_elsewhere(client: Client, known: Sequence[str], agents: Sequence[str]) -> Check:
    """Check that open runs on other task queues have workers.

    Such runs exist after an app was renamed, for example. Only the newest open runs are checked.

    Args:
        client: The client.
        known: The task queues that have checks of their own.
        agents: Only runs of these agents. Empty means all agents.
    """
    name = "runs on other task queues"
    query = "WorkflowType = 'AgentRun' AND ExecutionStatus = 'Running'"
    if agents:
        query += f" AND {AGENT.name} IN ({', '.join(map(quoted, agents))})"
    try:
        queues = Counter(
            [run.task_queue async for run in client.temporal.list_workflows(query, limit=LOOKED_AT)]
        )
    except RPCError as error:
        return Check(name, None, f"could not be checked: {plain(error.message)}")
    others = sorted(queue for queue in queues if queue not in known)
    unserved = [queue for queue in others if not await client.is_served(queue)]
    if not unserved:
        return Check(name, True, "all open ones have workers" if others else "none is open")
    shown = ", ".join(f"{plain(queue)} ({queues[queue]} open)" for queue in unserved[:_SHOWN])
    more = f" and {len(unserved) - _SHOWN} more" if len(unserved) > _SHOWN else ""
    return Check(
        name,
        False,
        f"no worker polls the task queue of open runs: {shown}{more}",
        f"an app that was renamed needs a worker on its old queue too, until its runs have ended: sojourn worker MODULE:APP "
        f"--task-queue {shell_word(unserved[0])}{connection_options()}",
    )


async def pollers(client: Connection, queue: str, kind: "TaskQueueType.ValueType") -> Sequence[PollerInfo]:
    """Return the pollers of a task queue within the last 75 s.

    Args:
        client: The connection.
        queue: The task queue.
        kind: Whether for workflows or for activities.

    Raises:
        RPCError: The server does not answer.
    """
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
    )
    oldest = time.time() - POLLER_SEEN
    return [poller for poller in answer.pollers if poller.last_access_time.seconds >= oldest]


async def _sdk_versions(client: Connection, queue: str) -> dict[str, str]:
    """Return the SDK's name and version by worker identity.

    Empty if the server cannot list workers.
    """
    versions: dict[str, str] = {}
    request = ListWorkersRequest(namespace=client.namespace)
    for _ in range(_PAGES):
        try:
            answer = await client.workflow_service.list_workers(request)
        except RPCError:
            break
        versions |= {
            worker.worker_identity: f"{worker.sdk_name} {worker.sdk_version}"
            for worker in answer.workers
            if worker.task_queue == queue
        }
        if not answer.next_page_token:
            break
        request.next_page_token = answer.next_page_token
    return versions


def _line(poller: PollerInfo, versions: dict[str, str]) -> str:
    build = poller.worker_version_capabilities.build_id or poller.deployment_options.build_id
    differs = f", here it is {sojourn.__version__}" if build and build != sojourn.__version__ else ""
    parts = [f"sojourn {plain(build)}{differs}" if build else "", plain(versions.get(poller.identity, ""))]
    details = ", ".join(part for part in parts if part)
    return f"{plain(poller.identity)}{f' ({details})' if details else ''}"
