"""Deliver each event after a cursor once, from a run's feed or its history.

The backlog of a subscriber is bounded. A subscriber that needs older events than the feed has reads the
history itself. It can resume on any process.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, contextmanager
from typing import NamedTuple, Protocol

from sojourn.answers import event_line
from sojourn.client.access import Access
from sojourn.contracts.event import (
    AgentRunStartedEvent,
    BaseEvent,
    Event,
    PlanStartedEvent,
    StreamRestartedEvent,
)
from sojourn.contracts.ids import place_of
from sojourn.core.history.fold import END
from sojourn.error_kinds import ErrorKind
from sojourn.errors import RunError
from sojourn.events import Cursor
from sojourn.events.cursor import Position
from sojourn.events.live_text import COMMON, DELTA_EVENTS
from sojourn.events.stream import stream
from sojourn.reader.feed import Feed, FeedEntry, Redact
from sojourn.serving.pace import Pace

__all__ = ["STOPPED", "FeedStopped", "Feeds", "Gauges", "SlowSubscriber", "SubscriberItem", "Subscription"]

MAX_EVENTS = 2_000
"""Most events to keep of a run."""

MAX_BYTES = 4_000_000
"""Most bytes to keep of a run's events."""

MAX_TOTAL = 128_000_000
"""Most bytes to keep of all runs' events."""

READINGS = 3
"""Most times that a subscriber may read the history.

It needs one read for the events before its start, and further ones when it was slow for a moment.
"""

LINGER = 10.0
"""Seconds for which to follow a run after its last subscriber has left, since most reconnect at once."""

BATCH = 100
"""Most events in one batch."""

BATCH_BYTES = 256_000
"""Characters after which a batch ends. As much is buffered for each client that reads nothing."""

STOPPED = "this process of the service stops"


class FeedStopped(RunError):  # noqa: N818 - named as Sojourn's other errors
    """This process is shutting down.

    The subscriber can resume at another process.
    """

    error_kind = ErrorKind(
        "service_stops",
        503,
        "Send the same request again, with the ids that it had, or connect to a stream again with its last id; another process goes on.",
    )


class SlowSubscriber(RunError):  # noqa: N818
    """The subscriber reads more slowly than the run produces events.

    It can resume.
    """

    error_kind = ErrorKind(
        "slow_subscriber", 503, "Connect again with `after`, or as EventSource does, with Last-Event-ID."
    )

    def __init__(self, run_id: str, after: str) -> None:
        super().__init__("the events were read more slowly than the run goes on", run_id=run_id)
        self.after = after


class Gauges(Protocol):
    followers: int
    """Runs that are followed."""
    kept_bytes: int
    """Bytes of the stored events."""


class SubscriberItem(NamedTuple):
    cursor: str
    """Cursor from which a stream resumes after the event. Empty for a live event."""
    event: Event
    line: str
    """The event as JSON."""


class Feeds:
    """The feeds of a process, one for each run that has a subscriber."""

    def __init__(
        self,
        client: Access,
        gauges: Gauges,
        redact: Redact,
        *,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        max_total: int = MAX_TOTAL,
        readings: int = READINGS,
        linger: float = LINGER,
    ) -> None:
        self._client = client
        self._gauges = gauges
        self._redact = redact
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._max_total = max_total
        self._readings = readings
        self._linger = linger
        self._feeds: dict[str, Feed] = {}
        self._subscribers: dict[Feed, int] = {}
        self._leaving: dict[Feed, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.is_closed = False
        """Whether every stream was ended, since this process stops."""

    @contextmanager
    def subscribe(
        self, run_id: str, cursor: Cursor, *, children: bool = False, deltas: bool = False
    ) -> Generator["Subscription"]:
        """Subscribe to a run during the body."""
        if self.is_closed:
            raise _stop_error(run_id)
        feed = self._feed(run_id, cursor.position.of(run_id))
        self._subscribers[feed] = self._subscribers.get(feed, 0) + 1
        if leaving := self._leaving.pop(feed, None):
            leaving.cancel()
        try:
            yield Subscription(feed, cursor, children=children, deltas=deltas, readings=self._readings)
        finally:
            self._subscribers[feed] -= 1
            if not self._subscribers[feed] and not self.is_closed:
                loop = asyncio.get_running_loop()
                self._leaving[feed] = loop.call_later(self._linger, self._leave, feed)

    def recent(self, run_id: str) -> list[Event]:
        """Return the recorded events of a run that this process still has, or none."""
        root = run_id
        while root and root not in self._feeds:  # the feed of a run has the events of its child runs
            root = root.rpartition("/")[0]
        feed = self._feeds.get(root)
        entries = feed.since(feed.first, self._max_events) if feed else ()
        return [entry.event for entry in entries if entry.place and entry.event.run_id == run_id]

    async def close(self) -> None:
        """End every stream.

        Subscribers can resume at another process.
        """
        self.is_closed = True
        for leaving in self._leaving.values():
            leaving.cancel()
        feeds = {*self._feeds.values(), *self._subscribers}
        await asyncio.gather(*(feed.close() for feed in feeds), *self._closing)

    def _feed(self, run_id: str, since: str) -> Feed:
        known = self._feeds.get(run_id)
        if known is not None and known.failure is None:
            return known
        feed = self._feeds[run_id] = Feed(
            self._client,
            run_id,
            self._redact,
            since=since,
            max_events=self._max_events,
            max_bytes=self._max_bytes,
            on_change=self._resize,
        )
        self._gauges.followers = len(self._feeds)
        return feed

    def _leave(self, feed: Feed) -> None:
        self._leaving.pop(feed, None)
        del self._subscribers[feed]
        if self._feeds.get(feed.run_id) is feed:
            del self._feeds[feed.run_id]
        self._gauges.followers = len(self._feeds)
        closing = asyncio.create_task(feed.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _resize(self, change: int) -> None:
        self._gauges.kept_bytes += change
        while change > 0 and self._gauges.kept_bytes > self._max_total:
            largest = max(self._feeds.values(), key=lambda feed: feed.kept_bytes)
            if largest.first + 1 >= largest.next:
                return
            largest.drop_first()


class Subscription:
    """One subscriber of a run."""

    def __init__(self, feed: Feed, cursor: Cursor, *, children: bool, deltas: bool, readings: int) -> None:
        self._feed = feed
        self._cursor = cursor
        self._children = children
        self._deltas = deltas
        self._readings = readings
        self._seq = -1
        """The number of the next entry; -1 while the history is read."""
        self._joined = 0
        """The number of the first entry that came after the subscriber."""
        self._unread = _Unread(feed.run_id, cursor.position)
        self._drafts = _Drafts(feed, is_resumed=bool(str(cursor)))
        self._is_ended = False
        if deltas:
            feed.want_deltas()

    @property
    def cursor(self) -> str:
        return str(self._cursor)

    async def batches(self, idle: float) -> AsyncGenerator[list[SubscriberItem]]:
        """Yield batches of events, and an empty one after `idle` seconds."""
        readings, due = self._readings, time.monotonic() + idle
        while not self._is_ended:
            if self._seq < self._feed.first and not self._join():
                if not readings:
                    raise SlowSubscriber(self._feed.run_id, self.cursor)
                readings -= 1
                async with aclosing(self._history()) as found:
                    async for batch in found:
                        yield batch
                        due = time.monotonic() + idle
                continue
            if (batch := self._take()) or time.monotonic() >= due:
                yield batch
                due = time.monotonic() + idle
            if self._is_ended or self._seq < self._feed.next:
                continue
            if self._feed.is_complete:
                return  # the subscriber had the last event before
            if self._feed.is_ended:
                raise self._feed.failure or _stop_error(self._feed.run_id)
            await self._feed.wait_for_change(self._seq, due - time.monotonic())

    def _join(self) -> bool:
        position = self._cursor.position
        if not self._feed.covers(position, children=self._children):
            return False
        self._seq, self._joined = self._feed.first, self._feed.next
        self._unread = _Unread(self._feed.run_id, position)
        self._drafts.join(self._seq)
        return True

    async def _history(self) -> AsyncGenerator[list[SubscriberItem]]:
        client, pace = self._feed.client, Pace()
        events = stream(
            client.temporal,
            self._feed.run_id,
            after=self._cursor.position,
            follow=False,
            children=self._children,
            storage=client.storage,
        )
        async with aclosing(events):
            async for read in events:
                with pace:
                    event = self._feed.redact(read)
                    delivered = self._deliver(event, event_line(event))
                yield [delivered]
                await pace.rest()

    def _take(self) -> list[SubscriberItem]:
        entries = _within(self._feed.since(self._seq, BATCH), BATCH_BYTES)
        self._seq += len(entries)
        taken: list[SubscriberItem] = []
        for entry in entries:
            event, is_own = entry.event, entry.event.run_id == self._feed.run_id
            if entry.place:
                is_new = self._unread.is_new(event, entry.place)
                if is_new and (is_own or self._children):
                    taken.append(self._deliver(event, entry.line))
            elif is_own or self._children:
                taken += self._live_events(entry)
        return taken

    def _deliver(self, event: Event, line: str) -> SubscriberItem:
        self._drafts.note(event)
        if event.type == END and event.run_id == self._feed.run_id:
            self._is_ended = True
        return SubscriberItem(self._cursor.add(event), event, line)

    def _live_events(self, entry: FeedEntry) -> list[SubscriberItem]:
        is_old = entry.seq < self._joined
        if isinstance(entry.event, DELTA_EVENTS):
            return self._drafts.deliver(entry, is_old=is_old) if self._deltas else []
        return [] if is_old else [SubscriberItem("", entry.event, entry.line)]


def _stop_error(run_id: str) -> FeedStopped:
    return FeedStopped(STOPPED, run_id=run_id)


def _within(entries: Sequence[FeedEntry], most: int) -> Sequence[FeedEntry]:
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry.line)
        if count and size > most:
            return entries[:count]
    return entries


class _Unread:
    """Decides which events come after a position, by the rules of `Cursor`."""

    def __init__(self, run_id: str, position: Position) -> None:
        self._position = position
        self._at: dict[str, Position | None] = {run_id: position}
        """By run, the position that counts; None if all of its events were read."""
        self._floors: dict[str, tuple[int, ...]] = {}

    def is_new(self, event: BaseEvent, place: tuple[int, ...]) -> bool:
        run_id = event.run_id
        if run_id not in self._at:  # its start was dropped: it is open in the position, or was read
            self._at[run_id] = self._position if run_id in self._position.after else None
        at = self._at[run_id]
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

    def _begin(self, run_id: str, at: Position | None) -> None:
        self._at[run_id] = at
        self._floors.pop(run_id, None)


class _Drafts:
    """Decides which deltas a subscriber gets: those of the present plan.

    A subscriber cannot resume in the middle of a draft.
    """

    def __init__(self, feed: Feed, *, is_resumed: bool) -> None:
        self._feed = feed
        self._is_resumed = is_resumed
        self._known: set[str] = set()
        """Runs of whose present draft the subscriber has the beginning, or none."""
        self._muted: set[str] = set()
        """Runs of whose present draft the beginning is no longer kept."""

    def join(self, first: int) -> None:
        self._muted = {run_id for run_id, plan in self._feed.plans.items() if plan.seq < first}

    def note(self, event: BaseEvent) -> None:
        if isinstance(event, PlanStartedEvent):
            self._known.add(event.run_id)
            self._muted.discard(event.run_id)

    def deliver(self, entry: FeedEntry, *, is_old: bool) -> list[SubscriberItem]:
        event, run_id = entry.event, entry.event.run_id
        plan = self._feed.plans.get(run_id)
        if is_old and (plan is None or entry.seq < plan.seq):
            return []
        delivery = SubscriberItem("", event, entry.line)
        if isinstance(event, StreamRestartedEvent):
            self._known.add(run_id)
            self._muted.discard(run_id)
            return [delivery]
        if run_id in self._muted:
            return []
        is_known = run_id in self._known or not self._is_resumed
        self._known.add(run_id)
        if is_known:
            return [delivery]
        common = {name: getattr(event, name) for name in COMMON}
        number, attempt = (plan.number, plan.attempt) if plan else (1, 1)
        void = StreamRestartedEvent(**common, time=event.time, plan=number, attempt=attempt)
        return [SubscriberItem("", void, event_line(void)), delivery]
