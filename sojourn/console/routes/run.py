"""Page of a run at `/runs/{run_id}`, live, and a page for each of its calls."""

import asyncio
import functools
import hashlib
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
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
from sojourn.console.views.tree import OpenTree
from sojourn.console.watched import Changes, News, WatchedRun
from sojourn.contracts.event import ConversationBranchedEvent, RunContinuedEvent
from sojourn.contracts.ids import EVENT_ID, place_in, place_of
from sojourn.errors import SojournError
from sojourn.http.answering import read_present_branch
from sojourn.http.problems import Problem
from sojourn.reader import read_part
from sojourn.timeline import Call, CallFold, Entry, Note, Row, Timeline, fold_calls

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
"""Number of the last rows of the tree that a page shows."""

# The id of a child run has slashes, so paths with a word at their end come before the plain one.


@pages.get("/runs/{run_id:path}/live")
async def live(visit: Visit, run_id: str) -> Response:
    run = await visit.service.run(visit.asking, run_id)
    came = visit.request.headers.get("last-event-id") or visit.query("since")

    async def parts() -> AsyncGenerator[News]:
        async with visit.console.runs.follow(run.id) as watched:
            links = await links_of(visit, watched)
            changes = functools.partial(_changes, visit, watched, links, OpenTree())
            async with aclosing(watched.news(came, changes)) as news:
                async for each in news:
                    yield each

    return Live(visit, parts)


async def _changes(
    visit: Visit, watched: WatchedRun, links: RunLinks, tree: OpenTree, seen: int, added: int
) -> Changes:
    if newer := _NEWER.get(visit.query("of")):
        come = await newer(visit, watched, seen, added)
        head = part("head", _part(visit, watched, "run_head.html", head_values(watched, links)))
        return Changes(head + come.html, {"overfull": ["1"]} if come.is_full else {}, come.added)
    moved = _find_moved(watched, seen)
    news, events, added = _news(visit, watched, links, tree, seen, added)
    if inside := [*moved, *events.get("child", ())]:
        events["child"] = inside
    return Changes("".join(news), events, added)


_NEWER = {"events": newer_events, "transcript": newer_messages}
"""The functions that read newer entries, by tab."""


def _find_moved(watched: WatchedRun, seen: int) -> list[str]:
    if seen < 0:
        return [call.child.run_id for call in watched.timeline.calls if call.child]
    return [child for child, version in watched.children.items() if version > seen]


def _news(
    visit: Visit, watched: WatchedRun, links: RunLinks, tree: OpenTree, seen: int, added: int
) -> tuple[list[str], dict[str, list[str]], int]:
    timeline, values = watched.timeline, head_values(watched, links)
    found = [part("head", _part(visit, watched, "run_head.html", values))]
    if visit.query("of") == "timeline":
        chart = chart_of(timeline.entries, datetime.now(UTC))
        html = visit.render("timeline.html", run_id=watched.run_id, chart=chart, width=WIDTH)
        return [*found, part("timeline", html)], {}, 0
    found.append(part("side", _part(visit, watched, "run_side.html", values)))
    rows = watched.tree
    changes = tree.changes(rows, seen, dropped=timeline.dropped)
    added += changes.added if changes else 0
    if changes is None or added > WINDOW:  # drop the oldest rows, so that the page stays small
        return [*found, part("tree", _tree(visit, watched, rows))], {}, 0
    for at, row in changes.rows:
        html = _row(visit, watched, row)
        found.append(part(at, html) if at else part("tree", html, "beforeend"))
    events = {"folded": [" ".join(changes.gone)], "child": changes.grown}
    return found, {name: texts for name, texts in events.items() if any(texts)}, added


@pages.get("/runs/{run_id:path}/inside")
async def inside(visit: Visit, run_id: str) -> Response:
    """The tree of a child run, for the place of its call in the tree of its parent."""
    run = await visit.service.run(visit.asking, run_id)
    watched = await visit.console.runs.look(run.id, 0)
    rows = watched.tree[-WINDOW:]
    await _prepare(rows)
    return _inside(visit, watched, rows, within=run.id, label="What happened in the child run")


def _inside(visit: Visit, watched: WatchedRun, rows: Sequence[Row], *, within: str, label: str) -> Response:
    values: dict[str, Any] = {"entries": rows, "within": _within(within), "label": label}
    return visit.page("run_inside.html", **_values(watched), **values)


def _within(name: str) -> str:
    """Return a prefix for the ids of a part that opens in place."""
    return f"in-{hashlib.sha256(name.encode()).hexdigest()[:8]}-"


async def _prepare(rows: Iterable[Row]) -> None:
    """Render the Markdown of rows in a thread."""
    await prepare(text for row in rows if isinstance(row, Entry) for text in markdown_of(row))


@pages.get("/runs/{run_id:path}/folded")
async def folded(visit: Visit, run_id: str) -> Response:
    """The calls of a fold, for its place in the tree, or as a page of their own."""
    run = await visit.service.run(visit.asking, run_id)
    watched = await visit.console.runs.look(run.id)
    first, last, before = (visit.event_id(name) for name in ("first", "last", "before"))
    if not (first and last):
        raise Problem(404, "not_found", "no calls are named", then="The run's page has its calls.")
    found = _between(watched.timeline, first, last)
    if not found:
        until = before or place_in(place_of(last)[0] + 1, 0)
        found = _between((await read_part(visit.service.client, run.id, until)).timeline(), first, last)
    if not found:
        raise Problem(404, "not_found", "the run has no such calls", then="The run's page has its calls.")
    if visit.is_part:
        return _inside(visit, watched, found, within=f"{run.id} {first}", label="Calls")
    links = await links_of(visit, watched)
    return visit.page("folded.html", **head_values(watched, links), entries=found, tab="call")


def _between(timeline: Timeline, first: str, last: str) -> list[Entry]:
    """Return the entries from one event to another, or none without the first one."""
    begin, end = place_of(first), place_of(last)
    found = [entry for entry in timeline.entries if begin <= place_of(entry.event_id) <= end]
    return found if found and place_of(found[0].event_id) == begin else []


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
    before, is_first = (place_in(place_of(at)[0] + 1, 0) if EVENT_ID.match(at) else ""), True
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
    rows = fold_calls(timeline.entries) if before else watched.tree
    await _prepare(rows[-WINDOW:])
    left = await _left_turns(visit, found.id, timeline) if before else frozenset[str]()
    # Nothing is awaited from here on, so the tree, its mark and the head are of one moment.
    rows = rows if before else watched.tree
    shown = rows[-WINDOW:]
    return visit.page(
        "run.html",
        **head_values(watched, links),
        entries=list(_rows(visit, watched, shown, left, before)),
        earlier=_before(timeline, rows, earlier),
        before=before,
        mark=watched.mark,
        tab="tree",
    )


async def _left_turns(visit: Visit, run_id: str, timeline: Timeline) -> frozenset[str]:
    """Return the ids of a conversation's turns outside its present branch."""
    branch = await read_present_branch(visit.service.client, run_id) if timeline.is_conversation else None
    if branch is None:
        return frozenset()
    whole, path = branch
    ids, present = (frozenset(id for turn in turns for id in turn.ids) for turns in (whole.turns, path))
    return ids - present


_BETWEEN = (ConversationBranchedEvent, RunContinuedEvent)
"""Events between the turns of two branches."""


def _rows(
    visit: Visit, watched: WatchedRun, rows: Sequence[Row], left: frozenset[str], before: str
) -> Iterator[str]:
    """Render rows. Those of turns that the conversation has left are folded."""

    def is_left(row: Row) -> bool:
        entry = row if isinstance(row, Entry) else row.entries[0]
        is_between = isinstance(entry, Note) and isinstance(entry.event, _BETWEEN)
        return entry.turn_id in left and not is_between

    for is_folded, some in groupby(rows, is_left):
        html = [_row(visit, watched, row, before=before) for row in some]
        yield visit.render("run_branch.html", entries=html) if is_folded else "".join(html)


def _before(timeline: Timeline, rows: Sequence[Row], earlier: str) -> str:
    """Return the event with which the last rows begin, or "" if there are no others."""
    if rows and (len(rows) > WINDOW or timeline.dropped):
        return rows[-WINDOW:][0].event_id
    return earlier


def _values(watched: WatchedRun) -> dict[str, Any]:
    return {"run_id": watched.run_id, "watched": watched, "status": watched.status}


def head_values(watched: WatchedRun, links: RunLinks) -> dict[str, Any]:
    """Return the values for the templates of every page of a run, as it is now."""
    timeline = watched.timeline
    children = [call.child.run_id for call in timeline.calls if call.child]
    head = RunHead(
        watched.status,
        watched.snapshot,
        timeline.spent,
        children,
        watched.stuck,
        watched.status.status == "running" and (timeline.has_backoff or bool(watched.status.hints)),
    )
    return {**_values(watched), "head": head, "links": links}


def _part(visit: Visit, watched: WatchedRun, template: str, values: dict[str, Any]) -> str:
    place = (*visit.audience, template, values["links"])
    return watched.once(place, watched.version, lambda: visit.render(template, **values)).html


def _tree(visit: Visit, watched: WatchedRun, rows: Sequence[Row]) -> str:
    return visit.render(
        "run_tree.html",
        **_values(watched),
        entries=[_row(visit, watched, row) for row in rows[-WINDOW:]],
        earlier=_before(watched.timeline, rows, watched.snapshot.earlier),
    )


def _row(visit: Visit, watched: WatchedRun, row: Row, *, before: str = "") -> str:
    """Render a row of the tree, or of a part of it that ends before an event."""

    def make() -> str:
        return visit.render("entry.html", run_id=watched.run_id, entry=row, before=before)

    if before:
        return make()
    place = visit.url.base, row.kind if isinstance(row, CallFold) else "", row.key
    made = watched.once(place, row.version, make)
    return ago_now(made.html, datetime.now(UTC))
