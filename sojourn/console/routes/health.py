"""Health page at `/health-checks`, with the checks of the doctor and stuck runs."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from sojourn.checks import Check
from sojourn.checks.workers import mend_of
from sojourn.client.listing import Selection
from sojourn.client.stuck import MAX_CHECKED, Stuck
from sojourn.console.live import Live, part
from sojourn.console.page import Pages, Visit
from sojourn.console.views.text import split_advice
from sojourn.console.watched import News
from sojourn.errors import SojournError
from sojourn.reader import ListedRun
from sojourn.values.text import count_noun
from sojourn.values.visible import one_line

__all__ = ["pages"]

pages = Pages()

MOST = 100
"""Most stuck runs that are listed."""

_KINDS = {
    "task": "Its workflow task keeps failing.",
    "planner": "The planner keeps failing.",
    "blocked": "A call blocks its worker, which cannot do anything else.",
    "unserved": "No worker is available.",
}


@dataclass(frozen=True, slots=True)
class HealthSummary:
    is_well: bool
    title: str
    wrong: Sequence[str]
    """Names of the failed checks, as links to them."""


@dataclass(frozen=True, slots=True)
class StuckRow:
    run: ListedRun
    stuck: Stuck

    @property
    def what(self) -> str:
        return _KINDS[self.stuck.kind]

    @property
    def mend(self) -> tuple[str, str]:
        """Advice in words, and the command that repairs the run. Either may be empty."""
        return split_advice(mend_of(self.run.run_id, self.stuck))


def health_of(groups: Mapping[str, Sequence[Check]], stuck: int, fault: str) -> HealthSummary:
    wrong = [check.name for checks in groups.values() for check in checks if check.ok is False]
    parts = [
        *([f"{count_noun(len(wrong), 'check')} failed"] if wrong else []),
        *([f"{count_noun(stuck, 'run')} {'is' if stuck == 1 else 'are'} stuck"] if stuck else []),
        *(["the runs cannot be read"] if fault else []),
    ]
    return HealthSummary(
        not parts, one_line("; ".join(parts)).capitalize() if parts else "All is well", wrong
    )


def stuck_rows(runs: Sequence[ListedRun], reasons: Mapping[str, Stuck]) -> list[StuckRow]:
    """Return the stuck runs, the longest stuck first."""
    rows = [StuckRow(run, why) for run in runs if (why := reasons.get(run.run_id)) is not None]
    rows.sort(key=lambda row: row.stuck.since.timestamp() if row.stuck.since else 0.0)
    return rows[:MOST]


INTERVAL = 5.0
"""Seconds between two reads."""

PARTS = ("head", "stuck", "checks")


@pages.get("/health-checks")
async def health(visit: Visit) -> Response:
    return visit.page("health.html", **await _look(visit))


@pages.get("/live/health-checks")
async def live(visit: Visit) -> Response:
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
        stuck = await service.find_stuck(visit.asking)
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
        "checked": "" if stuck is None or stuck.is_whole else f"{MAX_CHECKED:,}",
        "fault": fault,
        "runs": counts,
    }
