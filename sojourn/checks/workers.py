"""Check the workers of task queues, with their agents, versions and stuck runs.

Each stuck run comes with its remedy.
"""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import combinations, islice
from typing import Any

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, ListWorkersRequest
from temporalio.client import Client as Connection
from temporalio.service import RPCError

import sojourn
from sojourn.checks import Check
from sojourn.checks.shell_options import connection_options, server_options
from sojourn.client import stuck
from sojourn.client.client import Client
from sojourn.client.listing import query_literal
from sojourn.connection.announcements import POLLER_SEEN, AnnouncedWorker, read_workers
from sojourn.search_attributes import AGENT
from sojourn.values.visible import plain, shell_word

__all__ = [
    "ServedQueue",
    "ServingWorker",
    "Stuck",
    "check_agents",
    "check_elsewhere",
    "check_once",
    "check_queue",
    "check_runs",
    "find_served_queues",
    "find_stuck",
    "mend_of",
    "pollers",
    "queues_in",
]

_MAX_NAMED = 10


def queues_in(workers: Sequence[AnnouncedWorker]) -> list[str]:
    """Return the names of the task queues whose workers serve agents, sorted."""
    return sorted({worker.task_queue for worker in workers})


def check_agents(workers: Sequence[AnnouncedWorker], queue: str) -> Check:
    """Check that the workers of a task queue serve the same app, and list its agents."""
    here = {(each.app, each.agents): each for each in workers if each.task_queue == queue}
    name = f"agents on {queue}"
    others = {one: other for one, other in combinations(here.values(), 2) if not one.is_of(other)}
    if others:
        apps = dict.fromkeys(each for pair in others.items() for each in pair)
        lists = "; ".join(f"{plain(each.app) or 'an app'} serves {_list(each.agents)}" for each in apps)
        return Check(
            name,
            False,
            f"workers of several apps poll it, so that runs reach wrong ones first: {lists}",
            "give one of the apps a task queue of its own: sojourn worker MODULE:APP --task-queue NAME, or App(name=...)",
        )
    agents = frozenset[str]().union(*(each.agents for each in here.values()))
    return Check(
        name, True if agents else None, _list(agents) if agents else "no worker announces its agents"
    )


def check_once(workers: Sequence[AnnouncedWorker]) -> Check | None:
    """Report agents on several task queues, between which each start has to choose."""
    queues: defaultdict[str, set[str]] = defaultdict(set)
    for worker in workers:
        for agent in worker.agents:
            queues[agent].add(worker.task_queue)
    twice = [
        f"{plain(agent)} on {' and '.join(map(plain, sorted(on)))}"
        for agent, on in sorted(queues.items())
        if len(on) > 1
    ]
    if not twice:
        return None
    more = f" and {len(twice) - _MAX_NAMED} more" if len(twice) > _MAX_NAMED else ""
    return Check(
        "agents on several task queues",
        None,
        f"{'; '.join(twice[:_MAX_NAMED])}{more}",
        "name the one that is meant where runs start: --task-queue, or SOJOURN_TASK_QUEUE",
    )


def _list(agents: frozenset[str]) -> str:
    names = [plain(each) for each in sorted(agents)]
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{', '.join(names[:_MAX_NAMED])}{more}"


LOOKED_AT = 100
"""Most open runs that are checked, the newest first."""

_SHOWN = 5
_PAGES = 20
_SHOWN_RUNS = 3


async def check_queue(client: Connection, queue: str, *, activities_only: bool = False) -> Check:
    """Check that workers poll a task queue, and list them with their versions."""
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
    """Check that none of the newest open runs of a task queue is stuck."""
    name = f"runs on {queue}"
    query = (
        f"WorkflowType = 'AgentRun' AND ExecutionStatus = 'Running' AND TaskQueue = {query_literal(queue)}"
    )
    try:
        runs = [run.id async for run in client.temporal.list_workflows(query, limit=LOOKED_AT)]
    except RPCError as error:
        return Check(name, None, f"could not be checked: {plain(error.message)}")
    stuck = await find_stuck(client, runs)
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
    """Check that open runs have workers, also after an app was renamed."""
    name = "runs on other task queues"
    query = "WorkflowType = 'AgentRun' AND ExecutionStatus = 'Running'"
    if agents:
        query += f" AND {AGENT.name} IN ({', '.join(map(query_literal, agents))})"
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
    """Return the pollers of a task queue within the last 75 s."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind
        )
    )
    oldest = time.time() - POLLER_SEEN
    return [poller for poller in answer.pollers if poller.last_access_time.seconds >= oldest]


async def _sdk_versions(client: Connection, queue: str) -> dict[str, str]:
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


MAX_QUEUES = 100
"""Most task queues to query."""


@dataclass(frozen=True, slots=True)
class ServingWorker:
    identity: str
    """The process, such as `4711@host`, or the identity of a program that announces nothing."""
    build: str
    """The version of Sojourn; empty if the worker does not announce it."""
    since: datetime | None
    """When it started; None if the worker does not announce it."""
    seen: datetime | None
    """When it polled last; None if no poll of it is known yet."""
    app: str
    agents: frozenset[str]
    """The ids of the agents that it announces."""
    takes_runs: bool
    takes_calls: bool


@dataclass(frozen=True, slots=True)
class ServedQueue:
    name: str
    workers: Sequence[ServingWorker]

    @property
    def agents(self) -> frozenset[str]:
        return frozenset[str]().union(*(worker.agents for worker in self.workers))


async def find_served_queues(client: Connection, queues: Collection[str] = ()) -> list[ServedQueue]:
    """Return the task queues whose workers serve agents, and `queues`, by name."""
    present, lately = await asyncio.gather(read_workers(client), read_workers(client, lately=True))
    names = sorted({*queues, *(worker.task_queue for worker in present)})[:MAX_QUEUES]
    return list(await asyncio.gather(*(_queue(client, name, present, lately) for name in names)))


async def _queue(
    client: Connection, name: str, present: Sequence[AnnouncedWorker], lately: Sequence[AnnouncedWorker]
) -> ServedQueue:
    for_runs, for_calls = await asyncio.gather(
        pollers(client, name, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW),
        pollers(client, name, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY),
    )
    polls = {poller.identity: poller for poller in (*for_calls, *for_runs)}
    runs, calls = ({poller.identity for poller in each} for each in (for_runs, for_calls))
    here = [worker for worker in present if worker.task_queue == name]
    found = [
        ServingWorker(
            identity=worker.process or "a worker that does not say its process",
            build=worker.build or _build(polls.get(worker.process)),
            since=worker.since,
            seen=_last_seen(polls.get(worker.process)),
            app=worker.app,
            agents=worker.agents,
            takes_runs=not worker.process or worker.process in runs,
            takes_calls=not worker.process or worker.process in calls,
        )
        for worker in here
    ]
    told = {worker.process for worker in lately if worker.task_queue == name}
    others = [] if "" in told else [poll for identity, poll in polls.items() if identity not in told]
    found += [
        ServingWorker(
            identity=poll.identity,
            build=_build(poll),
            since=None,
            seen=_last_seen(poll),
            app="",
            agents=frozenset(),
            takes_runs=poll.identity in runs,
            takes_calls=poll.identity in calls,
        )
        for poll in others
    ]
    return ServedQueue(name, sorted(found, key=lambda worker: worker.identity))


def _build(poll: PollerInfo | None) -> str:
    if poll is None:
        return ""
    return poll.worker_version_capabilities.build_id or poll.deployment_options.build_id


def _last_seen(poll: PollerInfo | None) -> datetime | None:
    return poll.last_access_time.ToDatetime(UTC) if poll else None


_NEXT = {
    "task": "fix the error in the worker's log, and deploy the fix; or end the run: temporal workflow terminate --workflow-id {run}",
    "planner": "fix what the planner needs and the run continues by itself; or at once: sojourn retry {run} --now",
    "blocked": "make the tool await, or make it a plain function: it then runs in a thread",
    "unserved": "sojourn worker MODULE:APP --task-queue {queue}",
}

Stuck = dict[str, Any]
"""`attempt`, `since` (aware datetime or None), `reason` (a text, empty if the history gives none) and `next`."""


async def find_stuck(client: Client, run_ids: Sequence[str]) -> dict[str, Stuck]:
    """Return those of these open runs that are stuck, by run id."""
    found = await stuck.find_stuck(client, run_ids)
    return {run_id: _with_next(run_id, each) for run_id, each in found.items()}


def mend_of(run_id: str, found: stuck.Stuck) -> str:
    """Return a command, or an instruction that may end in a colon and a command."""
    options = {"task": server_options, "blocked": str}.get(found.kind, connection_options)()
    return _NEXT[found.kind].format(run=shell_word(run_id), queue=shell_word(found.queue)) + options


def _with_next(run_id: str, found: stuck.Stuck) -> Stuck:
    fields = asdict(found)
    del fields["kind"], fields["queue"]
    return {**fields, "next": mend_of(run_id, found)}
