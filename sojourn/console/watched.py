"""Render the parts of open pages once for all visitors."""

import asyncio
import time
import uuid
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from sojourn.client.client import Client
from sojourn.console.views.entries import EventRow, event_row, markdown_of, markdown_of_turn
from sojourn.console.views.markdown import prepare
from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_of
from sojourn.contracts.message import Message
from sojourn.reader import MAX_TURNS, Cache, Feeds, LiveConversation, LiveRun, LiveTimeline
from sojourn.timeline import MOST_ENTRIES, Row, Timeline, fold_calls

__all__ = [
    "MAX_MESSAGES",
    "MOST_ROWS",
    "Changes",
    "LatestRows",
    "News",
    "RenderedPart",
    "SharedTranscript",
    "WatchedRun",
    "WatchedTalk",
]

IDLE = 10.0
"""Seconds without news after which a stream yields nevertheless."""

MAX_PARTS = 2_000
"""Most rendered parts of a run's pages. The least recently used are evicted."""

MAX_MESSAGES = 180
"""Number of the last messages that are cached."""

MOST_ROWS = 600
"""Most rows that are added to an open page."""

TRANSCRIPT_PAUSE = 1.0
"""Least seconds between two readings of a transcript."""

_SILENT = ("agent_run_started", "memory_changed", "planner_note", "policy_decision", "tool_start", "usage")
"""Events that add no message."""


@dataclass(frozen=True, slots=True)
class News:
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
    added: int = 0
    """Entries that the page has then beside those that it began with."""


class RenderedPart(NamedTuple):
    """A part of pages, rendered once for all pages that have the same."""

    of: int
    """The version of its content."""
    since: int
    """The version of the run since which it looks so."""
    html: str


class _Watched(LiveTimeline):
    """A run that visitors watch, with its rendered parts."""

    PAUSE: ClassVar[float] = 0.3
    """Seconds between two changes of a page: what happens in between comes together."""

    LAST_WORD: ClassVar[str]
    """The last event for a page. Then the page does not connect again."""

    def __init__(self, client: Client, feeds: Feeds, run_id: str) -> None:
        super().__init__(client, feeds, run_id)
        self._id = uuid.uuid4().hex[:8]
        """Versions of another watching say nothing of this one."""
        self._parts: Cache[tuple[Hashable, ...], RenderedPart] = Cache(MAX_PARTS)

    @abstractmethod
    async def prepare(self, since: int) -> None:
        """Render the texts that have changed since a version in a thread. -1 prepares all."""

    @property
    def mark(self) -> str:
        """Mark of a page that shows the current version."""
        return f"{self._id}.{self.version}"

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
            SojournError: There are no more news, although the run is open.
        """
        seen, added = self._read_place(came)
        while True:
            await self.prepare(seen)
            at = self.version
            html, events, added = await changes(seen, added) if at != seen else Changes(added=added)
            yield News(html, f"{self._id}.{at}.{added}", events)
            seen = at
            if self.is_ended and self.version == seen:
                if self.failure:
                    raise self.failure
                yield News(events={"ended": [self.LAST_WORD]})
                return
            await asyncio.sleep(self.PAUSE)
            await self.wait_for_change(seen, IDLE)

    def _read_place(self, came: str) -> tuple[int, int]:
        whose, version, added = (*came.split("."), "", "", "")[:3]
        if whose != self._id or not version.isdecimal():
            return -1, 0
        return int(version), int(added) if added.isdecimal() else 0

    def once(self, place: tuple[Hashable, ...], of: int, make: Callable[[], str]) -> RenderedPart:
        """Render a part of pages once for all visitors.

        Args:
            place: The key of the part, with all that it depends on besides the timeline and the status.
            of: The version of its content.
            make: Renders it.
        """
        known = self._parts.peek(place)
        if known is None or known.of != of:
            html = make()
            since = known.since if known and known.html == html else self.version
            known = RenderedPart(of, since, html)
            self._parts.put(place, known)
        return known


class WatchedRun(_Watched, LiveRun):
    LAST_WORD: ClassVar[str] = "the run has ended"

    def __init__(self, client: Client, feeds: Feeds, run_id: str) -> None:
        super().__init__(client, feeds, run_id)
        self.rows = LatestRows()
        """The events that have come since it was read."""
        self.transcript = SharedTranscript(client.get_run(run_id).transcript)
        self.spoke = 0
        """The version when a message may have come."""
        self._folded: tuple[Timeline, int, list[Row]] | None = None

    @property
    def tree(self) -> list[Row]:
        """The rows of its tree, made once for each version of the timeline."""
        timeline, known = self.timeline, self._folded
        if known is None or known[0] is not timeline or known[1] != timeline.version:
            known = self._folded = timeline, timeline.version, fold_calls(timeline.entries)
        return known[2]

    async def load(self) -> None:
        await super().load()
        self.rows = LatestRows(self.timeline.last_event_id)

    def feed(self, event: Event) -> None:
        super().feed(event)
        if event.run_id == self.run_id and event.event_id:
            self.rows.add(event_row(event), self.version)
            self.spoke = self.spoke if event.type in _SILENT else self.version

    async def prepare(self, since: int) -> None:
        changed = self.timeline.changes_since(since) if since >= 0 else self.timeline.last(MOST_ENTRIES)
        await prepare(text for entry in changed for text in markdown_of(entry))


class WatchedTalk(_Watched, LiveConversation):
    PAUSE: ClassVar[float] = 0.1
    LAST_WORD: ClassVar[str] = "the conversation is over"

    def feed(self, event: Event) -> None:
        first = self.timeline.turns[0] if self.timeline.turns else None
        super().feed(event)
        if first and self.timeline.turns[0] is not first:  # earlier turns were dropped
            self._parts.clear()

    async def prepare(self, since: int) -> None:
        is_whole = self.timeline.branched_in > since
        turns = [turn for turn in self.timeline.path[-MAX_TURNS:] if is_whole or turn.version > since]
        await prepare(text for turn in turns for text in markdown_of_turn(turn))


class LastMessages(NamedTuple):
    version: int = -1
    """The version of the run when the reading began."""
    total: int = 0
    """Messages of the whole."""
    messages: tuple[Message, ...] = ()

    @property
    def first(self) -> int:
        """The number of the first one that is here."""
        return self.total - len(self.messages)


class SharedTranscript:
    """Reads the transcript of a run, at most as often as its length allows."""

    def __init__(self, read: Callable[[], Awaitable[list[Message]]]) -> None:
        self._read = read
        self._last = LastMessages()
        self._reading: asyncio.Task[None] | None = None
        self._due = 0.0

    async def at(self, version: int) -> LastMessages:
        """Return the last messages, at this version or later.

        Raises as the reading does.
        """
        while self._last.version < version:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.ensure_future(self._render_again(version))
                self._reading.add_done_callback(lambda done: None if done.cancelled() else done.exception())
            await asyncio.shield(self._reading)
        return self._last

    async def _render_again(self, version: int) -> None:
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))
        began = time.monotonic()
        try:
            messages = await self._read()
        finally:
            took = time.monotonic() - began
            self._due = began + took + max(TRANSCRIPT_PAUSE, 4 * took)
        self._last = LastMessages(version, len(messages), tuple(messages[-MAX_MESSAGES:]))


class LatestRows:
    """Buffer of the newest rows of a run's events."""

    def __init__(self, begin: str = "", most: int = MOST_ROWS) -> None:
        self._begin = begin
        self._since = -1
        self._most = most
        self._rows: deque[tuple[int, EventRow]] = deque()

    def add(self, row: EventRow, version: int) -> None:
        self._rows.append((version, row))
        if len(self._rows) > self._most:
            self._since, gone = self._rows.popleft()
            self._begin = gone.event_id

    def since(self, version: int) -> list[EventRow] | None:
        """Return the rows added after a version.

        Return None if the buffer has dropped some of them.
        """
        if version < self._since:
            return None
        return [row for came, row in self._rows if came > version]

    def after(self, event_id: str) -> list[EventRow] | None:
        """Return the rows after an event.

        Return None if the buffer has dropped some of them, or does not reach back to the event.
        """
        place = place_of(event_id)
        if place < place_of(self._begin):
            return None
        return [row for _, row in self._rows if place_of(row.event_id) > place]
