"""A bounded cache with a lifetime per entry, which coalesces concurrent reads.

cachetools bounds the entries and expires them. It knows no coroutines, so the coalescing is here:
there is one read at a time for each key.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from cachetools import TLRUCache

__all__ = ["Cache"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class _Cached(Generic[V]):
    value: V
    began: float
    """Time when its read started. The value may miss later changes."""
    ended: float
    expires: float


class Cache(Generic[K, V]):
    """A bounded cache of values by key. Errors are not cached.

    A key contains everything that the value depends on, such as the version of a history, or the view of a principal. With `weigh`, `size` is the greatest
    sum of the weights of all values.
    """

    def __init__(
        self,
        size: int,
        seconds: float = math.inf,
        *,
        weigh: Callable[[V], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._entries: TLRUCache[K, _Cached[V]] = TLRUCache(
            size, _expires, timer=clock, getsizeof=weigh and (lambda entry: weigh(entry.value))
        )
        self._reads: dict[K, asyncio.Task[V]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def peek(self, key: K) -> V | None:
        """Return the cached value or None, without a read."""
        entry = self._entries.get(key)
        return entry.value if entry else None

    def put(self, key: K, value: V) -> None:
        """Cache a value that was made just now."""
        now = self._clock()
        self._reads.pop(key, None)  # it began before this call
        self._entries[key] = _Cached(value, now, now, now + self._seconds)

    def discard(self, key: K) -> None:
        """Drop a value, and the result of a read that is under way."""
        self._reads.pop(key, None)
        self._entries.pop(key, None)

    def clear(self) -> None:
        self._reads.clear()
        self._entries.clear()

    async def get(self, key: K, read: Callable[[], Awaitable[V]], *, seconds: float | None = None) -> V:
        """Return the cached value, or else read it.

        Concurrent callers of one key share one read.
        """
        if (entry := self._entries.get(key)) is not None:
            return entry.value
        return await asyncio.shield(self._reads.get(key) or self._start(key, read, seconds))

    async def get_soon(
        self,
        key: K,
        read: Callable[[], Awaitable[V]],
        *,
        fresh: float,
        patience: float,
        first: float | None = None,
        share: int = 0,
    ) -> V | None:
        """Return the newest value that is available within a time, or None."""
        entry = self._entries.get(key)
        task = self._reads.get(key)
        if task is None:
            if entry and self._clock() - entry.ended <= max(fresh, share * (entry.ended - entry.began)):
                return entry.value
            task = self.refresh(key, read)
        await asyncio.wait({task}, timeout=patience if entry or first is None else first)
        if task.done():
            return task.result()
        return entry.value if entry else None

    def refresh(self, key: K, read: Callable[[], Awaitable[V]]) -> asyncio.Task[V]:
        """Begin to read a value. Do not cancel the task, which is shared."""
        return self._reads.get(key) or self._start(key, read, None)

    def _start(self, key: K, read: Callable[[], Awaitable[V]], seconds: float | None) -> asyncio.Task[V]:
        async def reading() -> V:
            return await read()

        began = self._clock()
        lifetime = self._seconds if seconds is None else seconds
        task = self._reads[key] = asyncio.create_task(reading())

        def end(done: asyncio.Task[V]) -> None:
            is_current = self._reads.get(key) is done
            if is_current:
                del self._reads[key]
            if done.cancelled() or done.exception() is not None:
                return  # the callers that wait for it get the error
            if is_current:
                self._entries[key] = _Cached(done.result(), began, self._clock(), began + lifetime)

        task.add_done_callback(end)
        return task


def _expires(_key: Hashable, entry: _Cached[V], _now: float) -> float:
    return entry.expires
