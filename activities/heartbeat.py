"""Heartbeats of every activity, from the boundary, so that sync tools beat too.

A beat carries what the tool last said with `sojourn.progress`, so that a person who looks at a
run sees how far a call is.
"""

import asyncio
import contextvars
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from temporalio import activity

from sojourn.core.wording import plain
from sojourn.progress_note import ProgressNote, reporter

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
def beating(mask: Callable[[str], str] | None = None) -> Generator[None]:
    """Beat from 3 s on, every 5 s, while the body runs; a cancellation arrives with a beat.

    Args:
        mask: Hides in a note what must not leave the worker.
    """
    if activity.info().is_local:  # its worker is the one that waits for it: nobody would hear a beat
        yield
        return
    beats = _Beats(mask)
    token = reporter.set(beats.report)
    try:
        yield
    finally:
        reporter.reset(token)
        beats.end()


class _Beats:
    """The beats of one activity, with its last note."""

    def __init__(self, mask: Callable[[str], str] | None) -> None:
        self._mask = mask
        self._loop = asyncio.get_running_loop()
        # A note may come from a thread or a task that knows nothing of this activity.
        self._context = contextvars.copy_context()
        self._note: ProgressNote | None = None
        self._is_told = False
        self._has_ended = False
        self._last: float | None = None
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

    def _details(self) -> list[dict[str, Any]]:
        note = self._note
        if note is None:
            return []
        # Masked before it is cut: the half of a secret is not the secret, yet tells much.
        text = self._mask(note.note) if self._mask else note.note
        return [{"note": plain(text, MAX_NOTE), **note.numbers()}]
