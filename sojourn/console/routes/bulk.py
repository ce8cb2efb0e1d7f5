"""Cancel or retry many runs of the list, at `/bulk`.

The visitor chooses runs, or takes all that match the filters. The first form leads to a page that names the runs, whose
form acts on the first of them. The page after it has the same form for the rest, which a script or the visitor sends.
So the service stores nothing, and the action stops if the visitor closes the page.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from starlette.responses import Response

from sojourn.client.bulk import ACTIONS, BulkAction, BulkResult, can_act
from sojourn.client.forking import RETRYABLE
from sojourn.console.form import Form
from sojourn.console.page import Pages, Visit
from sojourn.console.routes.runs import RunFilters, list_runs
from sojourn.errors import InvalidInput, RunNotFound
from sojourn.http.bulk import act_on_runs
from sojourn.http.problems import problem_of
from sojourn.reader import ListedRun

__all__ = ["pages"]

pages = Pages()

MAX_BULK = 500
"""Most runs of one action."""

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
    reason: str = ""
    done: int = 0
    """Runs that earlier requests changed."""
    skipped: int = 0
    """Runs that earlier requests left as they were."""
    repeated: int = 0
    """Runs among the changed ones that had been retried before."""
    results: Sequence[BulkResult] = ()
    """The last results."""

    @property
    def total(self) -> int:
        return self.done + self.skipped + len(self.runs)


def _action(text: str) -> BulkAction:
    for action in ACTIONS:
        if text == action:
            return action
    raise InvalidInput(f"do: {text[:50]!r} is none of {', '.join(ACTIONS)}")


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
        runs = [run for run in await _known(visit, wanted) if can_act(action, run.status)]
        left_out = len(wanted) - len(runs)
    view = BulkView(action, [run.run_id for run in runs])
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
    reason = form.text("reason").strip()[:1_000]
    step, rest = run_ids[:STEP], run_ids[STEP:]
    results = await act_on_runs(visit.service, visit.asking, action, step, reason=reason)
    skipped = sum(each.error is not None for each in results)
    repeated = sum(each.retried is not None and each.retried.already for each in results)
    view = BulkView(
        action,
        rest,
        reason,
        (form.number("done") or 0) + len(step) - skipped,
        (form.number("skipped") or 0) + skipped,
        (form.number("repeated") or 0) + repeated,
        results,
    )
    return visit.page("bulk_done.html", view=view, filters=_filters(form), problem_of=problem_of)


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
    each_status = [filters.status] if filters.status else RETRYABLE if action == "retry" else ["running"]
    pages_left = MAX_PAGES
    for status in each_status:
        cursor: str | None = None
        while pages_left:
            pages_left -= 1
            page = await list_runs(visit, replace(filters, status=status), cursor, most=100)
            found |= {run.run_id: run for run in page.runs if can_act(action, run.status)}
            if len(found) > MAX_BULK:
                return list(found.values())[:MAX_BULK], True
            if (cursor := page.cursor) is None:
                break
        else:
            return list(found.values()), True
    return list(found.values()), False
