"""Turn: the events of one turn of a conversation from where a client begins, until the turn ends or waits for people only."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sojourn.client.run import Run
from sojourn.contracts.event import (
    AgentRunStartedEvent,
    AwaitAnsweredEvent,
    Event,
    RunResumedEvent,
    ToolEndEvent,
    ToolResultReceivedEvent,
    ToolStartEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStartedEvent,
    TurnSteeredEvent,
)
from sojourn.contracts.run import RunStatus
from sojourn.core.awaits.kinds import wait_in
from sojourn.events import Cursor
from sojourn.http.protocols.waits import OpenWait, is_blocked, open_waits, waits_of
from sojourn.reader import Delivery, Feeds

__all__ = ["ENDS", "Begin", "Blocked", "Seen", "Turn"]

QUIET = 0.1
"""Seconds without an event after which a conversation with open waits is asked whether anything else goes on."""

MOST_LATE = 50
"""Most times that the status of a blocked conversation is asked for, `QUIET` apart, while events of what it says are missing."""

ALWAYS = 86_400.0

ENDS = ("run_canceled", "run_completed", "run_failed", "run_terminated", "run_timed_out")


@dataclass(frozen=True, slots=True)
class Begin:
    """Where a client begins to read."""

    after: str
    """An event_id before the turn; empty for the beginning of the run."""
    message_id: str | None
    """The message that opens, or joins, the turn; None for the turn of the answers."""
    answers: frozenset[str] = frozenset()
    """Ids of waits: the client has seen what was before their answers."""


class Seen(NamedTuple):
    """An event."""

    event: Event
    is_shown: bool
    """Whether it is the client's; one before that tells only what was open."""


class Blocked(NamedTuple):
    """The turn waits for people only."""

    waits: list[OpenWait]
    status: RunStatus


class Turn:
    """One reading of a turn.

    Args:
        feeds: The live feeds of the process.
        run: The conversation's run.
        begin: Where the client begins.
        known: By run and wait, ids of what was asked for perhaps before that.
    """

    def __init__(
        self, feeds: Feeds, run: Run, begin: Begin, known: Mapping[tuple[str, str], list[str]] | None = None
    ) -> None:
        self.run = run
        self.since: dict[str, datetime] = {}
        """By id of a wait, since when it is open, of those that were opened in the events."""
        self.first = ""
        """The event_id of the first event that is the client's."""
        self._feeds = feeds
        self._begin = begin
        self._unanswered = set(begin.answers)
        self._ids = dict(known or {})
        """By run and wait, the ids of what is asked for."""
        self._open: set[tuple[str, str]] = set()
        self._running: set[str] = set()
        """The conversation's own calls that have started and not ended, as far as the events say."""
        self._below: set[str] = set()
        """The child runs that have started."""
        self._is_mine = begin.message_id is None
        self._is_whole = not begin.after
        """Whether what is open was opened in the events."""
        self.turn_id = ""
        """The turn of the message, once it has begun."""
        self.is_ended = False
        """Whether the last event ended the turn."""

    @property
    def message_id(self) -> str | None:
        """The message that opens, or joins, the turn; None for the turn of the answers."""
        return self._begin.message_id

    async def events(self) -> AsyncGenerator[Seen | Blocked]:
        """The events of the conversation's run and its child runs, in the end perhaps `Blocked`.

        Raises:
            Problem: This process stops, or the reader is too slow; it can resume.
            SojournError: The events cannot be read.
        """
        cursor = Cursor(self.run.id, self._begin.after)
        with self._feeds.subscribe(self.run.id, cursor, children=True, deltas=True) as subscription:
            async with aclosing(subscription.batches(ALWAYS)) as batches:
                next_batch = asyncio.ensure_future(_next(batches))
                try:
                    looks, late = True, 0
                    while True:
                        await asyncio.wait({next_batch}, timeout=QUIET if looks else None)
                        if not next_batch.done():
                            status = await self.run.status()
                            if looks := is_blocked(status):
                                late += 1
                                if self._has_events_of(status) or late > MOST_LATE:
                                    yield Blocked(open_waits(status), status)
                                    return
                            continue
                        batch = next_batch.result()
                        if batch is None:
                            return
                        for delivery in batch:
                            yield self._seen(delivery.event)
                            if self.is_ended:
                                return
                        looks, late = bool(self._open) or not self._is_mine, 0
                        next_batch = asyncio.ensure_future(_next(batches))
                finally:
                    next_batch.cancel()
                    with suppress(asyncio.CancelledError, Exception):
                        await next_batch

    def _seen(self, event: Event) -> Seen:
        is_own = event.run_id == self.run.id
        self._note_calls(event)
        if wait := wait_in(event):
            asked = list(waits_of(self.run.id, event.run_id, wait))
            self._ids[event.run_id, wait.id] = [each.id for each in asked]
            self._open.add((event.run_id, wait.id))
            self.since |= {each.id: event.time for each in asked}
        elif isinstance(event, AwaitAnsweredEvent):
            key = event.run_id, event.await_id
            self._open.discard(key)
            self._unanswered -= set(self._ids.get(key, ()))
        elif isinstance(event, ToolResultReceivedEvent):
            self._unanswered -= set(self._of_call(event.run_id, event.tool_call_id))
        elif is_own and isinstance(event, (TurnStartedEvent, TurnSteeredEvent)):
            if self._begin.message_id in event.message_ids:
                self._is_mine, self.turn_id = True, event.turn_id
            self._is_whole |= self._is_mine and isinstance(event, TurnStartedEvent)
        is_shown = not self._unanswered and (self._is_mine or bool(self._begin.answers))
        ends = is_own and isinstance(event, (TurnCompletedEvent, TurnFailedEvent))
        if is_own and isinstance(event, RunResumedEvent):
            self._open.clear()  # a resume with messages closes the turn's questions; the status says what is open
        if ends:
            self._open.clear()
        if is_shown and not self.first:
            self.first = event.event_id
        is_over = ends and self._is_mine and (is_shown or self._begin.message_id is not None)
        self.is_ended = is_over or (is_own and event.type in ENDS)
        return Seen(event, is_shown or self.is_ended)

    def _note_calls(self, event: Event) -> None:
        if isinstance(event, AgentRunStartedEvent):
            self._below.add(event.run_link.run_id)
        if event.run_id == self.run.id:
            match event:
                case ToolStartEvent() | AgentRunStartedEvent():
                    self._running.add(event.tool_call_id)
                case ToolEndEvent() | ToolResultReceivedEvent():
                    self._running.discard(event.tool_call_id)
                case _:
                    pass

    def _has_events_of(self, status: RunStatus) -> bool:
        """Whether the events have come of what the status says, which may be ahead of them; what was open before them is not missed."""
        if not (self._is_mine or status.queued):
            return False
        settled = {call.tool_call_id for call in status.calls if call.state in ("done", "failed")}
        asked = {
            (each.run_id, each.wait.id)
            for each in open_waits(status)
            if self._is_whole or each.run_id in self._below
        }
        return not self._running & settled and asked <= self._ids.keys()

    def _of_call(self, run_id: str, tool_call_id: str) -> Iterator[str]:
        """The ids of what a call's result answers."""
        if run_id == self.run.id:
            yield f"#{tool_call_id}"
        for (waiting, _), ids in self._ids.items():
            if waiting == run_id:
                yield from (each for each in ids if each.endswith(f"#{tool_call_id}"))


async def _next(batches: AsyncGenerator[list[Delivery]]) -> list[Delivery] | None:
    return await anext(batches, None)
