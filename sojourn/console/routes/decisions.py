"""Decision log at `/decisions` and `/decisions.csv`.

It shows who decided what and when, and the digest that each decision names, as far as histories and archives reach.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from starlette.responses import Response, StreamingResponse

from sojourn.client.listing import Selection
from sojourn.console.page import Pages, Visit
from sojourn.console.views.decisions import DecisionRow, csv_of
from sojourn.console.views.waits import KINDS
from sojourn.errors import SojournError

__all__ = ["pages"]

pages = Pages()

VERDICTS = ("Approved", "Denied", "Answered", "Declined", "Expired")

_log = structlog.get_logger("sojourn.console")


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters of the page, as in the fields of the form and of the URL."""

    by: str = ""
    tool: str = ""
    verdict: str = ""
    kind: str = ""
    agent: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The fields of a URL."""
        return {
            "by": self.by,
            "tool": self.tool,
            "verdict": self.verdict,
            "kind": self.kind,
            "agent": self.agent,
        }

    @property
    def is_any(self) -> bool:
        """Whether anything is filtered by."""
        return any(self.query.values())

    @property
    def selection(self) -> Selection:
        """The runs."""
        return Selection(self.agent or None)

    def fits(self, each: DecisionRow) -> bool:
        """Check whether a decision passes the filters."""
        return (
            self.by.casefold() in (each.by or each.identity).casefold()
            and self.tool.casefold() in each.tool.casefold()
            and self.verdict in ("", each.verdict)
            and self.kind in ("", each.kind)
        )


def _filters(visit: Visit) -> Filters:
    return Filters(*(visit.query(name)[:300] for name in ("by", "tool", "verdict", "kind", "agent")))


@pages.get("/decisions")
async def decisions(visit: Visit) -> Response:
    """The decisions in a page of runs, newest first."""
    filters, cursor = _filters(visit), visit.query("cursor")
    reach = await visit.console.decisions.page(visit.asking, filters.selection, cursor or None)
    found = [each for each in reach.decisions if filters.fits(each)]
    return visit.page(
        "decisions.html",
        filters=filters,
        cursor=cursor,
        reach=reach,
        found=found,
        kinds=KINDS,
        verdicts=VERDICTS,
        agents=visit.service.app.list_agents(),
    )


@pages.get("/decisions.csv")
async def table(visit: Visit) -> Response:
    """The decisions in all runs, as CSV; where the reading ends early, the last line says so."""
    filters = _filters(visit)
    pages_of_runs = await visit.console.decisions.all(visit.asking, filters.selection)

    async def lines() -> AsyncGenerator[bytes]:
        # Send the head at once: reading the histories of a hundred runs may take seconds.
        yield csv_of((), with_head=True).encode()
        try:
            async for reach in pages_of_runs:
                yield csv_of(filter(filters.fits, reach.decisions)).encode()
        except SojournError as error:
            _log.warning("decisions_cut_short", error=str(error))
            yield b'"the rest could not be read: ask again"\r\n'

    name = f"decisions-{datetime.now(UTC):%Y-%m-%d}.csv"
    return StreamingResponse(
        lines(),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
