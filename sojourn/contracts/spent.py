"""Spent: what a run did and used, for a parent run to count when the run ends without an answer."""

from datetime import timedelta

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.principal import Principal
from sojourn.contracts.record import Record
from sojourn.contracts.tool_result import ToolTelemetry

__all__ = ["Spent"]


class Spent(Record):
    """Sent with the failure of a child run, or by signal before a child run ends as canceled (SR-53)."""

    children_count: int = 0
    """Tool calls executed in the run and in its child runs."""
    telemetry: ToolTelemetry | None = None
    """Summed over plans, calls and child runs."""
    artifacts: list[Artifact] = []
    """The last 100 artifacts, by reference."""
    active_ms: int = 0
    """Active time of the run and its child runs, in milliseconds; only where a time budget was set."""

    may_have_acted: bool | None = None
    """Whether one of the calls took effect, or may have; None if the run does not say."""
    in_doubt: bool = False
    """Whether a failed run leaves it open if one of its calls took effect."""

    also_asked_by: list[Principal] = []
    """As that of `RunOutput`."""

    @property
    def active_time(self) -> timedelta:
        """The active time as a duration."""
        return timedelta(milliseconds=self.active_ms)
