"""Pace: work that takes long on an event loop goes on in slices, and only one such slice is taken in each round of the loop.

A history of megabytes is read in hundreds of milliseconds, and a request of somebody else needs a dozen rounds of the loop. If each long work took a
slice in each round, that request would wait for all of them a dozen times.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from weakref import WeakKeyDictionary

__all__ = ["SLICE", "Pace", "fetching"]

SLICE = 0.001
"""Seconds for which one long work has the loop."""

FETCHES = 2
"""Most large answers of the server that are on their way at once."""

LONGEST_FETCH = 1.0
"""Seconds after which one no longer counts: the server may have nothing to send for now."""

_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, "_Queue"] = WeakKeyDictionary()

_fetches: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


class Pace:
    """One long work: each of its steps is a body of `with pace:`, and between two of them it calls `rest`."""

    def __init__(self) -> None:
        self._taken = 0.0
        """Seconds that the steps of the present slice took."""
        self._began = 0.0

    def __enter__(self) -> None:
        """Begin a step, which waits for nothing."""
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        """End the step."""
        self._taken += time.perf_counter() - self._began

    async def rest(self) -> None:
        """Give the loop to others if the slice is over."""
        if self._taken < SLICE:
            return
        loop = asyncio.get_running_loop()
        queue = _queues.get(loop)
        if queue is None:
            queue = _queues[loop] = _Queue(loop)
        await queue.turn()
        self._taken = 0.0


class _Queue:
    """The long works of a loop that wait for their next slice, in their order."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_running = False

    async def turn(self) -> None:
        """Wait for the next slice."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        if not self._is_running:
            self._is_running = True
            self._loop.call_soon(self._next)
        await turn

    def _next(self) -> None:
        """Give one slice, and look again in the next round: what is ready by then comes first."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._loop.call_soon(self._next)
                return
        self._is_running = False


@asynccontextmanager
async def fetching() -> AsyncGenerator[None]:
    """Fetch a large answer of the server in the body, when few others do."""
    loop = asyncio.get_running_loop()
    fetches = _fetches.get(loop)
    if fetches is None:
        fetches = _fetches[loop] = asyncio.Semaphore(FETCHES)
    await fetches.acquire()
    with ExitStack() as once:
        once.callback(fetches.release)
        timer = loop.call_later(LONGEST_FETCH, once.close)
        try:
            yield
        finally:
            timer.cancel()
