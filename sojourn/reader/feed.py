"""Follow a run and its child runs once for all subscribers in a process."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice

from sojourn.answers import event_line
from sojourn.client.access import Access
from sojourn.contracts.event import BaseEvent, Event, PlanStartedEvent, StreamRestartedEvent
from sojourn.contracts.ids import place_in, place_of
from sojourn.core.history.fold import END
from sojourn.events import Cursor
from sojourn.events.cursor import Position
from sojourn.events.stream import stream
from sojourn.live import Delta, LiveTransport
from sojourn.serving.pace import Pace
from sojourn.timeline import is_plan_end

__all__ = ["Feed", "FeedEntry", "OpenPlan", "Redact"]

Redact = Callable[[Event], Event]
"""Returns an event without the parts that subscribers may not see."""


@dataclass(frozen=True, slots=True)
class FeedEntry:
    seq: int
    """Its number in this feed."""
    event: Event
    place: tuple[int, ...]
    """Place of its event_id; empty for a live event."""
    line: str
    """The event as JSON."""


@dataclass(slots=True)
class OpenPlan:
    seq: int
    """Number of its `plan_started` event in the feed."""
    number: int
    """Number of the plan in the run, from 1. If the feed begins later, its number in the feed."""
    attempt: int = 1
    """The attempt that the deltas belong to."""


class Feed:
    """Follows one run to its end, and keeps its last events."""

    def __init__(
        self,
        client: Access,
        run_id: str,
        redact: Redact,
        *,
        since: str = "",
        max_events: int,
        max_bytes: int,
        on_change: Callable[[int], None],
    ) -> None:
        self.client = client
        self.run_id = run_id
        self.redact = redact
        self.kept_bytes = 0
        self.next = 0
        """The number of the next event."""
        self.is_ended = False
        """Whether nothing more is read."""
        self.is_complete = False
        """Whether the run has ended, and its last event was read."""
        self.failure: Exception | None = None
        """Why the reading ended before the run did."""
        self.plans: dict[str, OpenPlan] = {}
        """By run, the plan that is being made."""
        self._numbers: dict[str, int] = {}
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._on_change = on_change
        self._entries: deque[FeedEntry] = deque()
        self._since = since if since and place_of(since)[0] else ""
        self._dropped = Cursor(run_id, self._since)
        self._has_begun = not self._since
        self._live = _OnDemand(client.live)
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._read(), name=f"feed of {run_id}")

    @property
    def first(self) -> int:
        return self.next - len(self._entries)

    def covers(self, position: Position, *, children: bool) -> bool:
        """Return whether every event after a position is in the buffer, or yet to come."""
        for run_id, event_id in self._dropped.position.after.items():
            if run_id != self.run_id and (not children or run_id not in position.after):
                continue  # the subscriber does not want the run, or has read it to its end
            if place_of(position.of(run_id)) < place_of(event_id):
                return False
        return True

    def since(self, seq: int, most: int) -> Sequence[FeedEntry]:
        begin = seq - self.first
        return list(islice(self._entries, begin, begin + most))

    async def wait_for_change(self, seq: int, patience: float) -> None:
        """Wait for the event of this number, for the end, or until the timeout in seconds."""
        if self.next > seq or self.is_ended:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._news.wait()

    def want_deltas(self) -> None:
        """Read what planners are writing, from now on."""
        self._live.wanted.set()

    def drop_first(self) -> None:
        entry = self._entries.popleft()
        self._dropped.add(entry.event)
        self._resize(-len(entry.line))

    async def close(self) -> None:
        """Stop reading. Subscribers can resume at another process."""
        self._task.cancel()
        await asyncio.wait({self._task})
        self._resize(-self.kept_bytes)
        self._end()

    async def _read(self) -> None:
        pace = Pace()
        events = stream(
            self.client.temporal,
            self.run_id,
            after=Position({}),
            follow=True,
            children=True,
            live=self._live,
            storage=self.client.storage,
            since=self._since,
        )
        try:
            async with aclosing(events):
                async for event in events:
                    with pace:
                        self._add(self.redact(event))
                    await pace.rest()
        except Exception as error:  # noqa: BLE001 - raised to the subscribers
            self.failure = error
        finally:
            self._end()

    def _add(self, event: Event) -> None:
        place = place_of(event.event_id)
        if not self._has_begun and event.event_id and event.run_id == self.run_id:
            # Events before this execution count as dropped from the buffer.
            self._has_begun = True
            self._dropped = Cursor(self.run_id, place_in(place[0], 0) if place[0] else None)
        entry = FeedEntry(self.next, event, place, event_line(event))
        self._watch_plans(entry.seq, event)
        self._entries.append(entry)
        self.next += 1
        self._resize(len(entry.line))
        while len(self._entries) > 1 and (
            len(self._entries) > self._max_events or self.kept_bytes > self._max_bytes
        ):
            self.drop_first()
        if event.type == END and event.run_id == self.run_id:
            self.is_ended = self.is_complete = True
        self._notify()

    def _watch_plans(self, seq: int, event: BaseEvent) -> None:
        match event:
            case PlanStartedEvent(run_id=run_id):
                number = self._numbers[run_id] = self._numbers.get(run_id, 0) + 1
                self.plans[run_id] = OpenPlan(seq, number)
            case StreamRestartedEvent(run_id=run_id, plan=number, attempt=attempt):
                if run_id in self.plans:
                    self.plans[run_id] = OpenPlan(self.plans[run_id].seq, number, attempt)
            case _ if event.event_id and is_plan_end(event):
                self.plans.pop(event.run_id, None)
            case _:
                pass

    def _resize(self, change: int) -> None:
        self.kept_bytes += change
        self._on_change(change)

    def _end(self) -> None:
        self.is_ended = True
        self._notify()

    def _notify(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class _OnDemand(LiveTransport):
    """Subscribes only on demand: workers send no deltas without a subscription."""

    def __init__(self, transport: LiveTransport) -> None:
        self.wanted = asyncio.Event()
        self._transport = transport

    def is_wanted(self, topic: str) -> bool:
        return self._transport.is_wanted(topic)

    async def publish(self, topic: str, deltas: Sequence[Delta]) -> bool:
        return await self._transport.publish(topic, deltas)

    async def subscribe(self, topic: str) -> AsyncGenerator[Sequence[Delta]]:
        await self.wanted.wait()
        async with aclosing(self._transport.subscribe(topic)) as news:
            async for deltas in news:
                yield deltas

    async def close(self) -> None:
        pass  # the client owns the transport
