"""Home page at `/`, with what an operator looks at first.

Its parts are what needs the visitor, what went wrong, what runs used, and what is scheduled. Each part is read by itself. One that is slow or fails does not delay or fail the others.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from starlette.responses import Response

from sojourn.client.listing import Selection
from sojourn.console.live import Live, part
from sojourn.console.page import Pages, Visit
from sojourn.console.routes.runs import RunFilters
from sojourn.console.views.runs import RunRow, row_of
from sojourn.console.views.spending import spending_view
from sojourn.console.views.waits import title_of
from sojourn.console.watched import News
from sojourn.errors import SojournError
from sojourn.http.problems import Problem, problem_of
from sojourn.reader import ListedRun

__all__ = ["pages"]

pages = Pages()

INTERVAL = 2.0
"""Seconds between two readings of a live page."""

PATIENCE = 1.0
"""Seconds that a page waits for each part. The reading continues, and the live page gets it later."""

LIVE = 10.0
"""Seconds that a live page waits for each part."""

HURRY = 0.1
"""Seconds that a page waits for news of cached waits."""

FRESH = 5.0
"""Seconds for which the lists and counts of ended runs are cached."""

MOST = 6
"""Most rows of a part."""

ENDS = (("failed", "failed"), ("gave_up", "gave up"))
"""Statuses of ended runs that need an operator, with their words."""

_log = structlog.get_logger("sojourn.console")


@dataclass(frozen=True, slots=True)
class TroubleCount:
    words: str
    runs: int
    filters: RunFilters
    """The filters of the list of these runs."""


@dataclass(frozen=True, slots=True)
class TroubleView:
    rows: list[RunRow]
    counts: list[TroubleCount]


async def _needs(visit: Visit) -> dict[str, Any]:
    asking = visit.asking
    found = await visit.service.waits(
        asking,
        Selection(),
        fits=lambda each: each.view.may_answer(asking),
        newest=False,
        most=MOST,
        cursor=None,
        patience=HURRY,
    )
    return {"found": found, "rows": [each.view for each in found.waits], "title_of": title_of}


async def _trouble(visit: Visit) -> dict[str, Any]:
    service, asking = visit.service, visit.asking
    lists = [RunFilters(status=status, ended="24h") for status, _ in ENDS]
    ended = [each.selection for each in lists]
    stuck, found = await asyncio.gather(
        service.find_stuck(asking),
        asyncio.gather(*(service.runs(asking, each, most=MOST, fresh=FRESH) for each in ended)),
    )
    counts = await asyncio.gather(*(service.count(asking, each, fresh=FRESH) for each in ended))
    runs: list[ListedRun] = [run for page in found for run in page.runs]
    runs.sort(key=lambda run: run.closed_at or datetime.now(UTC), reverse=True)
    details = await service.reader.details(runs[:MOST])
    rows = [row_of(run, stuck=stuck.why[run.run_id]) for run in stuck.stuck[:MOST]]
    rows += [row_of(run, details.get(run.run_id)) for run in runs[:MOST]]
    told = [TroubleCount("stuck", len(stuck.why), RunFilters(status="stuck"))]
    told += [
        TroubleCount(words, count, each) for (_, words), count, each in zip(ENDS, counts, lists, strict=True)
    ]
    return {"trouble": TroubleView(rows, told)}


async def _spending(visit: Visit) -> dict[str, Any]:
    found = await visit.service.recent_spending(visit.asking, patience=PATIENCE)
    if found is None:
        raise TimeoutError
    return {"spending": spending_view(found)}


async def _schedules(visit: Visit) -> dict[str, Any]:
    found = await visit.service.schedules(visit.asking)
    return {"schedules": found[:MOST], "count": len(found)}


PARTS: dict[str, Callable[[Visit], Awaitable[dict[str, Any]]]] = {
    "needs": _needs,
    "trouble": _trouble,
    "spending": _spending,
    "schedules": _schedules,
}
"""The parts of the page, each with its template `home_….html`."""


async def _part(visit: Visit, name: str, patience: float) -> str | None:
    """Render a part, or return None if it is not read in time."""
    try:
        async with asyncio.timeout(patience):
            values = await PARTS[name](visit)
    except TimeoutError:
        return None
    except (Problem, SojournError) as error:
        return visit.render("home_fault.html", part=name, problem=problem_of(error))
    except Exception as error:  # noqa: BLE001 - a fault of one part does not take the others from the visitor
        _log.error("home_part_failed", part=name, exc_info=error)
        return visit.render("home_fault.html", part=name, problem=problem_of(error))
    return visit.render(f"home_{name}.html", **values)


@pages.get("/")
async def home(visit: Visit) -> Response:
    found = await asyncio.gather(*(_part(visit, name, PATIENCE) for name in PARTS))
    parts = [
        html if html is not None else visit.render("home_fault.html", part=name, problem=None)
        for name, html in zip(PARTS, found, strict=True)
    ]
    return visit.page("home.html", parts=parts)


@pages.get("/live/home")
async def live(visit: Visit) -> Response:
    async def parts() -> AsyncGenerator[News]:
        sent: dict[str, str | None] = {}
        while not visit.service.feeds.is_closed:
            found = await asyncio.gather(*(_part(visit, name, LIVE) for name in PARTS))
            news = {
                name: html
                for name, html in zip(PARTS, found, strict=True)
                if html is not None and html != sent.get(name)
            }
            sent |= news
            yield News("".join(part(f"home-{name}", html) for name, html in news.items()))
            await asyncio.sleep(INTERVAL)

    return Live(visit, parts)
