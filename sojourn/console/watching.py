"""Watching: one tree a run, fed by the one follower that the hub has of it, however many people look at the run in this process."""

import asyncio
import contextlib
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Hashable
from contextlib import aclosing, asynccontextmanager

from sojourn.console.present import present_run
from sojourn.console.views.about_run import AboutRun
from sojourn.console.views.run_tree import MOST, RunTree
from sojourn.contracts.event import Event
from sojourn.contracts.run import RunStatus
from sojourn.errors import SojournError
from sojourn.events import Cursor
from sojourn.events.cursor import MAX_OPEN
from sojourn.http.problems import Problem, problem_of
from sojourn.http.service import Service

__all__ = ["Watched", "Watching"]

BEAT = 5.0
"""Seconds between two looks at the status of a run in which nothing happens."""

SOON = 0.5
"""Seconds between two looks at it while much happens."""

MAX_PARTS = 2_000
"""Most parts of pages of a run that are kept; those that were looked at longest ago are made anew."""

LINGER = 10.0
"""Seconds for which a run is watched after the last who looked has left: most come back at once."""


class Watched:
    """A run that is watched: its tree and its status, and who waits for news of them.

    Args:
        service: The service.
        run_id: The run.
    """

    def __init__(self, service: Service, run_id: str) -> None:
        self._service = service
        self.run_id = run_id
        self.id = uuid.uuid4().hex[:8]
        """Of this watching: versions of another one say nothing of this tree."""
        self.tree = RunTree(run_id)
        self.earlier = ""
        """Where the part of the run before the tree ends; empty where the tree begins with the run."""
        self.status = RunStatus(run_id=run_id)
        self.about = AboutRun()
        self.status_version = 0
        self.failure: Problem | None = None
        """Why there is no news any more, though the run goes on."""
        self.is_ended = False
        self.viewers = 0
        self.children: dict[str, int] = {}
        """By child run, the version of the tree when something happened in it."""
        self._parts: OrderedDict[Hashable, tuple[int, str]] = OrderedDict()
        self._read_at = 0.0
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        """Grows with every change of what is shown."""
        return self.tree.version

    def part(self, place: Hashable, version: int, make: Callable[[], str]) -> str:
        """A part of a page as HTML, made once for everybody who sees the same.

        Args:
            place: What it is, and whatever else than its version it depends on.
            version: The version of what it shows.
            make: Makes it.
        """
        known = self._parts.pop(place, None)
        if known is None or known[0] != version:
            known = version, make()
        self._parts[place] = known
        while len(self._parts) > MAX_PARTS:
            self._parts.popitem(last=False)
        return known[1]

    async def read(self) -> None:
        """Read the run as it is now; raises as `present_run`."""
        found = await present_run(self._service, self.run_id, most=MOST)
        self.tree, self.earlier, self.status, self.about = (
            found.tree,
            found.earlier,
            found.status,
            found.about,
        )
        self._read_at = time.monotonic()
        self.is_ended = self.tree.is_over

    def is_fresh(self, seconds: float) -> bool:
        """Whether it is followed, has ended, or was read a moment ago."""
        is_followed = self._task is not None and not self._task.done()
        return is_followed or self.tree.is_over or time.monotonic() - self._read_at < seconds

    def follow(self) -> None:
        """Follow the run from now on, until it ends."""
        if self._task is None and not self.is_ended:
            self._task = asyncio.create_task(self._follow(), name=f"watching {self.run_id}")

    async def changed(self, since: int, patience: float) -> None:
        """Wait so many seconds for a version after this one, or for the end."""
        if self.version > since or self.is_ended:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._news.wait()

    async def close(self) -> None:
        """Follow it no longer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _cursor(self) -> Cursor:
        """How far the tree goes; child runs that are open are read from their beginning."""
        open_calls = [call for call in self.tree.calls if call.child and call.result is None]
        below = [f"{call.child.run_id.removeprefix(self.run_id)}=" for call in open_calls if call.child]
        last = self.tree.last_event_id
        return Cursor(self.run_id, after=f"{last};{';'.join(below[:MAX_OPEN])}" if last else None)

    async def _follow(self) -> None:
        looking = asyncio.create_task(self._look())
        cursor = self._cursor()
        try:
            with self._service.hub.subscribe(self.run_id, cursor, children=True, deltas=True) as subscription:
                async with aclosing(subscription.batches(BEAT)) as batches:
                    async for batch in batches:
                        for each in batch:
                            self._feed(each.event)
                        if batch:
                            self._tell()
            self.status = await self._service.client.get_run(self.run_id).status()
            self.tree.version += 1
            self.status_version = self.tree.version
        except (Problem, SojournError) as error:
            self.failure = problem_of(error)
        finally:
            looking.cancel()
            await asyncio.wait({looking})
            self.is_ended = True
            self._tell()

    def _feed(self, event: Event) -> None:
        if event.run_id == self.run_id:
            self.tree.feed(event)
        else:
            self.tree.version += 1
            self.children[event.run_id] = self.tree.version

    async def _look(self) -> None:
        """Look at the status again and again: limits that are left, hints, and whom child runs wait for."""
        seen = -1
        while True:
            if seen != self.version or time.monotonic() - self._read_at >= BEAT:
                seen, self._read_at = self.version, time.monotonic()
                with contextlib.suppress(SojournError):
                    status = await self._service.client.get_run(self.run_id).status()
                    if status != self.status:
                        self.status = status
                        self.tree.version += 1
                        self.status_version = seen = self.version
                        self._tell()
            await asyncio.sleep(SOON)

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Watching:
    """The runs that are watched in this process.

    Args:
        service: The service.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._watched: dict[str, Watched] = {}
        self._reading: dict[str, asyncio.Task[Watched]] = {}

    async def look(self, run_id: str, fresh: float = 0.5) -> Watched:
        """The run as it is now; raises as `present_run`.

        Args:
            run_id: The run, which the visitor may see.
            fresh: How old, in seconds, what was read may be; with 0 it is read after this request.
        """
        known = self._watched.get(run_id)
        if known is not None and known.is_fresh(fresh):
            return known
        if not fresh and (earlier := self._reading.get(run_id)):
            await asyncio.wait({earlier})  # it may have begun before what is asked for
        reading = self._reading.get(run_id)
        if reading is None:
            reading = self._reading[run_id] = asyncio.create_task(self._read(run_id))
            reading.add_done_callback(lambda _: self._reading.pop(run_id, None))
        return await asyncio.shield(reading)

    async def _read(self, run_id: str) -> Watched:
        watched = Watched(self._service, run_id)
        await watched.read()
        known = self._watched.get(run_id)
        if known is None or not known.viewers:
            self._watched[run_id] = watched
            asyncio.get_running_loop().call_later(LINGER, self._leave, watched)
        return watched

    @asynccontextmanager
    async def follow(self, run_id: str) -> AsyncGenerator[Watched]:
        """The run, followed during the body; raises as `present_run`."""
        watched = self._watched[run_id] = await self.look(run_id, LINGER)
        watched.viewers += 1
        watched.follow()
        try:
            yield watched
        finally:
            watched.viewers -= 1
            asyncio.get_running_loop().call_later(LINGER, self._leave, watched)

    def _leave(self, watched: Watched) -> None:
        if watched.viewers or self._watched.get(watched.run_id) is not watched:
            return
        del self._watched[watched.run_id]
        closing = asyncio.ensure_future(watched.close())
        closing.add_done_callback(lambda done: done.exception() if not done.cancelled() else None)
