"""Subscription: the events that one subscriber has not had, from the follower or from the history, each once."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

from sojourn.contracts.event import (
    AgentRunStartedEvent,
    BaseEvent,
    Event,
    PlanStartedEvent,
    StreamRestartedEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolCallDeltaEvent,
)
from sojourn.contracts.ids import place_of
from sojourn.core.history.fold import END
from sojourn.events import Cursor, event_line
from sojourn.events.cursor import Position
from sojourn.events.live_text import COMMON
from sojourn.events.stream import stream
from sojourn.http.follower import Entry, Follower
from sojourn.http.problems import Problem

__all__ = ["Delivery", "Subscription", "stopped"]

BATCH = 100
"""Most events that are delivered at once."""

_DELTAS = (TextDeltaEvent, ThinkingDeltaEvent, ToolCallDeltaEvent)


class Delivery(NamedTuple):
    """An event for a subscriber."""

    cursor: str
    """Where a stream resumes after the event; empty for a live event."""
    event: Event
    line: str
    """The event as JSON."""


class Subscription:
    """One subscriber of a run.

    Args:
        follower: Reads the run.
        cursor: How far the subscriber has read.
        children: Whether it wants the events of child runs.
        deltas: Whether it wants what planners are writing.
        readings: How often it may read the history because what it needs is no longer kept; then it is dropped.
    """

    def __init__(
        self, follower: Follower, cursor: Cursor, *, children: bool, deltas: bool, readings: int
    ) -> None:
        self._follower = follower
        self._cursor = cursor
        self._children = children
        self._deltas = deltas
        self._readings = readings
        self._seq = -1
        """The number of the next entry; -1 while the history is read."""
        self._joined = 0
        """The number of the first entry that came after the subscriber."""
        self._unread = _Unread(follower.run_id, cursor.position)
        self._drafts = _Drafts(follower, is_resumed=bool(str(cursor)))
        self._is_ended = False
        if deltas:
            follower.want_deltas()

    @property
    def cursor(self) -> str:
        """Where the subscriber can resume, at any process."""
        return str(self._cursor)

    async def batches(self, idle: float) -> AsyncGenerator[list[Delivery]]:
        """Events to the end of the run, in batches; an empty one after `idle` seconds without any.

        Raises:
            Problem: The subscriber reads more slowly than the run goes on, or this process stops; it can resume.
            SojournError: The events cannot be read.
        """
        readings, due = self._readings, time.monotonic() + idle
        while not self._is_ended:
            if self._seq < self._follower.first and not self._join():
                if not readings:
                    raise self._too_slow()
                readings -= 1
                async with aclosing(self._history()) as found:
                    async for batch in found:
                        yield batch
                        due = time.monotonic() + idle
                continue
            if (batch := self._take()) or time.monotonic() >= due:
                yield batch
                due = time.monotonic() + idle
            if self._is_ended or self._seq < self._follower.next:
                continue
            if self._follower.is_complete:
                return  # the subscriber had the last event before
            if self._follower.is_ended:
                raise self._follower.failure or stopped()
            await self._follower.changed(self._seq, due - time.monotonic())

    def _join(self) -> bool:
        """Go on with what the follower keeps, if that is all that the subscriber has not had."""
        position = self._cursor.position
        if not self._follower.covers(position, children=self._children):
            return False
        self._seq, self._joined = self._follower.first, self._follower.next
        self._unread = _Unread(self._follower.run_id, position)
        self._drafts.join(self._seq)
        return True

    async def _history(self) -> AsyncGenerator[list[Delivery]]:
        """What the history has after the cursor; the follower keeps only the end of it."""
        client = self._follower.client
        events = stream(
            client.temporal,
            self._follower.run_id,
            after=self._cursor.position,
            follow=False,
            children=self._children,
            storage=client.storage,
        )
        async with aclosing(events):
            async for event in events:
                yield [self._delivered(event, event_line(event))]

    def _take(self) -> list[Delivery]:
        entries = self._follower.since(self._seq, BATCH)
        self._seq += len(entries)
        taken: list[Delivery] = []
        for entry in entries:
            event, is_own = entry.event, entry.event.run_id == self._follower.run_id
            if entry.place:
                is_new = self._unread.is_new(event, entry.place)
                if is_new and (is_own or self._children):
                    taken.append(self._delivered(event, entry.line))
            elif is_own or self._children:
                taken += self._live_events(entry)
        return taken

    def _delivered(self, event: Event, line: str) -> Delivery:
        self._drafts.see(event)
        if event.type == END and event.run_id == self._follower.run_id:
            self._is_ended = True
        return Delivery(self._cursor.add(event), event, line)

    def _live_events(self, entry: Entry) -> list[Delivery]:
        is_old = entry.seq < self._joined
        if isinstance(entry.event, (*_DELTAS, StreamRestartedEvent)):
            return self._drafts.take(entry, is_old=is_old) if self._deltas else []
        return [] if is_old else [Delivery("", entry.event, entry.line)]

    def _too_slow(self) -> Problem:
        return Problem(
            503,
            "slow_subscriber",
            "the events were read more slowly than the run goes on",
            then="Connect again with `after`, or as EventSource does, with Last-Event-ID.",
            run_id=self._follower.run_id,
            after=self.cursor,
        )


def stopped() -> Problem:
    """The problem of a stream whose process stops."""
    return Problem(
        503,
        "service_stops",
        "this process of the service stops",
        then="Connect again with Last-Event-ID; another process goes on from there.",
    )


class _Unread:
    """Which events come after a position, by the rules of `Cursor`; events are asked about in the follower's order."""

    def __init__(self, run_id: str, position: Position) -> None:
        self._position = position
        self._at: dict[str, Position | None] = {run_id: position}
        """By run, the position that counts; None where all of its events were read."""
        self._floors: dict[str, tuple[int, ...]] = {}

    def is_new(self, event: BaseEvent, place: tuple[int, ...]) -> bool:
        """Whether the subscriber has not had the event."""
        run_id = event.run_id
        at = self._at_of(run_id)
        if at is None:
            if isinstance(event, AgentRunStartedEvent):
                self._begin(event.run_link.run_id, None)
            return False
        floor = self._floors.get(run_id)
        if floor is None:
            floor = self._floors[run_id] = place_of(at.of(run_id))
        is_new = place > floor
        if isinstance(event, AgentRunStartedEvent):
            self._begin(event.run_link.run_id, at.below(event, is_new=is_new))
        return is_new

    def _at_of(self, run_id: str) -> Position | None:
        """The position in a run; one whose start is no longer kept is open in the position, or was read to its end."""
        if run_id not in self._at:
            self._at[run_id] = self._position if run_id in self._position.after else None
        return self._at[run_id]

    def _begin(self, run_id: str, at: Position | None) -> None:
        self._at[run_id] = at
        self._floors.pop(run_id, None)


class _Drafts:
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
