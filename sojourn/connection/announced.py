"""The workers of a namespace, with the task queue and the agents of each.

A worker keeps a long poll open on one more task queue, `sojourn.workers`, which never has a
task. Its announcement is the identity of the poll, which `DescribeTaskQueue` lists. This needs
no storage, and the announcement is gone minutes after the worker.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel, ValidationError
from temporalio.api.enums.v1 import DescribeTaskQueueMode, TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client

from sojourn.contracts.ids import WORKERS_QUEUE

__all__ = [
    "POLLER_SEEN",
    "Announced",
    "announced",
    "has_poller",
    "identities",
    "left",
    "others_on",
    "served_queues",
]

POLLER_SEEN = 75.0
"""Age of the last poll up to which a poller counts, in seconds: a long poll lasts up to 60 s."""

MAX_IDENTITY = 1_000
"""Longest identity that a server takes by default, in bytes."""

SEEN = 25.0
"""Age of the last poll up to which a worker counts as present, in seconds; each of its polls lasts up to 10 s."""

LONG_AGO = 75.0
"""The same by this machine's clock, which may differ from the server's; and the age of a worker that served lately."""

_KIND = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY

_ENHANCED = DescribeTaskQueueMode.DESCRIBE_TASK_QUEUE_MODE_ENHANCED
"""Lists the pollers of all partitions of a queue, as they were up to 5 s ago.

Without it, the server lists those of the first partition, as they are.
"""


async def has_poller(client: Client, task_queue: str) -> bool:
    """Return whether a worker polled the task queue for workflow tasks within the last 75 s."""
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=task_queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
    )
    oldest = time.time() - POLLER_SEEN
    return any(poller.last_access_time.seconds >= oldest for poller in answer.pollers)


@dataclass(frozen=True, slots=True)
class Announced:
    """A worker that serves the runs of an app."""

    app: str
    """The app's name."""
    folder: str
    """A digest of the folder in which the worker was started.

    Versions of one app share it.
    """
    task_queue: str
    agents: frozenset[str]
    process: str = ""
    """The worker's process, as in the identity of its other polls.

    Empty for a worker that does not announce it, such as an older one.
    """
    build: str = ""
    """The version of Sojourn that it runs."""
    since: datetime | None = None
    """When it began, by its own clock."""

    def is_of(self, other: "Announced") -> bool:
        """Return whether both workers serve the same agents.

        Versions of one app also count if they have agents in common.
        """
        is_same = (self.app, self.folder) == (other.app, other.folder)
        return self.agents == other.agents or (is_same and bool(self.agents & other.agents))


class _Poll(BaseModel):
    """What the identity of one poll says."""

    id: str
    """Different for each worker."""
    app: str = ""
    folder: str = ""
    queue: str = ""
    agents: list[str] = []
    process: str = ""
    build: str = ""
    since: datetime | None = None
    left: bool = False
    """Whether the worker says that it has stopped."""


def identities(worker: Announced, id: str) -> list[str]:
    """Return the identities that announce a worker.

    Each identity has as many agents as fit. The list is empty if the name of the task queue is too
    long.

    Args:
        worker: The worker.
        id: Different for each process.
    """
    about = _Poll(
        id=id,
        app=worker.app,
        folder=worker.folder,
        queue=worker.task_queue,
        process=worker.process,
        build=worker.build,
        since=worker.since,
    )
    short = about.model_copy(update={"process": "", "build": "", "since": None})
    for each in (about, short):
        written = _in_parts(each, sorted(worker.agents))
        if all(len(part.encode()) <= MAX_IDENTITY for part in written):
            return written
    return []


def _in_parts(about: _Poll, agents: Sequence[str]) -> list[str]:
    written: list[str] = []
    part: list[str] = []
    for agent in agents:
        if part and len(_written(about, [*part, agent]).encode()) > MAX_IDENTITY:
            written.append(_written(about, part))
            part = []
        part.append(agent)
    return [*written, _written(about, part)]


def left(id: str) -> str:
    """Return the identity that announces that a worker has stopped."""
    return _Poll(id=id, left=True).model_dump_json(exclude_defaults=True)


def _written(about: _Poll, agents: list[str]) -> str:
    return about.model_copy(update={"agents": agents}).model_dump_json(exclude_defaults=True)


async def announced(client: Client, *, lately: bool = False) -> list[Announced]:
    """Return the workers that are present.

    Args:
        client: The Temporal client.
        lately: Whether workers count that have stopped, or were last seen, at most 75 s ago.

    Raises:
        RPCError: The server does not answer.
    """
    return _present(await _pollers(client), lately=lately)


async def served_queues(client: Client) -> tuple[set[str], set[str]]:
    """Return the task queues of the present workers, and of those seen recently.

    The second set has the queues of all workers that were seen in the last 75 s.

    Raises:
        RPCError: The server does not answer.
    """
    pollers = await _pollers(client)
    present, lately = (
        {worker.task_queue for worker in _present(pollers, lately=each)} for each in (False, True)
    )
    return present, lately


async def _pollers(client: Client) -> Sequence[PollerInfo]:
    about = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=WORKERS_QUEUE),
        task_queue_type=_KIND,
        task_queue_types=[_KIND],
        report_pollers=True,
    )
    everywhere = DescribeTaskQueueRequest()
    everywhere.CopyFrom(about)
    everywhere.api_mode = _ENHANCED
    describe = client.workflow_service.describe_task_queue
    answers = await asyncio.gather(describe(about), describe(everywhere))
    by_version = [each.types_info[_KIND].pollers for each in answers[1].versions_info.values()]
    return [poller for pollers in (answers[0].pollers, *by_version) for poller in pollers]


def others_on(own: Announced, workers: Iterable[Announced]) -> list[Announced]:
    """Return the workers of other apps on a worker's queue, one for each app."""
    others = {
        (each.app, each.agents): each
        for each in workers
        if each.task_queue == own.task_queue and not each.is_of(own)
    }
    return list(others.values())


def _present(pollers: Sequence[PollerInfo], *, lately: bool) -> list[Announced]:
    """Read the recent announcements of workers.

    Any client may poll the queue, so identities that cannot be read are left out.
    """
    newest = max((poller.last_access_time.seconds for poller in pollers), default=0)
    oldest = max(newest - (LONG_AGO if lately else SEEN), time.time() - LONG_AGO)
    read = [_read(poller.identity) for poller in pollers if poller.last_access_time.seconds >= oldest]
    told = [each for each in read if each]
    stopped = {each.id for each in told if each.left and not lately}
    found: dict[str, Announced] = {}
    for each in told:
        if each.id not in stopped and not each.left:
            before = found[each.id].agents if each.id in found else frozenset[str]()
            agents = before.union(each.agents)
            found[each.id] = Announced(
                each.app, each.folder, each.queue, agents, each.process, each.build, each.since
            )
    return list(found.values())


def _read(identity: str) -> _Poll | None:
    """Return the announcement in a poll's identity, or None if it is not one."""
    try:
        return _Poll.model_validate_json(identity)
    except ValidationError:
        return None
