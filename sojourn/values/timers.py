"""The longest duration of a run's timers, and the summaries of their purpose."""

from datetime import timedelta

__all__ = [
    "ESCALATES",
    "EXPIRES",
    "IDLE",
    "LONGEST",
    "QUOTA",
    "TIME_BUDGET",
    "WAITS",
    "duration_fault",
    "escalation_timer",
    "expiry_timer",
    "limit_duration",
    "seconds_of",
]

LONGEST = timedelta(days=3650)
"""Longest timer.

A duration that Temporal's integers cannot hold would fail a workflow task again and again.
"""

SHORTEST = timedelta(milliseconds=1)
"""Shortest timer; Temporal refuses one that is not positive."""

TIME_BUDGET = "time budget"
"""The timer that fires when the run's active time is used up."""

WAITS = "the planner waits"
"""The timer of a planner's sleep."""

IDLE = "idle time-out"
"""The timer that fires when a conversation has received no message for long."""

QUOTA = "place in the quota"
"""The timer after which a run asks again for a place in its tenant's quota."""

ESCALATES = "escalation of "
"""The prefix of the timer after which a wait escalates, before the wait's id."""

EXPIRES = "expiry of "
"""The prefix of the timer of a wait, before the wait's id."""


def escalation_timer(await_id: str) -> str:
    return f"{ESCALATES}{await_id}"


def expiry_timer(await_id: str) -> str:
    return f"{EXPIRES}{await_id}"


def limit_duration(duration: timedelta) -> timedelta:
    return min(max(duration, SHORTEST), LONGEST)


def seconds_of(duration: timedelta) -> str:
    """Return the duration in seconds, with every digit.

    Two durations have the same text only if they are equal.
    """
    whole, rest = divmod(duration, timedelta(seconds=1))
    return f"{whole}.{rest.microseconds:06d}".rstrip("0") if rest else str(whole)


def duration_fault(name: str, duration: timedelta | None) -> str | None:
    if duration is None or timedelta(0) < duration <= LONGEST:
        return None
    return f"{name} is longer than zero and at most {LONGEST.days} days, not {duration}"
