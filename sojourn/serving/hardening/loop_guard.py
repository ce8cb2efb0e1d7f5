"""End the process with its own status when foreign code breaks the event loop.

A task that is never awaited can raise `SystemExit` out of the loop, stop the loop, or cancel all that runs
on it. The first two are logged, and the loop continues. The last ends the process, with status 1. A thread
ends the process of a loop that does not end in time, so that a signal always has its effect, and of a loop
blocked for so long that its calls are given up: Temporal would keep sending it tasks.

The SDK's threads wake an event loop with a result. When the interpreter ends before such a thread has
returned, Python ends the thread in the middle, and the SDK's runtime aborts the process: `Fatal Python
error: PyGILState_Release`. A program that connects and ends right away meets this often on a busy machine.
The SDK has nothing to wait for; but Python shows whether a thread that it did not start is inside Python
code.

Python 3.14, and 3.13 at least since 3.13.5, suspend such a thread for ever instead of ending it. If the
SDK's runtime is freed while the interpreter shuts down, it waits for its threads, and the process never
ends.
"""

import asyncio
import atexit
import contextlib
import ctypes
import functools
import gc
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from datetime import timedelta
from typing import Any, Self
from weakref import WeakSet

import structlog

from sojourn.logs.values import describe_error

__all__ = ["SIGNALS", "Stop", "end_quietly", "give_up", "new_event_loop", "run_guarded"]

try:
    from uvloop import new_event_loop
except ModuleNotFoundError:  # there is none for Windows
    from asyncio import new_event_loop


SIGNALS = (signal.SIGTERM, signal.SIGINT)

_FAILED = 1

_CLOSING = 10.0
"""Seconds that a loop has to end after its drain. Its other tasks are cancelled then."""

_AT_ONCE = 5.0
"""Seconds that a loop has to end after a second signal."""

_OWN: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
"""Loops of `run_guarded`. Their worker owns the process, and may end it."""

_log = structlog.get_logger("sojourn.worker")


class Stop:
    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = False
        """Whether this class cancelled the worker's task, and no foreign code."""

    def ask(self, main: "asyncio.Task[Any]") -> None:
        """Request that the worker stop. The second request stops it at once."""
        if self.asked.is_set():
            self.at_once = True
            main.cancel()
        self.asked.set()


def run_guarded(
    serving: Callable[[Stop], Coroutine[Any, Any, None]],
    *,
    drain: timedelta,
    new_loop: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
) -> None:
    """Run a worker until it has stopped, on a loop of its own.

    SIGTERM and Ctrl-C request that it stop. 10 s after the drain the process is ended.

    Raises:
        SystemExit: Foreign code cancelled the worker; with status 1, and a log entry.
    """
    with _Deadline() as deadline, contextlib.ExitStack() as closing:
        runner = asyncio.Runner(loop_factory=new_loop)
        loop = runner.get_loop()
        _OWN.add(loop)
        closing.callback(_close, runner)
        stop = Stop()
        main = loop.create_task(serving(stop))

        def ask_to_stop() -> None:
            stop.ask(main)

        def on_signal(count: int) -> None:
            deadline.allow(drain.total_seconds() + _CLOSING if count == 1 else _AT_ONCE)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(ask_to_stop)

        with _signals(on_signal):
            _to_its_end(main)
            if not main.cancelled() and main.exception() is None:
                deadline.status = 0
            deadline.allow(_CLOSING)
            closing.close()
    if main.cancelled():
        _log.error("worker_cancelled", reason="a tool or other foreign code cancelled the worker's own task")
        raise SystemExit(_FAILED)
    main.result()


def give_up(loop: asyncio.AbstractEventLoop, reason: str) -> None:
    """End the process of a worker whose loop stays blocked, if the loop is ours."""
    if loop in _OWN:
        try:
            _log.error("worker_given_up", reason=reason, status=_FAILED)
        finally:
            os._exit(_FAILED)


def _to_its_end(main: "asyncio.Task[None]") -> None:
    """Run the loop to the end of the task, past exceptions that escape from it."""
    loop = main.get_loop()
    main.add_done_callback(lambda _: loop.stop())
    while not main.done():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            if not main.done():
                _log.error(
                    "loop_left", raised=describe_error(error), reason="a task that no code awaits raised this"
                )
        else:
            if not main.done():
                _log.error("loop_stopped", reason="a tool or other foreign code stopped the event loop")


def _close(runner: asyncio.Runner) -> None:
    try:
        runner.close()
    except (SystemExit, KeyboardInterrupt) as error:
        _log.error("loop_left", raised=describe_error(error), reason="a task that was left raised this")


@contextlib.contextmanager
def _signals(report: Callable[[int], None]) -> Generator[None]:
    """Report the number of signals, not from the loop. The third ends the process."""
    count = 0

    def on_signal(*_: Any) -> None:
        nonlocal count
        count += 1
        if count > 2:
            os._exit(_FAILED)
        report(count)

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Deadline:
    def __init__(self) -> None:
        self.status = _FAILED
        self._allowed: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        """Seconds until the deadline; None ends the thread. A signal handler may fill this kind of queue."""

    def allow(self, seconds: float) -> None:
        self._allowed.put(seconds)

    def __enter__(self) -> Self:
        threading.Thread(target=self._wait, name="sojourn-deadline", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._allowed.put(None)

    def _wait(self) -> None:
        until: float | None = None
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            try:
                allowed = self._allowed.get(timeout=left)
            except queue.Empty:
                break
            if allowed is None:
                return
            then = time.monotonic() + allowed
            until = then if until is None else min(until, then)
        try:
            _log.error("worker_overdue", reason="the event loop does not end", status=self.status)
        finally:
            os._exit(self.status)


_LONGEST = 5.0
"""Longest wait in seconds. A thread that stays longer in Python is not the SDK's."""

_POLL = 0.001


@functools.cache
def end_quietly() -> None:
    """Make this process wait, at its exit, until the SDK's threads left Python."""
    # Once, and early: the first registered function runs last, when the rest of the program has ended.
    atexit.register(_settle)


def _settle() -> None:
    until = time.monotonic() + _LONGEST
    while _foreign_threads() and time.monotonic() < until:
        time.sleep(_POLL)  # releases the interpreter lock, for which such a thread waits
    # From here to the interpreter's end this thread holds the lock, so that no other thread enters Python
    # code.
    _keep_runtimes()


def _keep_runtimes() -> None:
    """Leak each runtime of the SDK, whose threads the end of the process ends."""
    if runtimes := sys.modules.get("temporalio.runtime"):
        gc.unfreeze()  # the collector lists nothing that the HTTP service has frozen
        for each in gc.get_objects():
            if issubclass(type(each), runtimes.Runtime):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


def _foreign_threads() -> set[int]:
    # A foreign thread that asks for its own name gets a stand-in.
    own = {thread.ident for thread in threading.enumerate() if not isinstance(thread, threading._DummyThread)}  # noqa: SLF001
    return {ident for ident in sys._current_frames() if ident not in own}  # noqa: SLF001
