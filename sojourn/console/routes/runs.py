"""List of runs at `/runs`, newest first, with the state of each.

The first page is live.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.responses import Response

from sojourn.client.listing import Selection, parse_labels
from sojourn.client.stuck import MAX_CHECKED, Stuck
from sojourn.console.live import Live, part
from sojourn.console.page import Filters, Pages, Visit
from sojourn.console.views.runs import RunRow, row_of
from sojourn.console.views.text import WORDS
from sojourn.console.watched import News
from sojourn.http.service import EVERY_RUN
from sojourn.reader import ListedRun, Runs
from sojourn.values.visible import one_line

__all__ = ["RunFilters", "list_runs", "pages"]

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

SORTED_FRESH = 5.0
"""Seconds for which the runs that are sorted are cached."""

COUNTED = ("running", "paused", "idle", "answered", "gave_up", "failed")
"""Statuses that the store counts for the line above the list.

`waiting` and `stuck` are counted otherwise.
"""


@dataclass(frozen=True, slots=True)
class Order:
    """An order of the list other than the store's."""

    words: str
    key: Callable[[RunRow], Any]
    needs_details: bool = False
    """Whether the key is known only once the ends of the runs are read."""


SORTS = {
    "oldest": Order("oldest first", lambda row: (row.run.started_at is None, row.run.started_at)),
    "longest": Order("longest first", lambda row: -(row.took or timedelta()).total_seconds()),
    "cost": Order(
        "most expensive first",
        lambda row: -((row.used.cost if row.used else None) or 0.0),
        needs_details=True,
    ),
}

SORTED = 500
"""Most runs, the newest, that are read to sort them. The store sorts by nothing but time."""

SILENT = "did not answer in time"
"""Text in the list for an open run whose status did not arrive."""


@dataclass(frozen=True, slots=True)
class RunsPage:
    rows: list[RunRow]
    cursor: str | None
    """Cursor of the next page. None on the last page."""
    counts: Mapping[str, int]
    """Number of runs by status, and of the `stuck` ones."""
    sorted_among: int = 0
    """Runs among which the rows are the first; 0 in the order of the store."""
    has_more: bool = False
    """Whether more runs match than were sorted."""
    checked: int = 0
    """In a list of stuck runs: the open runs that were checked, if there are more."""


@dataclass(frozen=True, slots=True)
class RunFilters(Filters):
    q: str = ""
    agent: str = ""
    status: str = ""
    session: str = ""
    label: str = ""
    since: str = ""
    """A name of `PERIODS`; only runs that started in it."""
    ended: str = ""
    """A name of `PERIODS`; only runs that ended in it."""
    children: str = ""
    """Not empty to list child runs too."""
    fork_of: str = field(default="", metadata={"most": 1_000})
    """The run whose forks are listed."""
    sort: str = ""
    """A name of `SORTS`; empty for the order of the store."""

    @property
    def selection(self) -> Selection:
        return Selection(
            self.agent or None,
            self.session or None,
            self.status if self.status in WORDS and self.status != "stuck" else None,
            _begin(self.since),
            children=bool(self.children or self.fork_of),
            fork_of=self.fork_of or None,
            ended_since=_begin(self.ended),
            text=self.q,
        )

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the runs. Raises as `parse_labels`."""
        return parse_labels(self.label.replace(",", " ").split())


def _begin(period: str) -> datetime | None:
    if period not in PERIODS:
        return None
    return (datetime.now(UTC) - PERIODS[period][1]).replace(second=0, microsecond=0)


async def _find(visit: Visit, filters: RunFilters, cursor: str | None) -> RunsPage:
    service, asking = visit.service, visit.asking
    among = replace(filters.selection, status=None, text="", children=True)
    # Stuck runs of all filters are checked at once, for every visitor and page; those of some only to list them.
    checked = among if filters.status == "stuck" else EVERY_RUN
    stuck, counts = await asyncio.gather(
        service.find_stuck(asking, checked), _counts(visit, filters.selection)
    )
    counts, why = {**counts, "stuck": stuck.count(among)}, stuck.why
    if filters.q and filters.status == "stuck":  # a search also checks runs that are not among the newest
        why = (await service.find_stuck(asking, replace(filters.selection, children=True))).why
    if order := SORTS.get(filters.sort):
        page = await list_runs(visit, filters, None, most=SORTED, fresh=SORTED_FRESH)
        runs = page.runs
        if not order.needs_details:
            runs = [row.run for row in sorted(map(row_of, runs), key=order.key)][:MOST]
        rows = sorted(await _rows(visit, runs, why), key=order.key)[:MOST]
        has_more = page.cursor is not None
        found = RunsPage(rows, None, counts, sorted_among=len(page.runs), has_more=has_more)
    else:
        page = await list_runs(visit, filters, cursor, most=MOST, fresh=FRESH)
        found = RunsPage(await _rows(visit, page.runs, why), page.cursor, counts)
    return found if page.is_whole else replace(found, checked=MAX_CHECKED)


async def _rows(visit: Visit, runs: Sequence[ListedRun], stuck: Mapping[str, Stuck]) -> list[RunRow]:
    details = await visit.service.reader.details(runs)
    return [
        row_of(
            run,
            details.get(run.run_id),
            stuck=stuck.get(run.run_id),
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
        among = replace(selection, children=True)
        stuck = await service.find_stuck(visit.asking, among, filters.labels)
        return Runs(runs=stuck.stuck, cursor=None, is_whole=stuck.is_whole)
    page = await service.runs(
        visit.asking, selection, labels=filters.labels, most=most, cursor=cursor, fresh=fresh
    )
    if selection.status == "waiting":  # the store counts paused runs as waiting
        return Runs(runs=[run for run in page.runs if run.status == "waiting"], cursor=page.cursor)
    return page


async def _counts(visit: Visit, selection: Selection) -> dict[str, int]:
    among, service = replace(selection, text=""), visit.service
    waiting, *others = await asyncio.gather(
        service.count_waiting(visit.asking, among, fresh=FRESH),
        *(service.count(visit.asking, replace(among, status=status), fresh=FRESH) for status in COUNTED),
    )
    return {"waiting": waiting, **dict(zip(COUNTED, others, strict=True))}


@pages.get("/runs")
async def runs(visit: Visit) -> Response:
    filters, cursor = RunFilters.of(visit.query), visit.query("cursor")
    found = await _find(visit, filters, cursor or None)
    listed = {row.run.agent_id for row in found.rows if row.run.agent_id}
    return visit.page(
        "runs.html",
        found=found,
        filters=filters,
        cursor=cursor,
        agents=sorted(listed | {*visit.service.app.list_agents()}),
        sorts=SORTS,
        periods=PERIODS,
        words=WORDS,
        title=_title(filters),
    )


def _title(filters: RunFilters) -> str:
    """Describe the filters, as the name of a bookmark."""
    parts = [WORDS.get(filters.status, ""), filters.agent, filters.q and f"“{filters.q}”", filters.session]
    parts += [filters.label, PERIODS[filters.since][0] if filters.since in PERIODS else ""]
    parts += [f"ended: {PERIODS[filters.ended][0].lower()}" if filters.ended in PERIODS else ""]
    return one_line(", ".join(filter(None, parts)), 100)


@pages.get("/live/runs")
async def live(visit: Visit) -> Response:
    filters = RunFilters.of(visit.query)
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
    values = {"found": found, "filters": filters, "cursor": "", "agents": agents, "sorts": SORTS}
    return "".join(part(name, visit.render(f"runs_{name}.html", **values)) for name in ("counts", "list"))
