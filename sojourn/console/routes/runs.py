"""List of runs at `/` and `/runs`, newest first, with the state of each.

The first page is live.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from starlette.responses import Response

from sojourn.client.listing import Selection, parse_labels
from sojourn.console.live import Live, part
from sojourn.console.page import Filters, Pages, Visit
from sojourn.console.views.runs import RunRow, row_of
from sojourn.console.views.text import WORDS
from sojourn.console.watched import News

__all__ = ["pages"]

pages = Pages()

INTERVAL = 2.0
"""Seconds between two reads of the list."""

PERIODS = {
    "1h": ("Last hour", timedelta(hours=1)),
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}

MOST = 50
"""Runs of a page."""

FRESH = 1.0
"""Seconds for which a page is cached for visitors who see the same."""

COUNTED = ("running", "paused", "idle", "completed", "gave_up", "failed")
"""Statuses that the store counts for the line above the list.

`waiting` and `stuck` are counted otherwise.
"""

SILENT = "did not answer in time"
"""Text in the list for an open run whose status did not arrive."""


@dataclass(frozen=True, slots=True)
class RunsPage:
    rows: list[RunRow]
    cursor: str | None
    """Cursor of the next page. None on the last page."""
    counts: Mapping[str, int]
    """Number of runs by status, and of the `stuck` ones."""


@dataclass(frozen=True, slots=True)
class RunFilters(Filters):
    q: str = ""
    agent: str = ""
    status: str = ""
    session: str = ""
    label: str = ""
    since: str = ""
    children: str = ""
    """Not empty to list child runs too."""
    fork_of: str = field(default="", metadata={"most": 1_000})
    """The run whose forks are listed."""

    @property
    def selection(self) -> Selection:
        period = PERIODS.get(self.since)
        since = (datetime.now(UTC) - period[1]).replace(second=0, microsecond=0) if period else None
        return Selection(
            self.agent or None,
            self.session or None,
            _status(self.status) if self.status in WORDS and self.status != "stuck" else None,
            since,
            children=bool(self.children or self.fork_of),
            fork_of=self.fork_of or None,
            text=self.q,
        )

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the runs. Raises as `parse_labels`."""
        return parse_labels(self.label.replace(",", " ").split())


async def _find(visit: Visit, filters: RunFilters, cursor: str | None) -> RunsPage:
    service, asking = visit.service, visit.asking
    stuck, counts = await asyncio.gather(service.find_stuck(asking), _counts(visit, filters.selection))
    counts = {**counts, "stuck": len(stuck.why)}
    if order := SORTS.get(filters.sort):
        page = await list_runs(visit, filters, None, most=SORTED, fresh=SORTED_FRESH)
        runs = page.runs
        if not order.needs_details:
            runs = [row.run for row in sorted(map(row_of, runs), key=order.key)][:MOST]
        rows = sorted(await _rows(visit, runs, stuck.why), key=order.key)[:MOST]
        has_more = page.cursor is not None
        return RunsPage(rows, None, counts, sorted_among=len(page.runs), has_more=has_more)
    page = await list_runs(visit, filters, cursor, most=MOST, fresh=FRESH)
    return RunsPage(await _rows(visit, page.runs, stuck.why), page.cursor, counts)


async def _rows(visit: Visit, runs: Sequence[ListedRun], stuck: Mapping[str, Stuck]) -> list[RunRow]:
    details = await visit.service.reader.details(runs)
    return [
        row_of(
            run,
            details.get(run.run_id),
            stuck=stuck.why.get(run.run_id),
            otherwise=SILENT if run.closed_at is None else "",
        )
        for run in runs
    ]


async def list_runs(
    visit: Visit, filters: RunFilters, cursor: str | None, *, most: int, fresh: float = 0.0
) -> Runs:
    """Return a page of the runs that match the filters. Raises as `RunFilters.labels`."""
    service, selection = visit.service, filters.selection
    if filters.status == "stuck":
        stuck = await service.find_stuck(visit.asking)
        return Runs(runs=[run for run in stuck.runs if run.run_id in stuck.why], cursor=None)
    page = await service.runs(
        visit.asking, selection, labels=filters.labels, most=most, cursor=cursor, fresh=fresh
    )
    if selection.status == "waiting":  # the store counts paused runs as waiting
        return Runs(runs=[run for run in page.runs if run.status == "waiting"], cursor=page.cursor)
    return page


def _status(status: str) -> str:
    """Return the status in the store. A run that gave up is not shown as completed."""
    return "answered" if status == "completed" else status


async def _counts(visit: Visit, selection: Selection) -> dict[str, int]:
    among, service = replace(selection, text=""), visit.service
    waiting, *others = await asyncio.gather(
        service.count_waiting(visit.asking, among, fresh=FRESH),
        *(
            service.count(visit.asking, replace(among, status=_status(status)), fresh=FRESH)
            for status in COUNTED
        ),
    )
    return {"waiting": waiting, **dict(zip(COUNTED, others, strict=True))}


@pages.get("/runs")
async def runs(visit: Visit) -> Response:
    filters, cursor = RunFilters.of(visit), visit.query("cursor")
    found = await _find(visit, filters, cursor or None)
    agents = visit.service.app.list_agents()
    return visit.page(
        "runs.html", found=found, filters=filters, cursor=cursor, agents=agents, periods=PERIODS, words=WORDS
    )


@pages.get("/live/runs")
async def live(visit: Visit) -> Response:
    filters = RunFilters.of(visit)
    _ = filters.labels  # raises before the stream begins

    async def parts() -> AsyncGenerator[News]:
        sent = ""
        while not visit.service.feeds.is_closed:
            found = await _find(visit, filters, None)
            html = _parts(visit, filters, found)
            yield News(html if html != sent else "")
            sent = html
            await asyncio.sleep(INTERVAL)

    return Live(visit, parts)


def _parts(visit: Visit, filters: RunFilters, found: RunsPage) -> str:
    agents = visit.service.app.list_agents()
    values = {"found": found, "filters": filters, "cursor": "", "agents": agents}
    return "".join(part(name, visit.render(f"runs_{name}.html", **values)) for name in ("counts", "list"))
