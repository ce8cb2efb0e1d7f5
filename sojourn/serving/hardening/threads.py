"""Threads of sync tools, shared so that no tool and no tenant takes all of them.

While slots are free, the first to ask gets one, and then the waiting tenants in turn. A tool that holds
fewer than its own few slots gets one even when none is free: hanging calls of one tool delay only further
calls of that tool. So does a tenant that holds none, while a few spare ones are left.

A thread cannot be killed. A call that is overdue or cancelled is *abandoned*: its thread runs on, is
counted, and holds no slot. When too many of a tool's calls are abandoned, its further calls are refused
until some end. The worker's exit waits for no thread, which is why this is no `ThreadPoolExecutor`: the
interpreter joins the threads of an executor.
"""

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

import structlog

from sojourn.contracts import safe_exceptions
from sojourn.errors import ToolUnavailable
from sojourn.serving.fair_slots import FairSlots, running_tenant
from sojourn.values.text import count_noun

__all__ = ["SYNC_THREADS", "SyncThreads"]


class _ThreadSlots(FairSlots[str]):
    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self._own = max(1, slots // OWN_SHARE)
        self._spare = max(1, slots // SPARE_SHARE)

    def is_free(self, tenant: str, name: str) -> bool:
        total = self.by_tenant.total()
        is_first = not self.by_tenant[tenant] and total < self.slots + self._spare
        return total < self.slots or self.by_name[name] < self._own or is_first


SYNC_THREADS = 64

OWN_SHARE = 16
"""The share of each tool, even if others use all threads: one in this many, at least one."""

SPARE_SHARE = 8
"""The share of threads beyond the others, for the first calls of tenants that have none: one in this many."""

_log = structlog.get_logger("sojourn.tool")


class SyncThreads:
    """Runs sync calls in threads, for one event loop, which alone counts them.

    `most_abandoned` calls are shared among the tools that have some; a tool that exceeds its share is
    refused.
    """

    def __init__(self, threads: int = SYNC_THREADS, *, most_abandoned: int | None = None) -> None:
        self._idle: list[_Inbox] = []
        self._threads = threads
        self._most_abandoned = max(1, threads // 2) if most_abandoned is None else most_abandoned
        self._slots = _ThreadSlots(threads)
        self._running = 0
        self._abandoned: Counter[str] = Counter()

    def __del__(self) -> None:
        for inbox in self._idle:
            inbox.put(None)

    async def run(self, tool_id: str, call: Callable[[], Any]) -> Any:
        """Return the result of a call, or raise its error.

        The call runs in a copy of the caller's context. When cancelled, by an `asyncio.timeout` around it
        too, it returns at once and abandons the thread.

        Raises:
            ToolUnavailable: Too many abandoned calls of this tool still run, or the system gives no more threads.
            RuntimeError: The call raised an error that an event loop would act on (`StopIteration`, `KeyboardInterrupt`,
                `CancelledError`); that error is the cause.
        """
        self._refuse_when_held(tool_id)
        async with self._slots.slot(running_tenant(), tool_id):
            self._refuse_when_held(tool_id)  # others were abandoned while this call waited
            job = self._start(tool_id, call)
            try:
                await job.ended.wait()
            except asyncio.CancelledError:
                if not job.ended.is_set():
                    self._abandon(job)
                raise
        return job.outcome()

    def _refuse_when_held(self, tool_id: str) -> None:
        held = self._abandoned[tool_id]
        if held and held >= max(1, self._most_abandoned // len(self._abandoned)):
            raise ToolUnavailable(
                f"{count_noun(held, 'overdue call')} of {tool_id} {'holds a thread' if held == 1 else 'hold threads'} of the worker; "
                "the tool does not run on it until they end"
            )

    def _start(self, tool_id: str, call: Callable[[], Any]) -> "_Job":
        inbox = self._idle.pop() if self._idle else _thread()
        job = _Job(tool_id, call, loop=asyncio.get_running_loop(), on_end=self._end)
        self._running += 1
        inbox.put(job)
        return job

    def _abandon(self, job: "_Job") -> None:
        job.is_abandoned = True
        self._running -= 1
        self._abandoned[job.tool_id] += 1
        _log.warning("sync_tool_abandoned", tool=job.tool_id, abandoned=self._abandoned[job.tool_id])

    def _end(self, job: "_Job", inbox: "_Inbox") -> None:
        job.ended.set()
        if job.is_abandoned:
            job.value = job.error = None  # nothing reads them
            self._abandoned[job.tool_id] -= 1
            left = self._abandoned[job.tool_id]
            self._abandoned = +self._abandoned  # removes tools whose count is zero
            _log.info("sync_tool_ended_late", tool=job.tool_id, abandoned=left)
        else:
            self._running -= 1
        if self._running + len(self._idle) < self._threads:
            self._idle.append(inbox)
        else:
            inbox.put(None)


@dataclass(eq=False)
class _Job:
    """A call and its outcome. The thread calls only `run`."""

    tool_id: str
    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    on_end: "Callable[[_Job, _Inbox], None]"
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_abandoned: bool = False
    value: Any = None
    error: BaseException | None = None

    def run(self, inbox: "_Inbox") -> bool:
        """Run the call, and notify the loop. Return false if it has been closed."""
        try:
            self.value = self.context.run(self.call)
        except BaseException as error:  # noqa: BLE001 - the caller judges it
            self.error = error
        try:
            self.loop.call_soon_threadsafe(self.on_end, self, inbox, context=self.context.copy())
        except RuntimeError:
            return False
        return True

    def outcome(self) -> Any:
        error, self.error = self.error, None
        try:
            if error is None:
                return self.value
            if issubclass(type(error), (Exception, SystemExit)) and not safe_exceptions.is_a(
                error, StopIteration
            ):
                raise error
            raise RuntimeError(f"{self.tool_id} raised {safe_exceptions.kind(error)}") from error
        finally:
            del error  # its traceback holds this frame: a cycle would keep the tool's values alive


_Inbox = SimpleQueue[_Job | None]


def _thread() -> _Inbox:
    inbox: _Inbox = SimpleQueue()
    try:
        threading.Thread(target=_work, args=(inbox,), name="sojourn-tool", daemon=True).start()
    except RuntimeError as error:
        raise ToolUnavailable(f"no thread can be started on this worker: {error}") from error
    return inbox


def _work(inbox: _Inbox) -> None:
    while (job := inbox.get()) is not None and job.run(inbox):
        del job  # an idle thread keeps nothing of its last call
