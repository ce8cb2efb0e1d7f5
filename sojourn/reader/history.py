"""Read parts of a run's history as timelines.

A part is the present execution, the events before an event, a wait, or the decisions. A long run is
many executions. Each begins with the state of those before, so a page reads no more of them than it
displays.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias, cast

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError

from sojourn.client.client import Client
from sojourn.client.listing import message_of
from sojourn.client.readable_run import limit_of_end, status_name
from sojourn.client.run import Run
from sojourn.client.stuck import Stuck, stuck_of
from sojourn.connection.rpc_errors import OutageRetry, is_page_outdated, translate_error
from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_in, place_of
from sojourn.contracts.run import RunStatus
from sojourn.core.history.fold import Fold
from sojourn.core.history.record import HistoryRecord
from sojourn.events.cursor import Position
from sojourn.events.one_run import branches_in_history, execution_after, present_execution, records_of
from sojourn.events.stream import stream
from sojourn.timeline import Timeline, TokenUsage, UserTurn, WaitEnd, events_of_branch

__all__ = [
    "MAX_TURNS",
    "TURNS",
    "HistoryPart",
    "RunDecisions",
    "Snapshot",
    "branch_events",
    "conversation_timeline",
    "may_be_stuck",
    "read_branch",
    "read_conversation",
    "read_decisions",
    "read_event",
    "read_part",
    "read_snapshot",
]

MAX_ENTRIES = 100_000
"""Most entries of a part's timeline, more than any part has."""

TURNS = 20
"""Turns of a conversation to read at once."""

MAX_TURNS = 200
"""Most turns of a conversation to read from an event on."""

MAX_TURN_ENTRIES = 5_000
"""Most entries of those turns."""

ENOUGH_TURNS = 4
"""Complete turns that suffice, so that no earlier execution is read."""

MAX_EXECUTIONS = 4
"""Most executions to read for those turns."""

MAX_EVENTS = 20_000
"""Most events of a run to read for its decisions."""

_PRESENT = "999999999-000000-00000"
"""A place that is in the present execution of any run."""

_Records: TypeAlias = AsyncGenerator[tuple[HistoryRecord, list[Event]]]


@dataclass(frozen=True, slots=True)
class Snapshot:
    timeline: Timeline
    earlier: str
    """End of the part of the run before the timeline; empty if the timeline begins with the run."""
    status: RunStatus
    stuck: Stuck | None
    """Why the run makes no progress, or None."""
    asked: str
    """The beginning of the run's message."""
    labels: Mapping[str, str]
    execution: str
    """The id of its present execution."""


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """Events of one execution, and of those that continue the present one."""

    run_id: str
    events: list[Event]
    earlier: str
    """Value of `before` for the part before this one; empty if there is none."""

    def timeline(self) -> Timeline:
        """Return a timeline of at most `MAX_ENTRIES` entries."""
        timeline = Timeline(self.run_id, MAX_ENTRIES)
        for event in self.events:
            timeline.feed(event)
        return timeline


@dataclass(frozen=True, slots=True)
class RunDecisions:
    decisions: tuple[WaitEnd, ...]
    is_whole: bool
    """Whether all of the run's events were read."""


async def read_snapshot(client: Client, run_id: str, *, most: int) -> Snapshot:
    """Read a run as it is now."""
    try:
        described = await client.temporal.get_workflow_handle(run_id).describe()
        (fold, events), asked = await asyncio.gather(
            _fold_of(client, run_id, described.run_id), message_of(described)
        )
    except RPCError as error:
        raise translate_error(error, run_id) from error
    timeline = Timeline(run_id, most)
    for event in events:
        timeline.feed(event)
    began = place_of(events[0].event_id)[0] if events else 0
    if began:
        timeline.spent = TokenUsage.of(fold.totals())
    is_known = timeline.is_over and described.status != WorkflowExecutionStatus.RUNNING
    status = _status_at_end(fold, described) if is_known else await client.get_run(run_id).status()
    return Snapshot(
        timeline,
        place_in(began, 0) if began else "",
        status,
        await stuck_of(client, described) if may_be_stuck(status) else None,
        asked,
        fold.state.opening.labels,
        described.run_id,
    )


def may_be_stuck(status: RunStatus) -> bool:
    return status.status == "running" and not (status.awaits or status.child_awaits)


async def _fold_of(client: Client, run_id: str, execution: str) -> tuple[Fold, list[Event]]:
    outage = OutageRetry()
    while True:
        fold, found = Fold(run_id), list[Event]()
        try:
            async for _, events in records_of(client.temporal, fold, execution, follow=False):
                found += events
            return fold, found
        except RPCError as error:
            if not (is_page_outdated(error) and await outage.may_retry(error)):
                raise


def _status_at_end(fold: Fold, described: WorkflowExecutionDescription) -> RunStatus:
    found = fold.status()
    more = {
        "status": status_name(described.status),
        "closed_at": described.close_time,
        "gave_up": limit_of_end(described),
    }
    return found.model_copy(update={**more, "started_at": found.started_at or described.start_time})


async def read_part(client: Client, run_id: str, before: str = "") -> HistoryPart:
    """Read a run's present execution, or an execution's events before a place."""
    until = place_of(before) if before else None
    since = _PRESENT
    if until is not None:
        chain = until[0] if any(until[1:]) else until[0] - 1
        since = place_in(max(chain, 0), 0)
    found: list[Event] = []
    async with aclosing(_events(client, run_id, since)) as events:
        async for event in events:
            if until is not None and place_of(event.event_id) >= until:
                break
            found.append(event)
    began = place_of(found[0].event_id)[0] if found else 0
    return HistoryPart(run_id, found, place_in(began, 0) if began else "")


async def read_event(client: Client, run_id: str, event_id: str) -> Event | None:
    """Read an event by its id, or return None."""
    wanted = place_of(event_id)
    async with aclosing(_events(client, run_id, place_in(wanted[0], 0))) as events:
        async for event in events:
            if (place := place_of(event.event_id)) >= wanted:
                return event if place == wanted else None
    return None


async def read_decisions(client: Client, run_id: str) -> RunDecisions:
    """Read a run's decisions, at most from its first 20,000 events."""
    timeline, left = Timeline(run_id, most=1, most_records=MAX_EVENTS), MAX_EVENTS
    async with aclosing(_events(client, run_id)) as events:
        async for event in events:
            timeline.feed(event)
            if (left := left - 1) < 0:
                break
    return RunDecisions(tuple(timeline.decisions), is_whole=left >= 0)


def _events(client: Client, run_id: str, since: str = "") -> AsyncGenerator[Event]:
    return stream(
        client.temporal,
        run_id,
        after=Position({}),
        follow=False,
        children=False,
        storage=client.storage,
        since=since,
    )


# Conversations.


async def branch_events(run: Run) -> AsyncGenerator[Event]:
    """Yield the recorded events of a conversation without the turns of other branches."""
    async with aclosing(run.events(follow=False)) as events:
        if await branches_in_history(run.client.temporal, run.id):
            for event in events_of_branch(run.id, [event async for event in events]):
                yield event
            return
        async for event in events:
            yield event


def conversation_timeline(run_id: str) -> Timeline:
    return Timeline(run_id, MAX_TURN_ENTRIES, most_records=0, is_conversation=True)


async def read_conversation(client: Client, run_id: str, *, before: str = "", begin: str = "") -> Timeline:
    """Read a part of a conversation: by default the last turns."""
    at = before or begin
    chain = place_of(at)[0] if at else None
    try:
        found, began = await _turns_from(client, run_id, chain, before)
        for _ in range(MAX_EXECUTIONS):
            if began <= 0 or begin or sum(turn.has_start for turn in found.path) >= ENOUGH_TURNS:
                break
            if (
                chain is not None and began > chain
            ):  # the executions before were deleted, and perhaps archived
                found = await _turns_from_the_beginning(client, run_id, before)
                break
            chain = began - 1
            found, began = await _turns_from(client, run_id, chain, before)
    except RPCError as error:
        raise translate_error(error, run_id) from error
    if begin:
        kept = [turn for turn in found.turns if place_of(turn.key) >= place_of(begin)]
        found.keep_turns(min(len(kept) or TURNS, MAX_TURNS))
    else:
        found.keep_turns(TURNS)
    return found


async def read_branch(client: Client, run_id: str, before: str = "") -> tuple[Timeline, list[UserTurn]]:
    """Read a conversation that has branches, and the turns of the present one.

    With `before` these are the ones before an event. The turns of a branch may be in any execution, so all are read.
    """
    timeline = Timeline(run_id, MAX_ENTRIES, most_records=0, is_conversation=True)
    async with aclosing(_events(client, run_id)) as events:
        async for event in events:
            timeline.feed(event)
    path = timeline.path
    return timeline, [turn for turn in path if not before or place_of(turn.key) < place_of(before)]


async def _turns_from(client: Client, run_id: str, chain: int | None, before: str) -> tuple[Timeline, int]:
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
            await asyncio.sleep(0)  # let other requests proceed between two records of a long history
    timeline.memory = fold.state.memory
    timeline.spent = TokenUsage.of(fold.totals())
    return timeline, began


async def _turns_from_the_beginning(client: Client, run_id: str, before: str) -> Timeline:
    timeline = conversation_timeline(run_id)
    async with aclosing(_events(client, run_id)) as events:
        async for event in events:
            if before and place_of(event.event_id) >= place_of(before):
                break
            timeline.feed(event)
            if len(timeline.turns) > 2 * TURNS:
                timeline.keep_turns(TURNS)
    return timeline
