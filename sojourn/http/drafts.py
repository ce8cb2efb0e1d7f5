"""Drafts: which deltas a subscriber gets, since nobody can resume in the middle of what a planner is writing."""

from typing import NamedTuple

from sojourn.contracts.event import (
    BaseEvent,
    Event,
    PlanStartedEvent,
    StreamRestartedEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolCallDeltaEvent,
)
from sojourn.events import event_line
from sojourn.events.live_text import COMMON
from sojourn.http.follower import Entry, Follower

__all__ = ["DELTAS", "Delivery", "Drafts"]

DELTAS = (TextDeltaEvent, ThinkingDeltaEvent, ToolCallDeltaEvent, StreamRestartedEvent)
"""The events of a draft."""


class Delivery(NamedTuple):
    """An event for a subscriber."""

    cursor: str
    """Where a stream resumes after the event; empty for a live event."""
    event: Event
    line: str
    """The event as JSON."""


class Drafts:
    """Which deltas a subscriber gets: those of the present plan from their beginning, and none of plans before.

    Args:
        follower: Reads the run.
        is_resumed: Whether the subscriber may have the beginning of a draft from an earlier connection, which is void then.
    """

    def __init__(self, follower: Follower, *, is_resumed: bool) -> None:
        self._follower = follower
        self._is_resumed = is_resumed
        self._first = 0
        self._known: set[str] = set()
        """Runs of whose present draft the subscriber has the beginning, or none."""
        self._muted: dict[str, int] = {}
        """By run, the number of the plan whose draft's beginning is no longer kept."""

    def join(self, first: int) -> None:
        """Begin with the entry of this number."""
        self._first = first
        self._muted = {
            run_id: plan.number for run_id, plan in self._follower.plans.items() if plan.seq < first
        }

    def see(self, event: BaseEvent) -> None:
        """Take a recorded event that is delivered."""
        if isinstance(event, PlanStartedEvent):
            self._known.add(event.run_id)
            self._muted.pop(event.run_id, None)

    def take(self, entry: Entry, *, is_old: bool) -> list[Delivery]:
        """What the subscriber gets of a delta."""
        event, run_id = entry.event, entry.event.run_id
        plan = self._follower.plans.get(run_id)
        if is_old and (plan is None or entry.seq < plan.seq):
            return []
        delivery = Delivery("", event, entry.line)
        if isinstance(event, StreamRestartedEvent):
            self._known.add(run_id)
            self._muted.pop(run_id, None)
            return [delivery]
        if run_id in self._muted:
            return []
        if run_id in self._known or not self._is_resumed:
            self._known.add(run_id)
            return [delivery]
        self._known.add(run_id)
        common = {name: getattr(event, name) for name in COMMON}
        number, attempt = (plan.number, plan.attempt) if plan else (1, 1)
        void = StreamRestartedEvent(**common, time=event.time, plan=number, attempt=attempt)
        return [Delivery("", void, event_line(void)), delivery]
