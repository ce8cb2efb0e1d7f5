"""Conversing: a part of a conversation read from its history: the last turns, those before an event, or those from one on.

A long conversation is many executions, each of which begins with the state of those before. So the last turns are read from the last of
them, and what is before them only where somebody asks for it.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias, cast

from temporalio.service import RPCError

from sojourn.client.access import Access
from sojourn.connection.rpc_errors import translated
from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_of
from sojourn.core.history.fold import Fold
from sojourn.core.history.record import HistoryRecord
from sojourn.events.cursor import Position
from sojourn.events.one_run import execution_after, present_execution, records_of
from sojourn.events.stream import stream
from sojourn.timeline import Spent, Timeline

__all__ = ["MOST", "TURNS", "conversation_timeline", "read_part"]

TURNS = 20
"""Turns of a page."""

ENOUGH = 4
"""Turns for which no execution before is read."""

MOST = 200
"""Most turns that a page grows to; those before are on a page of their own again."""

MOST_ENTRIES = 5_000
"""Most entries of those turns."""

MAX_STEPS = 4
"""Most executions that are read for a page."""

_Records: TypeAlias = AsyncGenerator[tuple[HistoryRecord, list[Event]]]


def conversation_timeline(run_id: str) -> Timeline:
    """An empty timeline of a conversation, whose events may begin in the middle of a turn."""
    return Timeline(run_id, MOST_ENTRIES, most_records=0, is_conversation=True)


async def read_part(client: Access, run_id: str, *, before: str = "", begin: str = "") -> Timeline:
    """A part of a conversation: by default the last turns.

    Args:
        client: The client.
        run_id: The conversation's run.
        before: An event: the last turns before it.
        begin: An event: the turns from it on, at most 200.

    Raises:
        RunNotFound: There is no such run.
        RunUnreadable: The run's records cannot be decoded here.
        ServerUnavailable: The server does not answer.
    """
    at = before or begin
    chain = place_of(at)[0] if at else None
    try:
        found, began = await _from(client, run_id, chain, before)
        for _ in range(MAX_STEPS):
            if began <= 0 or begin or sum(turn.has_start for turn in found.turns) >= ENOUGH:
                break
            if chain is not None and began > chain:  # what was before is deleted, and perhaps archived
                found = await _from_the_beginning(client, run_id, before)
                break
            chain = began - 1
            found, began = await _from(client, run_id, chain, before)
    except RPCError as error:
        raise translated(error, run_id) from error
    if begin:
        kept = [turn for turn in found.turns if place_of(turn.key) >= place_of(begin)]
        found.keep_turns(min(len(kept) or TURNS, MOST))
    else:
        found.keep_turns(TURNS)
    return found


async def _from(client: Access, run_id: str, chain: int | None, before: str) -> tuple[Timeline, int]:
    """What an execution and those after it have, to an event; and the number of that execution."""
    temporal = client.temporal
    execution = (
        await present_execution(temporal, run_id)
        if chain is None
        else await execution_after(temporal, run_id, chain)
    )
    fold, timeline, began = Fold(run_id), conversation_timeline(run_id), -1
    until = place_of(before) if before else None
    read = cast("_Records", records_of(temporal, fold, execution, follow=False))
    async with aclosing(read) as records:
        async for _, events in records:
            for event in events:
                if began < 0:
                    began = place_of(event.event_id)[0]
                if until and place_of(event.event_id) >= until:
                    return timeline, began
                timeline.feed(event)
            await asyncio.sleep(0)  # others are served between two records of a long history
    timeline.memory = fold.state.memory
    timeline.spent = Spent.of(fold.totals())
    return timeline, began


async def _from_the_beginning(client: Access, run_id: str, before: str) -> Timeline:
    """What all of the run has, to an event; with what is archived."""
    timeline = conversation_timeline(run_id)
    events = stream(
        client.temporal, run_id, after=Position({}), follow=False, children=False, storage=client.storage
    )
    async with aclosing(events):
        async for event in events:
            if before and place_of(event.event_id) >= place_of(before):
                break
            timeline.feed(event)
            if len(timeline.turns) > 2 * TURNS:
                timeline.keep_turns(TURNS)
    return timeline
