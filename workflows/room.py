"""Room: how much more history the server allows a run to write.

At its limit, 51,200 events or 50 MB, the server terminates a run: without an answer, and with calls in
flight. So well before the limit nothing new begins, and the planner gets its last turn. The rest is for calls
in flight.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from temporalio import workflow

MAX_EVENTS = 45_000
"""Number of events from which on nothing new begins; 32 calls in flight write 400 more."""

MAX_BYTES = 18_000_000
"""Size of the history in bytes from which on nothing new begins."""

MOST_BYTES = 49_000_000
"""Size of the history in bytes, with room for every answer in flight, up to which a call begins."""

CONTINUE_EVENTS = 3_000
"""Number of events from which on a run goes on in a new execution, where nothing is in flight.

A worker replays them in 0.6 s.
"""

CONTINUED_BEFORE = 4_000
"""The same for an execution that an earlier version let grow beyond `CONTINUE_EVENTS`."""

CONTINUE_BYTES = 4_000_000
"""The same for the size of the history in bytes."""

TRY_AGAIN_EVENTS = 1_000
"""Number of events until a run that could not go on in a new execution tries again."""

LARGEST_ANSWER = 1_850_000
"""Largest answer in bytes: a result with its artifacts."""


class Room:
    """Decides whether anything may begin; the same in a replay, since the server sends the numbers with each task."""

    def __init__(self) -> None:
        self._is_ignored = False
        self._in_flight = 0
        self._long_from = 0
        """Number of events from which on the run tries again to go on."""

    @property
    def is_long(self) -> bool:
        """Whether the run is to go on in a new execution, so that a worker that takes it over has little to replay.

        A run that an earlier version let grow beyond that stays in its execution.
        """
        info = workflow.info()
        if info.get_current_history_length() < self._long_from:
            return False
        if info.get_current_history_length() >= CONTINUE_EVENTS and workflow.patched("continues-at-3000"):
            return True
        is_long = (
            info.get_current_history_length() >= CONTINUED_BEFORE
            or info.get_current_history_size() >= CONTINUE_BYTES
            or info.is_continue_as_new_suggested()
        )
        return is_long and workflow.patched("continues")

    def stays(self) -> None:
        """Let the run stay in its execution for a while, since it cannot go on now."""
        self._long_from = workflow.info().get_current_history_length() + TRY_AGAIN_EVENTS

    @property
    def looks_full(self) -> bool:
        """Whether the history's numbers are near the limit."""
        if self._is_ignored:
            return False
        info = workflow.info()
        return info.get_current_history_length() >= MAX_EVENTS or info.get_current_history_size() >= MAX_BYTES

    @property
    def is_full(self) -> bool:
        """Whether nothing new may begin; a run that an earlier version let continue past the limit continues."""
        if self.looks_full and not workflow.patched("history-limit"):
            self._is_ignored = True
        return self.looks_full

    async def for_answer(self) -> AbstractContextManager[None]:
        """Wait until an answer has room together with those in flight; it is in flight during the body of a `with`.

        A new history has room for 26 at a time, one near its limit for 16.
        """
        while not self._has_place() and workflow.patched("answers-in-turn"):
            await workflow.wait_condition(self._has_place)  # several waiters wake at once
        return self._placed()

    @contextmanager
    def _placed(self) -> Generator[None]:
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    def _has_place(self) -> bool:
        if self._in_flight == 0:
            return True
        filled = workflow.info().get_current_history_size() + self._in_flight * LARGEST_ANSWER
        return filled + LARGEST_ANSWER <= MOST_BYTES
