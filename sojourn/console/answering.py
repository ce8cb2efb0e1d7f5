"""Find a wait, read the form that answers it, and submit it to the run.

An answer that the run does not accept is the form again, with the submitted values and the reasons.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, cast

from pydantic import ValidationError
from temporalio.service import RPCError

from sojourn.answers import GivenAnswer, Results, WaitRef, disclose_changes, parse_payload
from sojourn.client.listing import message_of
from sojourn.console.form import Form
from sojourn.console.page import Visit
from sojourn.console.views.wait_history import WaitHistory, before_wait
from sojourn.console.views.waits import CallForm, WaitForm, given_calls, wait_form, without_calls
from sojourn.contracts.event import AwaitAnsweredEvent, Event
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.errors import (
    ApprovalVoid,
    AwaitClosed,
    EditRefused,
    InvalidInput,
    MissingRole,
    NoWorker,
    RunNotFound,
    ServerUnavailable,
)
from sojourn.events.one_run import present_events
from sojourn.forms import (
    FilledForm,
    FormField,
    check_answer,
    edit_rows,
    is_filled_in,
    place_fault,
    read_edit,
    read_fields,
    read_value,
    typed_fields,
)
from sojourn.http.answering import submit_answer
from sojourn.http.bodies import AnswerBody, ApprovalBody, ToolResultsBody
from sojourn.http.problems import Problem, problem_of
from sojourn.http.service import Service
from sojourn.reader import find_waits
from sojourn.timeline import Timeline
from sojourn.values.json_value import to_tokens

__all__ = ["DONE", "VERDICTS", "find_wait", "no_wait", "read_answer", "refresh", "results_in", "submit_form"]

DONE = {
    "approve": "Approved",
    "approve_edited": "Approved with changes",
    "approve_tool": "Approved, and not asked again for now",
    "approve_sources": "Approved, and what the run had read no longer counts",
    "deny": "Denied",
    "answer": "Answered",
    "decline": "Declined",
    "provide": "Sent",
}
"""Confirmation that a page displays after each button of the forms."""

VERDICTS = {
    "approve": "Approved",
    "approve_edited": "Approved",
    "approve_tool": "Approved",
    "approve_sources": "Approved",
    "deny": "Denied",
    "answer": "Answered",
    "decline": "Declined",
    "provide": "Answered",
}
"""Verdict of the wait after each button, as pages show it."""

MAX_EVENTS = 100_000
"""Most events of a run that are looked through for a wait that is no longer open."""


def no_wait(name: str) -> Problem:
    return Problem(
        404,
        "wait_not_found",
        f"no run waits, or has waited, for {name!r}",
        then="Open the inbox to see what is open.",
    )


async def find_wait(visit: Visit, run_id: str, await_id: str) -> WaitForm:
    """Return the form of a wait, open or not.

    Raises as `Service.run_with_wait`, and `no_wait` if the run has none of this id.
    """
    await visit.service.run_with_wait(visit.asking, run_id, await_id)
    waiting = await visit.service.reader.waits.of_run(run_id)
    opened = find_waits(waiting) if waiting else ()
    found = next((each for each in opened if each.view.await_id == await_id), None)
    history = await _history_of(visit, run_id, await_id, is_open=found is not None)
    wait = found.view if found else history.wait
    if wait is None:
        raise no_wait(f"{run_id}/{await_id}")
    agent_id = waiting.status.agent_id if waiting else ""
    form = wait_form(
        wait,
        lambda tool: _spec(visit.service, agent_id, tool),
        history,
        asked=waiting.asked if waiting and found else "",
        is_open=found is not None,
        found=found,
        is_only=len(opened) == 1,
    )
    return without_calls(form, given_calls(waiting.status)) if waiting else form


def _spec(service: Service, agent_id: str, tool_id: str) -> ToolSpec | None:
    tool = service.app.tools_of(agent_id).get(tool_id)
    return tool.spec if tool else service.app.tool_spec(tool_id)


async def _history_of(visit: Visit, run_id: str, await_id: str, *, is_open: bool) -> WaitHistory:
    """Return the history of a wait, as far back as the run or the archive reaches."""
    known, key = visit.console.wait_histories, (run_id, await_id, is_open)
    found = await known.get(key, lambda: _read_history(visit.service, run_id, await_id))
    if found.wait is None or not (is_open or found.decision):
        known.discard(key)  # it has not ended yet
    return found


async def _read_history(service: Service, run_id: str, await_id: str) -> WaitHistory:
    client = service.client
    found = await _history_in(present_events(client.temporal, run_id), run_id, await_id)
    if found.wait is None:
        found = await _history_in(client.get_run(run_id).events(follow=False), run_id, await_id)
    root = run_id.partition("/")[0]
    if root == run_id:
        return found
    try:
        asked = await message_of(await client.temporal.get_workflow_handle(root).describe())
    except RPCError:
        return found  # the root is deleted or unreachable: the page works without its request
    return replace(found, for_whom=asked)


async def _history_in(events: AsyncGenerator[Event], run_id: str, await_id: str) -> WaitHistory:
    timeline, found, left = Timeline(run_id), WaitHistory(), MAX_EVENTS
    async with aclosing(events) as read:
        async for event in read:
            timeline.feed(event)
            opened = timeline.open_waits.get(await_id)
            if opened is not None and opened.event_id == event.event_id:
                found = before_wait(timeline, opened)
            if isinstance(event, AwaitAnsweredEvent) and event.await_id == await_id:
                found = replace(found, decision=timeline.decisions[-1])
            if (left := left - 1) < 0:
                break
    return found


# Read a form.

_ELSEWHERE = "Approve it with the command that shows all arguments, or deny it."


def read_answer(view: WaitForm, form: Form) -> tuple[GivenAnswer | None, WaitForm]:
    """Return the answer that a submitted form has, and the form with its values.

    An invalid form has no answer, and the faults are at its fields.
    """
    do = form.text("do")
    view = replace(view, reason=form.text("reason"), http_status=422)
    if do.startswith(("add:", "drop:")):
        return None, _edited(view, form, do)
    try:
        match do, view.wait.kind:
            case _, "approval" if do.startswith("approve") and not view.is_whole:
                return None, replace(view, fault="The arguments were not shown in full.", then=_ELSEWHERE)
            case (("approve" | "approve_tool" | "approve_sources" | "deny"), "approval"):
                return _decision(view, do, form), view
            case "approve_edited", "approval":
                return _edit(view, form)
            case "decline", _ if view.wait.takes_words:
                return _in_words(view, declined=True, reason=view.reason), view
            case "answer", _ if view.wait.takes_words:
                return _answer(view, form)
            case "provide", "tool_results":
                return _results(view, form)
            case _:
                fault = "This form belongs to another kind of wait."
                return None, replace(view, fault=fault, then="Reload the page and answer again.")
    except ValidationError as error:
        message = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        return None, replace(view, fault=message, then="Correct it and send again.")


def _edited(view: WaitForm, form: Form, do: str) -> WaitForm:
    """Return the form with a row more or less, and everything that was typed."""
    calls = tuple(
        replace(
            call,
            fields=edit_rows(call.fields, form, do) or call.fields,
            error=replace(call.error, texts=(form.text(call.error.key),)),
        )
        for call in view.calls
    )
    words = view.words and read_fields([view.words], form).fields[0]
    words = words and replace(words, fault="")
    fields = edit_rows(view.fields, form, do) or view.fields
    return replace(view, fields=fields, words=words, calls=calls, is_edited=True, http_status=200)


def _decision(view: WaitForm, do: str, form: Form, arguments: dict[str, Any] | None = None) -> GivenAnswer:
    body = ApprovalBody(
        await_id=view.wait.await_id,
        approved=do != "deny",
        digest=form.text("digest") or None,
        reason=view.reason,
        scope="tool" if do == "approve_tool" else "sources" if do == "approve_sources" else "call",
        arguments=arguments,
    )
    return body.submission


def _edit(view: WaitForm, form: Form) -> tuple[GivenAnswer | None, WaitForm]:
    """Return the approval with the arguments of the form, unless it changes nothing."""
    if form.text("shape") not in ("", view.shape):
        fault = "The tool's arguments were changed after you opened the form, and nothing was decided."
        return None, replace(view, fault=fault, then="Edit them in the new form.", is_edited=True)
    before = view.wait.payload or {}
    fields, edited = read_edit(view.fields, view.schema, before, form)
    view = replace(view, fields=fields, is_edited=True)
    if any(each.has_fault for each in fields):
        return None, view
    if not isinstance(edited, dict):
        return None, replace(
            view, fault="The arguments are a JSON object.", then="Correct them and send again."
        )
    arguments = cast("dict[str, Any]", edited)
    if not disclose_changes(before, arguments):
        return None, replace(view, fault="Nothing was changed.", then="Change a field, or use Approve.")
    return _decision(view, "approve_edited", form, arguments), view


def _in_words(
    view: WaitForm, value: str | dict[str, Any] | None = None, *, declined: bool = False, reason: str = ""
) -> GivenAnswer:
    body = AnswerBody(await_id=view.wait.await_id, answer=value, declined=declined, reason=reason)
    return parse_payload(view.wait, body.answer, declined=body.declined, reason=body.reason)


def _answer(view: WaitForm, form: Form) -> tuple[GivenAnswer | None, WaitForm]:
    sent = check_answer(view.wait.form, read_fields(view.fields, form))
    is_blank = view.words is not None and not form.text(view.words.key).strip()
    words = read_fields([view.words], Form({}) if is_blank else form) if view.words else FilledForm((), {})
    view = replace(view, words=words.fields[0] if words.fields else None, fields=sent.fields)
    said: Any = words.values.get("answer")
    if said is not None and not words.has_faults:
        if words.fields[0].kind == "json" and not isinstance(said, dict):
            faulty = replace(words.fields[0], fault="Enter a JSON object with one value per field.")
            return None, replace(view, words=faulty)
        view = replace(view, fields=typed_fields(view.fields, form))
        return _in_words(view, cast("str | dict[str, Any]", said)), view
    if sent.has_faults or (words.has_faults and not view.fields):
        return None, view
    if not sent.values and not (view.fields and view.wait.tool_call_id):
        what = "Fill in a field, or answer in your own words." if view.fields else "Enter an answer."
        return None, replace(view, fault="The answer is empty.", then=what)
    return _in_words(view, dict(sent.values)), view


def _results(view: WaitForm, form: Form) -> tuple[GivenAnswer | None, WaitForm]:
    calls: list[CallForm] = []
    results: list[dict[str, Any]] = []
    is_only = len(view.calls) == 1 and not view.calls_left_out
    for call in view.calls:
        error = form.text(call.error.key).strip()
        if not error and not is_only and not any(_is_changed(each, form) for each in call.fields):
            calls.append(call)
            continue
        of_call: dict[str, Any] = {"tool_call_id": call.tool_call_id}
        if error:
            results.append({**of_call, "error": error})
            fields = typed_fields(call.fields, form)
            calls.append(replace(call, fields=fields, error=replace(call.error, texts=(error,))))
            continue
        fields, value = read_value(call.fields, call.schema, form, is_flat=call.is_flat)
        results.append({**of_call, "result": value})
        calls.append(replace(call, fields=fields))
    view = replace(view, calls=tuple(calls))
    if any(field.has_fault for call in calls for field in call.fields):
        return None, view
    if not results:
        return None, replace(
            view, fault="No result was entered.", then="Enter the result of at least one call."
        )
    return ToolResultsBody(await_id=view.wait.await_id, results=results).submission, view


def _is_changed(field: FormField, form: Form) -> bool:
    if field.kind in ("group", "list", "union"):
        return is_filled_in(field, form)
    sent = [text for text in form.texts(field.key) if text.strip()]
    return bool(sent) and sent != [text for text in field.texts if text.strip()]


def results_in(view: WaitForm, form: Form) -> list[str]:
    """Return the ids of the external calls whose results a form has.

    The run may not have handled them yet.
    """
    given = read_answer(view, form)[0] if view.wait.kind == "tool_results" else None
    if not isinstance(given, Results):
        return []
    return [str(each.get("tool_call_id", "")) for each in given.results]


# Submit it.


async def submit_form(visit: Visit, view: WaitForm, form: Form) -> WaitForm | None:
    """Submit a form to the run.

    Returns:
        None if the run accepted the answer, now or before. Else the wait as it is now, with the submitted values, their
        errors, and the HTTP status of the response.

    Raises:
        ApprovalVoid: The tool was changed since it was displayed. The call needs a new approval.
        MissingRole: The principal may not answer.
    """
    given, typed = read_answer(view, form)
    if given is None:
        return typed
    service, run_id = visit.service, view.wait.run_id
    try:
        try:
            await submit_answer(service, visit.asking, WaitRef(run_id, view.wait.await_id), given)
        finally:
            service.reader.waits.forget(run_id)
    except ApprovalVoid:
        raise
    except (AwaitClosed, InvalidInput, MissingRole, NoWorker, ServerUnavailable, Problem) as error:
        if (problem := problem_of(error)).status == 403:
            raise
        if isinstance(error, EditRefused):
            typed = replace(typed, fields=_place_faults(typed.fields, error.faults))
        return await refresh(visit, typed, problem)
    if view.is_only and view.is_open:
        service.note_answered(visit.asking)
    return None


async def refresh(visit: Visit, typed: WaitForm, problem: Problem) -> WaitForm:
    """Return the present wait, with the submitted values and why they were refused."""
    run_id = typed.wait.run_id
    try:
        now = await find_wait(visit, run_id, typed.wait.await_id)
    except (Problem, RunNotFound):
        now = replace(typed, found=None)
    detail, then = problem.detail.removeprefix(f"{run_id}: "), problem.then
    if problem.code == "stale_digest":
        detail, then = (
            "The call changed after you saw it. It has not run.",
            "Review the new version and decide again.",
        )
    elif now.found is None and problem.code != "already_answered":
        detail, then = "No longer open.", ""
    elif problem.code == "invalid_input":
        then = "Correct it and send again."
    return replace(
        now,
        fields=_at_fields(typed, detail),
        words=typed.words,
        calls=typed.calls,
        reason=typed.reason,
        fault=detail,
        then=then,
        http_status=problem.status,
        is_edited=typed.is_edited,
    )


def _place_faults(
    fields: tuple[FormField, ...], faults: Sequence[Mapping[str, str]]
) -> tuple[FormField, ...]:
    for each in faults:
        tokens = to_tokens(each["field"]) if each["field"].startswith("/") else ()
        is_whole = bool(fields) and not fields[0].name
        fields = place_fault(fields, ("", *tokens) if is_whole else tokens, each["message"])
    return fields


def _at_fields(view: WaitForm, detail: str) -> tuple[FormField, ...]:
    named = [each for each in view.fields if f" {each.name} " in f" {detail} "]
    return tuple(
        replace(each, fault=detail) if each in named[:1] and not each.fault else each for each in view.fields
    )
