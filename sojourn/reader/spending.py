"""Add up the tokens and the money that runs used.

`sojourn cost` and the console show them. A run's totals include those of its child runs, so only runs without a parent are counted.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta

from sojourn.client.listing import Selection, find_runs, newest_of
from sojourn.contracts.plan import Usage
from sojourn.contracts.run import RunStatus
from sojourn.contracts.tool_result import ToolTelemetry
from sojourn.errors import SojournError
from sojourn.events.one_run import totals_in_history
from sojourn.reader.cache import Cache
from sojourn.reader.reader import Reader

__all__ = [
    "OF_TOOLS",
    "DaySpending",
    "RecentSpending",
    "Spending",
    "SpendingReader",
    "spending_by_model",
    "spent",
    "sum_of",
    "total_of",
]

OF_TOOLS = "(tools)"
"""The name of tokens that tools report without a model's name."""


@dataclass(slots=True)
class Spending:
    runs: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """US dollars, or None while no run's cost is known."""
    unpriced: int = 0
    """Runs that used tokens and whose cost is unknown."""
    unread: list[str] = field(default_factory=list[str])
    """Ids of runs that could not be read. They are not in `runs`."""

    def add(self, more: "Spending") -> None:
        self.runs += more.runs
        self.input_tokens += more.input_tokens
        self.output_tokens += more.output_tokens
        self.unpriced += more.unpriced
        self.unread += more.unread
        if more.cost is not None:
            self.cost = (self.cost or 0.0) + more.cost


Parts = dict[str | None, Spending]
"""What a run used, by model; under None the whole of it."""


def spent(used: Usage | ToolTelemetry) -> Spending:
    tokens = used.input_tokens + used.output_tokens
    unpriced = int(bool(tokens and used.cost is None))
    return Spending(1, used.input_tokens, used.output_tokens, used.cost, unpriced)


def sum_of(parts: Iterable[Spending]) -> Spending:
    """Return the sum of what one run used."""
    total = Spending()
    for part in parts:
        total.add(part)
    total.runs, total.unpriced = int(not total.unread), min(total.unpriced, 1)
    return total


async def total_of(reader: Reader, run: RunStatus) -> Parts:
    """Return the usage of a run, from its last event if it has answered.

    Raises:
        RunNotFound: It was deleted.
        RunUnreadable: Its records cannot be decoded here.
    """
    output = (await reader.end(run.run_id, run.closed_at)).output if run.status == "completed" else None
    used = output.total_usage if output else await totals_in_history(reader.client.temporal, run.run_id)
    return {None: spent(used)}


async def spending_by_model(reader: Reader, run: RunStatus) -> Parts:
    """Return the usage of a run and its child runs by model, from their events.

    Raises as `total_of`.
    """
    parts: Parts = {}
    async for event in reader.client.get_run(run.run_id).events(follow=False, children=True):
        used: Usage | ToolTelemetry | None = None
        if event.type == "usage":
            used = event.usage
        elif event.type == "tool_end" and not event.result.run_link:  # a child run's own events have it
            used = event.result.telemetry
        if used is None or not (used.input_tokens or used.output_tokens or used.cost):
            continue
        name = used.model or OF_TOOLS
        part = parts.setdefault(name, Spending())
        part.add(spent(used))
        part.runs, part.unpriced = 1, min(part.unpriced, 1)
    return parts


DAYS = 7
"""Days of `RecentSpending`, with the present one."""

MAX_RUNS = 1_000
"""Most runs whose spending is added up, the newest."""

MAX_OPEN = 50
"""Most open runs whose usage a worker has to tell."""

MAX_KNOWN = 10_000
"""Most runs whose spending is cached."""

OPEN_FRESH = 60.0
"""Seconds for which the spending of an open run is cached."""

AT_ONCE = 16
"""Most runs that are read at the same time."""

LONGEST = 10.0
"""Seconds in which the runs are read. Each is cached, so the next reading has more of them."""

FRESH = 30.0
"""Seconds for which the sum is cached."""

SHARE = 10
"""Factor of the time that the sum took, after which it is read again if that is longer."""

OLD = 600.0
"""Seconds after which a sum is no longer shown while it is read again."""

MAX_VIEWS = 200
"""Most sums to cache."""


@dataclass(slots=True)
class DaySpending:
    """The runs that started on one day, and what they used."""

    runs: int = 0
    failed: int = 0
    """Those of them that failed, timed out or gave up."""
    spending: Spending = field(default_factory=Spending)
    """What they used. `unread` has those whose usage is not known, or not yet."""

    def add(self, more: "DaySpending") -> None:
        self.runs += more.runs
        self.failed += more.failed
        self.spending.add(more.spending)


@dataclass(frozen=True, slots=True)
class RecentSpending:
    """The runs of the last days by agent and day, in UTC."""

    days: Sequence[date]
    """Oldest first. The last one is the day of the reading."""
    agents: Mapping[str, Mapping[date, DaySpending]]
    """By agent id; days without a run are left out."""
    counts: Mapping[date, int]
    """All runs of each day, also of those that are not in `agents`."""
    is_whole: bool
    """Whether `agents` has all runs of these days."""


class SpendingReader:
    """Adds up the spending of the last days.

    Principals that see the same runs share a sum.

    It does not check access, as `Reader`.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._sums: Cache[Selection, RecentSpending] = Cache(MAX_VIEWS, OLD)
        self._ended: Cache[tuple[str, datetime], Spending] = Cache(MAX_KNOWN)
        self._open: Cache[str, Spending] = Cache(MAX_KNOWN, OPEN_FRESH)

    async def recent(self, selection: Selection, *, patience: float) -> RecentSpending | None:
        """Return the runs of the last days and what they used.

        None if that is not known in time. The reading continues for the next caller.

        Args:
            selection: The runs. Its `since` and `children` are replaced.
            patience: Seconds to wait.
        """
        today = datetime.now(UTC).date()
        days = [today - timedelta(days=before) for before in reversed(range(DAYS))]
        wanted = replace(selection, since=_begin(days[0]), children=False)
        return await self._sums.get_soon(
            wanted, lambda: self._read(wanted, days), fresh=FRESH, patience=patience, share=SHARE
        )

    async def _read(self, selection: Selection, days: Sequence[date]) -> RecentSpending:
        found = find_runs(self._reader.client.temporal, selection, None)
        runs, has_more = await newest_of(found, MAX_RUNS)
        opened = [run.run_id for run in runs if run.closed_at is None][:MAX_OPEN]
        until = asyncio.get_running_loop().time() + LONGEST
        gate = asyncio.Semaphore(AT_ONCE)
        counted = [run for run in runs if run.closed_at or run.run_id in opened]
        known = await asyncio.gather(*(self._known_of(run, until, gate) for run in counted))
        used = dict(zip((run.run_id for run in counted), known, strict=True))
        agents: dict[str, dict[date, DaySpending]] = {}
        counts = dict.fromkeys(days, 0)
        for run in runs:
            day = run.started_at.astimezone(UTC).date() if run.started_at else days[-1]
            spending = used.get(run.run_id)
            of_day = agents.setdefault(run.agent_id, {}).setdefault(day, DaySpending())
            of_day.add(DaySpending(1, int(_has_failed(run)), spending or Spending(unread=[run.run_id])))
            counts[day] = counts.get(day, 0) + 1
        if has_more:
            totals = await asyncio.gather(*(self._count(selection, day) for day in days))
            counts = dict(zip(days, totals, strict=True))
        return RecentSpending(days, agents, counts, is_whole=not has_more)

    async def _known_of(self, run: RunStatus, until: float, gate: asyncio.Semaphore) -> Spending | None:
        try:
            async with asyncio.timeout_at(until), gate:
                if run.closed_at is None:
                    return await self._open.get(run.run_id, lambda: self._of_open(run.run_id))
                return await self._ended.get((run.run_id, run.closed_at), lambda: self._of_ended(run))
        except (TimeoutError, SojournError):
            return None

    async def _of_open(self, run_id: str) -> Spending:
        return spent((await self._reader.status(run_id)).used)

    async def _of_ended(self, run: RunStatus) -> Spending:
        return sum_of((await total_of(self._reader, run)).values())

    async def _count(self, selection: Selection, day: date) -> int:
        wanted = replace(selection, since=_begin(day), until=_begin(day + timedelta(days=1)))
        return await self._reader.count(wanted, fresh=FRESH)


def _begin(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _has_failed(run: RunStatus) -> bool:
    return run.status in ("failed", "timed_out") or bool(run.gave_up)
