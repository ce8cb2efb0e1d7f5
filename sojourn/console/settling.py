"""Settling: what a person's form says to a question, an approval or calls that are carried out elsewhere, told to the run."""

import json
from typing import Any

from sojourn.client.run import Run
from sojourn.console.form import Form
from sojourn.console.page import Visit
from sojourn.console.views.answer_form import PREFIX, answer_of
from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation
from sojourn.errors import AwaitClosed, InvalidInput
from sojourn.http.locks.audit import about
from sojourn.http.locks.principals import require
from sojourn.http.problems import Problem

__all__ = ["settle"]


async def settle(visit: Visit, run_id: str, form: Form) -> None:
    """Settle a wait of a run that the visitor may see, as the fields `do` and `await_id` of a form say.

    Raises:
        Problem: The role is missing; or the call is another one than the form shows.
        InvalidInput: The form says nothing that can be told.
        SojournError: As the methods of `Run`.
    """
    run = await visit.service.run(visit.asking, run_id)
    await_id, by, reason = form.text("await_id"), visit.asking.subject, form.text("reason").strip()
    do = form.text("do")
    about(visit.request, await_id=await_id)
    if do in ("approve", "approve_tool", "deny"):
        require(visit.asking, "approver")
        await _decide(visit, run, form, do, await_id, reason)
        return
    require(visit.asking, "user")
    if do == "decline":
        await run.decline(await_id, reason, by=by)
    elif do == "answer":
        await run.answer(await_id, await _answer(run, await_id, form), by=by)
    elif do == "provide":
        await run.provide_tool_results(await_id, _results(form), by=by)
    else:
        raise InvalidInput("the form does not say what to do", run_id=run.id)


async def _decide(visit: Visit, run: Run, form: Form, do: str, await_id: str, reason: str) -> None:
    by, digest, is_approved = visit.asking.subject, form.text("digest"), do != "deny"
    scope = "tool" if do == "approve_tool" else "call"
    about(visit.request, approved=is_approved, approval_scope=scope, digest=digest)
    if not digest:
        raise InvalidInput("the form does not say which call it shows", run_id=run.id)
    try:
        if is_approved:
            for_run = scope == "tool"
            await run.approve(await_id, payload_digest=digest, by=by, reason=reason, for_run=for_run)
        else:
            await run.deny(await_id, reason, payload_digest=digest, by=by)
    except InvalidInput as error:
        waits = [wait for wait in (await run.status()).awaits if wait.id == await_id]
        if any(isinstance(wait, AwaitConfirmation) and wait.payload_digest != digest for wait in waits):
            raise Problem(
                409,
                "stale_digest",
                "the call is another one than you have seen: its arguments were changed meanwhile",
                then="Look at it as it is now, and decide again.",
                run_id=run.id,
            ) from error
        raise


async def _answer(run: Run, await_id: str, form: Form) -> str | dict[str, Any]:
    """The answer: a text, or by field where the question has a form."""
    given = {name.removeprefix(PREFIX): form.text(name) for name in form.names() if name.startswith(PREFIX)}
    if not given:
        text = form.text("answer")
        if not text.strip():
            raise InvalidInput("there is no answer", run_id=run.id)
        return text
    waits = [wait for wait in (await run.status()).awaits if wait.id == await_id]
    for wait in waits:
        if isinstance(wait, AwaitClarification):
            return answer_of(wait, given)
    raise AwaitClosed(
        f"{run.id} does not ask this any more: somebody has answered it, or it is over", run_id=run.id
    )


def _results(form: Form) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in form.names():
        if name.startswith("result.") and (text := form.text(name).strip()):
            try:
                value = json.loads(text)
            except ValueError:
                value = text
            found.append({"tool_call_id": name.removeprefix("result."), "result": value})
    if not found:
        raise InvalidInput("there is no result")
    return found
