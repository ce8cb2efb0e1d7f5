"""List of runs at `/` and `/runs`, newest first, with what each does now.

The first page is live.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.responses import Response

from sojourn.client.listing import Selection
from sojourn.console.live import Live, part
from sojourn.console.page import Pages, Visit
from sojourn.console.views.run_rows import RunRow, row_of
from sojourn.console.views.states import WORDS
from sojourn.console.watching import News
from sojourn.http.routes.runs import labels_of

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

COUNTED = ("running", "paused", "idle", "completed", "failed")
"""Statuses that the store counts for the line above the list.

`waiting` and `stuck` are counted otherwise.
"""

SILENT = "did not say in time what it does"
"""Text in the list for an open run whose status did not arrive."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selection of the runs to list."""

    selection: Selection
    labels: dict[str, str]
    is_stuck: bool = False
    """Whether to list stuck runs only."""
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A page of the list."""

    rows: list[RunRow]
    cursor: str | None
    """Cursor of the next page. None on the last page."""
    counts: Mapping[str, int]
    """Number of runs by status, and of the `stuck` ones."""


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters of the page, as in the fields of the form and of the URL."""

    q: str
    agent: str
    status: str
    session: str
    label: str
    since: str
    children: bool
    fork_of: str = ""
    """The run whose forks are listed."""

    @property
    def query(self) -> dict[str, Any]:
        """The fields of a URL."""
        return {
            "q": self.q,
            "agent": self.agent,
            "status": self.status,
            "session": self.session,
            "label": self.label,
            "since": self.since,
            "children": "1" if self.children else "",
            "fork_of": self.fork_of,
        }

    @property
    def is_any(self) -> bool:
        """Whether anything is filtered by."""
        return any(self.query.values())

    def wanted(self, cursor: str = "") -> Wanted:
        """Return the runs that the filters select. Raises as `labels_of`."""
        period = PERIODS.get(self.since)
        since = (datetime.now(UTC) - period[1]).replace(second=0, microsecond=0) if period else None
        selection = Selection(
            self.agent or None,
            self.session or None,
            self.status if self.status in WORDS and self.status != "stuck" else None,
            since,
            children=self.children or bool(self.fork_of),
            fork_of=self.fork_of or None,
            text=self.q,
        )
        labels = labels_of(self.label.replace(",", " ").split())
        return Wanted(selection, labels, is_stuck=self.status == "stuck", cursor=cursor)


def _filters(visit: Visit) -> Filters:
    names = ("q", "agent", "status", "session", "label", "since")
    return Filters(
        *(visit.query(name)[:300] for name in names),
        children=bool(visit.query("children")),
        fork_of=visit.query("fork_of")[:1000],
    )


async def _found(visit: Visit, wanted: Wanted) -> Found:
    """Return a page of runs, at most a second old. Raises as `Service.runs`."""
    service, asking = visit.service, visit.asking
    stuck, counts = await asyncio.gather(service.stuck(asking), _counts(visit, wanted))
    if wanted.is_stuck:
        runs, cursor = [run for run in stuck.runs if run.run_id in stuck.why], None
    else:
        page = await service.runs(
            asking,
            wanted.selection,
            labels=wanted.labels,
            most=MOST,
            cursor=wanted.cursor or None,
            fresh=FRESH,
        )
        runs, cursor = page.runs, page.cursor
        if wanted.selection.status == "waiting":  # the store counts paused runs as waiting
            runs = [run for run in runs if run.status == "waiting"]
    details = await service.reader.details(runs)
    rows = [
        row_of(
            run,
            details.get(run.run_id),
            stuck=stuck.why.get(run.run_id),
            otherwise=SILENT if run.closed_at is None else "",
        )
        for run in runs
    ]
    return Found(rows, cursor, {**counts, "stuck": len(stuck.why)})


async def _counts(visit: Visit, wanted: Wanted) -> dict[str, int]:
    """Count runs by status.

    Waiting runs are counted as for the number next to the inbox.
    """
    among, service = replace(wanted.selection, text=""), visit.service
    waiting, *others = await asyncio.gather(
        service.count_waiting(visit.asking, among, fresh=FRESH),
        *(service.count(visit.asking, replace(among, status=status), fresh=FRESH) for status in COUNTED),
    )
    return {"waiting": waiting, **dict(zip(COUNTED, others, strict=True))}


@pages.get("/")
async def home(visit: Visit) -> Response:
    """Go on to the runs."""
    return visit.go("/runs")


@pages.get("/runs")
async def runs(visit: Visit) -> Response:
    """The runs."""
    filters, cursor = _filters(visit), visit.query("cursor")
    found = await _found(visit, filters.wanted(cursor))
    agents = visit.service.app.list_agents()
    return visit.page(
        "runs.html", found=found, filters=filters, cursor=cursor, agents=agents, periods=PERIODS, words=WORDS
    )


@pages.get("/live/runs")
async def live(visit: Visit) -> Response:
    """What changes on the first page."""
    filters = _filters(visit)
    wanted = filters.wanted()

    async def parts() -> AsyncGenerator[News]:
        sent = ""
        while not visit.service.feeds.is_closed:
            found = await _found(visit, wanted)
            html = _parts(visit, filters, found)
            yield News(html if html != sent else "")
            sent = html
            await asyncio.sleep(INTERVAL)

    return Live(visit, parts)


def _parts(visit: Visit, filters: Filters, found: Found) -> str:
    agents = visit.service.app.list_agents()
    values = {"found": found, "filters": filters, "cursor": "", "agents": agents}
    return "".join(part(name, visit.render(f"runs_{name}.html", **values)) for name in ("counts", "list"))
