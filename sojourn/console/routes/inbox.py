"""Inbox at `/inbox`: everything that runs wait for, oldest first, live.

Each wait has the information for an answer, and the form to send it.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from starlette.responses import HTMLResponse, Response

from sojourn.answers import WaitView
from sojourn.client.listing import Selection, parse_labels
from sojourn.console.answering import DONE, VERDICTS, find_wait, no_wait, results_in, submit_form
from sojourn.console.live import Live, part
from sojourn.console.page import Filters, Pages, Visit
from sojourn.console.views.waits import KINDS, WaitForm, title_of, verdict_word, without_calls
from sojourn.console.watched import News
from sojourn.errors import ApprovalVoid, InvalidInput, RunNotFound
from sojourn.http.problems import Problem
from sojourn.reader import FoundWait, FoundWaits

__all__ = ["pages"]

pages = Pages()

INTERVAL = 1.0
"""Seconds between two reads of the inbox."""

MAX_SPLITS = 8
"""Most slashes at which a path is split into run and wait. Both may contain slashes."""

MOST = 50
"""Waits of a page."""

HURRY = 0.1
"""Seconds that a page waits for news of cached runs."""

LIVE = 2.0
"""Seconds that a live page waits between two updates."""


@dataclass(frozen=True, slots=True)
class InboxFilters(Filters):
    tool: str = ""
    agent: str = ""
    kind: str = ""
    label: str = ""

    @property
    def selection(self) -> Selection:
        return Selection(self.agent or None)

    @property
    def labels(self) -> dict[str, str]:
        """Labels that a run needs. Raises as `parse_labels`."""
        return parse_labels(self.label.replace(",", " ").split())

    def fits(self, found: FoundWait) -> bool:
        view, tool = found.view, self.tool.casefold()
        if self.kind and view.kind != self.kind:
            return False
        if tool and not any(tool in each.casefold() for each in view.tools):
            return False
        return self.labels.items() <= found.labels.items()


@dataclass(frozen=True, slots=True)
class _Shown:
    filters: InboxFilters
    cursor: str
    found: FoundWaits
    rows: list[WaitView]
    view: WaitForm | None
    is_chosen: bool
    """Whether the URL names the wait."""
    done: str = ""
    """Confirmation of the visitor's last action. Empty if there is none."""
    next: WaitView | None = None
    """The next open wait after one that has ended. The visitor has to open it."""


def _filters(visit: Visit) -> InboxFilters:
    filters = InboxFilters.of(visit.query)
    return filters if filters.kind in KINDS else replace(filters, kind="")


def _path(run_id: str, await_id: str) -> str:
    return f"/inbox/{run_id}/{await_id}"


@pages.get("/inbox")
async def inbox(visit: Visit) -> Response:
    filters, cursor = _filters(visit), visit.query("cursor")
    found = await _find(visit, filters, cursor)
    view: WaitForm | None = None
    for first in found.waits[:3]:
        try:
            view = await find_wait(visit, first.view.run_id, first.view.await_id)
            break
        except (Problem, RunNotFound):
            continue  # it has ended in the meantime
    shown = _show(visit, filters, cursor, found, view, is_chosen=False)
    return _answer(visit, shown)


@pages.get("/inbox/{path:path}")
async def one(visit: Visit, path: str) -> Response:
    filters, cursor = _filters(visit), visit.query("cursor")
    view, found = await asyncio.gather(_of_path(visit, path), _find(visit, filters, cursor))
    view = without_calls(view, visit.query("given").split())
    shown = _show(visit, filters, cursor, found, view, is_chosen=True)
    return _answer(visit, replace(shown, done=_confirmation(visit, view)))


@pages.post("/inbox/{path:path}", role="viewer")
async def settle(visit: Visit, path: str) -> Response:
    view, form = await _of_path(visit, path), await visit.form()
    filters, run_id, entry = _filters(visit), view.wait.run_id, view.found
    try:
        refused = await submit_form(visit, view, form)
    except ApprovalVoid as error:
        return visit.go(_path(run_id, error.await_id or ""), done="void", **filters.query)
    found = await _find(visit, filters, "")
    if refused:
        return _answer(visit, _show(visit, filters, "", found, refused, is_chosen=True), refused.http_status)
    after = next((each for each in found.waits if entry and each.place > entry.place), None)
    then = after.view.key if after else ""
    back = form.text("back") if _is_of(run_id, form.text("back")) else ""
    given = " ".join(results_in(view, form))
    path = _path(run_id, view.wait.await_id)
    done = {"done": form.text("do"), "before": "" if view.is_open else "yes"}
    return visit.go(path, **done, given=given, next=then, back=back, **filters.query)


def _is_of(run_id: str, other: str) -> bool:
    """Check whether the page of the other run has the form for a run's waits too."""
    return run_id == other or (bool(other) and run_id.startswith(f"{other}/"))


@pages.get("/live/inbox")
async def live(visit: Visit) -> Response:
    """What changes in the inbox, and whether the open wait is still as it was seen."""
    filters, cursor = _filters(visit), visit.query("cursor")
    run_id, digest = visit.query("run"), visit.query("digest")
    await_id = visit.request.query_params.get("wait", "")  # ids of waits may begin or end with white space
    if run_id:
        await visit.service.run_with_wait(visit.asking, run_id, await_id)

    async def parts() -> AsyncGenerator[News]:
        sent: Any = None
        fate = "open"
        while not visit.service.feeds.is_closed:
            found = await _find(visit, filters, cursor, LIVE)
            rows = [each.view for each in found.waits]
            now = rows, found.count, found.unread, found.cursor
            html = ""
            if now != sent:
                after = None if run_id else _next(visit, rows)
                shown = _Shown(filters, cursor, found, rows, None, is_chosen=False, next=after)
                html = part("list", _render(visit, "inbox_list.html", shown, at=f"{run_id} {await_id}"))
                sent = now
            if run_id and fate == "open":
                fate, told = await _fate(visit, run_id, await_id, digest)
                html += part("fate", told) if fate != "open" else ""
            yield News(html)
            await asyncio.sleep(INTERVAL)

    return Live(visit, parts)


async def _fate(visit: Visit, run_id: str, await_id: str, digest: str) -> tuple[str, str]:
    waiting = await visit.service.reader.waits.of_run(run_id)
    wait = waiting.wait(await_id) if waiting else None
    if wait is not None:
        if getattr(wait, "payload_digest", "") == digest:
            return "open", ""
        return "changed", visit.render(
            "inbox_fate.html", view=None, fate="changed", path=_path(run_id, await_id)
        )
    try:
        view = await find_wait(visit, run_id, await_id)
    except (Problem, RunNotFound):
        view = None
    return "closed", visit.render("inbox_fate.html", view=view, fate="closed", path=_path(run_id, await_id))


async def _find(visit: Visit, filters: InboxFilters, cursor: str, patience: float = HURRY) -> FoundWaits:
    return await visit.service.waits(
        visit.asking,
        filters.selection,
        fits=filters.fits,
        newest=False,
        most=MOST,
        cursor=cursor or None,
        patience=patience,
    )


async def _of_path(visit: Visit, path: str) -> WaitForm:
    words = path.split("/")
    fault: Exception | None = None
    for at in range(len(words) - 1, max(len(words) - 1 - MAX_SPLITS, 0), -1):
        try:
            return await find_wait(visit, "/".join(words[:at]), "/".join(words[at:]))
        except (RunNotFound, Problem, InvalidInput) as error:
            fault = fault or error
    raise fault or no_wait(path)


def _show(
    visit: Visit,
    filters: InboxFilters,
    cursor: str,
    found: FoundWaits,
    view: WaitForm | None,
    *,
    is_chosen: bool,
) -> _Shown:
    rows = [each.view for each in found.waits]
    shown = _Shown(filters, cursor, found, rows, view, is_chosen)
    if view is None or any(row.key == view.wait.key for row in rows):
        return shown
    return replace(shown, next=_next(visit, rows))


def _confirmation(visit: Visit, view: WaitForm) -> str:
    done = visit.query("done")
    if done == "void" and view.changes:
        return "The tool changed after you saw it, so the call did not run. Review the new version."
    if done not in DONE:
        return ""
    if view.found is not None:
        if done.startswith("approve") and view.wait.given:
            return f"{DONE[done]}. {view.wait.progress}"
        return "Saved. Waiting for the other results" if done == "provide" else ""
    if view.ended is None or verdict_word(view.ended) != VERDICTS[done]:
        return ""
    return f"Already {DONE[done].lower()}" if visit.query("before") else DONE[done]


def _back(visit: Visit, view: WaitForm | None) -> list[tuple[str, str]]:
    back = visit.query("back")
    if view is None or not _is_of(view.wait.run_id, back):
        return []
    agent_id, session_id = visit.query("talk_agent"), visit.query("talk_session")
    if agent_id and session_id:
        return [("Back to the conversation", visit.url.talk(agent_id, session_id))]
    return [("Back to the run", visit.url(f"/runs/{back}"))]


def _next(visit: Visit, rows: list[WaitView]) -> WaitView | None:
    wanted = visit.query("next")
    return next((row for row in rows if row.key == wanted), rows[0] if rows else None)


def _answer(visit: Visit, shown: _Shown, status: int = 200) -> Response:
    if not visit.is_part:
        return visit.page("inbox.html", http_status=status, **_values(visit, shown))
    names = (
        ("list", "outerMorph"),
        ("open", "outerHTML"),
        ("said", "outerMorph"),
        ("place", "outerHTML"),
        ("live", "outerHTML"),
    )
    return HTMLResponse(
        "".join(part(name, _render(visit, f"inbox_{name}.html", shown), swap) for name, swap in names), status
    )


def _render(visit: Visit, template: str, shown: _Shown, *, at: str = "") -> str:
    return visit.render(template, **_values(visit, shown, at=at))


def _values(visit: Visit, shown: _Shown, *, at: str = "") -> dict[str, Any]:
    view, filters = shown.view, shown.filters
    at = at or (view.wait.key if view else "")
    keys = [row.key for row in shown.rows]
    index = keys.index(at) if at in keys else -1
    query = urlencode(
        {name: value for name, value in {**filters.query, "cursor": shown.cursor}.items() if value}
    )
    return {
        "shown": shown,
        "found": shown.found,
        "rows": shown.rows,
        "filters": filters,
        "cursor": shown.cursor,
        "query": f"?{query}" if query else "",
        "view": view,
        "at": at,
        "next": shown.next,
        "back": _back(visit, view),
        "after": shown.next.key if shown.next else shown.rows[index + 1].key if index + 1 < len(keys) else "",
        "before": shown.rows[index - 1].key if index > 0 else "",
        "agents": visit.service.app.list_agents(),
        "kinds": KINDS,
        "title_of": title_of,
        "path": _path,
        "json": json.dumps,
    }
