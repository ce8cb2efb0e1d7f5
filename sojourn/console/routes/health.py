"""Health page at `/health-checks`.

It shows the checks of `sojourn doctor`, and the runs that are stuck.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from starlette.responses import Response

from sojourn.client.listing import Selection
from sojourn.console.live import Live, part
from sojourn.console.page import Pages, Visit
from sojourn.console.views.health import health_of, stuck_rows
from sojourn.console.watching import News
from sojourn.errors import SojournError

__all__ = ["pages"]

pages = Pages()

INTERVAL = 5.0
"""Seconds between two reads."""

PARTS = ("head", "stuck", "checks")


@pages.get("/health-checks")
async def health(visit: Visit) -> Response:
    """Whether all is well."""
    return visit.page("health.html", **await _look(visit))


@pages.get("/live/health-checks")
async def live(visit: Visit) -> Response:
    """What changes of it."""

    async def parts() -> AsyncGenerator[News]:
        sent: dict[str, str] = {}
        while not visit.service.feeds.is_closed:
            values = await _look(visit)
            made = {name: visit.render(f"health_{name}.html", **values) for name in PARTS}
            yield News(
                "".join(part(f"health-{name}", html) for name, html in made.items() if html != sent.get(name))
            )
            sent = made
            await asyncio.sleep(INTERVAL)

    return Live(visit, parts)


async def _look(visit: Visit) -> dict[str, Any]:
    service = visit.service
    sees = service.sees_deployment(visit.asking)
    looked = await visit.console.checkup.look() if sees else None
    stuck, fault = None, ""
    counts: dict[str, int] = {}
    try:
        stuck = await service.stuck(visit.asking)
        names = ("running", "paused", "idle")
        waiting, *found = await asyncio.gather(
            service.count_waiting(visit.asking, Selection()),
            *(service.count(visit.asking, Selection(status=name)) for name in names),
        )
        counts = {"waiting": waiting, **dict(zip(names, found, strict=True))}
    except SojournError as error:
        fault = str(error)
    rows = stuck_rows(stuck.runs, stuck.why) if stuck else []
    return {
        "looked": looked,
        "health": health_of(looked.groups if looked else {}, len(rows), fault),
        "rows": rows,
        "fault": fault,
        "runs": counts,
    }
