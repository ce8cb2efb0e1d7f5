"""Transcripts: the worker's cache of transcripts, and on a miss the run's query.

A plan's input holds only new messages. The rest is in this cache when the last plan of the run was made on
this worker; else the run returns it, in byte slices, which take 8 ms each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic_core import from_json
from temporalio import activity
from temporalio.common import RawValue
from temporalio.converter import StorageDriver

from sojourn.contracts.message import Message
from sojourn.contracts.tasks import PlanTask
from sojourn.core.run.transcript import Segments
from sojourn.core.values.wire import MAX_SLICE_BYTES, decode_messages, size_of
from sojourn.segments import load_segments
from sojourn.serving.kept import Kept

from . import own_run
from .own_run import Key

__all__ = ["Key", "Transcripts", "ask"]


@dataclass(slots=True)
class _Entry:
    execution: str
    messages: list[Message]
    plan: int
    attempt: int
    size: int


class Transcripts:
    """A bounded cache of transcripts, one entry per run, which go with the run.

    An entry is used only by the execution that made it, when its length matches the plan's input and it was made by the
    previous plan, in the attempt whose result the workflow accepted: the entry of a late first attempt must not be used after
    the second attempt was accepted.

    Args:
        max_entries: Most runs kept.
        max_bytes: Most bytes kept, as they are on the wire; as objects they take ten times as many.
        storage: Returns the storage with the beginning of a long run's transcript.
    """

    def __init__(
        self,
        max_entries: int = 2_000,
        max_bytes: int = 25_000_000,
        storage: Callable[[], StorageDriver | None] = lambda: None,
    ) -> None:
        self._storage = storage
        self._entries: Kept[_Entry] = Kept(max_entries, max_bytes)
        """By workflow id: a run that has gone on leaves no entry of its earlier execution behind."""
        self.hits = 0
        self.misses = 0

    @property
    def bytes(self) -> int:
        """Bytes of the transcripts kept, as they are on the wire."""
        return self._entries.bytes

    def has(self, key: Key, task: PlanTask) -> bool:
        """Whether the transcript is here, so that the run need not be asked."""
        return task.after == 0 or self._accepted(key, task) is not None

    async def read(self, key: Key, task: PlanTask) -> list[Message]:
        """The whole transcript for a plan, its new messages included."""
        known = self._known(key, task)
        if known is None:
            return await self._ask(key, 0, task.until if task.until is not None else task.after) + list(
                task.new
            )
        if task.until is not None:
            return known + await self._ask(key, task.after, task.until)
        return known + list(task.new)

    def keep(self, key: Key, messages: Sequence[Message], *, plan: int, attempt: int) -> None:
        """Keep a run's transcript as it will be once this attempt's plan is accepted."""
        run_id, execution = key
        size = self._size(self._entries.get(run_id), messages)
        self._entries.keep(run_id, _Entry(execution, list(messages), plan, attempt, size), size)

    @staticmethod
    def _size(known: _Entry | None, messages: Sequence[Message]) -> int:
        """Bytes on the wire; only messages that the previous entry did not hold are encoded, or a run would cost n²."""
        held = len(known.messages) if known else 0
        if known and held and held <= len(messages) and known.messages[-1] is messages[held - 1]:
            return known.size + sum(size_of(message) for message in messages[held:])
        return sum(size_of(message) for message in messages)

    def drop(self, key: Key) -> None:
        """Remove a run."""
        self._entries.drop(key[0])

    def _known(self, key: Key, task: PlanTask) -> list[Message] | None:
        if task.after == 0:
            return []
        entry = self._accepted(key, task)
        if entry:
            self.hits += 1
            return entry.messages
        self.misses += 1
        return None

    def _accepted(self, key: Key, task: PlanTask) -> _Entry | None:
        """The entry of the plan that the workflow accepted before this one."""
        entry = self._entries.get(key[0])
        accepted = (key[1], task.after, task.plan - 1, task.accepted_attempt)
        is_it = entry and (entry.execution, len(entry.messages), entry.plan, entry.attempt) == accepted
        return entry if is_it else None

    async def _ask(self, key: Key, after: int, until: int) -> list[Message]:
        """Read the messages `after` to `until`; a retried plan reads exactly what its first attempt did.

        The run itself returns them, but for those in external storage, of which it returns the claims.
        """
        data = await ask(key, after, until)
        if not data.startswith(b"{"):
            return decode_messages(data)
        stored: Segments = from_json(data)["stored"]
        claims = [claim for _, claim in stored if isinstance(claim, dict)]
        count = sum(count for count, _ in stored)
        first = await load_segments(activity.client(), self._storage(), key[0], claims)
        rest = await self._ask(key, count, until) if until > count else []
        return [*first, *rest][after if after < count else 0 :]


async def ask(key: Key, after: int, until: int) -> bytes:
    """Ask a run for its messages `after` to `until`, as a JSON array; or for `{"stored": [...]}` where the first is in storage."""
    data = b""
    while True:
        part: RawValue = await own_run.ask(key, "transcript", [after, until, len(data)])
        data += part.payload.data
        if len(part.payload.data) < MAX_SLICE_BYTES:
            return data
