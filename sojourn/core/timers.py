"""What a run's timers are for: the summary by which Temporal's screens and the fold know them."""

__all__ = ["EXPIRES", "TIME_BUDGET", "WAITS", "expiry_of"]

TIME_BUDGET = "time budget"
"""Fires when the run's active time is used up."""

WAITS = "the planner waits"
"""A sleep that a planner asked for."""

EXPIRES = "expiry of "
"""Before the id of a wait."""


def expiry_of(await_id: str) -> str:
    """The timer after which nobody has answered a wait."""
    return f"{EXPIRES}{await_id}"
