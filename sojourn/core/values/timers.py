"""A run's timers: how long one may be, and what each is for, by the summary that Temporal's screens and the fold know."""

from datetime import timedelta

__all__ = ["EXPIRES", "LONGEST", "TIME_BUDGET", "WAITS", "bounded", "duration_fault", "expiry_of"]

LONGEST = timedelta(days=3650)
"""What Temporal's numbers cannot hold fails a workflow task again and again; ten years are for ever."""

SHORTEST = timedelta(milliseconds=1)
"""Temporal refuses a time limit that is not positive."""

TIME_BUDGET = "time budget"
"""Fires when the run's active time is used up."""

WAITS = "the planner waits"
"""A sleep that a planner asked for."""

EXPIRES = "expiry of "
"""Before the id of a wait."""


def expiry_of(await_id: str) -> str:
    """The timer after which nobody has answered a wait."""
    return f"{EXPIRES}{await_id}"


def bounded(duration: timedelta) -> timedelta:
    """A duration that Temporal can hold, whoever gave it."""
    return min(max(duration, SHORTEST), LONGEST)


def duration_fault(name: str, duration: timedelta | None) -> str | None:
    """Why this is refused as a time limit, or None."""
    if duration is None or timedelta(0) < duration <= LONGEST:
        return None
    return f"{name} is longer than zero and at most {LONGEST.days} days, not {duration}"
