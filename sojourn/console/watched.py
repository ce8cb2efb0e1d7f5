"""Run and conversation of an open page.

Each has a timeline that a feed extends, shared by all visitors.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import ClassVar, NamedTuple

from sojourn.client.stuck import Stuck, stuck_runs
from sojourn.console.views.entries import markdown_of
from sojourn.console.views.event_rows import LatestRows, event_row
from sojourn.console.views.markdown import prepare
from sojourn.console.views.talk import markdown_of as markdown_of_turn
from sojourn.console.views.talk import turns_before
from sojourn.console.watching import Watched
from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_of
from sojourn.contracts.message import Message
from sojourn.events import Cursor
from sojourn.events.cursor import MAX_OPEN
from sojourn.http.service import Service
from sojourn.reader import (
    MAX_TURNS,
    Snapshot,
    conversation_timeline,
    may_be_stuck,
    read_conversation,
    read_snapshot,
)
from sojourn.timeline import MOST_ENTRIES, Timeline

__all__ = ["KEPT", "SharedTranscript", "WatchedRun", "WatchedTalk"]

KEPT = 180
"""Number of the last messages that are cached."""

SOON = 1.0
"""Least seconds between two readings."""


class LastMessages(NamedTuple):
    """The last messages of a transcript."""

    version: int = -1
    """Of what is told of the run, when the reading began."""
    total: int = 0
    """Messages of the whole."""
    messages: tuple[Message, ...] = ()

    @property
    def first(self) -> int:
        """The number of the first one that is here."""
        return self.total - len(self.messages)


class SharedTranscript:
    """Reads the transcript of a run.

    Args:
        read: Reads all of it.
    """

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
                self._reading = asyncio.ensure_future(self._again(version))
                self._reading.add_done_callback(lambda done: None if done.cancelled() else done.exception())
            await asyncio.shield(self._reading)
        return self._last

    async def _again(self, version: int) -> None:
        await asyncio.sleep(max(0.0, self._due - time.monotonic()))
        began = time.monotonic()
        try:
            messages = await self._read()
        finally:
            took = time.monotonic() - began
            self._due = began + took + max(SOON, 4 * took)
        self._last = LastMessages(version, len(messages), tuple(messages[-KEPT:]))


LOOKS = 10.0
"""Seconds between two checks whether a run is stuck."""

_SILENT = ("agent_run_started", "memory_changed", "planner_note", "policy_decision", "tool_start", "usage")
"""Events that add no message."""


class WatchedRun(Watched):
    """A run that is watched for its timeline, and for what happens in child runs.

    Args:
        service: The service.
        run_id: The run.
    """

    CHILDREN: ClassVar[bool] = True
    LAST_WORD: ClassVar[str] = "the run has ended"

    def __init__(self, service: Service, run_id: str) -> None:
        super().__init__(service, run_id)
        self.timeline = Timeline(run_id)
        self.snapshot: Snapshot
        """The run when it was read last."""
        self.stuck: Stuck | None = None
        """Why it does not go on; None where it does."""
        self._looked_at = 0.0
        self.children: dict[str, int] = {}
        """By child run, the version of the timeline when something happened in it."""
        self.rows = LatestRows()
        """The events that have come since it was read."""
        self.transcript = SharedTranscript(service.client.get_run(run_id).transcript)
        """Its messages, for who reads along."""
        self.spoke = 0
        """The version of the timeline when a message may have come."""

    async def load(self) -> None:
        """Read the run as it is now. Raises as `read_snapshot`."""
        found = await read_snapshot(self._service.client, self.run_id, most=MOST_ENTRIES)
        self.snapshot, self.timeline, self.status = found, found.timeline, found.status
        self.rows = LatestRows(self.timeline.last_event_id)
        self.stuck, self._looked_at = found.stuck, time.monotonic()

    async def ask(self) -> None:
        """Read the status, and every `LOOKS` seconds whether the run is stuck."""
        await super().ask()
        if time.monotonic() - self._looked_at > LOOKS:
            self._looked_at, client = time.monotonic(), self._service.client
            found = await stuck_runs(client, [self.run_id]) if may_be_stuck(self.status) else {}
            if (stuck := found.get(self.run_id)) != self.stuck:
                self.stuck = stuck
                self.change()

    async def prepare(self, since: int) -> None:
        """Render the texts of the entries that have changed since a version in a thread."""
        changed = self.timeline.changed(since) if since >= 0 else self.timeline.last(MOST_ENTRIES)
        await prepare(text for entry in changed for text in markdown_of(entry))

    def feed(self, event: Event) -> None:
        """Take the next event, of this run or of a child run."""
        if event.run_id == self.run_id:
            self.timeline.feed(event)
            if event.event_id:
                self.rows.add(event_row(event), self.timeline.version)
                self.spoke = self.spoke if event.type in _SILENT else self.timeline.version
        else:
            self.timeline.version += 1
            self.children[event.run_id] = self.timeline.version

    def cursor(self) -> Cursor:
        """Cursor at the end of the timeline.

        Open child runs are read from their beginning.
        """
        open_calls = [call for call in self.timeline.calls if call.child and call.result is None]
        below = [f"{call.child.run_id.removeprefix(self.run_id)}=" for call in open_calls if call.child]
        last = self.timeline.last_event_id
        return Cursor(self.run_id, after=f"{last};{';'.join(below[:MAX_OPEN])}" if last else None)


class WatchedTalk(Watched):
    """A conversation that is watched: its last turns, and those before that somebody's page has.

    Args:
        service: The service.
        run_id: The conversation's run.
    """

    BEAT: ClassVar[float] = 2.0  # questions of child runs are not events here
    PAUSE: ClassVar[float] = 0.1
    LAST_WORD: ClassVar[str] = "the conversation is over"

    def __init__(self, service: Service, run_id: str) -> None:
        super().__init__(service, run_id)
        self.timeline = conversation_timeline(run_id)
        self._reaching = asyncio.Lock()

    @property
    def is_over(self) -> bool:
        """Whether the timeline has the end of the conversation."""
        return self.timeline.end is not None

    async def load(self) -> None:
        """Read the last turns. Raises as `read_conversation`."""
        client = self._service.client
        self.timeline, self.status = await asyncio.gather(
            read_conversation(client, self.run_id), client.get_run(self.run_id).status()
        )

    async def reach(self, begin: str) -> None:
        """Read the turns from an event on, unless they are already loaded.

        Raises as `read_conversation`.
        """
        async with self._reaching:
            earlier = turns_before(self.timeline)
            if begin and earlier and place_of(begin) < place_of(earlier):
                read = await read_conversation(self._service.client, self.run_id, begin=begin)
                self.timeline.prepend_turns(read)

    async def prepare(self, since: int) -> None:
        """Render the texts of the turns that have changed since a version in a thread."""
        await prepare(
            text
            for turn in self.timeline.turns[-MAX_TURNS:]
            if turn.version > since
            for text in markdown_of_turn(turn)
        )

    def feed(self, event: Event) -> None:
        """Take the next event."""
        self.timeline.feed(event)
        if len(self.timeline.turns) > 2 * MAX_TURNS:
            self.timeline.keep_turns(MAX_TURNS)
            self.forget_parts()

    def cursor(self) -> Cursor:
        """Return the cursor at the end of the timeline."""
        return Cursor(self.run_id, after=self.timeline.last_event_id or None)
