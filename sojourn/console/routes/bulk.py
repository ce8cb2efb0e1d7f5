"""Cancel or retry many runs of the list, at `/bulk`.

The visitor chooses runs, or takes all that match the filters. The first form leads to a page that names the runs, whose
form acts on the first of them. The page after it has the same form for the rest, which a script or the visitor sends.
So the service stores nothing, and the action stops if the visitor closes the page.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.responses import Response

from sojourn.console.form import Form
from sojourn.console.page import Pages, Visit
from sojourn.console.routes.runs import RunFilters, list_runs
from sojourn.console.templating import new_mark
from sojourn.errors import InvalidInput, RunNotFound
from sojourn.http.bulk import ACTIONS, MAX_BULK, BulkAction, BulkOutcome, act_on_runs, can_act, statuses_for
from sojourn.reader import ListedRun

__all__ = ["pages"]

pages = Pages()

STEP = 25
"""Runs of one request."""

MAX_PAGES = 40
"""Most pages of the list that are searched for runs that match."""

AT_ONCE = 16
"""Most runs that are described at the same time."""

MAX_ID = 1_000
"""Longest id of a run in a form."""


@dataclass(frozen=True, slots=True)
class BulkView:
    action: BulkAction
    runs: Sequence[str]
    """Ids of the runs that are left."""
    made: str
    reason: str = ""
    done: int = 0
    """Runs that earlier requests changed."""
    skipped: int = 0
    """Runs that earlier requests left as they were."""
    outcomes: Sequence[BulkOutcome] = ()
    """The last outcomes."""

    @property
    def total(self) -> int:
        return self.done + self.skipped + len(self.runs)


def _action(text: str) -> BulkAction:
    if text not in ACTIONS:
        raise InvalidInput(f"do: {text[:50]!r} is none of {', '.join(ACTIONS)}")
    return text


def _run_ids(form: Form) -> list[str]:
    found = list(dict.fromkeys(filter(None, "\n".join(form.texts("run")).split("\n"))))
    if not found or len(found) > MAX_BULK or any(len(each) > MAX_ID for each in found):
        then = "choose at least one run" if not found else f"choose at most {MAX_BULK} runs"
        raise InvalidInput(f"run: {then}")
    return found


@pages.post("/bulk", role="operator")
async def confirm(visit: Visit) -> Response:
    """Ask to confirm the action, and list its runs."""
    form = await visit.form()
    do, _, scope = form.text("do").partition("-")
    action, filters = _action(do), _filters(form)
    if scope == "all":
        runs, has_more = await _matching(visit, action, filters)
        left_out = 0
    else:
        wanted, has_more = _run_ids(form), False
        runs = [run for run in await _known(visit, wanted) if can_act(action, run)]
        left_out = len(wanted) - len(runs)
    view = BulkView(action, [run.run_id for run in runs], new_mark())
    return visit.page(
        "bulk.html",
        view=view,
        runs=runs,
        filters=filters,
        has_more=has_more,
        left_out=left_out,
        most=MAX_BULK,
    )


@pages.post("/bulk/act", role="operator")
async def act(visit: Visit) -> Response:
    """Act on the next runs, and say which are left."""
    form = await visit.form()
    action, run_ids = _action(form.text("do")), _run_ids(form)
    made, reason = form.text("made")[:100], form.text("reason").strip()[:1_000]
    step, rest = run_ids[:STEP], run_ids[STEP:]
    outcomes = await act_on_runs(visit.service, visit.asking, action, step, made=made, reason=reason)
    skipped = sum(bool(outcome.fault) for outcome in outcomes)
    view = BulkView(
        action,
        rest,
        made,
        reason,
        (form.number("done") or 0) + len(step) - skipped,
        (form.number("skipped") or 0) + skipped,
        outcomes,
    )
    return visit.page("bulk_done.html", view=view, filters=_filters(form))


def _filters(form: Form) -> RunFilters:
    return RunFilters.of(lambda name: form.text(f"filter-{name}"))


async def _known(visit: Visit, wanted: Sequence[str]) -> list[ListedRun]:
    """Return the runs of these ids that the visitor may see, in their order."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def find(run_id: str) -> ListedRun | None:
        async with gate:
            try:
                return await visit.service.listed_run(visit.asking, run_id)
            except (RunNotFound, InvalidInput):
                return None

    return [run for run in await asyncio.gather(*map(find, wanted)) if run]


async def _matching(visit: Visit, action: BulkAction, filters: RunFilters) -> tuple[list[ListedRun], bool]:
    """Return the runs that match the filters, and whether there are more."""
    found: dict[str, ListedRun] = {}
    each_status = [filters.status] if filters.status else statuses_for(action)
    pages_left = MAX_PAGES
    for status in each_status:
        cursor: str | None = None
        while pages_left:
            pages_left -= 1
            page = await list_runs(visit, replace(filters, status=status), cursor, most=100)
            found |= {run.run_id: run for run in page.runs if can_act(action, run)}
            if len(found) > MAX_BULK:
                return list(found.values())[:MAX_BULK], True
            if (cursor := page.cursor) is None:
                break
        else:
            return list(found.values()), True
    return list(found.values()), False
