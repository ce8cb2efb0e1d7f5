"""States: the status of a run as a word for a person; its shape and colour in a page go by the same name."""

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
"""By status; `stuck` is a running one that does not go on."""

OPEN = (*OPEN_STATUSES, "stuck")
"""Of a run that has not ended."""

ENDED = ("completed", "failed", "canceled", "terminated", "timed_out")
"""Of one that has."""


def word_of(status: str) -> str:
    """The word; of a status that is not known here, its name."""
    return WORDS.get(status, status.replace("_", " ").capitalize())
