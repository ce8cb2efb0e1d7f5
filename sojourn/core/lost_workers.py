"""Workers lost under one call: counted apart from rate limits and deploys, and few.

A call that kills its worker takes the worker's other calls with it, and would go on to the next
worker. Temporal counts attempts only, whatever ended them; how many of them lost their worker is
carried in the details of the call's heartbeats.
"""

from collections.abc import Sequence
from typing import Any

from sojourn.core.json_value import is_object

__all__ = ["LOST_KINDS", "MAX_LOST", "counted", "told", "written"]

MAX_LOST = 3
"""Workers that one call may lose; then its outcome is unknown, and nobody tries it again."""

LOST_KINDS = ("heartbeat", "start_to_close")
"""Time-outs that a living worker prevents: it beats, and ends a call within its own, narrower limit."""


def counted(before: int, last_timeout: str | None) -> int:
    """Workers lost, with the attempt that ended last.

    Args:
        before: Those told by the attempts before.
        last_timeout: The time-out by which the server gave the last attempt up, if it did.
    """
    return before + (last_timeout in LOST_KINDS)


def told(details: Sequence[Any]) -> int:
    """The count in the last heartbeat's details, which anybody may have written."""
    said: Any = details[0].get("lost") if details and is_object(details[0]) else 0
    return said if isinstance(said, int) and not isinstance(said, bool) and 0 < said <= MAX_LOST else 0


def written(lost: int) -> dict[str, int]:
    """The count as heartbeat details carry it; nothing for none."""
    return {"lost": lost} if lost else {}
