"""The task queues of a namespace with the workers that poll them.

Each worker is described as it announces itself and as the server sees it.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo
from temporalio.client import Client

from sojourn.checks.workers import pollers
from sojourn.connection.announced import Announced, announced

__all__ = ["ServedQueue", "ServingWorker", "served"]

MAX_QUEUES = 100
"""Most task queues to query."""


@dataclass(frozen=True, slots=True)
class ServingWorker:
    """A worker of a task queue."""

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
    """A task queue with the workers that poll it."""

    name: str
    workers: Sequence[ServingWorker]

    @property
    def agents(self) -> frozenset[str]:
        """The agents that its workers announce."""
        return frozenset[str]().union(*(worker.agents for worker in self.workers))


async def served(client: Client, queues: Collection[str] = ()) -> list[ServedQueue]:
    """Return the task queues whose workers serve agents, and `queues`, by name.

    Args:
        client: The connection.
        queues: Task queues to include even if no worker announces that it serves them.

    Raises:
        RPCError: The server does not answer.
    """
    present, lately = await asyncio.gather(announced(client), announced(client, lately=True))
    names = sorted({*queues, *(worker.task_queue for worker in present)})[:MAX_QUEUES]
    return list(await asyncio.gather(*(_queue(client, name, present, lately) for name in names)))


async def _queue(
    client: Client, name: str, present: Sequence[Announced], lately: Sequence[Announced]
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
            seen=_seen(polls.get(worker.process)),
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
            seen=_seen(poll),
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


def _seen(poll: PollerInfo | None) -> datetime | None:
    return poll.last_access_time.ToDatetime(UTC) if poll else None
