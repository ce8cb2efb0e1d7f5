"""Kept: what a process keeps of runs from turn to turn, such as their transcripts: bounded, and let go with the runs.

All of it can be made again from the run's history, which takes some milliseconds. So it is kept while the run is in the memory
of a worker of this process. A run that is not there has ended, was evicted, or is in the memory of another process: what is kept of
it goes a minute after its last use.
"""

import time
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakSet

__all__ = ["Kept", "let_go"]

LET_GO_AFTER = 60.0
"""Seconds after its last use, in which a run that is not in memory is not let go: it may be between two attempts at a plan."""

V = TypeVar("V")

_everything: "WeakSet[Kept[Any]]" = WeakSet()


@dataclass(slots=True)
class _Slot(Generic[V]):
    value: V
    size: int
    used: float


class Kept(Generic[V]):
    """A bounded, least-recently-used cache with one value for each run.

    Args:
        max_runs: Most runs kept.
        max_bytes: Most bytes kept, as the values' sizes say.
    """

    def __init__(self, max_runs: int, max_bytes: int) -> None:
        self._slots: OrderedDict[str, _Slot[V]] = OrderedDict()
        self._max_runs = max_runs
        self._max_bytes = max_bytes
        self.bytes = 0
        """Size of all values together."""
        _everything.add(self)

    def __len__(self) -> int:
        """Number of runs kept."""
        return len(self._slots)

    def get(self, run_id: str) -> V | None:
        """The value of a run, which is used now; or None."""
        slot = self._slots.get(run_id)
        if slot is None:
            return None
        slot.used = time.monotonic()
        self._slots.move_to_end(run_id)
        return slot.value

    def keep(self, run_id: str, value: V, size: int) -> None:
        """Keep a run's value, of `size` bytes, in place of the one before; one that is too large alone is not kept."""
        self.drop(run_id)
        if size > self._max_bytes:
            return
        self._slots[run_id] = _Slot(value, size, time.monotonic())
        self.bytes += size
        while len(self._slots) > self._max_runs or self.bytes > self._max_bytes:
            self.drop(next(iter(self._slots)))

    def drop(self, run_id: str) -> None:
        """Remove a run."""
        slot = self._slots.pop(run_id, None)
        if slot:
            self.bytes -= slot.size

    def let_go(self, present: Collection[str]) -> None:
        """Remove the runs that are not present, once they have not been used or present for a minute."""
        now = time.monotonic()
        for run_id, slot in list(self._slots.items()):
            if run_id in present:
                slot.used = now
            elif now - slot.used > LET_GO_AFTER:
                self.drop(run_id)


def let_go(present: Collection[str]) -> None:
    """Let go of all that this process keeps of runs that are not in its memory.

    Args:
        present: The runs that are, of one of its workers; each worker calls this periodically.
    """
    for kept in list(_everything):
        kept.let_go(present)
