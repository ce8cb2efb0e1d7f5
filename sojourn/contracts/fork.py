"""Where a forked run comes from, and what it was given."""

from sojourn.contracts.principal import Principal
from sojourn.contracts.record import Record

__all__ = ["ForkChange", "ForkedFrom"]


class ForkChange(Record):
    """What whoever forked a run gave the fork in place of what its origin had."""

    kind: str
    """`message`, `result`, `answer`, `decision` or `arguments`."""
    tool_call_id: str = ""
    """The origin's call that got it; empty for a message, and for the answer to a planner's question."""
    tool: str = ""
    """The id of that call's tool."""
    given: str = ""
    """The beginning of what was given: the text of a message or an answer, `approve` or `deny`, else JSON."""
    digest: str = ""
    """SHA-256 of all that was given, as `given` writes it."""


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
    changes: list[ForkChange] = []
    """What the fork was given; empty for a fork that changes nothing."""
    by: str | None = None
    """Who forked, by the name in the request; recorded unchecked."""
    principal: Principal | None = None
    """Who forked, without roles, as the program that forked had found out; None where it did not say."""

    @property
    def forked_by(self) -> str | None:
        """The name of who forked: the principal's subject, else the name in the request."""
        return self.principal.subject if self.principal else self.by
