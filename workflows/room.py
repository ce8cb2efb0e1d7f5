"""Room: how much history the server still lets a run write.

At its limit, 51,200 events or 50 MB, the server ends a run by force: with no answer, and with calls in flight. So
well before it nothing new is begun, and the planner gets its last turn. What is left is for what is in flight.
"""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager

from temporalio import workflow

MAX_EVENTS = 45_000
"""Events from which on nothing new begins; 32 calls in flight write 400 more."""

MAX_BYTES = 18_000_000
"""The same in bytes."""

MOST_BYTES = 49_000_000
"""Bytes of history, with room for every answer in flight, up to which a call begins."""

LARGEST_ANSWER = 1_850_000
"""Bytes that one answer may take: a result with its artifacts."""


class Room:
    """Asked before anything begins; what it says is the same in a replay, since the server tells it with each task."""

    def __init__(self) -> None:
        self._is_ignored = False
        self._in_flight = 0

    @property
    def looks_full(self) -> bool:
        """Whether the limit is near, as far as the numbers tell."""
        if self._is_ignored:
            return False
        info = workflow.info()
        return info.get_current_history_length() >= MAX_EVENTS or info.get_current_history_size() >= MAX_BYTES

    @property
    def is_full(self) -> bool:
        """Whether nothing new may begin; a run that an earlier version let go on past this goes on."""
        if self.looks_full and not workflow.patched("history-limit"):
            self._is_ignored = True
        return self.looks_full

    async def for_answer(self) -> AbstractContextManager[None]:
        """Hold a call back until its answer has a place beside those in flight; it is in flight in the body of a `with`.

        In a history that is new 26 have one at a time, near its limit 16.
        """
        while not self._has_place() and workflow.patched("answers-in-turn"):
            await workflow.wait_condition(self._has_place)  # several are woken at once
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
