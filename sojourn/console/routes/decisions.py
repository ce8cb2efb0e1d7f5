"""WaitEnd log at `/decisions` and `/decisions.csv`.

It shows who decided what and when, and the digest that each decision names, as far as histories and archives reach.
"""

import asyncio
import csv
import io
import json
import unicodedata
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime

import structlog
from starlette.responses import Response, StreamingResponse

from sojourn.answers import WaitView, wait_view
from sojourn.client.listing import Selection
from sojourn.console.page import Filters, Pages, Visit
from sojourn.console.views.waits import KINDS, title_of, verdict_word
from sojourn.errors import InvalidInput, SojournError
from sojourn.http.service import SeenDecisions
from sojourn.reader import ListedRun, Runs
from sojourn.timeline import WaitEnd
from sojourn.values.visible import one_line

__all__ = ["COLUMNS", "DecisionRow", "csv_of", "pages"]

pages = Pages()

RUNS = 100
"""Number of runs in a page."""

MAX_TEXT = 2_000
"""Longest answer or reason, in characters."""

MAX_ARGUMENTS = 10_000
"""Longest arguments, as JSON, in characters."""

VERDICTS = ("Approved", "Denied", "Answered", "Declined", "Expired")

_log = structlog.get_logger("sojourn.console")


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A decision in a run, as the page and the table show it."""

    decision: WaitEnd
    run: ListedRun
    wait: WaitView | None
    """The wait. None if the event that opened it is deleted."""

    @classmethod
    def of(cls, decision: WaitEnd, run: ListedRun) -> "DecisionRow":
        return cls(decision, run, decision.wait and wait_view(decision.wait, decision.event.run_id))

    @property
    def verdict(self) -> str:
        return verdict_word(self.decision)

    @property
    def kind(self) -> str:
        """The kind of the wait. Empty if it is not known."""
        return self.wait.kind if self.wait else ""

    @property
    def tool(self) -> str:
        """The tools that it is about."""
        return ", ".join(self.wait.tools) if self.wait else ""

    @property
    def title(self) -> str:
        return title_of(self.wait) if self.wait else ""

    @property
    def text(self) -> str:
        return (self.decision.event.text or "")[:MAX_TEXT]

    @property
    def asked(self) -> str:
        return one_line(self.run.asked, 200)

    @property
    def state(self) -> str:
        """Its shape and colour in a page."""
        states = {"Approved": "completed", "Denied": "denied", "Declined": "denied", "Expired": "timed_out"}
        return states.get(self.verdict, "done")


@dataclass(frozen=True, slots=True)
class DecisionRows:
    decisions: list[DecisionRow]
    """Newest first."""
    runs: int
    """Number of runs that were read."""
    oldest: datetime | None
    """Start time of the oldest of them."""
    whole_since: datetime | None
    """Runs that were not read have no decision after this. None if all were read."""
    unreadable: int
    """Runs whose records cannot be read here, or are too long to be read whole."""
    cursor: str | None
    """Cursor of the next page, with older runs. None on the last page."""
    others: frozenset[str] = frozenset()
    """Runs that the principal may not see, except for these decisions."""


@dataclass(frozen=True, slots=True)
class DecisionFilters(Filters):
    by: str = ""
    tool: str = ""
    verdict: str = ""
    kind: str = ""
    agent: str = ""
    since: str = ""
    """First day by UTC, as an ISO date. Empty for all."""
    until: str = ""
    """Last day by UTC, as an ISO date. Empty for all."""

    @property
    def selection(self) -> Selection:
        return Selection(self.agent or None)

    @property
    def days(self) -> tuple[date, date]:
        """First and last day.

        Raises:
            InvalidInput: One of them is not an ISO date.
        """
        return _day("since", self.since, date.min), _day("until", self.until, date.max)

    def fits(self, each: DecisionRow) -> bool:
        first, last = self.days
        return (
            first <= each.decision.at.astimezone(UTC).date() <= last
            and self.by.casefold() in each.decision.who.casefold()
            and self.tool.casefold() in each.tool.casefold()
            and self.verdict in ("", each.verdict)
            and self.kind in ("", each.kind)
        )


def _day(name: str, text: str, default: date) -> date:
    try:
        return date.fromisoformat(text) if text else default
    except ValueError:
        raise InvalidInput(f"{name}: {text!r} is no date, such as 2026-01-31") from None


@pages.get("/decisions")
async def decisions(visit: Visit) -> Response:
    """The decisions in a page of runs, newest first."""
    filters, cursor = DecisionFilters.of(visit.query), visit.query("cursor")
    _ = filters.days  # raises before anything is read
    page = await _page(visit, await _runs(visit, filters, cursor or None))
    return visit.page(
        "decisions.html",
        filters=filters,
        cursor=cursor,
        page=page,
        found=[each for each in page.decisions if filters.fits(each)],
        kinds=KINDS,
        verdicts=VERDICTS,
        agents=visit.service.app.list_agents(),
    )


@pages.get("/decisions.csv")
async def table(visit: Visit) -> Response:
    """Return the decisions in all runs as CSV. If the reading ends early, the last line says so."""
    filters = DecisionFilters.of(visit.query)
    _ = filters.days  # raises before the response begins, as does the first page
    first = await _runs(visit, filters, None)

    async def lines() -> AsyncGenerator[bytes]:
        # Send the head at once: reading the histories of a hundred runs may take seconds.
        yield csv_of((), with_head=True).encode()
        runs: Runs | None = first
        try:
            while runs:
                page = await _page(visit, runs)
                yield csv_of(filter(filters.fits, page.decisions)).encode()
                runs = await _runs(visit, filters, runs.cursor) if runs.cursor else None
        except SojournError as error:
            _log.warning("decisions_cut_short", error=str(error))
            yield b'"the rest could not be read: ask again"\r\n'

    name = f"decisions-{datetime.now(UTC):%Y-%m-%d}.csv"
    return StreamingResponse(
        lines(),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


async def _runs(visit: Visit, filters: DecisionFilters, cursor: str | None) -> Runs:
    return await visit.service.list_decided_runs(visit.asking, filters.selection, most=RUNS, cursor=cursor)


async def _page(visit: Visit, page: Runs) -> DecisionRows:
    async def read(run: ListedRun) -> tuple[ListedRun, SeenDecisions]:
        async with visit.console.reading_decisions:
            return run, await visit.service.decisions(visit.asking, run.run_id)

    every = await asyncio.gather(*map(read, page.runs))
    # Runs that the principal may not see are not even counted.
    seen = [(run, found) for run, found in every if found.decisions or not found.is_hidden]
    rows = [DecisionRow.of(each, run) for run, found in seen for each in found.decisions]
    return DecisionRows(
        sorted(rows, key=lambda row: row.decision.at, reverse=True),
        len(seen),
        min((run.started_at for run, _ in seen if run.started_at), default=None),
        _last_end(page.runs) if page.cursor else None,
        sum(not found.is_whole for _, found in seen),
        page.cursor,
        frozenset(run.run_id for run, found in seen if found.is_hidden),
    )


def _last_end(runs: list[ListedRun]) -> datetime | None:
    """Return the moment before which every run after this page ended.

    The store lists open runs first, then closed ones, newest end first.
    """
    ends = [run.closed_at for run in runs if run.closed_at]
    return min(ends, default=datetime.max.replace(tzinfo=UTC)) if runs else None


COLUMNS = (
    "decided_at",
    "verdict",
    "by",
    "kind",
    "tool",
    "title",
    "arguments",
    "text",
    "digest",
    "asked_at",
    "agent_id",
    "run_id",
    "await_id",
    "run_asked",
    "edited_arguments",
)
"""The columns of the table."""

_FORMULA = ("=", "+", "-", "@", "\u2212")
"""Characters that begin a formula, compared without regard to their width."""

_BREAKS = ("\t", "\r", "\n", "\v", "\f")
"""Characters at the start of a text that a spreadsheet may read as a cell's end."""


def csv_of(decisions: Iterable[DecisionRow], *, with_head: bool = False) -> str:
    """Return decisions as CSV (RFC 4180).

    A text that a spreadsheet would take for a formula begins with an apostrophe there.
    """
    to = io.StringIO()
    writer = csv.writer(to, quoting=csv.QUOTE_ALL)
    if with_head:
        writer.writerow(COLUMNS)
    for each in decisions:
        decision, event, call = each.decision, each.decision.event, each.wait and each.wait.call
        payload = json.dumps(call.payload, ensure_ascii=False, default=str) if call else ""
        edited = json.dumps(decision.arguments, ensure_ascii=False, default=str) if decision.changes else ""
        texts = (
            decision.at.astimezone(UTC).isoformat(),
            each.verdict.lower(),
            event.by or "",
            each.kind,
            each.tool,
            each.title,
            payload[:MAX_ARGUMENTS],
            each.text,
            call.payload_digest if call else "",
            decision.opened.since.astimezone(UTC).isoformat() if decision.opened else "",
            each.run.agent_id,
            event.run_id,
            event.await_id,
            each.asked,
            edited[:MAX_ARGUMENTS],
        )
        writer.writerow(map(_guard, texts))
    return to.getvalue()


def _guard(text: str) -> str:
    plain = text.replace("\0", "")
    return f"'{plain}" if plain.startswith(_BREAKS) or _is_formula(plain) else plain


def _is_formula(text: str) -> bool:
    for each in text:
        seen = unicodedata.normalize("NFKC", each).lstrip()
        if seen and unicodedata.category(each)[0] not in "CMZ":
            return seen.startswith(_FORMULA)
    return False
