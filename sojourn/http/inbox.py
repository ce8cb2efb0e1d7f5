"""Inbox: the open waits of many runs, read once and remembered until a run's history grows."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pydantic import TypeAdapter, ValidationError
from temporalio.client import WorkflowExecutionDescription
from temporalio.service import RPCError

from sojourn.client.access import Access
from sojourn.connection.rpc_errors import translated
from sojourn.contracts.awaits import Await
from sojourn.errors import InvalidInput, RunNotFound, RunUnreadable
from sojourn.events.open_waits import OpenWait, Waiting, waiting_in_history
from sojourn.http.cursors import NO_CURSOR, opaque, opened

__all__ = ["FoundWait", "FoundWaits", "Inbox", "WaitingRuns"]

AT_ONCE = 16
"""Most runs that are read at the same time."""

MAX_KNOWN = 10_000
"""Most runs whose waits are remembered."""

FRESH = 1.0
"""Seconds for which a run that was compared with its history is not compared again, where somebody is in a hurry."""

LATER = 30.0
"""Seconds for which pages after the first one take a run as it was, unless it is on the page."""

SWEPT = 32
"""Most runs that are compared with their histories meanwhile, beside those of a page."""

SWEPT_AFTER = 10.0
"""Seconds after which that is worth it."""

_LIST = "waits"
"""What the cursors are of."""

_Place = tuple[str, str, str]
"""Since when, the run, and the wait."""

_PLACE: TypeAdapter[_Place] = TypeAdapter(_Place)


@dataclass(frozen=True, slots=True)
class WaitingRuns:
    """The runs that wait for somebody."""

    runs: Mapping[str, str]
    """By run, its oldest wait, as the store has it."""
    is_whole: bool
    """Whether these are all."""
    others: frozenset[str] = frozenset()
    """Those of which only some waits are shown."""
    may_look_at: Callable[[Await], bool] = lambda _: False
    """Whether a wait of those is one of them."""

    def shows(self, found: "FoundWait") -> bool:
        """Whether a wait of these runs is shown."""
        return found.run_id not in self.others or self.may_look_at(found.opened.wait)


@dataclass(frozen=True, slots=True)
class FoundWait:
    """An open wait, and its run."""

    waiting: Waiting
    opened: OpenWait

    @property
    def run_id(self) -> str:
        """The run."""
        return self.waiting.status.run_id

    @property
    def place(self) -> _Place:
        """Where it is in the order of the waits."""
        since = self.opened.since or datetime.min.replace(tzinfo=UTC)
        return since.astimezone(UTC).isoformat(timespec="microseconds"), self.run_id, self.opened.wait.id


@dataclass(frozen=True, slots=True)
class FoundWaits:
    """Some of the open waits."""

    waits: list[FoundWait]
    cursor: str | None
    """Where the next ones begin."""
    is_whole: bool
    """Whether all waiting runs were listed."""
    count: int
    """How many open waits are asked for, as far as they are known."""
    unread: int
    """Runs that were not read in time; they are being read."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What the history of a run said."""

    version: tuple[str, int]
    """The execution, and the length of its history."""
    awaiting: str
    """What the store said then."""
    waiting: Waiting | None
    """None where nobody can answer it by this service: the run is deleted, or of workers whose codec is not here."""
    at: float = field(default_factory=time.monotonic)
    """When that was compared."""


class Inbox:
    """The open waits; remembers those of each run until its history grows.

    Args:
        client: The client.
    """

    def __init__(self, client: Access) -> None:
        self._client = client
        self._known: dict[str, _Known] = {}
        """By run; those that were compared longest ago come first."""
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._queued: dict[str, asyncio.Task[None]] = {}
        """Readings that have not begun."""
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._alone = asyncio.Semaphore(AT_ONCE)
        """For who waits for one run, and not behind the thousand of a list that is being read."""

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
        """A page of the open waits of these runs.

        Without `patience` the first page compares every run with its history, by a reading that begins after the page was asked for, and that pages
        asked for meanwhile share; those after it compare the runs of the page, and those that the store says something
        new of, or that nobody has compared for a while. With it, only those that are not known yet, those whose oldest wait is another one by
        the store, and those of the page: so many seconds at most, then what is known is the answer, and the rest is read meanwhile.

        Args:
            listed: The waiting runs.
            fits: Whether a wait is asked for.
            newest: Whether the newest come first, else the oldest.
            most: Most waits of the page.
            cursor: The cursor of the page before.
            patience: Seconds.

        Raises:
            InvalidInput: The cursor is none of this list.
            ServerUnavailable: The server does not answer.
        """
        begin, runs = _place(cursor), listed.runs
        now = time.monotonic()
        until = None if patience is None else now + patience
        ordered = list(runs)
        if not newest:
            ordered.reverse()  # the store has those first that started last
        if begin is not None or patience is not None:
            ordered = self._new(ordered, runs, now - LATER if patience is None else 0.0)
        await self._compare(ordered, runs, until)
        compared = set(ordered)
        while True:
            shown = filter(listed.shows, self._found(runs))
            placed = sorted(filter(fits, shown), key=lambda each: each.place, reverse=newest)
            after = [
                each
                for each in placed
                if begin is None or (each.place < begin if newest else each.place > begin)
            ]
            page = after[:most]
            rest = {each.run_id for each in page} - compared
            if not rest:
                break
            await self._compare(rest, runs, until)
            compared |= rest
        if patience is not None:
            self._sweep(runs)
        further = page and len(after) > most
        return FoundWaits(
            page,
            opaque(json.dumps(page[-1].place).encode(), _LIST) if further else None,
            listed.is_whole,
            len(placed),
            sum(run_id not in self._known for run_id in runs if run_id not in listed.others),
        )

    async def count_runs(self, listed: WaitingRuns, patience: float) -> int:
        """How many of these runs have a wait that is shown, as far as they are known within so many seconds.

        Raises:
            ServerUnavailable: The server does not answer.
        """
        new = self._new(listed.runs, listed.runs, 0.0)
        await self._compare(new, listed.runs, time.monotonic() + patience)
        self._sweep(listed.runs)
        return len({each.run_id for each in self._found(listed.runs) if listed.shows(each)})

    def forget(self, run_id: str) -> None:
        """Read a run anew, since something was sent to it."""
        self._known.pop(run_id, None)
        self._reading.pop(run_id, None)

    async def of_run(self, run_id: str) -> Waiting | None:
        """The open waits of one run, as they are now; None where it cannot be read here.

        Raises:
            ServerUnavailable: The server does not answer.
        """
        known = self._known.get(run_id)
        await self._read(run_id, known.awaiting if known else "", self._alone)
        return self._known[run_id].waiting

    def _new(self, run_ids: Iterable[str], listed: Mapping[str, str], since: float) -> list[str]:
        """The runs that are not known, that the store says something else of, or that were compared before."""
        return [
            run_id
            for run_id in run_ids
            if (known := self._known.get(run_id)) is None
            or known.awaiting != listed[run_id]
            or known.at < since
        ]

    def _sweep(self, listed: Mapping[str, str]) -> None:
        """Begin to compare some of the runs that were compared longest ago: the store knows only the oldest wait of each."""
        for run_id in [run_id for run_id in self._known if run_id in listed][:SWEPT]:
            if self._known[run_id].at + SWEPT_AFTER < time.monotonic():
                self._task(run_id, listed[run_id])

    def _found(self, listed: Iterable[str]) -> Iterable[FoundWait]:
        for run_id in listed:
            known = self._known.get(run_id)
            if known and known.waiting:
                for each in known.waiting.waits:
                    yield FoundWait(known.waiting, each)

    async def _compare(self, run_ids: Iterable[str], listed: Mapping[str, str], until: float | None) -> None:
        """Compare runs with their histories: all, or those that nobody has compared just now, until a moment."""
        if until is None:
            await _all(self._next(run_id, listed[run_id]) for run_id in run_ids)
            return
        now = time.monotonic()
        tasks = {
            self._task(run_id, listed[run_id])
            for run_id in run_ids
            if (known := self._known.get(run_id)) is None
            or known.at + FRESH < now
            or known.awaiting != listed[run_id]
        }
        if tasks:
            done, _ = await asyncio.wait(tasks, timeout=max(until - now, 0))
            for task in done:
                task.result()

    def _next(self, run_id: str, awaiting: str) -> asyncio.Task[None]:
        """The next reading of a run that begins, for all who ask before it does."""
        if (known := self._queued.get(run_id)) is not None:
            return known

        async def read() -> None:
            async with self._gate:
                del self._queued[run_id]
                await self._look(run_id, awaiting)

        task = self._queued[run_id] = asyncio.create_task(read())
        task.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # whoever waits for it gets it
        return task

    def _task(self, run_id: str, awaiting: str) -> asyncio.Task[None]:
        """The reading of a run that is under way, or else a new one; it goes on though nobody waits for it any more."""
        known = self._reading.get(run_id)
        if known is not None and not known.done():
            return known
        task = self._reading[run_id] = asyncio.create_task(self._read(run_id, awaiting, self._gate))

        def forgotten(done: asyncio.Task[None]) -> None:
            if self._reading.get(run_id) is done:
                del self._reading[run_id]
            if not done.cancelled():
                done.exception()  # whoever waits for it gets it

        task.add_done_callback(forgotten)
        return task

    async def _read(self, run_id: str, awaiting: str, gate: asyncio.Semaphore) -> None:
        async with gate:
            await self._look(run_id, awaiting)

    async def _look(self, run_id: str, awaiting: str) -> None:
        try:
            described = await self._client.temporal.get_workflow_handle(run_id).describe()
        except RPCError as error:
            failure = translated(error, run_id)
            if not isinstance(failure, RunNotFound):
                raise failure from error
            self._keep(run_id, _Known(("", 0), awaiting, None))
            return
        version = (described.run_id, described.history_length)
        known = self._known.get(run_id)
        if known is not None and known.version == version:
            self._keep(run_id, _Known(version, awaiting, known.waiting))
        else:
            self._keep(run_id, _Known(version, awaiting, await self._waiting(described)))

    async def _waiting(self, described: WorkflowExecutionDescription) -> Waiting | None:
        try:
            read = await waiting_in_history(
                self._client.temporal, described.id, self._client.storage, execution=described.run_id
            )
        except (RunNotFound, RunUnreadable):
            return None
        # A history says when its run started only where an execution came before.
        started = read.status.started_at or described.start_time
        return replace(read, status=read.status.model_copy(update={"started_at": started}))

    def _keep(self, run_id: str, known: _Known) -> None:
        self._known.pop(run_id, None)
        self._known[run_id] = known
        while len(self._known) > MAX_KNOWN:
            del self._known[next(iter(self._known))]


async def _all(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Wait for tasks that others wait for too; raises what the first one raises that fails."""
    for task in list(tasks):
        await asyncio.shield(task)


def _place(cursor: str | None) -> _Place | None:
    place = opened(cursor, _LIST)
    if place is None:
        return None
    try:
        return _PLACE.validate_json(place)
    except ValidationError as error:
        raise InvalidInput(NO_CURSOR) from error
