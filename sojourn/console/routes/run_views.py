"""Timeline, transcript, events, policy and artifacts of a run."""

import re
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from starlette.responses import JSONResponse, Response

from sojourn.client.access import whole_artifact
from sojourn.console.page import Pages, Visit
from sojourn.console.routes.run import call_of, head_values, links_of
from sojourn.console.views.chart import WIDTH, chart_of
from sojourn.console.views.entries import MOST_TEXT, event_row, event_text, markdown_of_message
from sojourn.console.views.markdown import prepare
from sojourn.console.views.values import MOST, artifact_place
from sojourn.console.watched import WatchedRun
from sojourn.contracts.event import EVENT_CLASSES
from sojourn.contracts.ids import place_in, place_of
from sojourn.contracts.tool_result import Artifact
from sojourn.errors import ArtifactNotFound, RunNotFound, SojournError
from sojourn.events.one_run import policy_in_history
from sojourn.http.files import download
from sojourn.http.problems import Problem, problem_of
from sojourn.http.security.limits import heavy_read
from sojourn.reader import read_event, read_part
from sojourn.timeline import compare_entries, entries_after_fork, requests_by_message

__all__ = ["pages"]

pages = Pages()

_UNNAMED = re.compile(r"[^A-Za-z0-9_-]+")
"""Characters that the name of a downloaded file does not have."""

# A kind may be any word, such as `events`, so this path comes before those with a word at their end.


@pages.get("/runs/{run_id:path}/attachments/{attachment_id}")
async def attachment(visit: Visit, run_id: str, attachment_id: str) -> Response:
    """The content of a file of the run's messages, or with `size=small` a thumbnail."""
    if visit.query("size") == "small":
        return await visit.console.thumbnails.respond(visit.service, visit.asking, run_id, attachment_id)
    return await download(visit.service, visit.asking, run_id, attachment_id)


@pages.get("/runs/{run_id:path}/calls/{call_id}/artifacts/{kind:path}")
async def artifact(visit: Visit, run_id: str, call_id: str, kind: str) -> Response:
    """Show an artifact, or with `as=json` download its data."""
    run = await visit.service.run(visit.asking, run_id)
    watched = await visit.console.runs.look(run.id)
    call = await call_of(visit, watched, call_id, visit.query("at"))
    found = next((each for each in call.artifacts if each.kind == kind), None) if call else None
    if found is None:
        raise ArtifactNotFound(f"run {run.id} has no artifact {f'{call_id}/{kind}'[:200]!r}", run_id=run.id)
    place = artifact_place(found)
    if found.data is None and place and place.run_id != run.id:
        return visit.go(place.path, **{"as": visit.query("as")})
    if visit.query("as") == "json":
        async with heavy_read():
            whole = await _whole(visit, found, run.id)
        name = _UNNAMED.sub("_", kind)[:60]
        return JSONResponse(
            whole.data, headers={"Content-Disposition": f'attachment; filename="{name}.json"'}
        )
    if place and place.is_shown:
        try:
            found = await _whole(visit, found, run.id)
        except SojournError as error:
            if not visit.is_part:
                raise
            problem = problem_of(error)  # shown in place of the artifact
            return visit.page("problem_part.html", http_status=problem.status, problem=problem)
    head: dict[str, Any] = {}
    if not visit.is_part:
        head = head_values(watched, await links_of(visit, watched))
    return visit.page(
        "artifact_part.html" if visit.is_part else "artifact.html",
        **head,
        artifact=found,
        place=place,
        call=call,
        most=MOST if visit.is_part else WHOLE,
        tab="call",
    )


async def _whole(visit: Visit, found: Artifact, run_id: str) -> Artifact:
    client = visit.service.client
    return await whole_artifact(client.temporal, client.storage, found, run_id)


MESSAGES = 60
"""Messages of a page of the transcript."""

EVENTS = 300
"""Events of a page."""

WHOLE = 2_000_000
"""Maximum length of a message or event on a page of its own, in characters."""


async def _watch(visit: Visit, run_id: str) -> WatchedRun:
    run = await visit.service.run(visit.asking, run_id)
    return await visit.console.runs.look(run.id)


@pages.get("/runs/{run_id:path}/compare")
async def compare(visit: Visit, run_id: str) -> Response:
    """A fork beside its origin, from the point of the fork on."""
    watched = await _watch(visit, run_id)
    origin = watched.status.forked_from
    if origin is None:
        raise Problem(
            404, "not_found", f"the run {watched.run_id} is no fork", then="Compare a run that is one."
        )
    other = await visit.service.run(visit.asking, origin.run_id)
    until = place_in(place_of(origin.event_id)[0] + 1, 0)
    part = await read_part(visit.service.client, other.id, until)
    after = entries_after_fork(part.timeline().entries, origin)
    pairs = compare_entries(after, watched.timeline.entries)
    stretches = [(is_equal, list(found)) for is_equal, found in groupby(pairs, lambda pair: pair.is_equal)]
    links = await links_of(visit, watched)
    return visit.page(
        "compare.html",
        **head_values(watched, links),
        origin=origin,
        other=other.id,
        stretches=stretches,
        is_cut=bool(watched.timeline.dropped or watched.snapshot.earlier),
        tab="compare",
    )


@pages.get("/runs/{run_id:path}/timeline")
async def timeline(visit: Visit, run_id: str) -> Response:
    watched = await _watch(visit, run_id)
    now = datetime.now(UTC)
    links = await links_of(visit, watched)
    return visit.page(
        "timeline_page.html",
        **head_values(watched, links),
        chart=chart_of(watched.timeline.entries, now),
        width=WIDTH,
        mark=watched.mark,
        earlier=bool(watched.snapshot.earlier or watched.timeline.dropped),
        tab="timeline",
    )


@pages.get("/runs/{run_id:path}/transcript")
async def transcript(visit: Visit, run_id: str) -> Response:
    """The messages as the planner gets them, the last ones, those before or after one; or one of them whole."""
    run = await visit.service.run(visit.asking, run_id)
    watched = await visit.console.runs.look(run.id)
    # Take the mark before the reads below: they include everything up to it, so live updates miss nothing.
    links = await links_of(visit, watched)
    mark, values = watched.mark, head_values(watched, links)
    messages = await run.transcript()
    only, until, after = _number(visit, "message"), _number(visit, "before"), _number(visit, "after")
    if only is not None:
        shown = [(only, messages[only])] if only < len(messages) else []
    else:
        end = len(messages) if until is None else min(until, len(messages))
        first = max(0, end - MESSAGES) if after is None else after
        end = min(end, first + MESSAGES)
        shown = list(enumerate(messages))[first:end]
    await prepare(text for _, message in shown for text in markdown_of_message(message))
    later = after is not None and bool(shown) and shown[-1][0] + 1 < len(messages)
    return visit.page(
        "transcript.html",
        **values,
        messages=shown,
        count=len(messages),
        before=shown[0][0] if shown and only is None else 0,
        after=after,
        later=shown[-1][0] + 1 if later else None,
        only=only,
        most=WHOLE if only is not None else MOST_TEXT,
        set_aside=requests_by_message(messages),
        may_set_aside=visit.may("operator") and values["head"].is_open,
        live=values["head"].is_open and only is None and until is None and not later,
        mark=mark,
        tab="transcript",
    )


def _number(visit: Visit, name: str) -> int | None:
    text = visit.query(name)
    if text and not (text.isdecimal() and len(text) < 10):
        raise Problem(
            422, "invalid_input", f"{name}: {text[:50]!r} is no number", then="Open the page without it."
        )
    return int(text) if text else None


@pages.get("/runs/{run_id:path}/events")
async def events(visit: Visit, run_id: str) -> Response:
    """The events, the last ones, those before one, or those after one; or one of them whole."""
    watched = await _watch(visit, run_id)
    at, before, after = (visit.event_id(name) for name in ("at", "before", "after"))
    kind = visit.query("type")
    # Take the mark before the reads below: they include everything up to it, so live updates miss nothing.
    links = await links_of(visit, watched)
    mark, values = watched.mark, head_values(watched, links)
    if at:
        event = await read_event(visit.service.client, watched.run_id, at)
        if event is None:
            raise RunNotFound(f"the run {watched.run_id} has no event {at}", run_id=watched.run_id)
        return visit.page(
            "events.html", **values, at=at, whole=event_text(event)[:WHOLE], live=False, tab="events"
        )
    found = await read_part(visit.service.client, watched.run_id, before)
    place = place_of(after)
    rows = [
        event_row(event)
        for event in found.events
        if (not kind or event.type == kind) and place_of(event.event_id) > place
    ]
    shown = rows[:EVENTS] if after else rows[-EVENTS:]
    later = shown[-1].event_id if after and len(shown) < len(rows) else ""
    has_earlier = after or len(shown) < len(rows)
    return visit.page(
        "events.html",
        **values,
        at="",
        rows=shown,
        earlier=shown[0].event_id if shown and has_earlier else found.earlier,
        later=later,
        kind=kind,
        kinds=sorted(EVENT_CLASSES),
        live=values["head"].is_open and not before and not later,
        newest=found.events[-1].event_id if found.events else "",
        mark=mark,
        tab="events",
    )


@pages.get("/runs/{run_id:path}/policy")
async def policy(visit: Visit, run_id: str) -> Response:
    """The limits and rules that the run has, and the errors that its safeguards count."""
    watched = await _watch(visit, run_id)
    found = await policy_in_history(visit.service.client.temporal, watched.run_id)
    fields: dict[str, Any] = found.model_dump(mode="json")
    links = await links_of(visit, watched)
    return visit.page(
        "policy.html",
        **head_values(watched, links),
        policy={name: value for name, value in fields.items() if value not in (None, {}, [], "")},
        tab="policy",
    )
