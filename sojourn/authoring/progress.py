"""Notes that a tool reports while it works, sent with its heartbeats."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

__all__ = ["ProgressNote", "progress", "reporter"]

MAX_NUMBER = 1e15


@dataclass(frozen=True, slots=True)
class ProgressNote:
    note: str
    done: float | None = None
    total: float | None = None

    def numbers(self) -> dict[str, Any]:
        """Return `done` and `total`, unless they would cost a call its heartbeat."""
        numbers = {"done": self.done, "total": self.total}
        return {name: value for name, value in numbers.items() if _can_be_sent(value)}


reporter: ContextVar[Callable[[ProgressNote], None] | None] = ContextVar("reporter", default=None)
"""Accepts the notes of this context's call, from any thread."""


def progress(note: str, *, done: float | None = None, total: float | None = None) -> None:
    """Report progress, from a coroutine or from the thread of a sync tool or planner.

    The last note is sent with the call's next heartbeat, at most every 2 s and not in its first 3 s. It is
    cut to 200 characters on one line. Outside of a call this function does nothing.

    Args:
        note: The progress of the call in words, for a person: "read 300 of 1,000 rows".
        done: How much is done, in any unit.
        total: How much there is to do, in the same unit.
    """
    report = reporter.get()
    if report is not None:
        report(ProgressNote(str(note), done, total))


def _can_be_sent(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= MAX_NUMBER
