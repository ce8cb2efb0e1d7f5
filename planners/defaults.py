"""Defaults: what a call is repaired with where nobody gave a value."""

from typing import Any

from planners.tools import GET_DEVICE, GET_SITE, GET_TIME_SERIES, UPSERT_PROFILE
from planners.windows import WEEK, Window
from sojourn import Turn

__all__ = ["defaults"]


def defaults(turn: Turn) -> dict[str, dict[str, Any]]:
    """Return the role of a contact and, once the time of the data is known, its last week."""
    record = turn.last(GET_SITE) or turn.last(GET_DEVICE)
    week = Window(length=WEEK).bounds(record.as_of) if record else {}
    return {UPSERT_PROFILE.id: {"role": "operations"}, GET_TIME_SERIES.id: week}
