"""Access: what a run's handle needs of its client: the Temporal client, the storage and the live transport."""

import asyncio
import time
from datetime import timedelta

import temporalio.client
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

from sojourn.client.backoff import backoff
from sojourn.client.stored_artifact import artifact_at
from sojourn.client.task_queue import WORKER_GRACE
from sojourn.connection import settings
from sojourn.connection.announced import served_queues
from sojourn.connection.nearby_storage import nearby_storage
from sojourn.contracts.tool_result import Artifact
from sojourn.live import LiveTransport
from sojourn.live.address import as_transport
from sojourn.serving.quiet_end import end_quietly
from sojourn.storage import StorageDriver

__all__ = ["POLLER_SEEN", "Access"]

POLLER_SEEN = timedelta(seconds=75)
"""Age of the last poll up to which a worker counts as present; a worker's poll lasts up to a minute."""


class Access:
    """A Temporal client, with the task queue, storage and live transport of runs; `Client` adds starting and finding runs.

    Args:
        temporal: A Temporal client made with `sojourn.data_converter`.
        task_queue: The task queue of new runs; `SOJOURN_TASK_QUEUE`, else that of the workers that serve a run's agent.
        storage: Where the workers keep what is too large for a history, as `App(storage=...)`; by default the folder of a
            development server on this machine.
        live: The transport of deltas, as `App(live=...)`; `SOJOURN_LIVE`, else within this process
            and from the `sojourn dev` of the server.

    Raises:
        DefinitionError: `SOJOURN_LIVE` cannot be read.
    """

    def __init__(
        self,
        temporal: temporalio.client.Client,
        *,
        task_queue: str | None = None,
        storage: StorageDriver | None = None,
        live: LiveTransport | str | None = None,
    ) -> None:
        end_quietly()
        self.temporal = temporal
        self.storage = storage or nearby_storage(temporal.service_client.config.target_host)
        self.live = as_transport(live or settings.live(), server=temporal.service_client.config.target_host)
        self._owns_live = live is None or isinstance(live, str)
        self.task_queue = settings.task_queue(task_queue)
        """The task queue of new runs; None for that of the workers that serve a run's agent."""

    def __repr__(self) -> str:
        """The server, the namespace and the task queue, without credentials."""
        host = self.temporal.service_client.config.target_host
        queue = f" task_queue={self.task_queue}" if self.task_queue else ""
        return f"<{type(self).__name__} {host} namespace={self.temporal.namespace}{queue}>"

    async def close(self) -> None:
        """Close the live transport, unless it was passed as an object; the Temporal client holds nothing to close."""
        if self._owns_live:
            await self.live.close()

    async def artifact(self, ref: str) -> Artifact:
        """An artifact with its data, by the reference in a result or output (SR-102, SR-110).

        Raises:
            InvalidInput: The text is not a reference, or the data is in a storage that this client does not have.
            ArtifactNotFound: The run made no such artifact, or the stored data was removed.
            RunNotFound: There is no such run.
            ServerUnavailable: The server did not answer for a minute.
        """
        return await artifact_at(self.temporal, self.storage, ref)

    async def has_worker(self, task_queue: str) -> bool:
        """Whether a worker polled the task queue within the last 75 s."""
        answer = await self.temporal.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=self.temporal.namespace,
                task_queue=TaskQueue(name=task_queue),
                task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
            )
        )
        oldest = time.time() - POLLER_SEEN.total_seconds()
        return any(poller.last_access_time.seconds >= oldest for poller in answer.pollers)

    async def is_served(self, task_queue: str) -> bool:
        """Whether a worker serves the task queue now; one that has stopped counts no more, one that was killed for 25 s.

        A worker that announces nothing, such as one made with `SojournPlugin`, counts for 75 s.
        """
        if not await self.has_worker(task_queue):
            return False
        present, lately = await served_queues(self.temporal)
        return task_queue in present or task_queue not in lately

    async def worker_soon(self, task_queue: str) -> bool:
        """Whether a worker polls the task queue, asked for 2 s, since a worker that is just starting has not polled yet."""
        deadline, delays = time.monotonic() + WORKER_GRACE, backoff(0.1)
        while not await self.has_worker(task_queue):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(next(delays))
        return True
