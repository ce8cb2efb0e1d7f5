"""Page of a run at `/runs/{run_id}`, live, and a page for each of its calls."""

import asyncio
import functools
import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from sojourn.client.listing import Selection
from sojourn.console.live import Live, newer_events, newer_messages, part
from sojourn.console.page import Pages, Visit
from sojourn.console.views.chart import WIDTH, chart_of
from sojourn.console.views.entries import markdown_of
from sojourn.console.views.markdown import prepare
from sojourn.console.views.runs import RunHead
from sojourn.console.views.text import ago_now
from sojourn.console.watched import Changes, News, WatchedRun
from sojourn.contracts.ids import EVENT_ID, place_of
from sojourn.errors import SojournError
from sojourn.http.problems import Problem
from sojourn.reader import read_part
from sojourn.timeline import Call, Entry, Timeline

__all__ = ["call_of", "head_values", "links_of", "pages"]

pages = Pages()

FRESH = 5.0
"""Seconds for which the forks of a run are cached."""

PATIENCE = 0.5
"""Seconds that a page waits for the forks. The read continues for the next page."""

SHOWN = 3
"""Number of the newest forks that are named. The list of runs has all of them."""


@dataclass(frozen=True, slots=True)
class RunLinks:
    forks: tuple[str, ...] = ()
    """The newest runs that were forked from it."""
    more_forks: bool = False
    """Whether there are more forks."""
    temporal: str = ""
    """URL of its execution in Temporal's UI.

    Empty if no address of that UI is configured, or if the visitor may not see it.
    """


async def links_of(visit: Visit, watched: WatchedRun) -> RunLinks:
    """Return the links of a run, without forks if the store is slow."""
    service, asking, forks = visit.service, visit.asking, list[str]()
    with suppress(SojournError, TimeoutError):
        async with asyncio.timeout(PATIENCE):
            wanted = Selection(fork_of=watched.run_id)
            page = await service.runs(asking, wanted, most=SHOWN + 1, fresh=FRESH)
            forks = [run.run_id for run in page.runs]
    temporal = service.execution_url(asking, watched.run_id, watched.snapshot.execution)
    return RunLinks(tuple(forks[:SHOWN]), len(forks) > SHOWN, temporal)


WINDOW = 150
"""Number of the last entries of the tree that a page shows."""

# The id of a child run has slashes, so paths with a word at their end come before the plain one.


@pages.get("/runs/{run_id:path}/live")
async def live(visit: Visit, run_id: str) -> Response:
    run = await visit.service.run(visit.asking, run_id)
    came = visit.request.headers.get("last-event-id") or visit.query("since")

    async def parts() -> AsyncGenerator[News]:
        async with visit.console.runs.follow(run.id) as watched:
            changes = functools.partial(_changes, visit, watched, await links_of(visit, watched))
            async with aclosing(watched.news(came, changes)) as news:
                async for each in news:
                    yield each

    return Live(visit, parts)


async def _changes(visit: Visit, watched: WatchedRun, links: RunLinks, seen: int, added: int) -> Changes:
    if newer := _NEWER.get(visit.query("of")):
        come = await newer(visit, watched, seen, added)
        head = part("head", _part(visit, watched, "run_head.html", head_values(watched, links)))
        return Changes(head + come.html, {"overfull": ["1"]} if come.is_full else {}, come.added)
    moved = _find_moved(watched, seen)
    news, added = _news(visit, watched, links, seen, added)
    return Changes("".join(news), {"child": moved} if moved else {}, added)


_NEWER = {"events": newer_events, "transcript": newer_messages}
"""The functions that read newer entries, by tab."""


def _find_moved(watched: WatchedRun, seen: int) -> list[str]:
    if seen < 0:
        return [call.child.run_id for call in watched.timeline.calls if call.child]
    return [child for child, version in watched.children.items() if version > seen]


def _news(visit: Visit, watched: WatchedRun, links: RunLinks, seen: int, added: int) -> tuple[list[str], int]:
    timeline, values = watched.timeline, head_values(watched, links)
    found = [part("head", _part(visit, watched, "run_head.html", values))]
    if visit.query("of") == "timeline":
        chart = chart_of(timeline.entries, datetime.now(UTC))
        html = visit.render("timeline.html", run_id=watched.run_id, chart=chart, width=WIDTH)
        return [*found, part("timeline", html)], 0
    found.append(part("side", _part(visit, watched, "run_side.html", values)))
    changed = timeline.changes_since(seen)
    added += sum(entry.born > seen for entry in changed)
    if seen < 0 or added > WINDOW:  # drop the oldest entries, so that the page stays small
        return [*found, part("tree", _tree(visit, watched))], 0
    for entry in changed:
        html = _entry(visit, watched, entry)
        found.append(part("tree", html, "beforeend") if entry.born > seen else part(entry.key, html))
    return found, added


@pages.get("/runs/{run_id:path}/inside")
async def inside(visit: Visit, run_id: str) -> Response:
    """The tree of a child run, for the place of its call in the tree of its parent."""
    run = await visit.service.run(visit.asking, run_id)
    watched = await visit.console.runs.look(run.id, 0)
    await prepare(text for entry in watched.timeline.last(WINDOW) for text in markdown_of(entry))
    return visit.page(
        "run_inside.html",
        **_values(watched),
        entries=watched.timeline.last(WINDOW),
        within=_within(run.id),
    )


def _within(run_id: str) -> str:
    """Return a prefix that sets ids of a child run apart from those of its parent."""
    return f"in-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}-"


@pages.get("/runs/{run_id:path}/calls/{call_id}")
async def call(visit: Visit, run_id: str, call_id: str) -> Response:
    run = await visit.service.run(visit.asking, run_id)
    watched = await visit.console.runs.look(run.id)
    found = await call_of(visit, watched, call_id, visit.query("at"))
    if found is None:
        raise Problem(
            404,
            "not_found",
            f"the run {run.id} has no call {call_id!r}",
            then="The run's page has its calls.",
        )
    whole = {"most": 2_000_000}
    links = await links_of(visit, watched)
    return visit.page("call.html", **head_values(watched, links), entry=found, whole=whole, tab="call")


async def call_of(visit: Visit, watched: WatchedRun, call_id: str, at: str = "") -> Call | None:
    """Return the call with this id, or None. Raises as `read_part`."""
    if found := watched.timeline.call(call_id):
        return found
    before, is_first = (f"{place_of(at)[0] + 1}-000000-00000" if EVENT_ID.match(at) else ""), True
    while is_first or before:
        is_first = False
        part = await read_part(visit.service.client, watched.run_id, before)
        before = part.earlier
        if found := part.timeline().call(call_id):
            return found
    return None


@pages.get("/runs/{run_id:path}")
async def run(visit: Visit, run_id: str) -> Response:
    found = await visit.service.run(visit.asking, run_id)
    watched = await visit.console.runs.look(found.id, 0)  # includes what the visitor has just done
    before = visit.event_id("before")
    if before:
        part = await read_part(visit.service.client, found.id, before)
        timeline, earlier = part.timeline(), part.earlier
    else:
        timeline, earlier = watched.timeline, watched.snapshot.earlier
    links = await links_of(visit, watched)
    await prepare(text for entry in timeline.last(WINDOW) for text in markdown_of(entry))
    # Nothing is awaited from here on, so the tree, its mark and the head are of one moment.
    entries = timeline.last(WINDOW)
    return visit.page(
        "run.html",
        **head_values(watched, links),
        entries=[_entry(visit, watched, entry, keep=not before) for entry in entries],
        earlier=_before(timeline, entries, earlier),
        before=before,
        mark=watched.mark,
        tab="tree",
    )


def _before(timeline: Timeline, entries: list[Entry], earlier: str) -> str:
    return (
        entries[0].event_id
        if entries and (len(timeline.entries) > len(entries) or timeline.dropped)
        else earlier
    )


def _values(watched: WatchedRun) -> dict[str, Any]:
    return {"run_id": watched.run_id, "watched": watched, "status": watched.status}


def head_values(watched: WatchedRun, links: RunLinks) -> dict[str, Any]:
    """Return the values for the templates of every page of a run, as it is now."""
    children = [call.child.run_id for call in watched.timeline.calls if call.child]
    head = RunHead(watched.status, watched.snapshot, watched.timeline.spent, children, watched.stuck)
    return {**_values(watched), "head": head, "links": links}


def _part(visit: Visit, watched: WatchedRun, template: str, values: dict[str, Any]) -> str:
    place = (*visit.audience, template, values["links"])
    return watched.once(place, watched.version, lambda: visit.render(template, **values)).html


def _tree(visit: Visit, watched: WatchedRun) -> str:
    entries = watched.timeline.last(WINDOW)
    return visit.render(
        "run_tree.html",
        **_values(watched),
        entries=[_entry(visit, watched, entry) for entry in entries],
        earlier=_before(watched.timeline, entries, watched.snapshot.earlier),
    )


def _entry(visit: Visit, watched: WatchedRun, entry: Entry, *, keep: bool = True) -> str:
    def make() -> str:
        return visit.render("entry.html", run_id=watched.run_id, entry=entry)

    if not keep:
        return make()
    made = watched.once((visit.url.base, entry.key), entry.version, make)
    return ago_now(made.html, datetime.now(UTC))
