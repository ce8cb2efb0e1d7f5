"""Read and follow the timeline of a run once for all readers of a process."""

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import ClassVar, Generic, TypeVar

from sojourn.client.client import Client
from sojourn.client.stuck import Stuck, find_stuck
from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_of
from sojourn.contracts.run import RunStatus
from sojourn.errors import SojournError
from sojourn.events import Cursor
from sojourn.events.cursor import MAX_OPEN
from sojourn.reader.history import (
    MAX_TURNS,
    Snapshot,
    conversation_timeline,
    may_be_stuck,
    read_conversation,
    read_snapshot,
)
from sojourn.reader.subscription import Feeds
from sojourn.timeline import MOST_ENTRIES, Timeline

__all__ = ["LiveConversation", "LiveRun", "LiveTimeline", "LiveTimelines"]

STATUS_PAUSE = 0.5
"""Seconds between two reads of the status of a busy run."""

STUCK_PAUSE = 10.0
"""Seconds between two checks whether a run is stuck."""

LINGER = 10.0
"""Seconds for which a run is followed after its last reader has left. Most return at once."""


class LiveTimeline(ABC):
    """The timeline and the status of a run, which grow while it is followed."""

    CHILDREN: ClassVar[bool] = False
    """Whether the events of child runs are wanted."""

    BEAT: ClassVar[float] = 5.0
    """Seconds between two reads of the status while nothing happens."""

    def __init__(self, client: Client, feeds: Feeds, run_id: str) -> None:
        self.client = client
        self.run_id = run_id
        self.timeline = Timeline(run_id)
        self.status = RunStatus(run_id=run_id)
        self.failure: SojournError | None = None
        """Why nothing more comes, although the run goes on."""
        self.is_ended = False
        """Whether nothing more comes."""
        self.readers = 0
        self._feeds = feeds
        self._read_at = 0.0
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        return self.timeline.is_over

    @abstractmethod
    async def load(self) -> None:
        """Read the timeline and the status as they are now."""

    @abstractmethod
    def feed(self, event: Event) -> None:
        """Take the next event."""

    @abstractmethod
    def cursor(self) -> Cursor:
        """Return the cursor up to which the timeline goes."""

    @property
    def version(self) -> int:
        """Version of the content. It grows with every change."""
        return self.timeline.version

    async def read(self) -> None:
        """Read the run as it is now. Raises as `load`."""
        await self.load()
        self._read_at = time.monotonic()
        self.is_ended = self.is_over

    @property
    def is_followed(self) -> bool:
        """Whether events are being followed as they happen."""
        return self._task is not None and not self._task.done()

    def is_fresh(self, seconds: float) -> bool:
        """Return whether the run is followed, has ended, or was read recently."""
        if self.failure:
            return False
        return self.is_followed or self.is_over or time.monotonic() - self._read_at < seconds

    def follow(self) -> None:
        """Follow the run from now on, until it ends."""
        if self._task is None and not self.is_ended:
            self._task = asyncio.create_task(self._follow(), name=f"timeline of {self.run_id}")

    async def wait_for_change(self, since: int, patience: float) -> None:
        """Wait at most this many seconds for a newer version, or for the end."""
        if self.version > since or self.is_ended:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._news.wait()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _follow(self) -> None:
        polling = asyncio.create_task(self._poll_status())
        try:
            with self._feeds.subscribe(
                self.run_id, self.cursor(), children=self.CHILDREN, deltas=True
            ) as subscription:
                async with aclosing(subscription.batches(self.BEAT)) as batches:
                    async for batch in batches:
                        for each in batch:
                            self.feed(each.event)
                        if batch:
                            self._notify()
            await self.read_status()
        except SojournError as error:
            self.failure = error
        finally:
            polling.cancel()
            await asyncio.wait({polling})
            self.is_ended = True
            self._notify()

    async def _poll_status(self) -> None:
        """Read what no event reports: remaining limits, hints, and waits of child runs."""
        seen = self.version
        while True:
            await self.wait_for_change(seen, self.BEAT)
            with contextlib.suppress(SojournError):
                await self.read_status()
            seen = self.version
            await asyncio.sleep(STATUS_PAUSE)

    async def read_status(self) -> None:
        """Read the status. A new one is a new version."""
        status = await self.client.get_run(self.run_id).status()
        if status != self.status:
            self.status = status
            self._advance()

    def _advance(self) -> None:
        self.timeline.version += 1
        self._notify()

    def _notify(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class LiveRun(LiveTimeline):
    """The present part of a run, and what happens in its child runs."""

    CHILDREN: ClassVar[bool] = True

    def __init__(self, client: Client, feeds: Feeds, run_id: str) -> None:
        super().__init__(client, feeds, run_id)
        self.snapshot: Snapshot
        """The run when it was read last."""
        self.stuck: Stuck | None = None
        self.children: dict[str, int] = {}
        """By child run, the version when something happened in it."""
        self._stuck_read_at = 0.0

    async def load(self) -> None:
        """Read the run as it is now. Raises as `read_snapshot`."""
        found = await read_snapshot(self.client, self.run_id, most=MOST_ENTRIES)
        self.snapshot, self.timeline, self.status = found, found.timeline, found.status
        self.stuck, self._stuck_read_at = found.stuck, time.monotonic()

    async def read_status(self) -> None:
        """Read the status, and at times whether the run is stuck."""
        await super().read_status()
        if time.monotonic() - self._stuck_read_at > STUCK_PAUSE:
            self._stuck_read_at = time.monotonic()
            found = await find_stuck(self.client, [self.run_id]) if may_be_stuck(self.status) else {}
            if (stuck := found.get(self.run_id)) != self.stuck:
                self.stuck = stuck
                self._advance()

    def feed(self, event: Event) -> None:
        if event.run_id == self.run_id:
            self.timeline.feed(event)
        else:
            self.timeline.version += 1
            self.children[event.run_id] = self.timeline.version

    def cursor(self) -> Cursor:
        """Return the cursor at the end, with open child runs from their beginning."""
        open_calls = [call for call in self.timeline.calls if call.child and call.result is None]
        below = [f"{call.child.run_id.removeprefix(self.run_id)}=" for call in open_calls if call.child]
        last = self.timeline.last_event_id
        return Cursor(self.run_id, after=f"{last};{';'.join(below[:MAX_OPEN])}" if last else None)


class LiveConversation(LiveTimeline):
    """The last turns of a conversation, and those before that a reader has asked for."""

    BEAT: ClassVar[float] = 2.0  # questions of child runs are not events here

    def __init__(self, client: Client, feeds: Feeds, run_id: str) -> None:
        super().__init__(client, feeds, run_id)
        self.timeline = conversation_timeline(run_id)
        self._reaching = asyncio.Lock()

    @property
    def is_over(self) -> bool:
        return self.timeline.end is not None

    async def load(self) -> None:
        """Read the last turns. Raises as `read_conversation`."""
        self.timeline, self.status = await asyncio.gather(
            read_conversation(self.client, self.run_id), self.client.get_run(self.run_id).status()
        )

    async def reach(self, begin: str) -> None:
        """Read the turns from an event on, unless they are loaded."""
        async with self._reaching:
            turns = self.timeline.turns
            has_earlier = not self.timeline.has_start and turns
            if begin and has_earlier and place_of(begin) < place_of(turns[0].key):
                read = await read_conversation(self.client, self.run_id, begin=begin)
                self.timeline.prepend_turns(read)

    def feed(self, event: Event) -> None:
        self.timeline.feed(event)
        if len(self.timeline.turns) > 2 * MAX_TURNS:
            self.timeline.keep_turns(MAX_TURNS)

    def cursor(self) -> Cursor:
        """Return the cursor at the end of the timeline."""
        return Cursor(self.run_id, after=self.timeline.last_event_id or None)


T = TypeVar("T", bound=LiveTimeline)


class LiveTimelines(Generic[T]):
    """The timelines of the runs that have readers in this process."""

    def __init__(self, make: Callable[[str], T]) -> None:
        self._make = make
        self._known: dict[str, T] = {}
        self._reading: dict[str, asyncio.Task[T]] = {}

    async def look(self, run_id: str, fresh: float = 0.5) -> T:
        """Return the run as it was at most `fresh` seconds ago.

        With 0 the run is read after this request.
        """
        known = self._known.get(run_id)
        if known is not None and known.is_fresh(fresh):
            return known
        if not fresh and (earlier := self._reading.get(run_id)):
            await asyncio.wait({earlier})  # it may have begun before this request
        reading = self._reading.get(run_id)
        if reading is None:
            reading = self._reading[run_id] = asyncio.create_task(self._read(run_id))
            reading.add_done_callback(lambda _: self._reading.pop(run_id, None))
        return await asyncio.shield(reading)

    async def _read(self, run_id: str) -> T:
        found = self._make(run_id)
        await found.read()
        known = self._known.get(run_id)
        if known is None or not known.readers:
            self._known[run_id] = found
            asyncio.get_running_loop().call_later(LINGER, self._leave, found)
        return found

    @asynccontextmanager
    async def follow(self, run_id: str) -> AsyncGenerator[T]:
        """Follow the run during the body. Raises as `look`."""
        found = self._known[run_id] = await self.look(run_id, LINGER)
        found.readers += 1
        found.follow()
        try:
            yield found
        finally:
            found.readers -= 1
            asyncio.get_running_loop().call_later(LINGER, self._leave, found)

    def hearing(self, run_id: str) -> Callable[[], Awaitable[None]]:
        """Return a function that waits, at most a second, for what happens from now on."""
        known = self._known.get(run_id)
        seen = known.version if known else 0

        async def hear() -> None:
            if known and known.is_followed:
                await known.wait_for_change(seen, 1.0)

        return hear

    def _leave(self, found: T) -> None:
        if found.readers or self._known.get(found.run_id) is not found:
            return
        del self._known[found.run_id]
        closing = asyncio.ensure_future(found.close())
        closing.add_done_callback(lambda done: done.exception() if not done.cancelled() else None)
