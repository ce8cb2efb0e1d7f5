"""Read runs for lists and pages, with a cache shared by equal selections."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from temporalio.client import WorkflowExecutionDescription

from sojourn.client.client import Client
from sojourn.client.listing import Selection, count_of, page_of
from sojourn.client.stuck import Stuck, stuck_runs
from sojourn.contracts.run import RunStatus
from sojourn.errors import RunNotFound, RunUnreadable, SojournError
from sojourn.reader.cache import Cache
from sojourn.reader.ends import Preview, RunEnd, Turns, decode_preview, read_end, read_tail, read_turns
from sojourn.reader.history import RunDecisions, read_decisions
from sojourn.reader.runs import ListedRun, Runs, decode_cursor, encode_cursor
from sojourn.reader.waits import WaitingRuns, WaitReader

__all__ = ["Detail", "Reader", "StuckRuns"]

FRESH = 1.0
"""Seconds for which a page of a list is cached."""

STUCK_FRESH = 10.0
"""Seconds for which the list of stuck runs is cached."""

STUCK_RUNS = 200
"""Most running runs to check for whether they are stuck, newest first."""

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

WAITING_PAGE = 1_000
"""Page size of the store, when listing all waiting runs."""

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


class Reader:
    """Coalesces concurrent reads of runs and caches them briefly.

    It does not check access. A selection has the tenant and the viewer, and is part of the cache key. A caller that reads a
    run by its id has checked that the principal may see it.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.waits = WaitReader(client)
        """The open waits of runs."""
        self._pages: Cache[Hashable, Any] = Cache(MAX_PAGES, FRESH)
        self._stuck: Cache[Selection, StuckRuns] = Cache(MAX_PAGES, STUCK_FRESH)
        self._statuses: Cache[str, RunStatus] = Cache(MAX_RUNS, FRESH)
        self._ends: Cache[tuple[str, datetime | None], RunEnd] = Cache(MAX_RUNS)
        self._decisions: Cache[tuple[str, str, int], RunDecisions] = Cache(MAX_RUNS)
        self._tails: Cache[str, Preview] = Cache(MAX_RUNS, FRESH)
        self._previews: Cache[tuple[str, int, float], Preview] = Cache(MAX_RUNS)

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
        found: dict[str, str] = {}
        cursor: str | None = None
        while len(found) < MAX_WAITING:
            page = await self.runs(replace(selection, status="waiting"), most=WAITING_PAGE, cursor=cursor)
            found |= {run.run_id: run.awaiting for run in page.runs}
            if (cursor := page.cursor) is None:
                return WaitingRuns(found, is_whole=True)
        return WaitingRuns(found, is_whole=False)

    async def stuck(self, selection: Selection) -> StuckRuns:
        """Return which of the newest running runs are stuck, at most 10 s old."""

        async def read() -> StuckRuns:
            page = await self.runs(replace(selection, status="running"), most=STUCK_RUNS)
            runs = [run for run in page.runs if run.closed_at is None and not run.awaiting]
            return StuckRuns(runs, await stuck_runs(self.client, [run.run_id for run in runs]))

        return await self._stuck.get(selection, read)

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


async def _each(wanted: Mapping[str, K], read: Callable[[K], Awaitable[V | None]]) -> dict[str, V]:
    found = await asyncio.gather(*map(read, wanted.values()))
    return {run_id: each for run_id, each in zip(wanted, found, strict=True) if each is not None}
