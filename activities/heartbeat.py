"""Heartbeats of every activity, from the boundary, so that sync tools beat too.

A beat carries what the tool last said with `sojourn.progress`, so that a person who looks at a
run sees how far a call is, and how many workers were lost under it. The event loop beats; while a
tool blocks that, the watch's thread does.
"""

import asyncio
import contextvars
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from temporalio import activity

from sojourn.authoring.progress import BLOCKS_LOOP, ProgressNote, reporter
from sojourn.core.run import retry
from sojourn.core.values.text import plain

from .loop_watch import CURRENT, LATE, watch_of
from .own_task import OwnTask

__all__ = ["beating"]

FIRST_BEAT = 3.0
"""Seconds before the first: most activities end sooner, and cost nothing."""

INTERVAL = 5.0
"""Seconds between beats; the heartbeat time-out is 15 s."""

NOTE_INTERVAL = 2.0
"""Seconds between beats when there is a new note; the SDK sends no oftener."""

MAX_NOTE = 200
"""Characters of a note."""


@contextmanager
def beating(
    mask: Callable[[str], str] | None = None, *, who: dict[str, str] | None = None, lost: int = 0
) -> Generator[None]:
    """Beat from 3 s on, every 5 s, while the body runs; a cancellation arrives with a beat.

    Args:
        mask: Hides in a note what must not leave the worker.
        who: Whose the beats are, for the log.
        lost: Workers lost under this activity before; told with every beat.
    """
    # The worker of a local activity is the one that waits for it: nobody would hear a beat.
    beats = (_Silence if activity.info().is_local else _Beats)(mask, who or {}, lost)
    watch = watch_of(asyncio.get_running_loop())
    tokens = reporter.set(beats.report), CURRENT.set(beats)
    watch.add(beats)
    try:
        yield
    finally:
        watch.remove(beats)
        CURRENT.reset(tokens[1])
        reporter.reset(tokens[0])
        beats.end()


class _Silence:
    """An activity that does not beat; it can be named all the same."""

    report: Callable[[ProgressNote], None] | None = None

    def __init__(self, mask: Callable[[str], str] | None, who: dict[str, str], lost: int) -> None:
        del mask, lost
        self.who = who

    def is_overdue(self, now: float) -> bool:
        """Never."""
        del now
        return False

    async def beat_aside(self, now: float, blocks: str) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""


class _Beats:
    """The beats of one activity, with its last note."""

    def __init__(self, mask: Callable[[str], str] | None, who: dict[str, str], lost: int) -> None:
        self.who = who
        self._mask = mask
        self._lost = lost
        self._task = OwnTask.current()
        self._loop = asyncio.get_running_loop()
        # A note may come from a thread or a task that knows nothing of this activity.
        self._context = contextvars.copy_context()
        self._note: ProgressNote | None = None
        self._is_told = False
        self._has_ended = False
        self._last: float | None = None
        self._last_aside = float("-inf")
        self._timer = self._loop.call_later(FIRST_BEAT, self._beat, context=self._context)

    def report(self, note: ProgressNote) -> None:
        """Take a note, from any thread; only the first since the loop last looked wakes it."""
        self._note = note
        if self._is_told or self._has_ended:
            return
        self._is_told = True
        try:
            self._loop.call_soon_threadsafe(self._hasten)
        except RuntimeError:  # the loop is closed: a thread has outlived its call and the worker
            self._has_ended = True

    def end(self) -> None:
        """Beat no more; what an abandoned thread still says is dropped."""
        self._has_ended = True
        self._timer.cancel()

    def _hasten(self) -> None:
        """Have a new note out with the next beat, 2 s after the last one or now."""
        self._is_told = False
        if self._has_ended or self._last is None:
            return
        due = self._last + NOTE_INTERVAL
        if due < self._timer.when():
            self._timer.cancel()
            self._timer = self._loop.call_at(due, self._beat, context=self._context)

    def _beat(self) -> None:
        self._last = self._loop.time()
        self._timer = self._loop.call_later(INTERVAL, self._beat, context=self._context)
        activity.heartbeat(*self._details())

    def _details(self, blocks: str = "") -> list[dict[str, Any]]:
        lost, note = retry.written(self._lost), self._note
        if blocks:
            said: dict[str, Any] = {"note": plain(blocks, MAX_NOTE), BLOCKS_LOOP: True}
        elif note is None:
            said = {}
        else:
            # Masked before it is cut: the half of a secret is not the secret, yet tells much.
            text = self._mask(note.note) if self._mask else note.note
            said = {"note": plain(text, MAX_NOTE), **note.numbers()}
        return [{**said, **lost}] if said or lost else []

    # By the watch's thread, while the loop is blocked.

    def is_overdue(self, now: float) -> bool:
        """Whether a beat should have gone out by now, and none did."""
        late = now - self._timer.when() >= LATE and now - self._last_aside >= INTERVAL
        return late and not self._has_ended

    async def beat_aside(self, now: float, blocks: str) -> None:
        """Beat from this thread; a cancellation is acted upon when the loop is free, which is the soonest."""
        self._last_aside = now
        # By the SDK too, whose own clock would give the call up at 20 s; its context may be in use by the loop.
        self._context.copy().run(activity.heartbeat, *await self._sendable(self._details(blocks)))

    async def _sendable(self, details: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What can be encoded here: a codec may belong to the loop that is blocked, and a beat is worth more."""
        if self._task is None or not self._task.is_coded:
            return details
        try:
            await self._task.encoded(details)
        except Exception:  # noqa: BLE001 - somebody else's codec
            return []
        return details
