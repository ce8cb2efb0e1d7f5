"""Listed runs: a page of the list with what each run does, read once for everybody who looks at the same page at the same time."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sojourn.client.listing import Selection
from sojourn.client.stuck import Stuck
from sojourn.console.ends import Ends
from sojourn.console.once import Once
from sojourn.console.stuck_runs import stuck_runs_of
from sojourn.console.views.run_rows import RunRow, row_of
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
"""Seconds for what the runs of a page do, all of them together; a run that has not told by then is shown without."""

SILENT = "did not say in time what it does"
"""What is said of an open run that has not told."""

FRESH = 1.0
"""Seconds for which a page is shown to others as it was read."""

COUNTED = ("running", "paused", "idle", "completed", "failed")
"""Statuses that are counted above the list as the store has them; `waiting` and `stuck` are others."""


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
        self._once = Once()
        self._ends = Ends()

    async def page(self, asking: Principal, wanted: Wanted) -> Found:
        """A page, as it was at most a second ago.

        Raises:
            InvalidInput: The cursor is none of this list, or the search attributes are not registered.
            ServerUnavailable: The server does not answer.
        """
        return await self._once.read(
            (self._service.view(asking), wanted), FRESH, lambda: self._read(asking, wanted)
        )

    async def _read(self, asking: Principal, wanted: Wanted) -> Found:
        stuck, counts = await asyncio.gather(
            stuck_runs_of(self._service).of(asking), self._counts(asking, wanted)
        )
        if wanted.is_stuck:
            runs, cursor = [run for run in stuck.runs if run.run_id in stuck.why], None
        else:
            page = await self._service.runs(
                asking, wanted.selection, labels=dict(wanted.labels), most=MOST, cursor=wanted.cursor or None
            )
            runs, cursor = page.runs, page.cursor
            if wanted.selection.status == "waiting":  # the store's has the paused ones too
                runs = [run for run in runs if run.status == "waiting"]
        rows = await self._rows(runs, stuck.why)
        return Found(rows, cursor, {**counts, "stuck": len(stuck.why)})

    async def _rows(self, runs: Sequence[ListedRun], why: Mapping[str, Stuck]) -> list[RunRow]:
        """The rows of a page: the open runs, whose workers are asked, hold up no ended one."""
        until = asyncio.get_running_loop().time() + PATIENCE
        opened, ended = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(AT_ONCE)

        async def row(run: ListedRun) -> RunRow:
            stuck = why.get(run.run_id)
            try:
                async with asyncio.timeout_at(until), opened if run.closed_at is None else ended:
                    if run.closed_at is None:
                        return row_of(run, status=await self._status(run), stuck=stuck)
                    return row_of(
                        run, ended=await self._ends.of(self._service.client, run.run_id, run.closed_at)
                    )
            except (TimeoutError, SojournError):
                return row_of(run, stuck=stuck, otherwise=SILENT if run.closed_at is None else "")

        return await asyncio.gather(*map(row, runs))

    async def _status(self, run: ListedRun) -> RunStatus:
        return await self._service.client.get_run(run.run_id).status()

    async def _counts(self, asking: Principal, wanted: Wanted) -> dict[str, int]:
        """By status; those that wait are counted as beside the inbox."""
        among, count = replace(wanted.selection, text=""), self._service.count
        waiting, *others = await asyncio.gather(
            self._service.count_waiting(asking, among),
            *(count(asking, replace(among, status=status)) for status in COUNTED),
        )
        return {"waiting": waiting, **dict(zip(COUNTED, others, strict=True))}
