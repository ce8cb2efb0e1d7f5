"""Run long computations in slices on the event loop, or in a thread.

A history of megabytes is read in hundreds of milliseconds, and another client's request needs a dozen
rounds of the loop. If each long work took a slice in each round, that request would wait for all of them a
dozen times. There are only two threads, so that validating large values does not take the whole machine.
"""

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from typing import TypeVar
from weakref import WeakKeyDictionary

from sojourn.core.schema.budget import volume
from sojourn.core.schema.validate import Validator

__all__ = ["SLICE", "Pace", "fetching", "fits", "run_in_thread"]

SLICE = 0.001
FETCHES = 2

LONGEST_FETCH = 1.0
"""Seconds after which a fetch no longer counts: the server may have nothing to send."""

_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, "_Queue"] = WeakKeyDictionary()

_fetches: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


class Pace:
    """One long work, whose steps are bodies of `with pace:`, with `rest` between them."""

    def __init__(self) -> None:
        self._taken = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
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
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_running = False

    async def turn(self) -> None:
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        if not self._is_running:
            self._is_running = True
            self._loop.call_soon(self._next)
        await turn

    def _next(self) -> None:
        """Grant one slice, and continue after the callbacks that are ready by then."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._loop.call_soon(self._next)
                return
        self._is_running = False


@asynccontextmanager
async def fetching() -> AsyncGenerator[None]:
    """Let the body fetch a large response, when few others are in flight."""
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


LITTLE = 4_000
_T = TypeVar("_T")

_THREADS = ThreadPoolExecutor(2, thread_name_prefix="sojourn-check")


async def run_in_thread(work: Callable[[], _T], *, on: object = None) -> _T:
    """Return a function's result from a thread, unless its value `on` is small."""
    if on is not None and volume(on) <= LITTLE:
        return work()
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(_THREADS, context.run, work)


async def fits(validator: Validator, value: object) -> bool:
    """Check whether a value is valid, in the loop if that takes only a moment."""
    return validator.fits_at_once(value) or await run_in_thread(lambda: validator.is_valid(value))
