"""Where a forked run comes from."""

from sojourn.contracts.record import Record

__all__ = ["ForkedFrom"]


class ForkedFrom(Record):
    """The point of another run at which a run was forked: the fork begins with the state and the transcript of that point."""

    run_id: str
    """The run that was forked, the fork's origin."""
    event_id: str
    """The last event of the origin that the fork has taken over."""
    execution: str = ""
    """The origin's execution in Temporal that has this event, by Temporal's own run id."""
    at: str = ""
    """The event that was asked for; the fork begins at the last point up to it."""
