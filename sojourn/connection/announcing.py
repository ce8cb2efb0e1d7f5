"""Announce which agents a worker serves, while it polls, and that it has stopped."""

import asyncio
import contextlib
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import structlog
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollActivityTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from sojourn.connection.announced import Announced, announced, identities, left, others_on
from sojourn.contracts.ids import WORKERS_QUEUE

__all__ = ["Announcing"]

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


class Announcing:
    """The announcement of one worker.

    Args:
        client: The worker's client.
        worker: What is announced.
    """

    def __init__(self, client: Client, worker: Announced) -> None:
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
        """Announce that the worker stops accepting runs.

        The announcement continues until `close`.
        """
        self._has_left = True
        self._cancel()
        self._tasks.append(asyncio.create_task(self._keep_polling(left(self._id))))

    async def close(self) -> None:
        """End the announcement.

        The first call for a worker that has not left announces that first.
        """
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
            namespace=self._client.namespace, task_queue=TaskQueue(name=WORKERS_QUEUE), identity=identity
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
        """Log once that the server refuses the announcement.

        Other code reports a server that is unavailable.
        """
        if not self._is_refused and error.status in _REFUSALS:
            self._is_refused = True
            _log.warning(
                "worker_not_announced",
                reason=error.message,
                mend=f"allow the worker to poll task queue {WORKERS_QUEUE}, or name the task queue wherever runs are started",
            )

    async def _look_for_others(self) -> None:
        with contextlib.suppress(RPCError):
            for other in others_on(self._worker, await announced(self._client)):
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
