"""Read and store the transcript, memory and pictures of an activity's run.

A plan's input holds only new messages. The rest is in this cache when the last plan of the run was made on
this worker; else the run returns it, in byte slices, which take 8 ms each.

The worker that executed a call keeps its pictures for a while. Any other worker reads them from the run's history, or from the
external storage that the history names.

Two activities store the older part of a transcript, and the events of earlier executions, in external storage.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from pydantic_core import from_json
from temporalio import activity
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.converter import StorageDriver
from temporalio.exceptions import ApplicationError

from sojourn.archive import load_part, load_segments, store_part, store_segment
from sojourn.authoring.app import App
from sojourn.client.access import artifact_at
from sojourn.connection.connect import nearby_storage
from sojourn.contracts.event import Event
from sojourn.contracts.message import Message
from sojourn.contracts.tasks import Archived, ArchiveTask, PlanTask, Stored, StoreTask, ToolTask
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import ARCHIVE_EVENTS, STORE_TRANSCRIPT
from sojourn.core.history.fold import Fold
from sojourn.core.run.ids import artifact_ref
from sojourn.core.run.transcript import Segments
from sojourn.events.one_run import executions_before, records_of
from sojourn.logs.values import describe_error
from sojourn.serving.run_cache import RunCache
from sojourn.values.wire import MAX_SLICE_BYTES, decode_messages, size_of

from .heartbeat import check_worker, send_heartbeats

__all__ = [
    "PICTURES",
    "ArchiveEventsActivity",
    "Key",
    "Pictures",
    "StoreTranscriptActivity",
    "Transcripts",
    "fetch_messages",
    "memory_of",
    "query_run",
    "storage_of",
]

Key = tuple[str, str]
"""Workflow id and execution id."""


async def memory_of(key: Key, task: PlanTask | ToolTask) -> Mapping[str, Any]:
    """Return the memory of the run.

    It does not change while a plan is made, or while the calls of a step run.
    """
    return await query_run(key, "memory", [], dict[str, Any]) if task.asks_memory else task.memory


async def query_run(key: Key, query: str, args: Sequence[Any], result_type: Any = RawValue) -> Any:
    """Return the answer of the run to a query.

    Raises:
        ApplicationError: `WorkerStopping`: a stopping worker does not wait for the answer, since no other worker may be left
            to give it; the next attempt is made by another worker.
        RPCError: The run cannot be queried now.
    """
    handle = activity.client().get_workflow_handle(key[0], run_id=key[1])
    asked: Awaitable[Any] = handle.query(query, args=args, result_type=result_type)
    answer, stopping = (
        asyncio.ensure_future(asked),
        asyncio.ensure_future(activity.wait_for_worker_shutdown()),
    )
    try:
        await asyncio.wait({answer, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ApplicationError("the worker stops; another one goes on", type="WorkerStopping")
        return answer.result()
    finally:
        stopping.cancel()
        answer.cancel()


def storage_of(app: App) -> StorageDriver | None:
    if app.storage is not None:
        return app.storage
    try:
        client = activity.client()
    except RuntimeError:
        return None  # no server knows this activity
    return nearby_storage(client.service_client.config.target_host)


@dataclass(slots=True)
class _Entry:
    execution: str
    messages: list[Message]
    plan: int
    attempt: int
    size: int


class Transcripts:
    """A bounded cache of transcripts, with one entry per run, freed with the run.

    An entry is used only by the execution that made it, when its length matches the plan's input and it was made by the
    previous plan, in the attempt whose result the workflow accepted: the entry of a late first attempt must not be used after
    the second attempt was accepted.
    """

    def __init__(
        self,
        max_entries: int = 2_000,
        max_bytes: int = 25_000_000,
        storage: Callable[[], StorageDriver | None] = lambda: None,
    ) -> None:
        self._storage = storage
        self._entries: RunCache[_Entry] = RunCache(max_entries, max_bytes)
        """By workflow id: a run that has gone on leaves no entry of its earlier execution behind."""
        self.hits = 0
        self.misses = 0

    @property
    def bytes(self) -> int:
        return self._entries.bytes

    def has(self, key: Key, task: PlanTask) -> bool:
        return task.after == 0 or self._find_accepted(key, task) is not None

    async def read(self, key: Key, task: PlanTask) -> list[Message]:
        known = self._find_cached(key, task)
        if known is None:
            return await self._ask(key, 0, task.until if task.until is not None else task.after) + list(
                task.new
            )
        if task.until is not None:
            return known + await self._ask(key, task.after, task.until)
        return known + list(task.new)

    def keep(self, key: Key, messages: Sequence[Message], *, plan: int, attempt: int) -> None:
        """Cache a run's transcript as it will be once this attempt's plan is accepted."""
        run_id, execution = key
        size = self._size(self._entries.get(run_id), messages)
        self._entries.keep(run_id, _Entry(execution, list(messages), plan, attempt, size), size)

    @staticmethod
    def _size(known: _Entry | None, messages: Sequence[Message]) -> int:
        # Only messages that the previous entry did not contain are encoded. Otherwise a run would cost n².
        held = len(known.messages) if known else 0
        if known and held and held <= len(messages) and known.messages[-1] is messages[held - 1]:
            return known.size + sum(size_of(message) for message in messages[held:])
        return sum(size_of(message) for message in messages)

    def drop(self, key: Key) -> None:
        self._entries.drop(key[0])

    def _find_cached(self, key: Key, task: PlanTask) -> list[Message] | None:
        if task.after == 0:
            return []
        entry = self._find_accepted(key, task)
        if entry:
            self.hits += 1
            return entry.messages
        self.misses += 1
        return None

    def _find_accepted(self, key: Key, task: PlanTask) -> _Entry | None:
        """Return the entry of the plan that the workflow accepted before this one."""
        entry = self._entries.get(key[0])
        accepted = (key[1], task.after, task.plan - 1, task.accepted_attempt)
        is_it = entry and (entry.execution, len(entry.messages), entry.plan, entry.attempt) == accepted
        return entry if is_it else None

    async def _ask(self, key: Key, after: int, until: int) -> list[Message]:
        # A retried plan reads exactly what its first attempt did. The run returns the messages, except those
        # in external storage, for which it returns the claims.
        data = await fetch_messages(key, after, until)
        if not data.startswith(b"{"):
            return decode_messages(data)
        stored: Segments = from_json(data)["stored"]
        claims = [claim for _, claim in stored if isinstance(claim, dict)]
        count = sum(count for count, _ in stored)
        first = await load_segments(activity.client(), self._storage(), key[0], claims)
        rest = await self._ask(key, count, until) if until > count else []
        return [*first, *rest][after if after < count else 0 :]


async def fetch_messages(key: Key, after: int, until: int) -> bytes:
    """Query a run for its messages `after` to `until`, as a JSON array.

    If the first of them is in storage, the run returns `{"stored": [...]}` instead.
    """
    data = b""
    while True:
        part: RawValue = await query_run(key, "transcript", [after, until, len(data)])
        data += part.payload.data
        if len(part.payload.data) < MAX_SLICE_BYTES:
            return data


_log = structlog.get_logger("sojourn.planner")


class Pictures:
    """A bounded cache of pictures by reference."""

    def __init__(self, max_bytes: int = 50_000_000) -> None:
        self._kept: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._max_bytes = max_bytes
        self._bytes = 0

    def keep(self, run_id: str, call_id: str, result: ToolResult) -> None:
        for artifact in result.artifacts:
            if artifact.media_type and artifact.data is not None:
                self._keep(artifact_ref(run_id, call_id, artifact.kind), artifact.data, artifact.size)

    async def read(self, ref: str, runs: Collection[str], storage: Callable[[], StorageDriver | None]) -> Any:
        """Return the data of a picture, or None."""
        if ref.partition("#")[0] not in runs:
            return None
        if ref in self._kept:
            self._kept.move_to_end(ref)
            return self._kept[ref][0]
        try:
            found = await artifact_at(activity.client(), storage(), ref)
        except Exception as error:  # noqa: BLE001 - the model continues without the picture
            _log.warning("picture_unreadable", artifact=ref, raised=describe_error(error))
            return None
        self._keep(ref, found.data, found.size)
        return found.data

    def _keep(self, ref: str, data: Any, size: int) -> None:
        if ref in self._kept or size > self._max_bytes:
            return
        self._kept[ref] = data, size
        self._bytes += size
        while self._bytes > self._max_bytes:
            _, (_, dropped) = self._kept.popitem(last=False)
            self._bytes -= dropped


PICTURES = Pictures()


class ArchiveEventsActivity:
    def __init__(self, app: App) -> None:
        self._app = app

    @activity.defn(name=ARCHIVE_EVENTS)
    async def archive_events(self, task: ArchiveTask) -> Archived:
        """Store the events of earlier executions, and return their claim.

        A worker without storage returns the claim it was given.
        """
        info = activity.info()
        storage = await _storage_for(self._app, task.agent_id)
        if storage is None:
            return Archived(claim=task.claim, until=task.after)
        run_id, execution = info.workflow_id or "", info.workflow_run_id or ""
        with send_heartbeats(who={"agent_id": task.agent_id, "run_id": run_id}):
            return await _archive(activity.client(), storage, run_id, execution, task)


async def _storage_for(app: App, agent_id: str) -> StorageDriver | None:
    if app.agent(agent_id) is None:
        await check_worker(agent_id)
    return storage_of(app)


async def _archive(
    client: Client, storage: StorageDriver, run_id: str, execution: str, task: ArchiveTask
) -> Archived:
    earlier = await executions_before(client, run_id, execution, task.until - task.after)
    if not earlier:
        return Archived(claim=task.claim, until=task.after)
    last = await load_part(client, storage, run_id, task.claim) if task.claim else None
    fold, events, left = Fold(run_id, chain=last.chain if last else None), list[Event](), len(earlier)
    async for record, made in records_of(client, fold, earlier[-1], follow=False):
        events += made
        left -= record.kind == "continued"
        if not left:
            break
    claim = await store_part(client, storage, run_id, events, chain=fold.chain, before=task.claim)
    return Archived(claim=claim, until=task.until)


class StoreTranscriptActivity:
    def __init__(self, app: App) -> None:
        self._app = app

    @activity.defn(name=STORE_TRANSCRIPT)
    async def store_transcript(self, task: StoreTask) -> Stored:
        """Store messages, and return their claim and whether events are archived.

        A worker without storage returns no claim.
        """
        info = activity.info()
        storage = await _storage_for(self._app, task.agent_id)
        if storage is None:
            return Stored()
        run_id = info.workflow_id or ""
        with send_heartbeats(who={"agent_id": task.agent_id, "run_id": run_id}):
            messages = await fetch_messages((run_id, info.workflow_run_id or ""), task.after, task.until)
            claim = await store_segment(activity.client(), storage, run_id, messages)
        return Stored(claim=claim, archives=self._app.archive)
