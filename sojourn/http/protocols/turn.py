"""Events of one turn of a conversation, from a client's starting point.

They end when the turn ends, or waits only for people.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sojourn.answers import open_waits, status_once_judged, wait_view
from sojourn.client.run import Run
from sojourn.contracts.event import (
    ApprovalGivenEvent,
    AwaitAnsweredEvent,
    Event,
    InterimAnswerEvent,
    MessageWithdrawnEvent,
    ToolResultReceivedEvent,
)
from sojourn.contracts.run import RunStatus
from sojourn.events import Cursor
from sojourn.http.answering import QUIET
from sojourn.http.problems import redact
from sojourn.http.protocols.reply import MAX_ITEMS, MOST_LATE, is_ahead, read_in_turn
from sojourn.http.protocols.waits import ClientWait, client_waits, is_blocked, waits_of_status
from sojourn.reader import Feeds, SubscriberItem, branch_events
from sojourn.timeline import EntryChange, TimelineTree, is_run_end, is_turn_end

__all__ = ["Begin", "Blocked", "SeenEvent", "TurnStream", "replay"]

ALWAYS = 86_400.0


@dataclass(frozen=True, slots=True)
class Begin:
    """Position from which a client reads a turn."""

    after: str
    """The event_id before the turn; empty for the beginning of the run."""
    message_id: str | None
    """Id of the message that opens or joins the turn; None for the turn of the answers."""
    answers: frozenset[str] = frozenset()
    """Ids of waits. The client has seen the events before their answers."""


class SeenEvent(NamedTuple):
    event: Event
    is_shown: bool
    """Whether the change is for the client. Earlier ones only establish the open waits."""
    changes: Sequence[EntryChange]
    """Its changes of the entries of its run."""


class Blocked(NamedTuple):
    """The turn waits for people only."""

    waits: list[ClientWait]
    status: RunStatus


class TurnStream:
    """One reading of a turn.

    `known` has, by run and wait, ids of waits that were perhaps opened before the client starts.
    """

    def __init__(
        self, feeds: Feeds, run: Run, begin: Begin, known: Mapping[tuple[str, str], list[str]] | None = None
    ) -> None:
        self.run = run
        self.tree = TimelineTree(run.id, MAX_ITEMS, is_conversation=True)
        """The events that were read, those before the client's too."""
        self.first = ""
        """The event_id of the first event that is the client's."""
        self.is_ended = False
        """Whether the last event ended the turn."""
        self.is_withdrawn = False
        """Whether the message was withdrawn, so that it gets no turn."""
        self._is_answered = False
        """Whether the message was answered while approvals were open."""
        self._is_left = False
        """Whether the message was to be answered while approvals are open, and was not."""
        self._feeds = feeds
        self._begin = begin
        self._unanswered = set(begin.answers)
        self._ids = dict(known or {})
        """The ids with which clients answer a wait, by run and wait."""

    @property
    def message_id(self) -> str | None:
        return self._begin.message_id

    @property
    def turn_id(self) -> str:
        return self.tree.top.taken.get(self.message_id or "", "")

    @property
    def _is_mine(self) -> bool:
        return self.message_id is None or self.message_id in self.tree.top.taken

    async def _blocked_after(self, event: Event) -> Blocked | None:
        """Return what the turn waits for after the answer to the message.

        If the message has no answer now, the stream ends once nothing more comes: one that is read again may have more. A client
        that decides on approvals with its request follows the turn to its end.
        """
        if not isinstance(event, InterimAnswerEvent) or self._begin.answers:
            return None
        if event.message_id != self.message_id:
            return None
        self._is_answered, self._is_left = event.message is not None, event.message is None
        if self._is_left:
            return None
        status = await self.run.status()
        waits = waits_of_status(status)
        return Blocked(waits, status) if waits else None

    @property
    def _is_whole(self) -> bool:
        """Whether the events opened the open waits."""
        return not self._begin.after or any(turn.is_opened for turn in self.tree.top.turns)

    def since(self, wait: ClientWait) -> datetime | None:
        """Return when a wait was opened, if that is among the events."""
        opened = self.tree.open_waits.get((wait.view.run_id, wait.view.await_id))
        return opened.since if opened else None

    async def events(self) -> AsyncGenerator[SeenEvent | Blocked]:
        """Yield the events of the run and its child runs. The last one may be `Blocked`."""
        cursor = Cursor(self.run.id, self._begin.after)
        with self._feeds.subscribe(self.run.id, cursor, children=True, deltas=True) as subscription:
            async with aclosing(subscription.batches(ALWAYS)) as batches:
                next_batch = asyncio.ensure_future(_next(batches))
                try:
                    looks, late = True, 0
                    while True:
                        await asyncio.wait({next_batch}, timeout=QUIET if looks else None)
                        if not next_batch.done():
                            status = await status_once_judged(self.run, next_batch)
                            if status.judging:
                                continue
                            if looks := is_blocked(status):
                                late += 1
                                if self._has_events_of(status) or late > MOST_LATE:
                                    yield Blocked(waits_of_status(status), status)
                                    return
                            continue
                        batch = next_batch.result()
                        if batch is None:
                            return
                        for delivery in batch:
                            yield self._see(delivery.event)
                            blocked = await self._blocked_after(delivery.event)
                            if blocked:
                                yield blocked
                            if blocked or self.is_ended or self._is_answered:
                                return
                        looks, late = bool(self.tree.open_waits) or not self._is_mine or self._is_left, 0
                        next_batch = asyncio.ensure_future(_next(batches))
                finally:
                    next_batch.cancel()
                    with suppress(asyncio.CancelledError, Exception):
                        await next_batch

    def _see(self, event: Event) -> SeenEvent:
        changes = self.tree.feed(event)
        self._note_answers(event)
        is_shown = not self._unanswered and (self._is_mine or bool(self._begin.answers))
        if is_shown and not self.first:
            self.first = event.event_id
        is_over = is_turn_end(event) and self._is_mine and (is_shown or self.message_id is not None)
        if event.run_id == self.run.id and isinstance(event, MessageWithdrawnEvent):
            self.is_withdrawn = self.is_withdrawn or event.message_id == self.message_id
        is_over = is_over or is_run_end(event) or self.is_withdrawn
        self.is_ended = event.run_id == self.run.id and is_over
        return SeenEvent(event, is_shown or self.is_ended, changes)

    def _note_answers(self, event: Event) -> None:
        if opened := self.tree.wait_opened_by(event):
            waits = client_waits(wait_view(opened.wait, opened.run_id), self.run.id)
            self._ids[opened.run_id, opened.wait.id] = [each.id for each in waits]
        elif isinstance(event, AwaitAnsweredEvent | ApprovalGivenEvent):
            key = (event.run_id, event.await_id)
            self._unanswered -= set(self._ids.get(key, ()))
            if isinstance(event, ApprovalGivenEvent):  # an edit has bound the wait to other arguments
                view = wait_view(event.confirmation, event.run_id)
                self._ids[key] = [each.id for each in client_waits(view, self.run.id)]
        elif isinstance(event, ToolResultReceivedEvent):
            bound = f"#{event.tool_call_id}"
            ids = [id for (run_id, _), ids in self._ids.items() if run_id == event.run_id for id in ids]
            self._unanswered -= {id for id in ids if id.endswith(bound)}
            self._unanswered -= {bound} if event.run_id == self.run.id else set()

    def _has_events_of(self, status: RunStatus) -> bool:
        """Check whether the event stream has caught up with this status.

        Waits that were open before the stream's start are not required. A run that has not learned yet that a wait of its child
        run was answered still names it, so the events may be ahead.
        """
        plan = self.tree.top.plan
        if not (self._is_mine or status.queued) or (plan and plan.is_open and plan.interim_for):
            return False
        open_now = {
            (view.run_id, view.await_id)
            for view in open_waits(status)
            if self._is_whole or view.run_id in self.tree.parents
        }
        closed = self._ids.keys() - self.tree.open_waits.keys()
        return not is_ahead(status, self.tree) and open_now <= self._ids.keys() and not open_now & closed


async def replay(run: Run, feed: Callable[[Event], Sequence[EntryChange]]) -> AsyncGenerator[SeenEvent]:
    """Yield the recorded events of a conversation, with the changes from `feed`."""
    async with aclosing(read_in_turn(branch_events(run))) as events:
        async for event in events:
            shown = redact(event)
            yield SeenEvent(shown, is_shown=True, changes=feed(shown))


async def _next(batches: AsyncGenerator[list[SubscriberItem]]) -> list[SubscriberItem] | None:
    return await anext(batches, None)
