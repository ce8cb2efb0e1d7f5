"""Read runs for lists and pages, with a cache shared by equal selections.

Outcomes and usage of ended runs, and the last messages of conversations, are read from the ends of their histories.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar, cast

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import WorkflowExecutionDescription, WorkflowHistoryEventFilterType
from temporalio.service import RPCError

from sojourn.client.access import Access
from sojourn.client.client import Client
from sojourn.client.listing import AT_WORK, Selection, count_of, each_of, find_waiting, page_of, with_labels
from sojourn.client.schedule import list_schedules
from sojourn.client.stuck import MAX_CHECKED, Stuck, find_stuck
from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.event import MessageReceivedEvent
from sojourn.contracts.run import RunOutput, RunStatus, ScheduleStatus
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.wire_names import SEND
from sojourn.core.history.fold import Fold
from sojourn.core.history.record import HistoryRecord
from sojourn.errors import RunNotFound, RunUnreadable, SojournError
from sojourn.events.history import HistoryReader
from sojourn.events.one_run import executions_before, present_execution, records_of
from sojourn.reader.cache import Cache
from sojourn.reader.history import RunDecisions, read_decisions
from sojourn.reader.runs import ListedRun, Runs, decode_cursor, encode_cursor
from sojourn.reader.waits import WaitingRuns, WaitReader

__all__ = [
    "Detail",
    "Preview",
    "Reader",
    "RunEnd",
    "StuckRuns",
    "Turns",
    "decode_preview",
    "read_end",
    "read_tail",
    "read_turns",
]

EVENTS = 24
"""Last events of a history to read for a preview. A turn without calls has about as many."""

MAX_TEXT = 1_000
"""Most characters of a preview's text."""

MAX_BEFORE = 2
"""Most executions before the last one to read for a message, if the last one received none."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    output: RunOutput | None = None
    error: ToolError | None = None


@dataclass(frozen=True, slots=True)
class Preview:
    at: datetime | None = None
    """Time of the last event."""
    text: str = ""
    is_agent: bool = False
    """Whether the agent wrote it."""
    error: ToolError | None = None
    """Why the last turn failed or gave up. None if it did not, or a later message has come."""


@dataclass(frozen=True, slots=True)
class Turns:
    ended: int
    queued: int
    """Messages that wait for their turn."""
    last: MessageReceivedEvent | None = None
    """The last message, or None if there was none, or none for long."""


async def read_end(client: Access, run_id: str) -> RunEnd:
    """Read how a run ended, from the last event of its history."""
    reader, end = HistoryReader(client.temporal.data_converter), RunEnd()
    history = client.temporal.get_workflow_handle(run_id).fetch_history_events(
        event_filter_type=WorkflowHistoryEventFilterType.CLOSE_EVENT
    )
    try:
        async for event in history:
            if (record := await reader.record(event)) is not None:
                end = RunEnd(record.value if isinstance(record.value, RunOutput) else None, record.error)
    except RPCError as error:
        raise translate_error(error, run_id) from error
    return end


async def read_tail(client: Access, run_id: str) -> Sequence[HistoryEvent]:
    """Return the last events of a history in order, or none if the history is gone."""
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.temporal.namespace,
        execution=WorkflowExecution(workflow_id=run_id),
        maximum_page_size=EVENTS,
    )
    try:
        answer = await client.temporal.workflow_service.get_workflow_execution_history_reverse(request)
    except RPCError:
        return ()
    return list(answer.history.events)[::-1]


async def decode_preview(client: Access, events: Sequence[HistoryEvent]) -> Preview:
    reader = HistoryReader(client.temporal.data_converter)
    at = events[-1].event_time.ToDatetime(UTC)
    found = Preview(at)
    for event in events:
        record = await reader.record(event)
        text, is_agent = _message_in(record) if record else ("", False)
        if text:
            found = Preview(at, text[:MAX_TEXT], is_agent)
        elif record and record.kind == "turn_ended":
            error = record.error or (record.value.error if isinstance(record.value, RunOutput) else None)
            found = replace(found, error=error if error and error.code != "interrupted" else None)
    return found


def _message_in(record: HistoryRecord) -> tuple[str, bool]:
    value = record.value
    if isinstance(value, PlanOutcome):
        final = value.final or value.message
        return (value.await_.summary if value.await_ else final.text if final else ""), True
    if record.kind == "sent" and record.name == SEND and isinstance(value, list) and value:
        sent = cast("list[Any]", value)[0]
        text = cast("dict[str, Any]", sent).get("text") if isinstance(sent, dict) else None
        return (text if isinstance(text, str) else ""), False
    return "", False


async def read_turns(client: Access, run_id: str) -> Turns:
    """Read a conversation's turns from its last execution, without querying a worker.

    This reads a whole execution, so no list refreshes it.
    """
    try:
        present = await present_execution(client.temporal, run_id)
        found = await _turns_since(client, run_id, present)
        if found.last is not None or not found.ended:
            return found
        for before in await executions_before(client.temporal, run_id, present, MAX_BEFORE):
            found = await _turns_since(client, run_id, before)
            if found.last is not None:
                break
        return found
    except RPCError as error:
        raise translate_error(error, run_id) from error


async def _turns_since(client: Access, run_id: str, execution: str) -> Turns:
    fold, last = Fold(run_id), None
    async for _, events in records_of(client.temporal, fold, execution, follow=False):
        last = next((each for each in reversed(events) if isinstance(each, MessageReceivedEvent)), last)
    status = fold.status()
    return Turns(status.turns, status.queued, last)


FRESH = 1.0
"""Seconds for which a page of a list is cached."""

STUCK_FRESH = 10.0
"""Seconds for which the list of stuck runs is cached."""

SCHEDULES_FRESH = 10.0
"""Seconds for which the list of schedules is cached."""

MAX_SCHEDULES = 1_000
"""Most schedules to list."""

MAX_CHECKS = 10
"""Most checks of the server to cache, each with its own time."""

MAX_PAGES = 1_000
"""Most pages and counts to cache."""

MAX_RUNS = 5_000
"""Most runs in each cache of details."""

MAX_READS = 16
"""Most concurrent reads of runs for a page."""

PATIENCE = 2.0
"""Seconds in which a page reads the details of all its runs.

The page shows a run without its detail if reading it took longer.
"""

MAX_WAITING = 5_000
"""Most waiting runs to list."""

K = TypeVar("K")
V = TypeVar("V")

Detail: TypeAlias = RunStatus | RunEnd
"""The status of an open run, or the end of one that has ended."""


@dataclass(frozen=True, slots=True)
class StuckRuns:
    runs: list[ListedRun]
    why: Mapping[str, Stuck]
    is_whole: bool = True
    """Whether all runs at work were checked, and not only the newest `MAX_CHECKED`."""

    @property
    def stuck(self) -> list[ListedRun]:
        """The runs that make no progress, newest first."""
        return [run for run in self.runs if run.run_id in self.why]

    def count(self, selection: Selection) -> int:
        """Return how many of them have the selection's agent, session, origin and time."""
        if selection.ended_since:
            return 0
        return sum(
            (selection.agent_id or run.agent_id) == run.agent_id
            and (selection.session_id or run.session_id) == run.session_id
            and selection.fork_of in (None, run.forked_from and run.forked_from.run_id)
            and (not selection.since or (run.started_at is not None and run.started_at >= selection.since))
            for run in self.stuck
        )


class Reader:
    """Coalesces concurrent reads of runs and caches them briefly.

    It does not check access. A selection has the tenant and the viewer, and is part of the cache key. A caller that reads a
    run by its id has checked that the principal may see it.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.waits = WaitReader(client)
        """The open waits of runs."""
        self._health: Cache[float, bool] = Cache(MAX_CHECKS)
        self._pages: Cache[Hashable, Any] = Cache(MAX_PAGES, FRESH)
        self._stuck: Cache[Selection, StuckRuns] = Cache(MAX_PAGES, STUCK_FRESH)
        self._schedules: Cache[str, list[ScheduleStatus]] = Cache(1, SCHEDULES_FRESH)
        self._statuses: Cache[str, RunStatus] = Cache(MAX_RUNS, FRESH)
        self._ends: Cache[tuple[str, datetime | None], RunEnd] = Cache(MAX_RUNS)
        self._decisions: Cache[tuple[str, str, int], RunDecisions] = Cache(MAX_RUNS)
        self._tails: Cache[str, Preview] = Cache(MAX_RUNS, FRESH)
        self._previews: Cache[tuple[str, int, float], Preview] = Cache(MAX_RUNS)

    async def is_up(self, patience: float, *, fresh: float) -> bool:
        """Return whether the Temporal server answers within `patience` seconds.

        The outcome is cached for `fresh` seconds.
        """
        return await self._health.get(patience, lambda: self._check_health(patience), seconds=fresh)

    async def _check_health(self, patience: float) -> bool:
        limit = timedelta(seconds=patience)
        try:
            return await self.client.temporal.service_client.check_health(timeout=limit)
        except RPCError:
            return False

    async def runs(
        self,
        selection: Selection,
        labels: Mapping[str, str] | None = None,
        *,
        most: int,
        cursor: str | None = None,
        fresh: float = 0.0,
    ) -> Runs:
        wanted = dict(labels or {})
        of = f"{selection.query} {selection.text} {sorted(wanted.items())}"
        position = decode_cursor(cursor, of)

        async def read() -> Runs:
            page = await page_of(self.client.temporal, selection, wanted, most, position)
            listed = [ListedRun.model_validate(run) for run in page.runs]
            for run in listed:
                run.asked = page.asked[run.run_id]
            return Runs(runs=listed, cursor=encode_cursor(page.after, of) if page.after else None)

        key = "runs", selection, tuple(sorted(wanted.items())), most, cursor
        return await (self._pages.get(key, read, seconds=fresh) if fresh else read())

    async def count(self, selection: Selection, *, fresh: float = 0.0) -> int:
        async def read() -> int:
            return await count_of(self.client.temporal, selection)

        return await (self._pages.get(("count", selection), read, seconds=fresh) if fresh else read())

    async def waiting_runs(self, selection: Selection) -> WaitingRuns:
        """Return the waiting runs of a selection, at most 5,000."""
        return WaitingRuns(*await find_waiting(self.client.temporal, selection, MAX_WAITING))

    async def find_stuck(self, selection: Selection, labels: Mapping[str, str] | None = None) -> StuckRuns:
        """Return which of the newest runs at work are stuck, at most 10 s old.

        With labels, it returns only those that were started with all of them. A search for a text checks no run again that was checked
        for the same selection without it, so what it returns is at most 20 s old.
        """

        async def read() -> StuckRuns:
            known = self._stuck.peek(replace(selection, text="")) if selection.text else None
            known = known or StuckRuns([], {})
            checked = {run.run_id for run in known.runs}
            page = await self.runs(replace(selection, status=AT_WORK), most=MAX_CHECKED)
            others = [run.run_id for run in page.runs if run.run_id not in checked]
            why = {**known.why, **await find_stuck(self.client, others)}
            return StuckRuns(page.runs, why, is_whole=page.cursor is None)

        found = await self._stuck.get(selection, read)
        if not labels:
            return found
        chosen = with_labels(self.client.temporal, each_of(found.stuck), labels)
        return replace(found, runs=[run async for run in chosen])

    async def schedules(self) -> list[ScheduleStatus]:
        """Return the schedules of the namespace, the next ones first.

        Paused ones come last. The list is at most 10 s old.
        """

        async def read() -> list[ScheduleStatus]:
            found: list[ScheduleStatus] = []
            async with aclosing(list_schedules(self.client.temporal, None)) as listed:
                async for each in listed:
                    found.append(each)
                    if len(found) == MAX_SCHEDULES:
                        break
            return sorted(found, key=_order_of)

        return await self._schedules.get("all", read)

    async def details(self, runs: Iterable[ListedRun]) -> dict[str, Detail]:
        """Return the states and ends of runs that were read within two seconds.

        Open runs, whose workers are queried, do not delay ended ones.
        """
        until = asyncio.get_running_loop().time() + PATIENCE
        opened, ended = asyncio.Semaphore(MAX_READS), asyncio.Semaphore(MAX_READS)

        async def read(run: ListedRun) -> Detail | None:
            try:
                async with asyncio.timeout_at(until), opened if run.closed_at is None else ended:
                    if run.closed_at is None:
                        return await self.status(run.run_id)
                    return await self.end(run.run_id, run.closed_at)
            except (TimeoutError, SojournError):
                return None

        return await _each({run.run_id: run for run in runs}, read)

    async def status(self, run_id: str) -> RunStatus:
        async def read() -> RunStatus:
            async with asyncio.timeout(PATIENCE):
                return await self.client.get_run(run_id).status()

        return await self._statuses.get(run_id, read)

    async def end(self, run_id: str, closed_at: datetime | None) -> RunEnd:
        return await self._ends.get((run_id, closed_at), lambda: read_end(self.client, run_id))

    async def decisions(self, described: WorkflowExecutionDescription) -> RunDecisions:
        key = described.id, described.run_id, described.history_length
        return await self._decisions.get(key, lambda: read_decisions(self.client, described.id))

    async def preview(self, run_id: str) -> Preview:
        """Return the last message of a conversation, empty if its history is gone."""

        async def read() -> Preview:
            events = await read_tail(self.client, run_id)
            if not events:
                return Preview()
            version = run_id, events[-1].event_id, events[-1].event_time.ToNanoseconds() / 1e9
            return await self._previews.get(version, lambda: decode_preview(self.client, events))

        return await self._tails.get(run_id, read)

    async def previews(self, run_ids: Iterable[str]) -> dict[str, Preview]:
        """Return the last messages of conversations, as far as read within two seconds."""
        gate = asyncio.Semaphore(MAX_READS)

        async def read(run_id: str) -> Preview | None:
            try:
                async with gate, asyncio.timeout(PATIENCE):
                    return await self.preview(run_id)
            except (TimeoutError, RunUnreadable):
                return None

        return await _each({run_id: run_id for run_id in run_ids}, read)

    async def turns(self, run_ids: Iterable[str], *, most: int) -> dict[str, Turns]:
        """Return the turns of conversations, without those that cannot be read."""
        gate = asyncio.Semaphore(most)

        async def read(run_id: str) -> Turns | None:
            try:
                async with gate:
                    return await read_turns(self.client, run_id)
            except (RunNotFound, RunUnreadable):  # deleted since it was listed, or of another codec
                return None

        return await _each({run_id: run_id for run_id in run_ids}, read)


def _order_of(schedule: ScheduleStatus) -> tuple[bool, datetime, str]:
    never = datetime.max.replace(tzinfo=UTC)
    next_time = never if schedule.paused else min(schedule.next_times, default=never)
    return schedule.paused, next_time, schedule.schedule_id


async def _each(wanted: Mapping[str, K], read: Callable[[K], Awaitable[V | None]]) -> dict[str, V]:
    found = await asyncio.gather(*map(read, wanted.values()))
    return {run_id: each for run_id, each in zip(wanted, found, strict=True) if each is not None}
