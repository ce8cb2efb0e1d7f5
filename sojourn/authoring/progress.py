"""Notes that a tool reports while it works, sent with its heartbeats.

The module is not named for its function: importing it would hide `sojourn.progress` behind a
module of that name.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

__all__ = ["ProgressNote", "progress", "reporter"]

MAX_NUMBER = 1e15
"""Largest `done` or `total` that is sent. Infinity and NaN are not sent either."""


@dataclass(frozen=True, slots=True)
class ProgressNote:
    """The last note of a call."""

    note: str
    """The text, as the tool wrote it."""
    done: float | None = None
    """Amount done, in the unit of `total`."""
    total: float | None = None
    """Amount of work in total."""

    def numbers(self) -> dict[str, Any]:
        """Return `done` and `total`, as far as they can be sent.

        An invalid number must not cost a call its heartbeat.
        """
        numbers = {"done": self.done, "total": self.total}
        return {name: value for name, value in numbers.items() if _can_be_sent(value)}


reporter: ContextVar[Callable[[ProgressNote], None] | None] = ContextVar("reporter", default=None)
"""Accepts the notes of this context's call, from any thread.

The code that heartbeats sets it.
"""


def progress(note: str, *, done: float | None = None, total: float | None = None) -> None:
    """Report progress, from a coroutine or from the thread of a sync tool or planner.

    The last note is sent with the call's next heartbeat, at most every 2 s and not in its first 3
    s, so a note costs next to nothing, however often it is written. It is cut to 200 characters on
    one line. Outside of a call, in a test for example, and after the call has ended, this function
    does nothing.

    Args:
        note: What the call is doing, for a person: "read 300 of 1,000 rows".
        done: How much is done, in any unit.
        total: How much there is to do, in the same unit.
    """
    report = reporter.get()
    if report is not None:
        report(ProgressNote(str(note), done, total))


def _can_be_sent(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= MAX_NUMBER
