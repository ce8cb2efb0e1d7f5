"""Progress: what a tool says while it works, told with its heartbeats.

The module is not named for its function: importing it would hide `sojourn.progress` behind a
module of that name.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

__all__ = ["BLOCKS_LOOP", "ProgressNote", "progress", "reporter"]

BLOCKS_LOOP = "blocks_loop"
"""True in the heartbeat of a call that blocks its worker's event loop; the note says for how long, and where."""

MAX_NUMBER = 1e15
"""What counts more is no count; infinities and NaN are none either."""


@dataclass(frozen=True, slots=True)
class ProgressNote:
    """What was last said."""

    note: str
    """As the tool wrote it."""
    done: float | None = None
    """How much is done."""
    total: float | None = None
    """How much there is."""

    def numbers(self) -> dict[str, Any]:
        """Those of `done` and `total` that can be sent; others must not cost a call its heartbeat."""
        given = {"done": self.done, "total": self.total}
        return {name: value for name, value in given.items() if _can_be_sent(value)}


reporter: ContextVar[Callable[[ProgressNote], None] | None] = ContextVar("reporter", default=None)
"""Takes the notes of the call this context belongs to, from any thread; set where heartbeats are made."""


def progress(note: str, *, done: float | None = None, total: float | None = None) -> None:
    """Say how far a tool (or planner) is, from a coroutine or from a sync tool's thread.

    The last note goes out with the call's next heartbeat, at most every 2 s and not in its first 3 s,
    so it costs next to nothing, however often it is said. It is cut to 200 characters on one line.
    Outside of a call, in a test for example, and after the call has ended, it does nothing.

    Args:
        note: What is done, for a person: "read 300 of 1,000 rows".
        done: How much is done, in any unit.
        total: How much there is, in the same unit.
    """
    report = reporter.get()
    if report is not None:
        report(ProgressNote(str(note), done, total))


def _can_be_sent(value: Any) -> bool:
    return isinstance(value, (int, float)) and abs(value) <= MAX_NUMBER
