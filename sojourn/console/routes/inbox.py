"""`/inbox`: whatever runs wait for, oldest first, each with what is needed to answer it, and the form that does; live."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from starlette.responses import HTMLResponse, Response

from sojourn.client.listing import Selection
from sojourn.console.arounds import Arounds
from sojourn.console.live import Live, News, part
from sojourn.console.open_waits import HURRY, LIVE, OpenWaits
from sojourn.console.page import Pages, Visit
from sojourn.console.reading_answers import DONE, Read, read_answer
from sojourn.console.views.inbox_rows import KINDS, InboxRow, kind_of, row_of, tools_of
from sojourn.console.views.wait_view import WaitView, wait_view
from sojourn.contracts.awaits import Await
from sojourn.contracts.run import RunStatus
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.errors import ApprovalVoid, AwaitClosed, InvalidInput, NoWorker, RunNotFound, ServerUnavailable
from sojourn.http.bodies import AnswerBody, ApprovalBody
from sojourn.http.inbox import FoundWait, FoundWaits
from sojourn.http.problems import Problem, problem_of
from sojourn.http.routes import answers
from sojourn.http.routes.runs import labels_of
from sojourn.http.service import Service

__all__ = ["pages"]

pages = Pages()

INTERVAL = 1.0
"""Seconds between two looks at the inbox."""

MAX_SPLITS = 8
"""Most places at which a path is taken apart into a run and a wait, since both may have a slash."""

_STORES: WeakKeyDictionary[Service, "_Store"] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class _Store:
    """What is remembered for a service."""

    waits: OpenWaits
    arounds: Arounds


@dataclass(frozen=True, slots=True)
class Filters:
    """What is filtered by, as the fields of the form and of the URL have it."""

    tool: str = ""
    agent: str = ""
    kind: str = ""
    label: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The fields of a URL."""
        return {"tool": self.tool, "agent": self.agent, "kind": self.kind, "label": self.label}

    @property
    def is_any(self) -> bool:
        """Whether anything is filtered by."""
        return any(self.query.values())

    @property
    def selection(self) -> Selection:
        """The runs."""
        return Selection(self.agent or None)

    @property
    def labels(self) -> dict[str, str]:
        """The labels that a run needs; raises as `labels_of`."""
        return labels_of(self.label.replace(",", " ").split())

    def fits(self, found: FoundWait) -> bool:
        """Whether a wait is asked for."""
        wait, tool = found.opened.wait, self.tool.casefold()
        if self.kind and kind_of(wait) != self.kind:
            return False
        if tool and not any(tool in each.casefold() for each in tools_of(wait)):
            return False
        return self.labels.items() <= found.waiting.labels.items()


@dataclass(frozen=True, slots=True)
class _Seen:
    """A wait of a run that the visitor may see."""

    wait: Await
    status: RunStatus
    view: WaitView
    place: FoundWait | None
    """Where it is among the open ones; None where it is not open."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a page shows."""

    filters: Filters
    cursor: str
    found: FoundWaits
    rows: list[InboxRow]
    view: WaitView | None
    is_chosen: bool
    """Whether the URL names the wait."""
    done: str = ""
    """What was done just before, in words."""
    done_at: str = ""
    """The page of what was done."""


def _store(service: Service) -> _Store:
    if (known := _STORES.get(service)) is None:
        known = _STORES[service] = _Store(OpenWaits(service), Arounds(service.client))
    return known


def _filters(visit: Visit) -> Filters:
    filters = Filters(*(visit.query(name)[:300] for name in ("tool", "agent", "kind", "label")))
    return filters if filters.kind in KINDS else replace(filters, kind="")


def _path(run_id: str, await_id: str) -> str:
    return f"/inbox/{run_id}/{await_id}"


@pages.get("/inbox")
async def inbox(visit: Visit) -> Response:
    """The inbox, and the oldest wait."""
    filters, cursor = _filters(visit), visit.query("cursor")
    found = await _found(visit, filters, cursor)
    view: WaitView | None = None
    for first in found.waits[:3]:
        try:
            view = (await _seen(visit, first.run_id, first.opened.wait.id)).view
            break
        except (Problem, RunNotFound):
            continue  # it has ended meanwhile
    return _answer(visit, _shown(visit, filters, cursor, found, view, is_chosen=False))


@pages.get("/inbox/{path:path}")
async def one(visit: Visit, path: str) -> Response:
    """One wait, and the inbox beside it."""
    filters, cursor = _filters(visit), visit.query("cursor")
    seen, found = await asyncio.gather(_of_path(visit, path), _found(visit, filters, cursor))
    return _answer(visit, _shown(visit, filters, cursor, found, seen.view, is_chosen=True))


@pages.post("/inbox/{path:path}", role="viewer")
async def settle(visit: Visit, path: str) -> Response:
    """Answer a wait; whoever may not is refused by what the API refuses by."""
    seen, form = await _of_path(visit, path), await visit.form()
    filters = _filters(visit)
    if seen.place is None:
        return await _again(visit, filters, seen, 409)
    read = read_answer(seen.wait, seen.view, form)
    if read.body is None:
        return await _again(visit, filters, replace(seen, view=read.view), 422)
    try:
        await _send(visit, seen.status.run_id, read)
    except ApprovalVoid as error:
        _forget(visit, seen)
        return visit.go(_path(seen.status.run_id, error.await_id or ""), done="void", **filters.query)
    except (AwaitClosed, InvalidInput, NoWorker, ServerUnavailable, Problem) as error:
        problem = problem_of(error)
        if problem.status == 403:
            raise
        _forget(visit, seen)
        seen = await _refreshed(visit, seen, read.view, problem)
        return await _again(visit, filters, seen, problem.status)
    _forget(visit, seen)
    if _is_of(seen.status.run_id, back := form.text("back")):
        return visit.go(f"/runs/{back}")
    found = await _found(visit, filters, "")
    after = [each for each in found.waits if each.place > seen.place.place]
    to = next(iter([*after, *found.waits]), None)
    done = {"done": form.text("do"), "of": f"{seen.status.run_id}/{seen.wait.id}"}
    return visit.go(_path(to.run_id, to.opened.wait.id) if to else "/inbox", **done, **filters.query)


def _is_of(run_id: str, other: str) -> bool:
    """Whether a run is another one, or below it: the page of which it is answered on."""
    return run_id == other or (bool(other) and run_id.startswith(f"{other}/"))


@pages.get("/live/inbox")
async def live(visit: Visit) -> Response:
    """What changes in the inbox, and whether the open wait is still as it was seen."""
    filters, cursor = _filters(visit), visit.query("cursor")
    run_id, await_id, digest = visit.query("run"), visit.query("wait"), visit.query("digest")
    if run_id:
        await visit.service.run(visit.asking, run_id)

    async def parts() -> AsyncGenerator[News]:
        sent: Any = None
        fate = "open"
        while not visit.service.hub.is_closed:
            found = await _found(visit, filters, cursor, LIVE)
            rows = [row_of(each) for each in found.waits]
            now = rows, found.count, found.unread, found.cursor
            html = ""
            if now != sent:
                shown = _Shown(filters, cursor, found, rows, None, is_chosen=False)
                html = part("list", _render(visit, "inbox_list.html", shown, at=f"{run_id} {await_id}"))
                sent = now
            if run_id and fate == "open":
                fate, told = await _fate(visit, run_id, await_id, digest)
                html += part("fate", told) if fate != "open" else ""
            yield News(html)
            await asyncio.sleep(INTERVAL)

    return Live(visit, parts)


async def _fate(visit: Visit, run_id: str, await_id: str, digest: str) -> tuple[str, str]:
    """What has become of a wait that somebody looks at, and how that is told."""
    waiting = await visit.service.inbox.of_run(run_id)
    wait = next(
        (each.wait for each in waiting.waits if each.wait.id == await_id) if waiting else iter(()), None
    )
    if wait is not None:
        if getattr(wait, "payload_digest", "") == digest:
            return "open", ""
        return "changed", visit.render(
            "inbox_fate.html", view=None, fate="changed", path=_path(run_id, await_id)
        )
    try:
        view = (await _seen(visit, run_id, await_id)).view
    except Problem:
        view = None
    return "closed", visit.render("inbox_fate.html", view=view, fate="closed", path=_path(run_id, await_id))


async def _found(visit: Visit, filters: Filters, cursor: str, patience: float = HURRY) -> FoundWaits:
    waits = _store(visit.service).waits
    return await waits.page(visit.asking, filters.selection, filters.fits, cursor=cursor, patience=patience)


async def _of_path(visit: Visit, path: str) -> _Seen:
    """The wait that a path names; both the run's id and the wait's may have slashes."""
    words = path.split("/")
    fault: Exception | None = None
    for at in range(len(words) - 1, max(len(words) - 1 - MAX_SPLITS, 0), -1):
        try:
            return await _seen(visit, "/".join(words[:at]), "/".join(words[at:]))
        except (RunNotFound, Problem, InvalidInput) as error:
            fault = fault or error
    raise fault or _no_wait(path)


def _no_wait(path: str) -> Problem:
    return Problem(
        404,
        "wait_not_found",
        f"no run waits, or has waited, for {path!r}",
        then="The inbox lists what is open.",
    )


async def _seen(visit: Visit, run_id: str, await_id: str) -> _Seen:
    """A wait, open or not; raises as `Service.run`, and a problem where the run has none of this id."""
    await visit.service.run(visit.asking, run_id)
    waiting = await visit.service.inbox.of_run(run_id)
    opened = [each for each in waiting.waits if each.wait.id == await_id] if waiting else []
    around = await _store(visit.service).arounds.of(run_id, await_id, is_open=bool(opened))
    wait = opened[0].wait if opened else around.wait
    if wait is None:
        raise _no_wait(f"{run_id}/{await_id}")
    status = waiting.status if waiting else RunStatus(run_id=run_id)
    view = wait_view(
        wait,
        status,
        around,
        lambda tool: _spec(visit.service, status.agent_id, tool),
        asked=waiting.asked if waiting and opened else "",
        said=waiting.said if waiting and opened else "",
        is_open=bool(opened),
    )
    return _Seen(wait, status, view, FoundWait(waiting, opened[0]) if waiting and opened else None)


def _spec(service: Service, agent_id: str, tool_id: str) -> ToolSpec | None:
    tool = service.app.tools_of(agent_id).get(tool_id)
    return tool.spec if tool else service.app.tool_spec(tool_id)


async def _send(visit: Visit, run_id: str, read: Read) -> None:
    """Send an answer as the API does, under its roles, to its log."""
    body, asking, service, request = read.body, visit.asking, visit.service, visit.request
    if isinstance(body, ApprovalBody):
        await answers.decide(run_id, body, asking, service, request)
    elif isinstance(body, AnswerBody):
        await answers.answer(run_id, body, asking, service, request)
    else:
        assert body is not None, "what has none is not sent"
        await answers.provide(run_id, body, asking, service, request)


def _forget(visit: Visit, seen: _Seen) -> None:
    visit.service.inbox.forget(seen.status.run_id)


async def _refreshed(visit: Visit, seen: _Seen, typed: WaitView, problem: Problem) -> _Seen:
    """The wait as it is now, with what somebody typed, and with why that was not taken."""
    try:
        now = await _seen(visit, seen.status.run_id, seen.wait.id)
    except Problem:
        now = replace(seen, place=None)
    detail, then = problem.detail.removeprefix(f"{seen.status.run_id}: "), problem.then
    if problem.code == "stale_digest":
        detail, then = (
            "The call has changed since you saw it. It has not run.",
            "Look at it as it is now, and decide again.",
        )
    elif now.place is None:
        detail, then = "It is no longer open.", ""
    elif problem.code == "invalid_input":
        then = "Correct it, and send it again."
    fields = _at_fields(typed, detail)
    kept = replace(
        now.view,
        fields=fields,
        words=typed.words,
        calls=typed.calls,
        reason=typed.reason,
        fault=detail,
        then=then,
    )
    return replace(now, view=kept)


def _at_fields(view: WaitView, detail: str) -> Any:
    """The fields of a question, with what the worker says at the one that it names."""
    named = [each for each in view.fields if f" {each.name} " in f" {detail} "]
    return tuple(
        replace(each, fault=detail) if each in named[:1] and not each.fault else each for each in view.fields
    )


async def _again(visit: Visit, filters: Filters, seen: _Seen, status: int) -> Response:
    found = await _found(visit, filters, "")
    return _answer(visit, _shown(visit, filters, "", found, seen.view, is_chosen=True), status)


def _shown(
    visit: Visit, filters: Filters, cursor: str, found: FoundWaits, view: WaitView | None, *, is_chosen: bool
) -> _Shown:
    done, of = visit.query("done"), visit.query("of")
    word = DONE.get(done, "") if visit.request.method == "GET" else ""
    if done == "void" and visit.request.method == "GET":
        word = "The tool was changed since you saw it, so the call did not run. Decide on it as it is now."
    rows = [row_of(each) for each in found.waits]
    return _Shown(
        filters, cursor, found, rows, view, is_chosen, word, visit.url(f"/inbox/{of}") if of and word else ""
    )


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
    at = at or (f"{view.run_id} {view.await_id}" if view else "")
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
        "after": shown.rows[index + 1].key if index + 1 < len(keys) else "",
        "before": shown.rows[index - 1].key if index > 0 else "",
        "agents": visit.service.app.list_agents(),
        "kinds": KINDS,
        "path": _path,
        "json": json.dumps,
    }
