"""What an operator does with a run: pause it, resume it, cancel it, take it up again, or fork it with something changed."""

import json
from typing import Any, cast

from starlette.responses import Response

from sojourn.client.forking import MISSING
from sojourn.client.run import OPEN, Run
from sojourn.console.form import Form
from sojourn.console.history_parts import event_at
from sojourn.console.page import Pages, Visit
from sojourn.console.routes.run import call_of, head_values, watching_of
from sojourn.console.run_links import links_of
from sojourn.console.views.values import json_text
from sojourn.console.watched_run import WatchedRun
from sojourn.contracts.event import AwaitClarificationEvent, AwaitConfirmationEvent, Event, ToolEndEvent
from sojourn.contracts.ids import EVENT_ID
from sojourn.errors import InvalidInput
from sojourn.http.bodies import ForkBody
from sojourn.http.locks.audit import about
from sojourn.http.locks.principals import require
from sojourn.http.problems import Problem

__all__ = ["pages"]

pages = Pages()

_NOTHING: dict[str, Any] = {"result": MISSING}
"""A fork in which no result is another."""


async def _open(visit: Visit, run_id: str, what: str) -> Run:
    run = await visit.service.run(visit.asking, run_id)
    status = await run.status()
    if status.status not in OPEN:
        raise Problem(
            409,
            "run_ended",
            f"{run.id} has ended ({status.status}); there is nothing to {what}",
            then="Its page says how it ended; a fork goes on from any place of it.",
            run_id=run.id,
        )
    return run


@pages.post("/runs/{run_id:path}/pause", role="operator")
async def pause(visit: Visit, run_id: str) -> Response:
    """Start nothing new until it is resumed."""
    run = await _open(visit, run_id, "pause")
    await run.pause((await visit.form()).text("reason"), by=visit.asking.subject)
    return visit.go(f"/runs/{run.id}")


@pages.post("/runs/{run_id:path}/resume", role="operator")
async def resume(visit: Visit, run_id: str) -> Response:
    """Go on, perhaps with a message."""
    run = await _open(visit, run_id, "resume")
    message = (await visit.form()).text("message").strip()
    await run.resume(messages=[message] if message else [], by=visit.asking.subject)
    return visit.go(f"/runs/{run.id}")


@pages.post("/runs/{run_id:path}/cancel", role="operator")
async def cancel(visit: Visit, run_id: str) -> Response:
    """Ask the run to cancel."""
    run = await _open(visit, run_id, "cancel")
    reason, by = (await visit.form()).text("reason").strip(), visit.asking.subject
    await run.cancel(f"{reason} (by {by})" if reason else f"requested by {by}")
    return visit.go(f"/runs/{run.id}")


@pages.post("/runs/{run_id:path}/retry", role="operator")
async def retry(visit: Visit, run_id: str) -> Response:
    """Take a run up again that did not end with an answer: a fork at its last point, without a change."""
    run = await visit.service.run(visit.asking, run_id)
    fork = await visit.service.fork(visit.asking, run, ForkBody(), **_NOTHING)
    return visit.go(f"/runs/{fork.id}")


@pages.get("/runs/{run_id:path}/fork", role="operator")
async def choose(visit: Visit, run_id: str) -> Response:
    """The form of a fork."""
    run = await visit.service.run(visit.asking, run_id)
    watched = await watching_of(visit.service).look(run.id)
    at = visit.query("at")
    if at and not EVENT_ID.match(at):
        raise InvalidInput(f"at: {at[:100]!r} is no event", run_id=run.id)
    event = await event_at(visit.service, run.id, at) if at else None
    is_result = isinstance(event, ToolEndEvent)
    links = await links_of(visit.service, visit.asking, watched)
    return visit.page(
        "fork.html",
        **head_values(watched, links),
        at=at,
        event=event,
        is_result=is_result,
        is_question=isinstance(event, AwaitClarificationEvent),
        is_approval=isinstance(event, AwaitConfirmationEvent),
        result=json_text(event.result.result) if isinstance(event, ToolEndEvent) else "",
        arguments=await _arguments(visit, watched, event),
        tab="fork",
    )


async def _arguments(visit: Visit, watched: WatchedRun, event: Event | None) -> str:
    """The arguments of the call that an event is about, as JSON; empty for a call that cannot be carried out with others."""
    if not isinstance(event, ToolEndEvent | AwaitConfirmationEvent):
        return ""
    call_id = event.tool_call_id if isinstance(event, ToolEndEvent) else event.confirmation.tool_call_id
    call = await call_of(visit, watched, call_id, event.event_id)
    return "" if call is None or call.child else json_text(call.call.payload)


@pages.post("/runs/{run_id:path}/fork", role="operator")
async def fork(visit: Visit, run_id: str) -> Response:
    """Start the fork, and go to it."""
    run = await visit.service.run(visit.asking, run_id)
    form = await visit.form()
    body, more = _asked(form)
    if body.approve is not None:
        require(visit.asking, "approver")
    about(visit.request, at=body.at, change=form.text("change"))
    made = await visit.service.fork(visit.asking, run, body, **more)
    return visit.go(f"/runs/{made.id}")


def _asked(form: Form) -> tuple[ForkBody, dict[str, Any]]:
    """What a form asks for; raises InvalidInput."""
    at, change = form.text("at").strip() or None, form.text("change")
    if change == "message":
        return ForkBody(at=at, message=form.text("message")), _NOTHING
    if change == "answer":
        return ForkBody(at=at, answer=form.text("answer")), _NOTHING
    if change in ("approve", "deny"):
        return ForkBody(at=at, approve=change == "approve"), _NOTHING
    if change == "arguments":
        arguments = _json(form.text("arguments"), "the arguments are")
        if not isinstance(arguments, dict):
            raise InvalidInput('the arguments are an object, as {"name": 1}')
        return ForkBody(at=at, arguments=cast("dict[str, Any]", arguments)), _NOTHING
    if change == "result":
        return ForkBody(at=at), {"result": _json(form.text("result"), "the result is")}
    return ForkBody(at=at), _NOTHING


def _json(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"{what} no JSON: {error}; a text stands in quotes") from error
