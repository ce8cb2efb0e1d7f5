"""Stalls: when a worker's event loop last stood still, because code blocked it, or its process or machine was stopped.

After a stall a worker executes what it had fetched before, though the server may have given it to another worker meanwhile. A timer
of the loop notes the time each second. A stall is seen at the first look after it, before the timer has run again, too.
"""

import asyncio
import time
from collections.abc import Generator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

__all__ = ["STALL", "Stalls", "now", "stalls_of"]

TICK = 1.0
"""Seconds between two notes of the time."""

STALL = 5.0
"""Seconds by which a note is late after which the loop has stalled: a third of the heartbeat time-out."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""A clock that goes on while the machine is suspended: on Linux the monotonic one stands still then, on macOS it does not."""


def now() -> float:
    """The time in seconds, of a clock that goes on while the process or the machine stands still."""
    return time.clock_gettime(_CLOCK)


class Stalls:
    """Watches one event loop while workers are open in it.

    A virtual machine that is paused or moved may find that none of its clocks went on. Once its wall clock has been set, that is
    a stall too.

    Args:
        loop: The loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._workers = 0
        self._timer: asyncio.TimerHandle | None = None
        self._seen = now(), time.time()
        self._last = float("-inf")

    @contextmanager
    def watched(self) -> Generator[None]:
        """Watch the loop for a worker; a loop without one may stand still, since nothing was fetched."""
        if not self._workers:
            self._seen, self._last = (now(), time.time()), float("-inf")
            self._tick()
        self._workers += 1
        try:
            yield
        finally:
            self._workers -= 1
            if not self._workers and self._timer:
                self._timer.cancel()

    def last(self) -> float:
        """When the last stall was over, by `now()`; may be called in any thread."""
        if self._workers:
            self._look()
        return self._last

    def _tick(self) -> None:
        self._look()
        self._seen = now(), time.time()
        self._timer = self._loop.call_later(TICK, self._tick)

    def _look(self) -> None:
        clock, wall = now(), time.time()
        seen_clock, seen_wall = self._seen
        if max(clock - seen_clock, wall - seen_wall) > TICK + STALL:
            self._last, self._seen = clock, (clock, wall)


_STALLS: WeakKeyDictionary[asyncio.AbstractEventLoop, Stalls] = WeakKeyDictionary()


def stalls_of(loop: asyncio.AbstractEventLoop) -> Stalls:
    """The watch over a loop, shared by its workers and their activities."""
    stalls = _STALLS.get(loop)
    if stalls is None:
        stalls = _STALLS[loop] = Stalls(loop)
    return stalls
