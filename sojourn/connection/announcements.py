"""The workers of a namespace, with the task queue and the agents of each.

A worker keeps a long poll open on one more task queue, `sojourn.workers`, which never has a
task. Its announcement is the identity of the poll, which `DescribeTaskQueue` lists. This needs
no storage, and the announcement is gone minutes after the worker.
"""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import structlog
from pydantic import BaseModel, ValidationError
from temporalio.api.enums.v1 import DescribeTaskQueueMode, TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, PollActivityTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from sojourn.contracts.ids import WORKERS_QUEUE

__all__ = [
    "POLLER_SEEN",
    "AnnouncedWorker",
    "Announcement",
    "farewell_of",
    "find_queues",
    "has_poller",
    "identities",
    "other_apps_on",
    "read_workers",
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
    """Return whether a worker polled the task queue for runs within the last 75 s."""
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
class AnnouncedWorker:
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

    def is_of(self, other: "AnnouncedWorker") -> bool:
        """Return whether both serve the same agents, or versions of one app."""
        is_same = (self.app, self.folder) == (other.app, other.folder)
        return self.agents == other.agents or (is_same and bool(self.agents & other.agents))


class _Poll(BaseModel):
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


def identities(worker: AnnouncedWorker, id: str) -> list[str]:
    """Return the identities that announce a worker, each with as many agents as fit.

    There are none if the name of the task queue is too long.
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
        if part and len(_encode(about, [*part, agent]).encode()) > MAX_IDENTITY:
            written.append(_encode(about, part))
            part = []
        part.append(agent)
    return [*written, _encode(about, part)]


def farewell_of(id: str) -> str:
    """Return the identity that announces that a worker has stopped."""
    return _Poll(id=id, left=True).model_dump_json(exclude_defaults=True)


def _encode(about: _Poll, agents: list[str]) -> str:
    return about.model_copy(update={"agents": agents}).model_dump_json(exclude_defaults=True)


async def read_workers(client: Client, *, lately: bool = False) -> list[AnnouncedWorker]:
    """Return the workers that are present."""
    return _present(await _pollers(client), lately=lately)


async def find_queues(client: Client) -> tuple[set[str], set[str]]:
    """Return the task queues of present workers, and of those of the last 75 s."""
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


def other_apps_on(own: AnnouncedWorker, workers: Iterable[AnnouncedWorker]) -> list[AnnouncedWorker]:
    """Return the workers of other apps on a worker's queue, one for each app."""
    others = {
        (each.app, each.agents): each
        for each in workers
        if each.task_queue == own.task_queue and not each.is_of(own)
    }
    return list(others.values())


def _present(pollers: Sequence[PollerInfo], *, lately: bool) -> list[AnnouncedWorker]:
    """Read recent announcements. Any client may poll the queue, so skip others."""
    newest = max((poller.last_access_time.seconds for poller in pollers), default=0)
    oldest = max(newest - (LONG_AGO if lately else SEEN), time.time() - LONG_AGO)
    read = [_read(poller.identity) for poller in pollers if poller.last_access_time.seconds >= oldest]
    told = [each for each in read if each]
    stopped = {each.id for each in told if each.left and not lately}
    found: dict[str, AnnouncedWorker] = {}
    for each in told:
        if each.id not in stopped and not each.left:
            before = found[each.id].agents if each.id in found else frozenset[str]()
            agents = before.union(each.agents)
            found[each.id] = AnnouncedWorker(
                each.app, each.folder, each.queue, agents, each.process, each.build, each.since
            )
    return list(found.values())


def _read(identity: str) -> _Poll | None:
    try:
        return _Poll.model_validate_json(identity)
    except ValidationError:
        return None


POLL = timedelta(seconds=10)
"""Duration of one poll. A killed worker counts as present for two and a half."""

_PAUSE = 2.0
"""Seconds before the next poll if one fails at once. Doubled each time."""

_LONGEST_PAUSE = 60.0

_FAREWELL = 0.05
"""Seconds for the farewell of a worker that stops at once to reach the server."""

_REFUSALS = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.INVALID_ARGUMENT)

_SHOWN = 5
"""Most agents named in a warning."""

_log = structlog.get_logger("sojourn.worker")


class Announcement:
    QUEUE: ClassVar[str] = WORKERS_QUEUE

    def __init__(self, client: Client, worker: AnnouncedWorker) -> None:
        self._client = client
        self._worker = worker
        self._id = uuid.uuid4().hex[:12]
        self._tasks: list[asyncio.Task[None]] = []
        self._has_left = False
        self._is_refused = False

    def begin(self) -> None:
        """Announce the worker, and warn of workers on its queue that serve other agents."""
        since = datetime.now(UTC).replace(microsecond=0)
        told = identities(replace(self._worker, since=since), self._id)
        self._tasks = [asyncio.create_task(self._keep_polling(each)) for each in told]
        self._tasks.append(asyncio.create_task(self._look_for_others()))

    def leave(self) -> None:
        """Announce, until `close`, that the worker stops accepting runs."""
        self._has_left = True
        self._cancel()
        self._tasks.append(asyncio.create_task(self._keep_polling(farewell_of(self._id))))

    async def close(self) -> None:
        """End the announcement. A worker that has not left announces that first."""
        if self._tasks and not self._has_left:
            self.leave()
            await asyncio.sleep(_FAREWELL)
        self._cancel()
        ending, self._tasks = self._tasks, []
        if ending:
            await asyncio.wait(ending)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _keep_polling(self, identity: str) -> None:
        request = PollActivityTaskQueueRequest(
            namespace=self._client.namespace, task_queue=TaskQueue(name=self.QUEUE), identity=identity
        )
        pause = _PAUSE
        while True:
            try:
                polled = await self._client.workflow_service.poll_activity_task_queue(request, timeout=POLL)
            except RPCError as error:
                if error.status == RPCStatusCode.DEADLINE_EXCEEDED:
                    continue
                self._tell(error)
            else:
                if not polled.task_token:
                    pause = _PAUSE
                    continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _tell(self, error: RPCError) -> None:
        """Log once that the server refuses the announcement."""
        if not self._is_refused and error.status in _REFUSALS:
            self._is_refused = True
            _log.warning(
                "worker_not_announced",
                reason=error.message,
                mend=f"allow the worker to poll task queue {self.QUEUE}, or name the task queue wherever runs are started",
            )

    async def _look_for_others(self) -> None:
        with contextlib.suppress(RPCError):
            for other in other_apps_on(self._worker, await read_workers(self._client)):
                _log.warning(
                    "task_queue_shared",
                    task_queue=self._worker.task_queue,
                    serves=_few(self._worker.agents),
                    other_app=other.app,
                    other_serves=_few(other.agents),
                    mend="give one of the two apps a task queue of its own: --task-queue, or App(name=...)",
                )


def _few(agents: frozenset[str]) -> list[str]:
    more = [f"and {len(agents) - _SHOWN} more"] if len(agents) > _SHOWN else []
    return [*sorted(agents)[:_SHOWN], *more]
