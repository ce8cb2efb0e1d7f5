"""Detect a blocked event loop, and heartbeat for the calls that it blocks.

A tool that blocks the loop (`time.sleep`, a driver without `await`) would cost hundreds of calls their
heartbeats: the server would time them out and repeat them elsewhere. So a thread sends heartbeats
meanwhile, and logs for the operator what to change.

A timer of the loop notes the time each second. The first check after a stall detects it, even before the
timer has run again, so that no task is executed that the server has given to another worker.
"""

import asyncio
import gc
import inspect
import sys
import threading
import time
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import structlog

from sojourn.serving.hardening.loop_guard import give_up

__all__ = ["CURRENT", "LATE", "STALL", "LoopWatch", "Stalls", "WatchedCall", "now", "stalls_of", "watch_of"]

TICK = 1.0

STALL = 5.0
"""Delay of a note that counts as a stall, in seconds: a third of the heartbeat time-out."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Counts the time in which the machine is suspended, as Linux's monotonic clock does not."""


def now() -> float:
    """Return the time in seconds, of a clock that runs while the machine is suspended."""
    return time.clock_gettime(_CLOCK)


class Stalls:
    """Watches one event loop while workers are open in it.

    A virtual machine that is paused or moved may find that none of its clocks advanced. Once its wall clock
    has been set, that is a stall too.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._workers = 0
        self._timer: asyncio.TimerHandle | None = None
        self._seen = now(), time.time()
        self._last = float("-inf")

    @contextmanager
    def watch(self) -> Generator[None]:
        """Watch the loop for a worker. Without one it may stand still."""
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
        """Return when the last stall was over, by `now()`. Thread-safe."""
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
    stalls = _STALLS.get(loop)
    if stalls is None:
        stalls = _STALLS[loop] = Stalls(loop)
    return stalls


WATCH_TICK = 1.0

LATE = 2.0
"""Seconds after which a heartbeat is overdue, and the thread sends it for the loop."""

BLOCKED = 3.0
"""Seconds after which the loop counts as blocked; logged again each time they have doubled."""

HELD_UP = 10.0
"""Seconds between two checks beyond which the process was stopped, or code held the GIL."""

GIVEN_UP = 120.0
"""Seconds after which a blocked loop counts as lost, and its worker ends."""

_DEBUGGERS = {"bdb", "pdb", "_pydevd_bundle", "debugpy"}

_MAX_LINES = 8

_log = structlog.get_logger("sojourn.worker")


class WatchedCall(Protocol):
    who: dict[str, str]

    def is_overdue(self, now: float) -> bool: ...

    async def beat_from_thread(self, now: float, blocks: str) -> None:
        """Heartbeat from the thread's own loop, with how the call blocks, if it does."""
        ...


CURRENT: ContextVar[WatchedCall | None] = ContextVar("sojourn_watched", default=None)


class LoopWatch:
    """Watches one event loop until it is closed, from a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread_id = threading.get_ident()
        self._runner = _runner_of(sys._getframe())  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented
        self._calls: set[WatchedCall] = set()
        self._asked: float | None = None
        self._tell_at = BLOCKED
        self._looked_at = time.monotonic()
        self._own_loop: asyncio.AbstractEventLoop | None = None
        threading.Thread(target=self._look_on, name="sojourn-loop-watch", daemon=True).start()

    def add(self, call: WatchedCall) -> None:
        self._calls.add(call)

    def remove(self, call: WatchedCall) -> None:
        self._calls.discard(call)

    def _look_on(self) -> None:
        while not self._loop.is_closed():
            time.sleep(WATCH_TICK)
            try:
                self._look()
            except Exception:  # noqa: BLE001 - after any error the next check is still needed
                _log.warning("loop_watch_failed", exc_info=True)
        if self._own_loop is not None:
            self._own_loop.close()

    def _look(self) -> None:
        now, calls = time.monotonic(), list(self._calls)
        if self._asked is not None and now - self._looked_at > HELD_UP:
            self._asked = now  # the loop has had no time to answer either
        self._looked_at = now
        if not calls and self._asked is None:
            return
        asked = self._asked  # the loop may answer at this moment
        if asked is None:
            asked = self._asked = now
            try:
                self._loop.call_soon_threadsafe(self._answer, now)
            except RuntimeError:  # closed since
                return
        blocked = now - asked
        blocker, at = (None, "") if blocked < BLOCKED else self._blocker()
        if blocked >= self._tell_at:
            self._log_blocked(blocker, blocked)
        if blocked >= GIVEN_UP:
            calls = []
            if not self._is_debugged():
                give_up(self._loop, f"the event loop is blocked for {blocked:.0f} s, at {at}")
        overdue = [call for call in calls if call.is_overdue(now)]
        if overdue:
            description = f"blocks its worker's event loop for {blocked:.0f} s, at {at}"
            self._beat(
                [call.beat_from_thread(now, description if call is blocker else "") for call in overdue]
            )

    def _answer(self, asked: float) -> None:
        self._asked = None
        blocked = time.monotonic() - asked
        if blocked >= BLOCKED:
            _log.warning("loop_free_again", seconds=round(blocked, 1))
        self._tell_at = BLOCKED

    def _log_blocked(self, blocker: WatchedCall | None, blocked: float) -> None:
        self._tell_at = 2 * blocked
        who = blocker.who if blocker else {}
        _log.warning(
            "tool_blocks_loop" if "tool" in who else "planner_blocks_loop" if who else "loop_blocked",
            **who,
            seconds=round(blocked, 1),
            stack=self._stack(),
            is_given_up=blocked >= GIVEN_UP,
            mend="await what waits, or make the tool a plain function: it then runs in a thread",
        )

    def _beat(self, beats: Sequence[Coroutine[Any, Any, None]]) -> None:
        if self._own_loop is None:
            self._own_loop = asyncio.new_event_loop()
        self._own_loop.run_until_complete(_each(beats))

    # Find the call that blocks the loop.

    def _frames(self) -> list[FrameType]:
        """Return the frame that runs the loop's tasks, and those that it executes now."""
        frames: list[FrameType] = []
        frame = sys._current_frames().get(self._thread_id)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented, for debuggers
        while frame is not None and frame.f_code is not self._runner:
            frames.append(frame)
            frame = frame.f_back
        return [] if frame is None else [frame, *reversed(frames)]

    def _blocker(self) -> tuple[WatchedCall | None, str]:
        """Return the call whose code runs now, by its context, and its place."""
        frames = self._frames()
        if not frames:
            return None, ""
        handle = frames[0].f_locals.get("self")
        is_asyncio = isinstance(handle, asyncio.Handle)
        context: Context | None = (
            getattr(handle, "_context", None) if is_asyncio else _context_of(asyncio.current_task(self._loop))
        )
        return context.get(CURRENT) if context else None, _place(frames[-1])

    def _is_debugged(self) -> bool:
        names = (str(frame.f_globals.get("__name__")) for frame in self._frames())
        return any(name.split(".", 1)[0] in _DEBUGGERS for name in names)

    def _stack(self) -> list[str]:
        return [_place(frame) for frame in self._frames()[1:]][-_MAX_LINES:]


def _runner_of(frame: FrameType | None) -> CodeType | None:
    """Return the code that called the coroutine of the task of a frame.

    This is asyncio's, or with another loop the caller of the loop.
    """
    runner = None
    while frame is not None:
        if frame.f_code.co_flags & inspect.CO_COROUTINE and frame.f_back is not None:
            runner = frame.f_back.f_code
        frame = frame.f_back
    return runner


def _context_of(task: "asyncio.Task[Any] | None") -> Context | None:
    referred = gc.get_referents(task) if task else []
    return next((one for one in referred if isinstance(one, Context)), None)


_WATCHES: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWatch] = WeakKeyDictionary()


def watch_of(loop: asyncio.AbstractEventLoop) -> LoopWatch:
    """Return the watch over a loop, made in the loop's own thread."""
    watch = _WATCHES.get(loop)
    if watch is None:
        watch = _WATCHES[loop] = LoopWatch(loop)
    return watch


async def _each(beats: Sequence[Coroutine[Any, Any, None]]) -> None:
    for outcome in await asyncio.gather(*beats, return_exceptions=True):
        if isinstance(outcome, Exception):
            _log.warning("beat_aside_failed", reason=str(outcome))
    sent = asyncio.all_tasks() - {asyncio.current_task()}
    if sent:
        await asyncio.wait(sent, timeout=WATCH_TICK)


def _place(frame: FrameType) -> str:
    code = frame.f_code
    return f"{Path(code.co_filename).name}:{frame.f_lineno} in {code.co_name}"
