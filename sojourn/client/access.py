"""The connection, queues, storage and live text that a handle of a run needs."""

import asyncio
import difflib
import itertools
import time
from collections.abc import Coroutine, Generator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import temporalio.client
from pydantic_core import from_json
from temporalio.client import Client

from sojourn.attachments import (
    Attachments,
    Upload,
    part_of,
    with_files_stored,
)
from sojourn.connection import settings
from sojourn.connection.announcements import AnnouncedWorker, find_queues, has_poller, read_workers
from sojourn.connection.connect import nearby_storage
from sojourn.connection.tenants import look_up_tenants
from sojourn.contracts.attachment import AttachmentLimits, AttachmentRecord
from sojourn.contracts.message import DocumentPart, ImagePart, Message, Part
from sojourn.contracts.principal import Principal
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import Artifact
from sojourn.errors import ArtifactNotFound, InvalidInput, NoWorker
from sojourn.events.one_run import events_of
from sojourn.live import LiveTransport
from sojourn.live.address import as_transport
from sojourn.serving.hardening.loop_guard import end_quietly
from sojourn.storage import StorageDriver, codec_for, load

__all__ = [
    "WORKER_GRACE",
    "Access",
    "Attachable",
    "Connecting",
    "artifact_at",
    "backoff",
    "no_worker",
    "queue_of",
    "queues_serving",
    "whole_artifact",
]

Attachable = Path | Upload | str
"""A file to attach: its path, an upload, or the reference of one."""

_FIRST = 0.01
_FACTOR = 1.5


def backoff(longest: float) -> Iterator[float]:
    """Yield delays in seconds without end.

    The first is 10 ms, and each is half as long again as the one before, up to `longest`.
    """
    for power in itertools.count():
        delay = _FIRST * _FACTOR**power
        if delay >= longest:
            break
        yield delay
    yield from itertools.repeat(longest)


class Closeable(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=Closeable)


class Connecting(Coroutine[Any, Any, C], AbstractAsyncContextManager[C, None]):
    """The return value of `Client.connect(...)`.

    Either `await` it, or enter it by `async with`, which closes the client at the end.
    """

    def __init__(self, connecting: Coroutine[Any, Any, C]) -> None:
        self._connecting = connecting

    def __await__(self) -> Generator[Any, Any, C]:
        return self._connecting.__await__()

    def send(self, value: Any) -> Any:
        """Advance the coroutine, so that `asyncio.run` and tasks accept this object."""
        return self._connecting.send(value)

    def throw(self, *error: Any) -> Any:
        return self._connecting.throw(*error)

    def close(self) -> None:
        self._connecting.close()

    async def __aenter__(self) -> C:
        self._client = await self._connecting
        return self._client

    async def __aexit__(self, *_error: object) -> None:
        await self._client.close()


WORKER_GRACE = 2.0
"""Seconds to wait for a worker that is just starting."""

_LONGEST_DELAY = 0.1
_MAX_NAMED = 5


async def queues_serving(client: Client, agent_id: str) -> list[str]:
    """Return the task queues whose workers serve an agent, by name."""
    return _queues(await read_workers(client), agent_id)


async def queue_of(client: Client, agent_id: str, run_id: str, *, patient: bool = False) -> str:
    """Return the task queue whose workers serve an agent.

    A worker that is just starting may take 2 s. If no worker serves the agent, this is the queue
    whose workers did so up to 75 s ago.
    """
    deadline, delays = time.monotonic() + WORKER_GRACE, backoff(_LONGEST_DELAY)
    while True:
        workers = await read_workers(client)
        queues = _queues(workers, agent_id)
        if queues or (not patient and time.monotonic() > deadline):
            break
        await asyncio.sleep(next(delays))
    # The agent's worker was stopped or killed a moment ago, as in a deploy. The run waits for the next
    # one.
    if not queues and len(lately := _queues(await read_workers(client, lately=True), agent_id)) == 1:
        return lately[0]
    if len(queues) > 1:
        raise InvalidInput(
            f"agent_id: workers of several task queues serve {agent_id}: {', '.join(queues)}; "
            f"name the one that is meant with task_queue={queues[0]!r}",
            run_id=run_id,
        )
    if not queues:
        raise NoWorker(_nobody(workers, agent_id), run_id=run_id)
    return queues[0]


def _queues(workers: list[AnnouncedWorker], agent_id: str) -> list[str]:
    return sorted({worker.task_queue for worker in workers if agent_id in worker.agents})


def _nobody(workers: list[AnnouncedWorker], agent_id: str) -> str:
    served = sorted({agent for worker in workers for agent in worker.agents})
    close = difflib.get_close_matches(agent_id, served, n=3)
    if close:
        return f"no worker serves agent {agent_id!r}; did you mean {' or '.join(close)}?"
    start = "start one with `sojourn worker MODULE:APP`"
    if not served:
        return f"no worker serves agent {agent_id!r}, or any other; {start}"
    more = f" and {len(served) - _MAX_NAMED} more" if len(served) > _MAX_NAMED else ""
    return f"no worker serves agent {agent_id!r}; those that run serve {', '.join(served[:_MAX_NAMED])}{more}; {start}"


def no_worker(queue: str) -> str:
    """Return the text of the error if no worker polls a task queue."""
    return (
        f"no worker polls task queue {queue!r}; start one with "
        f"`sojourn worker MODULE:APP --task-queue {queue}`, or pass wait_for_worker=True"
    )


async def artifact_at(
    temporal: temporalio.client.Client, storage: StorageDriver | None, ref: str
) -> Artifact:
    """Return the artifact of a reference, with its data, from its run's events."""
    run_id, _, rest = ref.partition("#")
    call_id, _, kind = rest.partition("/")
    if not (run_id and call_id and kind):
        raise InvalidInput(
            f"{ref!r} is not an artifact's reference; its form is <run id>#<tool_call_id>/<kind>"
        )
    async for event in events_of(temporal, run_id, storage, follow=False):
        made = event.artifacts if event.type == "tool_end" and event.tool_call_id == call_id else ()
        for artifact in made:
            if artifact.ref == ref:
                return await whole_artifact(temporal, storage, artifact, run_id)
    raise ArtifactNotFound(f"run {run_id} has no artifact {rest!r}", run_id=run_id)


async def whole_artifact(
    temporal: temporalio.client.Client, storage: StorageDriver | None, artifact: Artifact, run_id: str
) -> Artifact:
    """Return the artifact with its data."""
    if artifact.claim is None:
        return artifact
    if storage is None:
        raise InvalidInput(
            f"{artifact.ref} is in external storage; give this client the storage of its workers: "
            "Client.connect(..., storage=...)",
            run_id=run_id,
        )
    try:
        codec = codec_for(temporal.data_converter, temporal.namespace, run_id)
        data = await load(storage, artifact.claim, codec)
    except Exception as error:
        why = ToolError.from_error(error).message
        raise ArtifactNotFound(f"{artifact.ref} cannot be read: {why}", run_id=run_id) from error
    return artifact.model_copy(update={"data": from_json(data)})


class Access:
    """A Temporal client, with the task queue, storage and live transport of runs.

    `Client` adds starting and finding runs.
    """

    def __init__(
        self,
        temporal: temporalio.client.Client,
        *,
        task_queue: str | None = None,
        storage: StorageDriver | None = None,
        live: LiveTransport | str | None = None,
        attachment_limits: AttachmentLimits | None = None,
    ) -> None:
        end_quietly()
        look_up_tenants(temporal)
        self.attachment_limits = attachment_limits or AttachmentLimits()
        self.temporal = temporal
        self.storage = storage or nearby_storage(temporal.service_client.config.target_host)
        self.live = as_transport(live or settings.live(), server=temporal.service_client.config.target_host)
        self._owns_live = live is None or isinstance(live, str)
        self.task_queue = settings.task_queue(task_queue)
        """The task queue of new runs; None for that of the workers that serve a run's agent."""

    def __repr__(self) -> str:
        host = self.temporal.service_client.config.target_host
        queue = f" task_queue={self.task_queue}" if self.task_queue else ""
        return f"<{type(self).__name__} {host} namespace={self.temporal.namespace}{queue}>"

    @property
    def attachments(self) -> Attachments:
        """Stores and reads the files of messages."""
        return Attachments(self.temporal, self.storage, self.attachment_limits)

    async def with_attachments(
        self,
        message: Message,
        given: Sequence[Attachable] = (),
        *,
        run_id: str,
        principal: Principal | None = None,
        kept: Sequence[AttachmentRecord] = (),
    ) -> Message:
        """Return a message with these files, and with its larger data in storage.

        Without storage, a message keeps its own files. It always keeps those of `kept`, which the run has already.

        Raises:
            InvalidInput: A file cannot be read or is refused, or there are too many.
        """
        stored = self.attachments
        stored.check_count(message, len(given))
        if self.storage is not None:
            message = await with_files_stored(stored, message, run_id=run_id, principal=principal)
            message = await self._bound(message, run_id, principal, kept)
        records = list[AttachmentRecord]()
        for each in given:
            if isinstance(each, Path):
                file = await stored.store_path(each, principal=principal, run_id=run_id)
                records.append(file.as_record())
            else:
                records.append(await stored.bind(each, run_id=run_id, principal=principal))
        return message.model_copy(update={"parts": [*message.parts, *map(part_of, records)]})

    async def _bound(
        self, message: Message, run_id: str, principal: Principal | None, kept: Sequence[AttachmentRecord]
    ) -> Message:
        """Return a message with the files that it names bound to the run."""
        if not message.attachments:
            return message
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ImagePart | DocumentPart) and (file := part.attachment) and file not in kept:
                bound = await self.attachments.bind(file, run_id=run_id, principal=principal)
                parts.append(part.model_copy(update={"attachment": bound}))
            else:
                parts.append(part)
        return message.model_copy(update={"parts": parts})

    async def close(self) -> None:
        """Close the live transport, unless it was passed as an object.

        The Temporal client has no resources to close.
        """
        if self._owns_live:
            await self.live.close()

    async def artifact(self, ref: str) -> Artifact:
        """Return an artifact with its data, by its reference (SR-102, SR-110).

        The reference stands in a result or an output.
        """
        return await artifact_at(self.temporal, self.storage, ref)

    async def has_worker(self, task_queue: str) -> bool:
        """Return whether a worker polled the task queue within the last 75 s."""
        return await has_poller(self.temporal, task_queue)

    async def is_served(self, task_queue: str) -> bool:
        """Return whether a worker serves the task queue now.

        A worker that has stopped counts no more, one that was killed for 25 s. A worker that
        announces nothing, such as one made with `SojournPlugin`, counts for 75 s.
        """
        if not await self.has_worker(task_queue):
            return False
        present, lately = await find_queues(self.temporal)
        return task_queue in present or task_queue not in lately

    async def worker_soon(self, task_queue: str) -> bool:
        """Return whether a worker polls the task queue, after up to 2 s.

        A worker that is just starting has not polled yet.
        """
        deadline, delays = time.monotonic() + WORKER_GRACE, backoff(0.1)
        while not await self.has_worker(task_queue):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(next(delays))
        return True
