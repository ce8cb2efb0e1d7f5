"""Submit an answer form to a run, or render it again with the reasons.

The form may be on any page. If the run does not accept the answer, the result is the wait as it is now.
"""

from dataclasses import dataclass, replace
from typing import Any

from sojourn.answers import WaitRef
from sojourn.console.form import Form
from sojourn.console.page import Visit
from sojourn.console.reading_answers import Body, read_answer
from sojourn.console.views.wait_view import WaitForm, wait_view
from sojourn.contracts.awaits import Await
from sojourn.contracts.run import RunStatus
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.errors import (
    ApprovalVoid,
    AwaitClosed,
    InvalidInput,
    MissingRole,
    NoWorker,
    RunNotFound,
    ServerUnavailable,
)
from sojourn.http.answering import submit_answer
from sojourn.http.bodies import ToolResultsBody
from sojourn.http.problems import Problem, problem_of
from sojourn.http.service import Service
from sojourn.reader import FoundWait, found_waits

__all__ = ["Refused", "Seen", "given", "no_wait", "seen", "settle"]


@dataclass(frozen=True, slots=True)
class Seen:
    """A wait of a run that the visitor may see."""

    wait: Await
    status: RunStatus
    view: WaitForm
    place: FoundWait | None
    """Its entry among the open waits. None if it is not open."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer that the run did not accept."""

    seen: Seen
    """The wait as it is now, with the submitted values and their errors."""
    status: int
    """HTTP status of the response."""


def no_wait(name: str) -> Problem:
    """Return the problem that there is no wait of this name."""
    return Problem(
        404,
        "wait_not_found",
        f"no run waits, or has waited, for {name!r}",
        then="The inbox lists what is open.",
    )


async def seen(visit: Visit, run_id: str, await_id: str) -> Seen:
    """Return a wait, open or not.

    Raises as `Service.run`, and `no_wait` if the run has none of this id.
    """
    await visit.service.run_with_wait(visit.asking, run_id, await_id)
    waiting = await visit.service.reader.waits.of_run(run_id)
    opened = found_waits(waiting) if waiting else ()
    place = next((each for each in opened if each.view.await_id == await_id), None)
    around = await visit.console.wait_histories.of(run_id, await_id, is_open=place is not None)
    wait = place.view.wait if place else around.wait
    if wait is None:
        raise no_wait(f"{run_id}/{await_id}")
    status = waiting.status if waiting else RunStatus(run_id=run_id)
    view = wait_view(
        wait,
        status,
        around,
        lambda tool: _spec(visit.service, status.agent_id, tool),
        asked=waiting.asked if waiting and place else "",
        said=waiting.said if waiting and place else "",
        is_open=place is not None,
    )
    return Seen(wait, status, view, place)


def _spec(service: Service, agent_id: str, tool_id: str) -> ToolSpec | None:
    tool = service.app.tools_of(agent_id).get(tool_id)
    return tool.spec if tool else service.app.tool_spec(tool_id)


async def settle(visit: Visit, seen: Seen, form: Form) -> Refused | None:
    """Submit a form to the run, and return None if the run accepted it.

    Args:
        visit: The visit of the person who answers.
        seen: The wait that the form names, as it is now.
        form: The submitted values.

    Raises:
        ApprovalVoid: The tool was changed since it was displayed. The call needs a new approval.
        Problem: The role is missing.
    """
    if seen.place is None:
        return Refused(seen, 409)
    read = read_answer(seen.wait, seen.view, form)
    if read.body is None:
        return Refused(replace(seen, view=read.view), 422)
    run_id = seen.status.run_id
    try:
        await _send(visit, run_id, read.body)
    except ApprovalVoid:
        raise
    except (AwaitClosed, InvalidInput, MissingRole, NoWorker, ServerUnavailable, Problem) as error:
        if (problem := problem_of(error)).status == 403:
            raise
        return Refused(await _refreshed(visit, seen, read.view, problem), problem.status)
    if len(seen.status.awaits) == 1:
        visit.service.note_answered(visit.asking)
    return None


def given(seen: Seen, form: Form) -> list[str]:
    """Return the ids of the external calls whose results a form has.

    The run may not have handled them yet.
    """
    body = read_answer(seen.wait, seen.view, form).body if seen.view.kind == "tool_results" else None
    return (
        [str(each.get("tool_call_id", "")) for each in body.results]
        if isinstance(body, ToolResultsBody)
        else []
    )


async def _send(visit: Visit, run_id: str, body: Body) -> None:
    """Send an answer as the API does, under its roles, to its log."""
    service = visit.service
    try:
        await submit_answer(service, visit.asking, WaitRef(run_id, body.await_id), body.given)
    finally:
        service.reader.waits.forget(run_id)


async def _refreshed(visit: Visit, was: Seen, typed: WaitForm, problem: Problem) -> Seen:
    """Return the wait as it is now, with the submitted values and the reason.

    The reason says why the run did not accept the answer.
    """
    run_id = was.status.run_id
    try:
        now = await seen(visit, run_id, was.wait.id)
    except (Problem, RunNotFound):
        now = replace(was, place=None)
    detail, then = problem.detail.removeprefix(f"{run_id}: "), problem.then
    if problem.code == "stale_digest":
        detail, then = (
            "The call has changed since you saw it. It has not run.",
            "Look at it as it is now, and decide again.",
        )
    elif now.place is None:
        detail, then = "It is no longer open.", ""
    elif problem.code == "invalid_input":
        then = "Correct it, and send it again."
    kept = replace(
        now.view,
        fields=_at_fields(typed, detail),
        words=typed.words,
        calls=typed.calls,
        reason=typed.reason,
        fault=detail,
        then=then,
    )
    return replace(now, view=kept)


def _at_fields(view: WaitForm, detail: str) -> Any:
    """Return the fields of a question, with the worker's fault at the field it names."""
    named = [each for each in view.fields if f" {each.name} " in f" {detail} "]
    return tuple(
        replace(each, fault=detail) if each in named[:1] and not each.fault else each for each in view.fields
    )
