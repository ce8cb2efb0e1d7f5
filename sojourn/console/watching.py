"""Follow each run that open pages show once, for all its visitors.

The pages share their rendered parts.
"""

import asyncio
import contextlib
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import ClassVar, Generic, NamedTuple, TypeVar

from sojourn.contracts.event import Event
from sojourn.contracts.run import RunStatus
from sojourn.errors import SojournError
from sojourn.events import Cursor
from sojourn.http.problems import Problem, problem_of
from sojourn.http.service import Service
from sojourn.reader import Cache
from sojourn.timeline import Timeline

__all__ = ["Changes", "Made", "News", "Watched", "Watching"]

SOON = 0.5
"""Seconds between two reads of a busy run."""

IDLE = 10.0
"""Seconds without news after which a stream yields nevertheless."""

MAX_PARTS = 2_000
"""Size of the cache for parts of a run's pages. The least recently used are evicted."""

LINGER = 10.0
"""Seconds for which a run is watched after its last viewer has left.

Most viewers return at once.
"""


@dataclass(frozen=True, slots=True)
class News:
    """Changes of a page."""

    html: str = ""
    """HTML of `live.part`, for each place that has changed."""
    mark: str = ""
    """Version of the page after the changes. It reconnects with this `Last-Event-ID`."""
    events: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """Events for the page's script by name, each with its text on one line.

    After `ended` the page does not reconnect.
    """


class Changes(NamedTuple):
    """Changes of a page, as in `News`, before they have a mark."""

    html: str = ""
    events: Mapping[str, Sequence[str]] = {}
    """What the page's script is told."""
    added: int = 0
    """Entries that the page has then beside those that it began with."""


class Made(NamedTuple):
    """A part of pages, rendered once for all pages that have the same."""

    of: int
    """The version of what it shows."""
    since: int
    """The version of what is told when it was last another one."""
    html: str


class Watched(ABC):
    """A run that is watched: what is told of it and its status, and who waits for news of them.

    Args:
        service: The service.
        run_id: The run.
    """

    CHILDREN: ClassVar[bool] = False
    """Whether the events of child runs are wanted."""

    BEAT: ClassVar[float] = 5.0
    """Seconds between two looks at the status while nothing happens."""

    PAUSE: ClassVar[float] = 0.3
    """Seconds between two changes of a page: what happens in between comes together."""

    LAST_WORD: ClassVar[str]
    """What a page is told at the end; then it does not come back."""

    def __init__(self, service: Service, run_id: str) -> None:
        self._service = service
        self.run_id = run_id
        self.id = uuid.uuid4().hex[:8]
        """Of this watching: versions of another one say nothing of this one."""
        self.timeline = Timeline(run_id)
        self.status = RunStatus(run_id=run_id)
        self.failure: Problem | None = None
        """Why there is no news any more, though the run goes on."""
        self.is_ended = False
        self.viewers = 0
        self._made: Cache[tuple[Hashable, ...], Made] = Cache(MAX_PARTS)
        self._read_at = 0.0
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the timeline has the end of the run."""
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

    @abstractmethod
    async def prepare(self, since: int) -> None:
        """Prepare the slow work for parts that have changed since a version.

        It runs in a thread. -1 prepares all parts.
        """

    @property
    def version(self) -> int:
        """Version of the content. It grows with every change."""
        return self.timeline.version

    @property
    def mark(self) -> str:
        """Mark of a page that shows the current version: the watcher's id and version."""
        return f"{self.id}.{self.version}"

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
        """Check whether the run is followed, has ended, or was read recently."""
        if self.failure:
            return False
        return self.is_followed or self.is_over or time.monotonic() - self._read_at < seconds

    def follow(self) -> None:
        """Follow the run from now on, until it ends."""
        if self._task is None and not self.is_ended:
            self._task = asyncio.create_task(self._follow(), name=f"watching {self.run_id}")

    async def changed(self, since: int, patience: float) -> None:
        """Wait at most this many seconds for a newer version, or for the end."""
        if self.version > since or self.is_ended:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._news.wait()

    async def news(
        self, came: str, changes: Callable[[int, int], Awaitable[Changes]]
    ) -> AsyncGenerator[News]:
        """Yield what changes on a page, until the run ends.

        Args:
            came: The mark of the page.
            changes: Renders the changes since a version, on a page to which this many entries were added. The
                version is -1 if the page's version is unknown. It must read the changes before its first await:
                later changes come with the next news.

        Raises:
            Problem: There are no more news, although the run is open.
        """
        seen, added = self._seen(came)
        while True:
            await self.prepare(seen)
            at = self.version
            html, events, added = await changes(seen, added) if at != seen else Changes(added=added)
            yield News(html, f"{self.id}.{at}.{added}", events)
            seen = at
            if self.is_ended and self.version == seen:
                if self.failure:
                    raise self.failure
                yield News(events={"ended": [self.LAST_WORD]})
                return
            await asyncio.sleep(self.PAUSE)
            await self.changed(seen, IDLE)

    def _seen(self, came: str) -> tuple[int, int]:
        """Return a page's version, and the number of entries added to it.

        The version is -1 if its mark is not of this watching.
        """
        whose, version, added = (*came.split("."), "", "", "")[:3]
        if whose != self.id or not version.isdecimal():
            return -1, 0
        return int(version), int(added) if added.isdecimal() else 0

    def once(self, place: tuple[Hashable, ...], of: int, make: Callable[[], str]) -> Made:
        """Render a part of pages once for all visitors, and cache it.

        Args:
            place: The key of the part, with all that it depends on besides the timeline and the status.
            of: The version of its content.
            make: Renders it.
        """
        known = self._made.peek(place)
        if known is None or known.of != of:
            html = make()
            since = known.since if known and known.html == html else self.version
            known = Made(of, since, html)
            self._made.put(place, known)
        return known

    def forget_parts(self) -> None:
        """Empty the cache of parts."""
        self._made.clear()

    async def close(self) -> None:
        """Stop following the run."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _follow(self) -> None:
        looking = asyncio.create_task(self._look())
        try:
            with self._service.feeds.subscribe(
                self.run_id, self.cursor(), children=self.CHILDREN, deltas=True
            ) as subscription:
                async with aclosing(subscription.batches(self.BEAT)) as batches:
                    async for batch in batches:
                        for each in batch:
                            self.feed(each.event)
                        if batch:
                            self._notify()
            await self.ask()
        except (Problem, SojournError) as error:
            self.failure = problem_of(error)
        finally:
            looking.cancel()
            await asyncio.wait({looking})
            self.is_ended = True
            self._notify()

    async def _look(self) -> None:
        """Poll the status for changes that no event reports.

        These are the limits that are left, hints, and what child runs wait for.
        """
        seen = self.version
        while True:
            await self.changed(seen, self.BEAT)
            with contextlib.suppress(SojournError):
                await self.ask()
            seen = self.version
            await asyncio.sleep(SOON)

    async def ask(self) -> None:
        """Read the status, and notify the pages if it has changed."""
        status = await self._service.client.get_run(self.run_id).status()
        if status != self.status:
            self.status = status
            self.change()

    def change(self) -> None:
        """Notify all open pages of a change."""
        self.timeline.version += 1
        self._notify()

    def _notify(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


W = TypeVar("W", bound=Watched)


class Watching(Generic[W]):
    """The runs that are watched in this process.

    Args:
        service: The service.
        kind: What is watched of each.
    """

    def __init__(self, service: Service, kind: Callable[[Service, str], W]) -> None:
        self._service = service
        self._kind = kind
        self._watched: dict[str, W] = {}
        self._reading: dict[str, asyncio.Task[W]] = {}

    async def look(self, run_id: str, fresh: float = 0.5) -> W:
        """Return the run as it is now. Raises as `Watched.load`.

        Args:
            run_id: The run, which the visitor may see.
            fresh: The greatest age of the reading, in seconds. With 0 the run is read after this request.
        """
        known = self._watched.get(run_id)
        if known is not None and known.is_fresh(fresh):
            return known
        if not fresh and (earlier := self._reading.get(run_id)):
            await asyncio.wait({earlier})  # it may have begun before this request
        reading = self._reading.get(run_id)
        if reading is None:
            reading = self._reading[run_id] = asyncio.create_task(self._read(run_id))
            reading.add_done_callback(lambda _: self._reading.pop(run_id, None))
        return await asyncio.shield(reading)

    async def _read(self, run_id: str) -> W:
        watched = self._kind(self._service, run_id)
        await watched.read()
        known = self._watched.get(run_id)
        if known is None or not known.viewers:
            self._watched[run_id] = watched
            asyncio.get_running_loop().call_later(LINGER, self._leave, watched)
        return watched

    @asynccontextmanager
    async def follow(self, run_id: str) -> AsyncGenerator[W]:
        """Follow the run during the body. Raises as `look`."""
        watched = self._watched[run_id] = await self.look(run_id, LINGER)
        watched.viewers += 1
        watched.follow()
        try:
            yield watched
        finally:
            watched.viewers -= 1
            asyncio.get_running_loop().call_later(LINGER, self._leave, watched)

    def hearing(self, run_id: str) -> Callable[[], Awaitable[None]]:
        """Return a function that waits until `look` has news of the run.

        News is what happened after this call. The function waits at most a second.
        """
        known = self._watched.get(run_id)
        seen = known.version if known else 0

        async def heard() -> None:
            if known and known.is_followed:
                await known.changed(seen, 1.0)

        return heard

    def _leave(self, watched: W) -> None:
        if watched.viewers or self._watched.get(watched.run_id) is not watched:
            return
        del self._watched[watched.run_id]
        closing = asyncio.ensure_future(watched.close())
        closing.add_done_callback(lambda done: done.exception() if not done.cancelled() else None)
