"""Subscription: the events that one subscriber has not had, from the follower or from the history, each once."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from sojourn.contracts.event import Event
from sojourn.core.history.fold import END
from sojourn.events import Cursor, event_line
from sojourn.events.stream import stream
from sojourn.http.drafts import DELTAS, Delivery, Drafts
from sojourn.http.follower import Entry, Follower
from sojourn.http.problems import Problem, stopped
from sojourn.http.redaction import redact
from sojourn.http.unread import Unread
from sojourn.serving.pace import Pace

__all__ = ["Subscription"]

BATCH = 100
"""Most events that are delivered at once."""


BATCH_BYTES = 256_000
"""Characters after which a batch ends: so much waits for each client that takes nothing."""


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
        self._unread = Unread(follower.run_id, cursor.position)
        self._drafts = Drafts(follower, is_resumed=bool(str(cursor)))
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
        self._unread = Unread(self._follower.run_id, position)
        self._drafts.join(self._seq)
        return True

    async def _history(self) -> AsyncGenerator[list[Delivery]]:
        """What the history has after the cursor; the follower keeps only the end of it."""
        client, pace = self._follower.client, Pace()
        events = stream(
            client.temporal,
            self._follower.run_id,
            after=self._cursor.position,
            follow=False,
            children=self._children,
            storage=client.storage,
        )
        async with aclosing(events):
            async for read in events:
                with pace:
                    event = redact(read)
                    delivered = self._delivered(event, event_line(event))
                yield [delivered]
                await pace.rest()

    def _take(self) -> list[Delivery]:
        entries = _within(self._follower.since(self._seq, BATCH), BATCH_BYTES)
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
        if isinstance(entry.event, DELTAS):
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


def _within(entries: Sequence[Entry], most: int) -> Sequence[Entry]:
    """The first entries with so many characters, one at least."""
    size = 0
    for count, entry in enumerate(entries):
        size += len(entry.line)
        if count and size > most:
            return entries[:count]
    return entries
