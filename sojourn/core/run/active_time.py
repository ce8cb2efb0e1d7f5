"""Active time: planning and executing count; waiting for people, sleeping and being paused do not."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sojourn.core.values.frozen import changed

__all__ = ["ActiveTime"]


@dataclass(frozen=True)
class ActiveTime:
    """How long a run was active, against its budget; a frozen value with pure transitions.

    `now` is the workflow's clock in the workflow, and the time of a history event in the fold.
    """

    budget: timedelta | None = None
    """The most active time; None is no budget."""
    expired: bool = False
    """Whether the budget was used up in the middle of something."""
    counted: timedelta = timedelta(0)
    """Active time of the stretches that have ended."""
    since: datetime | None = None
    """When the stretch began that goes on; None where nothing is active."""
    works: int = 0
    """Plans and calls at work."""
    paused: bool = False

    def spent(self, now: datetime) -> timedelta:
        """Active time so far."""
        return self.counted + (now - self.since if self.since else timedelta(0))

    def left(self, now: datetime) -> timedelta | None:
        """Active time left; None is no budget."""
        return None if self.budget is None else max(self.budget - self.spent(now), timedelta(0))

    def is_used_up(self, now: datetime) -> bool:
        """Whether nothing is left of the budget."""
        return self.expired or self.left(now) == timedelta(0)

    def begun(self, now: datetime) -> "ActiveTime":
        """One more plan or call is at work."""
        return self._turned(now, self.works + 1, paused=self.paused)

    def ended(self, now: datetime) -> "ActiveTime":
        """One plan or call less is at work."""
        return self._turned(now, self.works - 1, paused=self.paused)

    def stopped(self, now: datetime, *, paused: bool) -> "ActiveTime":
        """The run is paused, or goes on."""
        return self._turned(now, self.works, paused=paused)

    def added(self, spent: timedelta) -> "ActiveTime":
        """What child runs spent while this run only waited for them counts too."""
        return changed(self, counted=self.counted + spent)

    def _turned(self, now: datetime, works: int, *, paused: bool) -> "ActiveTime":
        is_active = works > 0 and not paused
        if is_active == (self.since is not None):
            return changed(self, works=works, paused=paused)
        return changed(
            self, works=works, paused=paused, counted=self.spent(now), since=now if is_active else None
        )
