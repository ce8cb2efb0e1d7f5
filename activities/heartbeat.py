"""Heartbeats of every activity but local ones, and tasks at the wrong worker.

A heartbeat carries the last note of `sojourn.progress`, so that a person who views a run sees the progress
of a call. It also carries the number of workers lost under the call. The event loop sends heartbeats. While a
tool blocks the loop, the watch's thread sends them.

During a deploy that adds an agent, or if two apps share a task queue, only some of a queue's workers serve an
agent. A worker without it fails the attempt, so that Temporal makes another one, which another worker may get.
It also has the run's next workflow task offered to all workers: activities that start eagerly would come here
again.
"""

import asyncio
import contextvars
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import ResetStickyTaskQueueRequest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from sojourn.authoring.runnable import ProgressNote, reporter
from sojourn.connection.announcements import read_workers
from sojourn.contracts.dispatch import WRONG_WORKER
from sojourn.events.pending import BLOCKS_LOOP
from sojourn.serving.hardening.attempt import CHECK, OwnTask, StartCheck
from sojourn.serving.hardening.loop_watch import CURRENT, LATE, watch_of
from sojourn.serving.hardening.lost_workers import Earlier
from sojourn.values.text import plain

__all__ = ["check_worker", "release_run", "send_heartbeats"]

FIRST_BEAT = 3.0
"""Seconds before the first heartbeat. Most activities end sooner, and send none."""

INTERVAL = 5.0
"""Seconds between heartbeats. The heartbeat time-out is 15 s."""

NOTE_INTERVAL = 2.0
"""Seconds between heartbeats if there is a new note. The SDK sends no more often."""

MAX_NOTE = 200
"""Longest note, in characters."""


@contextmanager
def send_heartbeats(
    mask: Callable[[str], str] | None = None,
    *,
    who: dict[str, str] | None = None,
    earlier: Earlier | None = None,
) -> Generator[None]:
    """Heartbeat from 3 s on, every 5 s, while the body runs.

    A cancellation arrives with a heartbeat. Code in the body calls `still_wanted` right before it
    begins what has an effect.
    """
    # A local activity runs on the worker that waits for it, so a heartbeat would have no receiver.
    known = earlier or Earlier()
    beats = (_Silence if activity.info().is_local else _Beats)(mask, who or {}, known)
    watch, check = watch_of(asyncio.get_running_loop()), StartCheck(known.details)
    tokens = reporter.set(beats.report), CURRENT.set(beats), CHECK.set(check)
    watch.add(beats)
    try:
        yield
    finally:
        watch.remove(beats)
        check.end()
        CHECK.reset(tokens[2])
        CURRENT.reset(tokens[1])
        reporter.reset(tokens[0])
        beats.end()


class _Silence:
    """An activity that does not heartbeat, but is still named in the log."""

    report: Callable[[ProgressNote], None] | None = None

    def __init__(self, mask: Callable[[str], str] | None, who: dict[str, str], earlier: Earlier) -> None:
        del mask, earlier
        self.who = who

    def is_overdue(self, now: float) -> bool:
        del now
        return False

    async def beat_from_thread(self, now: float, blocks: str) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


class _Beats:
    """The heartbeats of one activity, with its last note."""

    def __init__(self, mask: Callable[[str], str] | None, who: dict[str, str], earlier: Earlier) -> None:
        self.who = who
        self._mask = mask
        self._earlier = earlier.details
        self._task = OwnTask.current()
        self._loop = asyncio.get_running_loop()
        # A note may come from a thread or a task that does not have this activity's context.
        self._context = contextvars.copy_context()
        self._note: ProgressNote | None = None
        self._is_told = False
        self._has_ended = False
        self._last: float | None = None
        self._last_from_thread = float("-inf")
        self._beat_in(FIRST_BEAT)

    def report(self, note: ProgressNote) -> None:
        """Accept a note, from any thread.

        Only the first note since the loop last ran wakes the loop.
        """
        self._note = note
        if self._is_told or self._has_ended:
            return
        self._is_told = True
        try:
            self._loop.call_soon_threadsafe(self._hasten)
        except RuntimeError:  # the loop is closed: a thread has outlived its call and the worker
            self._has_ended = True

    def end(self) -> None:
        self._has_ended = True
        self._timer.cancel()

    def _hasten(self) -> None:
        self._is_told = False
        if self._has_ended or self._last is None:
            return
        due = self._last + NOTE_INTERVAL
        if due < self._due:
            self._timer.cancel()
            self._beat_in(due - time.monotonic())

    def _beat_in(self, seconds: float) -> None:
        self._due = time.monotonic() + seconds
        self._timer = self._loop.call_later(seconds, self._beat, context=self._context)

    def _beat(self) -> None:
        self._last = time.monotonic()
        self._beat_in(INTERVAL)
        activity.heartbeat(*self._details())

    def _details(self, blocks: str = "") -> list[dict[str, Any]]:
        earlier, note = self._earlier, self._note
        if blocks:
            details: dict[str, Any] = {"note": plain(blocks, MAX_NOTE), BLOCKS_LOOP: True}
        elif note is None:
            details = {}
        else:
            # Masked before it is shortened: half a secret would escape the mask, yet reveals much.
            text = self._mask(note.note) if self._mask else note.note
            details = {"note": plain(text, MAX_NOTE), **note.numbers()}
        return [{**details, **earlier}] if details or earlier else []

    # Called by the watch's thread, while the loop is blocked.

    def is_overdue(self, now: float) -> bool:
        late = now - self._due >= LATE and now - self._last_from_thread >= INTERVAL
        return late and not self._has_ended

    async def beat_from_thread(self, now: float, blocks: str) -> None:
        # A cancellation takes effect when the loop is free again.
        self._last_from_thread = now
        # Through the SDK too, whose own timer would fail the call at 20 s. The loop may be using the context.
        self._context.copy().run(activity.heartbeat, *await self._sendable(self._details(blocks)))

    async def _sendable(self, details: list[dict[str, Any]]) -> list[dict[str, Any]]:
        # The codec may belong to the blocked loop.
        if self._task is None or not self._task.is_coded:
            return details
        try:
            await self._task.encode(details)
        except Exception:  # noqa: BLE001 - a foreign codec
            return []
        return details


PAUSE = timedelta(milliseconds=100)
"""Delay before the attempt fails, and again before the next one.

This worker might get the next one, too.
"""


async def check_worker(agent_id: str) -> list[str]:
    """Return the other task queues that serve an agent that this worker lacks."""
    info = activity.info()
    try:
        client = activity.client()
        serving = [worker.task_queue for worker in await read_workers(client) if agent_id in worker.agents]
    except (RPCError, RuntimeError):
        return []  # the server does not answer, or no server knows this activity
    if info.task_queue not in serving:
        return sorted({*serving})
    await release_run(client, info)
    await asyncio.sleep(PAUSE.total_seconds())
    raise ApplicationError(
        f"no agent {agent_id!r} on this worker; another worker of task queue {info.task_queue} serves it",
        type=WRONG_WORKER,
        next_retry_delay=PAUSE,
        non_retryable=info.is_local,
    )


async def release_run(client: Client, info: activity.Info) -> None:
    """Have the run's next workflow task offered to all workers of its queue."""
    execution = WorkflowExecution(workflow_id=info.workflow_id or "", run_id=info.workflow_run_id or "")
    request = ResetStickyTaskQueueRequest(namespace=client.namespace, execution=execution)
    try:
        await client.workflow_service.reset_sticky_task_queue(request)
    except RPCError:
        return  # the next attempt tries again
