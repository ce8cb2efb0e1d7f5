"""Listed runs: a page of the list with what each run does, read once for everybody who looks at the same page at the same time."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from sojourn.client.listing import Selection
from sojourn.client.stuck import Stuck, stuck_runs
from sojourn.console.ends import Ends
from sojourn.console.views.run_rows import RunRow, row_of
from sojourn.console.views.states import OPEN
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunStatus
from sojourn.errors import SojournError
from sojourn.http.replies import ListedRun
from sojourn.http.service import Service

__all__ = ["COUNTED", "Found", "ListedRuns", "Wanted"]

MOST = 50
"""Runs of a page."""

AT_ONCE = 16
"""Most runs that are read at the same time."""

PATIENCE = 2.0
"""Seconds for what the open runs of a page do; a run that has not told by then is shown without."""

FRESH = 1.0
"""Seconds for which a page is shown to others as it was read."""

LOOKED_AT = 200
"""Most running runs that are looked at for stuck ones, the newest."""

STUCK_FRESH = 10.0
"""Seconds for which it is remembered which are stuck."""

MAX_KNOWN = 1_000
"""Most pages that are remembered."""

COUNTED = ("running", "waiting", "idle", "completed", "failed")
"""Statuses that are counted above the list; `stuck` is another one."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs are listed."""

    selection: Selection
    labels: tuple[tuple[str, str], ...] = ()
    is_stuck: bool = False
    """Only those that do not go on."""
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A page of the list."""

    rows: list[RunRow]
    cursor: str | None
    """Where the next page begins."""
    counts: Mapping[str, int]
    """By status, and `stuck`."""


class ListedRuns:
    """Reads pages.

    Args:
        service: What the visitors may see.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._pages: OrderedDict[Any, tuple[float, asyncio.Task[Any]]] = OrderedDict()
        self._ends = Ends()

    async def page(self, asking: Principal, wanted: Wanted) -> Found:
        """A page, as it was at most a second ago.

        Raises:
            InvalidInput: The cursor is none of this list, or the search attributes are not registered.
            ServerUnavailable: The server does not answer.
        """
        return await self._once(("page", asking.tenant, wanted), FRESH, lambda: self._read(asking, wanted))

    async def _once(self, key: Any, fresh: float, read: Callable[[], Awaitable[T]]) -> T:
        """What was read for this key a moment ago, or is being read; else read it."""
        now = time.monotonic()
        known = self._pages.pop(key, None)
        if known is None or (known[1].done() and (now - known[0] > fresh or known[1].exception())):
            known = now, asyncio.ensure_future(read())
        self._pages[key] = known
        while len(self._pages) > MAX_KNOWN:
            self._pages.popitem(last=False)
        return await asyncio.shield(known[1])

    async def _read(self, asking: Principal, wanted: Wanted) -> Found:
        stuck, counts = await asyncio.gather(self._stuck(asking), self._counts(asking, wanted))
        if wanted.is_stuck:
            runs, cursor = [run for run in stuck.runs if run.run_id in stuck.why], None
        else:
            page = await self._service.runs(
                asking, wanted.selection, labels=dict(wanted.labels), most=MOST, cursor=wanted.cursor or None
            )
            runs, cursor = page.runs, page.cursor
        gate = asyncio.Semaphore(AT_ONCE)
        rows = await asyncio.gather(*(self._row(run, stuck.why.get(run.run_id), gate) for run in runs))
        return Found(rows, cursor, {**counts, "stuck": len(stuck.why)})

    async def _row(self, run: ListedRun, stuck: Stuck | None, gate: asyncio.Semaphore) -> RunRow:
        try:
            async with gate, asyncio.timeout(PATIENCE):
                if run.closed_at is not None:
                    return row_of(
                        run, ended=await self._ends.of(self._service.client, run.run_id, run.closed_at)
                    )
                return row_of(run, status=await self._status(run), stuck=stuck)
        except (TimeoutError, SojournError):
            return row_of(run, stuck=stuck)

    async def _status(self, run: ListedRun) -> RunStatus:
        return await self._service.client.get_run(run.run_id).status()

    async def _counts(self, asking: Principal, wanted: Wanted) -> dict[str, int]:
        async def count(status: str) -> int:
            return await self._service.count(asking, replace(wanted.selection, status=status, text=""))

        return dict(zip(COUNTED, await asyncio.gather(*map(count, COUNTED)), strict=True))

    async def _stuck(self, asking: Principal) -> "_StuckRuns":
        return await self._once(("stuck", asking.tenant), STUCK_FRESH, lambda: self._look_for_stuck(asking))

    async def _look_for_stuck(self, asking: Principal) -> "_StuckRuns":
        page = await self._service.runs(
            asking, Selection(status="running"), labels={}, most=LOOKED_AT, cursor=None
        )
        runs = [run for run in page.runs if run.status in OPEN and not run.awaiting]
        return _StuckRuns(runs, await stuck_runs(self._service.client, [run.run_id for run in runs]))


@dataclass(frozen=True, slots=True)
class _StuckRuns:
    """The running runs that were looked at, and why some do not go on."""

    runs: list[ListedRun]
    why: Mapping[str, Stuck]
