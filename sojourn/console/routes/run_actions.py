"""An operator's actions on a run.

An operator can pause it, resume it, cancel it, set a message aside, retry it, or fork it with a change.
"""

from typing import Any, cast
from uuid import uuid4

from pydantic import ValidationError
from starlette.responses import Response

from sojourn.client.forking import MISSING, decisions_in_fork, edit_warning, editable_call
from sojourn.client.run import Run
from sojourn.client.setting_aside import parse_target
from sojourn.console.form import Form
from sojourn.console.page import Pages, Visit
from sojourn.console.routes.run import call_of, head_values, links_of
from sojourn.console.views.values import json_text
from sojourn.console.watched import WatchedRun
from sojourn.contracts.awaits import PlannerQuestion
from sojourn.contracts.event import AwaitConfirmationEvent, Event, ToolEndEvent, wait_in
from sojourn.contracts.ids import EVENT_ID
from sojourn.errors import InvalidInput
from sojourn.http.bodies import ForkBody
from sojourn.http.bulk import act_on_runs
from sojourn.http.problems import Problem, problem_of
from sojourn.http.security import audit
from sojourn.reader import read_event
from sojourn.timeline import Call
from sojourn.values.json_text import DuplicateNameError, loads

__all__ = ["pages"]

pages = Pages()


@pages.post("/runs/{run_id:path}/pause", role="operator")
async def pause(visit: Visit, run_id: str) -> Response:
    """Start nothing new until it is resumed."""
    run = await visit.service.open_run(visit.asking, run_id, "pause")
    await run.pause((await visit.form()).text("reason"), by=visit.asking.subject)
    return visit.go(f"/runs/{run.id}")


@pages.post("/runs/{run_id:path}/resume", role="operator")
async def resume(visit: Visit, run_id: str) -> Response:
    """Go on, perhaps with a message."""
    run = await visit.service.open_run(visit.asking, run_id, "resume")
    message = (await visit.form()).text("message").strip()
    await run.resume(messages=[message] if message else [], by=visit.asking.subject, principal=visit.asking)
    return visit.go(f"/runs/{run.id}")


@pages.post("/runs/{run_id:path}/cancel", role="operator")
async def cancel(visit: Visit, run_id: str) -> Response:
    """Ask the run to cancel."""
    run = await visit.service.open_run(visit.asking, run_id, "cancel")
    await run.cancel((await visit.form()).text("reason"), by=visit.asking.subject)
    return visit.go(f"/runs/{run.id}")


@pages.post("/runs/{run_id:path}/retry-now", role="operator")
async def retry_now(visit: Visit, run_id: str) -> Response:
    """Begin the next attempts of its plan and its calls without the rest of their backoff."""
    run = await visit.service.open_run(visit.asking, run_id, "retry")
    await run.retry_now()
    return visit.go(f"/runs/{run.id}")


@pages.post("/runs/{run_id:path}/set-aside", role="operator")
async def set_aside(visit: Visit, run_id: str) -> Response:
    """Leave a message, or the result of a call, out of what planners read."""
    run = await visit.service.open_run(visit.asking, run_id, "set aside")
    form = await visit.form()
    what = form.text("call") or parse_target(form.text("message"))
    if not form.text("call") and isinstance(what, str):
        raise InvalidInput(f"message: {what[:50]!r} is no number of a message", run_id=run.id)
    await run.set_aside(what, form.text("reason").strip(), by=visit.asking.subject)
    return visit.go(f"/runs/{run.id}/transcript")


@pages.post("/runs/{run_id:path}/retry", role="operator")
async def retry(visit: Visit, run_id: str) -> Response:
    """Continue a run that did not end with an answer, or go to the run that continues it."""
    (done,) = await act_on_runs(visit.service, visit.asking, "retry", [run_id])
    if done.error:
        raise done.error
    return visit.go(f"/runs/{done.retried.run_id if done.retried else run_id}")


@pages.get("/runs/{run_id:path}/fork", role="operator")
async def choose(visit: Visit, run_id: str) -> Response:
    run = await visit.service.run(visit.asking, run_id)
    return await _form(visit, run, visit.query("at"))


async def _form(
    visit: Visit, run: Run, at: str, given: Form | None = None, fault: Problem | None = None
) -> Response:
    watched = await visit.console.runs.look(run.id)
    if at and not EVENT_ID.match(at):
        raise InvalidInput(f"at: {at[:100]!r} is no event", run_id=run.id)
    event = await read_event(visit.service.client, run.id, at) if at else None
    texts = {"message": ""}
    is_failed = isinstance(event, ToolEndEvent) and not event.result.ok
    if isinstance(event, ToolEndEvent):
        texts["result"] = "" if is_failed else json_text(event.result.result)
    if event and isinstance(wait_in(event), PlannerQuestion):
        texts["answer"] = ""
    warning = ""
    if call := await _call(visit, watched, event):
        tool = visit.service.app.tools_of(event.agent_id).get(call.call.name) if event else None
        texts["arguments"] = json_text(call.call.payload)
        warning = edit_warning(call, tool.spec if tool else None)
    is_approval = isinstance(event, AwaitConfirmationEvent)
    decisions = decisions_in_fork(event.confirmation, visit.asking) if is_approval else []
    first = (
        "nothing" if is_failed else next((each for each in ("result", "answer") if each in texts), "message")
    )
    change = (given.text("change") if given else "") or next(iter(decisions), first)
    links = await links_of(visit, watched)
    return visit.page(
        "fork.html",
        http_status=fault.status if fault else 200,
        **head_values(watched, links),
        at=at,
        event=event,
        decisions=decisions,
        texts={name: given.text(name) if given and name in given else text for name, text in texts.items()},
        change=change,
        made=(given.text("made") if given else "") or uuid4().hex,
        warning=warning,
        problem=fault,
        tab="fork",
    )


async def _call(visit: Visit, watched: WatchedRun, event: Event | None) -> Call | None:
    if not isinstance(event, ToolEndEvent | AwaitConfirmationEvent):
        return None
    call_id = event.tool_call_id if isinstance(event, ToolEndEvent) else event.confirmation.tool_call_id
    call = await call_of(visit, watched, call_id, event.event_id)
    return call and editable_call(call)


@pages.post("/runs/{run_id:path}/fork", role="operator")
async def fork(visit: Visit, run_id: str) -> Response:
    """Start the fork and go to it, or show the form again with its faults and values."""
    run = await visit.service.run(visit.asking, run_id)
    form = await visit.form()
    try:
        body, result = _read_form(form)
        audit.bind(at=body.at, change=form.text("change"))
        if made := form.text("made"):
            new = await visit.service.fork_once(visit.asking, run, body, result=result, made=made)
        else:
            new = await visit.service.fork(visit.asking, run, body, result=result)
    except (InvalidInput, ValidationError) as error:
        return await _form(visit, run, form.text("at").strip(), form, _explain(error, run.id))
    return visit.go(f"/runs/{new.id}")


def _explain(error: InvalidInput | ValidationError, run_id: str) -> Problem:
    if isinstance(error, ValidationError):
        detail = str(error.errors(include_url=False, include_input=False)[0]["msg"])
    else:
        detail = problem_of(error).detail
    detail = detail.removeprefix(f"{run_id}: ").removeprefix("Value error, ")
    return Problem(422, "invalid_input", detail, then="Correct it and start the fork again.")


def _read_form(form: Form) -> tuple[ForkBody, Any]:
    at, change = form.text("at").strip() or None, form.text("change")
    if change == "message":
        return ForkBody(at=at, message=form.text("message")), MISSING
    if change == "answer":
        return ForkBody(at=at, answer=form.text("answer")), MISSING
    if change in ("approve", "deny"):
        return ForkBody(at=at, approve=change == "approve"), MISSING
    if change == "arguments":
        arguments = _json(form.text("arguments"), "the arguments are")
        if not isinstance(arguments, dict):
            raise InvalidInput('the arguments are an object, as {"name": 1}')
        return ForkBody(at=at, arguments=cast("dict[str, Any]", arguments)), MISSING
    if change == "result":
        return ForkBody(at=at), _json(form.text("result"), "the result is")
    return ForkBody(at=at), MISSING


def _json(text: str, what: str) -> Any:
    try:
        return loads(text)
    except DuplicateNameError as error:
        raise InvalidInput(f"{what} ambiguous: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} no JSON: {error}; a text stands in quotes") from error
