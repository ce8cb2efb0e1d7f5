"""Frame: one line between the hub and the processes that it connects."""

from sojourn.contracts.record import Record
from sojourn.live.transport import Delta

__all__ = ["MAX_FRAME", "Frame"]

MAX_FRAME = 256_000
"""Most bytes of a line; a longer one ends the connection."""


class Frame(Record):
    """A delta of a run; without a delta, a subscriber's wish for those of the run."""

    topic: str
    """The run, as `topic_of` names it."""
    delta: Delta | None = None
    """The delta."""

    def line(self) -> bytes:
        """Return the frame as a line of JSON."""
        return self.model_dump_json(exclude_defaults=True).encode() + b"\n"
