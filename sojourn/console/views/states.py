"""Words for the status of a run.

The shape and colour of a status on a page go by the same name.
"""

from sojourn.contracts.run import OPEN_STATUSES

__all__ = ["ENDED", "OPEN", "WORDS", "word_of"]

WORDS = {
    "running": "Running",
    "waiting": "Waiting",
    "paused": "Paused",
    "idle": "Idle",
    "stuck": "Stuck",
    "completed": "Completed",
    "failed": "Failed",
    "canceled": "Canceled",
    "terminated": "Terminated",
    "timed_out": "Timed out",
}
"""The word for each status. `stuck` is a running run that makes no progress."""

OPEN = (*OPEN_STATUSES, "stuck")
"""Statuses of a run that is open."""

ENDED = ("completed", "failed", "canceled", "terminated", "timed_out")
"""Statuses of a run that has ended."""


def word_of(status: str) -> str:
    """Return the word for a status. An unknown status keeps its name."""
    return WORDS.get(status, status.replace("_", " ").capitalize())
