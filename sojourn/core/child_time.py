"""The active time of a step's child runs, as their parent counts it: side by side once, one after the other added."""

from dataclasses import dataclass
from datetime import timedelta

__all__ = ["ChildTime"]


@dataclass(slots=True)
class ChildTime:
    """Grows as child runs end; a child that starts later was not beside those that had ended."""

    total: timedelta = timedelta(0)
    """The longest chain of child runs of which each began when the one before had ended."""

    def ended(self, began: timedelta, active: timedelta | None) -> None:
        """Count a child run.

        Args:
            began: The total when it started.
            active: What it says it was active for; None where nobody counts.
        """
        if active:
            self.total = max(self.total, began + active)

    def beyond(self, own: timedelta) -> timedelta:
        """What is not counted yet, where the run itself was active for so long meanwhile."""
        return max(self.total - own, timedelta(0))
