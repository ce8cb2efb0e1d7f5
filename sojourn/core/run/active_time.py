"""Active time: plans and calls count; waits for people, sleeps and pauses do not."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sojourn.core.values.frozen import changed

__all__ = ["ActiveTime"]


@dataclass(frozen=True)
class ActiveTime:
    """How long a run was active, against its time budget; a frozen value with pure transitions.

    `now` is the workflow's clock in the workflow, and the time of a history event in the fold.
    """

    budget: timedelta | None = None
    """The time budget; None means no limit."""
    expired: bool = False
    """Whether the budget ran out during a plan or a call."""
    counted: timedelta = timedelta(0)
    """Active time of the periods that have ended."""
    since: datetime | None = None
    """Start of the current active period; None while the run is not active."""
    works: int = 0
    """Number of plans and calls in progress."""
    paused: bool = False

    def spent(self, now: datetime) -> timedelta:
        """Active time until now."""
        return self.counted + (now - self.since if self.since else timedelta(0))

    def left(self, now: datetime) -> timedelta | None:
        """Active time left; None means no limit."""
        return None if self.budget is None else max(self.budget - self.spent(now), timedelta(0))

    def is_used_up(self, now: datetime) -> bool:
        """Whether nothing is left of the budget."""
        return self.expired or self.left(now) == timedelta(0)

    def begun(self, now: datetime) -> "ActiveTime":
        """Count one more plan or call in progress."""
        return self._turned(now, self.works + 1, paused=self.paused)

    def ended(self, now: datetime) -> "ActiveTime":
        """Count one less plan or call in progress."""
        return self._turned(now, self.works - 1, paused=self.paused)

    def stopped(self, now: datetime, *, paused: bool) -> "ActiveTime":
        """Pause or resume the run."""
        return self._turned(now, self.works, paused=paused)

    def added(self, spent: timedelta) -> "ActiveTime":
        """Add the time that child runs were active while this run only waited for them."""
        return changed(self, counted=self.counted + spent)

    def _turned(self, now: datetime, works: int, *, paused: bool) -> "ActiveTime":
        is_active = works > 0 and not paused
        if is_active == (self.since is not None):
            return changed(self, works=works, paused=paused)
        return changed(
            self, works=works, paused=paused, counted=self.spent(now), since=now if is_active else None
        )
