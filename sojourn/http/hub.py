"""Hub: one follower a run, however many subscribers it has in this process."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from sojourn.client.access import Access
from sojourn.events import Cursor
from sojourn.http.follower import Follower
from sojourn.http.metrics import Metrics
from sojourn.http.problems import stopped
from sojourn.http.subscription import Subscription

__all__ = ["Hub"]

MAX_EVENTS = 2_000
"""Most events of a run that are kept; a subscriber that needs older ones reads the history by itself."""

MAX_BYTES = 4_000_000
"""Most bytes of a run's events that are kept."""

MAX_TOTAL = 128_000_000
"""Most bytes of all runs' events that are kept."""

READINGS = 3
"""How often a subscriber may read the history: once for what was before it, and when it was slow for a moment."""

LINGER = 10.0
"""Seconds for which a run is followed after its last subscriber has left: most come back at once."""


class Hub:
    """The followers of a process.

    Args:
        client: The client.
        metrics: Counts the followers and what they keep.
        max_events: Most events of a run that are kept.
        max_bytes: Most bytes of a run's events that are kept.
        max_total: Most bytes of all runs' events that are kept.
        readings: How often a subscriber may read the history by itself; then it is too slow.
        linger: Seconds for which a run without subscribers is followed.
    """

    def __init__(
        self,
        client: Access,
        metrics: Metrics,
        *,
        max_events: int = MAX_EVENTS,
        max_bytes: int = MAX_BYTES,
        max_total: int = MAX_TOTAL,
        readings: int = READINGS,
        linger: float = LINGER,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._max_total = max_total
        self._readings = readings
        self._linger = linger
        self._followers: dict[str, Follower] = {}
        self._subscribers: dict[Follower, int] = {}
        self._leaving: dict[Follower, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @contextmanager
    def subscribe(
        self, run_id: str, cursor: Cursor, *, children: bool = False, deltas: bool = False
    ) -> Generator[Subscription]:
        """Subscribe to a run during the body.

        Args:
            run_id: The run.
            cursor: How far the subscriber has read; the subscription moves it.
            children: Include the events of child runs.
            deltas: Include what planners are writing.

        Raises:
            Problem: The hub is closed.
        """
        if self._is_closed:
            raise stopped()
        follower = self._follower(run_id, cursor.position.of(run_id))
        self._subscribers[follower] = self._subscribers.get(follower, 0) + 1
        if leaving := self._leaving.pop(follower, None):
            leaving.cancel()
        try:
            yield Subscription(follower, cursor, children=children, deltas=deltas, readings=self._readings)
        finally:
            self._subscribers[follower] -= 1
            if not self._subscribers[follower] and not self._is_closed:
                loop = asyncio.get_running_loop()
                self._leaving[follower] = loop.call_later(self._linger, self._leave, follower)

    @property
    def is_closed(self) -> bool:
        """Whether every stream was ended, since this process stops."""
        return self._is_closed

    async def close(self) -> None:
        """End every stream; their subscribers resume at another process."""
        self._is_closed = True
        for leaving in self._leaving.values():
            leaving.cancel()
        followers = {*self._followers.values(), *self._subscribers}
        await asyncio.gather(*(follower.close() for follower in followers), *self._closing)

    def _follower(self, run_id: str, since: str) -> Follower:
        known = self._followers.get(run_id)
        if known is not None and known.failure is None:
            return known
        self._followers[run_id] = Follower(
            self._client,
            run_id,
            since=since,
            max_events=self._max_events,
            max_bytes=self._max_bytes,
            on_kept=self._kept,
        )
        self._metrics.followers = len(self._followers)
        return self._followers[run_id]

    def _leave(self, follower: Follower) -> None:
        self._leaving.pop(follower, None)
        del self._subscribers[follower]
        if self._followers.get(follower.run_id) is follower:
            del self._followers[follower.run_id]
        self._metrics.followers = len(self._followers)
        closing = asyncio.create_task(follower.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _kept(self, change: int) -> None:
        self._metrics.kept_bytes += change
        while change > 0 and self._metrics.kept_bytes > self._max_total:
            largest = max(self._followers.values(), key=lambda follower: follower.kept_bytes)
            if largest.first + 1 >= largest.next:
                return
            largest.forget_first()
