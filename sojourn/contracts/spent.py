"""Spent: what a run did and used, as its parent counts it when the run ends without an answer."""

from datetime import timedelta

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.record import Record
from sojourn.contracts.tool_result import ToolTelemetry

__all__ = ["Spent"]


class Spent(Record):
    """Beside the failure of a child run, or told to its parent before it ends as canceled (SR-53)."""

    children_count: int = 0
    """Tool calls executed in the run and in its child runs."""
    telemetry: ToolTelemetry | None = None
    """Summed over plans, calls and child runs."""
    artifacts: list[Artifact] = []
    """The last 100 artifacts, by reference."""
    active_ms: int = 0
    """Active time, child runs' included; only where a time budget was set."""

    @property
    def active_time(self) -> timedelta:
        """The same as a duration."""
        return timedelta(milliseconds=self.active_ms)
