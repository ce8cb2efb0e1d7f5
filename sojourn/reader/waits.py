"""Read the open waits of many runs, each again only when its history has grown.

`waiting_in_history` reads those of one run, with their times, and the texts that introduce them.
"""

import asyncio
import heapq
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pydantic import TypeAdapter, ValidationError
from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.converter import StorageDriver
from temporalio.service import RPCError

from sojourn.answers import WaitView, context_of, wait_view
from sojourn.client.access import Access
from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.awaits import Await
from sojourn.contracts.run import RunStatus
from sojourn.core.history.fold import Fold
from sojourn.core.run.continuation import Continuation
from sojourn.core.run.transcript import Packed
from sojourn.errors import InvalidInput, RunNotFound, RunUnreadable
from sojourn.events.one_run import events_of, present_execution, records_of
from sojourn.reader.cache import Cache
from sojourn.reader.runs import NO_CURSOR, decode_cursor, encode_cursor
from sojourn.timeline import Timeline

__all__ = [
    "FoundWait",
    "FoundWaits",
    "WaitReader",
    "Waiting",
    "WaitingRuns",
    "find_waits",
    "waiting_in_history",
]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run with its open waits."""

    status: RunStatus
    """Its `awaits` are the open waits, oldest first."""
    since: Mapping[str, datetime]
    """When each wait was opened, by its id; without those whose event is in a deleted execution."""
    asked: str
    """The text of the last user message of the current turn."""
    said: str
    """The text of the planner's last message that has one."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """The labels that the run was started with."""

    def wait(self, await_id: str) -> Await | None:
        return next((wait for wait in self.status.awaits if wait.id == await_id), None)


async def waiting_in_history(
    client: Client, run_id: str, storage: StorageDriver | None = None, *, execution: str = ""
) -> Waiting:
    """Return the open waits of a run, oldest first, without a worker.

    Executions before the present one are read only if a wait was opened there, or the message of its turn came there.
    """
    fold, timeline = Fold(run_id), Timeline(run_id)
    try:
        async for record, events in records_of(
            client, fold, execution or await present_execution(client, run_id), follow=False
        ):
            if isinstance(record.value, Continuation):
                timeline.last_user_text = _asked_in_origin(record.value)
            for event in events:
                timeline.feed(event)
    except RPCError as error:
        raise translate_error(error, run_id) from error
    status = fold.status()
    if timeline.last_user_text is None or not all(wait.id in timeline.open_waits for wait in status.awaits):
        timeline = Timeline(run_id)
        async for event in events_of(client, run_id, storage, follow=False):
            timeline.feed(event)
    return Waiting(
        status,
        {await_id: opened.since for await_id, opened in timeline.open_waits.items()},
        timeline.last_user_text or "",
        timeline.last_assistant_text,
        fold.state.opening.labels,
    )


def _asked_in_origin(begins: Continuation) -> str | None:
    """Return a fork's last user message from its origin, unless it is stored."""
    if begins.state.executions or begins.state.opening.forked_from is None:
        return None
    try:
        messages = Packed.unpacked(begins.transcript).messages()
    except ValueError:
        return None
    return next((message.text for message in reversed(messages) if message.role == "user"), None)


MAX_READS = 16
"""Most concurrent reads of runs."""

MAX_RUNS = 10_000
"""Most runs to cache the waits of."""

FRESH = 1.0
"""Seconds after a comparison with its history for which a page with `patience` uses the cached run."""

LATER = 30.0
"""Seconds for which pages after the first one use the cached run, unless they show it."""

SWEPT = 32
"""Most other runs that a page with `patience` starts to compare with their histories."""

SWEPT_AFTER = 10.0
"""Seconds after which a run is compared again even if no page shows it."""

_LIST = "waits"
"""Name of the list that the cursors belong to."""

_Position = tuple[str, str, str]
"""Time when the wait opened, run id, and wait id."""

_POSITION: TypeAdapter[_Position] = TypeAdapter(_Position)


@dataclass(frozen=True, slots=True)
class FoundWait:
    view: WaitView
    labels: Mapping[str, str]
    """The labels of its run."""
    place: _Position = field(init=False, compare=False)
    """Sort key in the order of the waits, computed once, since every page sorts by it."""

    def __post_init__(self) -> None:
        since = self.view.since or datetime.min.replace(tzinfo=UTC)
        moment = since.astimezone(UTC).isoformat(timespec="microseconds")
        object.__setattr__(self, "place", (moment, self.view.run_id, self.view.await_id))


def find_waits(waiting: Waiting) -> tuple[FoundWait, ...]:
    """Return the open waits of a run, as lists have them."""
    status = waiting.status
    context = context_of(status, waiting.asked, waiting.said)
    return tuple(
        FoundWait(
            wait_view(wait, status.run_id, since=waiting.since.get(wait.id), status=status, context=context),
            waiting.labels,
        )
        for wait in status.awaits
    )


@dataclass(frozen=True, slots=True)
class WaitingRuns:
    runs: Mapping[str, str]
    """The oldest wait of each run, as the store has it."""
    is_whole: bool
    """Whether all waiting runs are listed."""
    others: frozenset[str] = frozenset()
    """Runs that show only some of their waits."""
    may_look_at: Callable[[Await], bool] = lambda _: False
    """Check whether the page has a wait of one of the `others`."""

    def shows(self, found: FoundWait) -> bool:
        return found.view.run_id not in self.others or self.may_look_at(found.view.wait)


@dataclass(frozen=True, slots=True)
class FoundWaits:
    waits: list[FoundWait]
    cursor: str | None
    """Cursor of the next page, or None after the last page."""
    is_whole: bool
    """Whether all waiting runs were listed."""
    count: int
    """Number of known open waits that fit the filter, on all pages."""
    unread: int
    """Number of runs that were not read in time. They are read in the background."""


@dataclass(frozen=True, slots=True)
class _Known:
    version: tuple[str, int]
    """The execution's id, and the length of its history."""
    awaiting: str
    """The run's oldest wait in the store at that time."""
    waiting: Waiting | None
    """None if this service cannot read the run: it is deleted, or its workers use a codec that this service lacks."""
    found: tuple[FoundWait, ...]
    at: float = field(default_factory=time.monotonic)
    """Monotonic time when it was last compared with the history."""


class WaitReader:
    """Reads the open waits of runs."""

    def __init__(self, client: Access) -> None:
        self._client = client
        self._known: Cache[str, _Known] = Cache(MAX_RUNS)
        self._queued: dict[str, asyncio.Task[None]] = {}
        """Readings that have not begun."""
        self._gate = asyncio.Semaphore(MAX_READS)
        self._alone = asyncio.Semaphore(MAX_READS)
        """For a caller that waits for one run, and not behind the thousand of a list that is being read."""

    async def page(
        self,
        listed: WaitingRuns,
        *,
        fits: Callable[[FoundWait], bool],
        newest: bool,
        most: int,
        cursor: str | None,
        patience: float | None = None,
    ) -> FoundWaits:
        """Return a page of the open waits of these runs.

        Without `patience` the first page compares every run with its history; calls that arrive before this read begins share
        it. Later pages compare only their own runs, those with another oldest wait in the store, and those not compared for a
        while. With `patience` a page compares only runs that are not cached, have another oldest wait, or are displayed. After
        `patience` seconds it returns the cached waits, and reads the rest in the background.
        """
        begin, runs = _position(cursor), listed.runs
        now = time.monotonic()
        until = None if patience is None else now + patience
        ordered = list(runs)
        if not newest:
            ordered.reverse()  # the store lists the runs that started last first
        if begin is not None or patience is not None:
            ordered = self._find_outdated(ordered, runs, now - LATER if patience is None else 0.0)
        await self._compare(ordered, runs, until)
        compared = set(ordered)
        while True:
            shown = filter(listed.shows, self._find(runs))
            placed = sorted(filter(fits, shown), key=lambda each: each.place, reverse=newest)
            after = [
                each
                for each in placed
                if begin is None or (each.place < begin if newest else each.place > begin)
            ]
            page = after[:most]
            rest = {each.view.run_id for each in page} - compared
            if not rest:
                break
            await self._compare(rest, runs, until)
            compared |= rest
        if patience is not None:
            self._sweep(runs)
        further = page and len(after) > most
        return FoundWaits(
            page,
            encode_cursor(json.dumps(page[-1].place).encode(), _LIST) if further else None,
            listed.is_whole,
            len(placed),
            sum(self._known.peek(run_id) is None for run_id in runs if run_id not in listed.others),
        )

    async def count_runs(self, listed: WaitingRuns, patience: float) -> int:
        """Return how many of these runs have a wait that `listed` shows."""
        outdated = self._find_outdated(listed.runs, listed.runs, 0.0)
        await self._compare(outdated, listed.runs, time.monotonic() + patience)
        self._sweep(listed.runs)
        return len({each.view.run_id for each in self._find(listed.runs) if listed.shows(each)})

    def forget(self, run_id: str) -> None:
        """Drop a run after something was sent to it."""
        self._known.discard(run_id)

    async def of_run(self, run_id: str) -> Waiting | None:
        """Return the current open waits of one run, or None if it cannot be read here."""
        known = self._known.peek(run_id)
        async with self._alone:
            found = await self._read(run_id, known.awaiting if known else "")
        self._known.put(run_id, found)
        return found.waiting

    def _find_outdated(self, run_ids: Iterable[str], listed: Mapping[str, str], since: float) -> list[str]:
        return [
            run_id
            for run_id in run_ids
            if (known := self._known.peek(run_id)) is None
            or known.awaiting != listed[run_id]
            or known.at < since
        ]

    def _sweep(self, listed: Mapping[str, str]) -> None:
        """Compare the least recent runs: the store knows only their oldest wait."""
        until = time.monotonic() - SWEPT_AFTER
        old = ((known.at, run_id) for run_id in listed if (known := self._known.peek(run_id)))
        for at, run_id in heapq.nsmallest(SWEPT, old):
            if at < until:
                self._known.refresh(run_id, lambda run_id=run_id: self._read_gated(run_id, listed[run_id]))

    def _find(self, listed: Iterable[str]) -> Iterable[FoundWait]:
        for run_id in listed:
            if (known := self._known.peek(run_id)) is not None:
                yield from known.found

    async def _compare(self, run_ids: Iterable[str], listed: Mapping[str, str], until: float | None) -> None:
        if until is None:
            for task in [self._next(run_id, listed[run_id]) for run_id in run_ids]:
                await asyncio.shield(task)
            return
        now = time.monotonic()
        outdated = self._find_outdated(run_ids, listed, now - FRESH)
        tasks = {
            self._known.refresh(run_id, lambda run_id=run_id: self._read_gated(run_id, listed[run_id]))
            for run_id in outdated
        }
        if tasks:
            done, _ = await asyncio.wait(tasks, timeout=max(until - now, 0))
            for task in done:
                task.result()

    def _next(self, run_id: str, awaiting: str) -> asyncio.Task[None]:
        """Return the next read of a run to start. All callers before its start share it."""
        if (known := self._queued.get(run_id)) is not None:
            return known

        async def read() -> None:
            async with self._gate:
                del self._queued[run_id]
                self._known.put(run_id, await self._read(run_id, awaiting))

        task = self._queued[run_id] = asyncio.create_task(read())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def _read_gated(self, run_id: str, awaiting: str) -> _Known:
        async with self._gate:
            return await self._read(run_id, awaiting)

    async def _read(self, run_id: str, awaiting: str) -> _Known:
        try:
            described = await self._client.temporal.get_workflow_handle(run_id).describe()
        except RPCError as error:
            failure = translate_error(error, run_id)
            if not isinstance(failure, RunNotFound):
                raise failure from error
            return _Known(("", 0), awaiting, None, ())
        version = (described.run_id, described.history_length)
        known = self._known.peek(run_id)
        if known is not None and known.version == version:
            return replace(known, awaiting=awaiting, at=time.monotonic())
        waiting = await self._waiting(described)
        return _Known(version, awaiting, waiting, find_waits(waiting) if waiting else ())

    async def _waiting(self, described: WorkflowExecutionDescription) -> Waiting | None:
        try:
            read = await waiting_in_history(
                self._client.temporal, described.id, self._client.storage, execution=described.run_id
            )
        except (RunNotFound, RunUnreadable):
            return None
        # A history says when its run started only if an execution came before.
        started = read.status.started_at or described.start_time
        return replace(read, status=read.status.model_copy(update={"started_at": started}))


def _position(cursor: str | None) -> _Position | None:
    position = decode_cursor(cursor, _LIST)
    if position is None:
        return None
    try:
        return _POSITION.validate_json(position)
    except ValidationError as error:
        raise InvalidInput(NO_CURSOR) from error
