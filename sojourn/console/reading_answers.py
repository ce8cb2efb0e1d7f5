"""Read the form of a wait as the API's body of an answer.

If it is invalid, return the form again with the faults at its fields.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import ValidationError

from sojourn.console.form import Form
from sojourn.console.views.wait_view import CallForm, WaitForm
from sojourn.contracts.awaits import Await, AwaitClarification
from sojourn.forms import FilledForm, FormField, check_answer, read_fields, read_value
from sojourn.http.bodies import AnswerBody, ApprovalBody, ToolResultsBody

__all__ = ["DONE", "VERDICTS", "Body", "Read", "read_answer"]

DONE = {
    "approve": "Approved",
    "approve_tool": "Approved, and not asked again for now",
    "deny": "Denied",
    "answer": "Answered",
    "decline": "Declined",
    "provide": "Sent",
}
"""Confirmation that a page displays after each button of the forms."""

VERDICTS = {
    "approve": "Approved",
    "approve_tool": "Approved",
    "deny": "Denied",
    "answer": "Answered",
    "decline": "Declined",
    "provide": "Answered",
}
"""Verdict of the wait after each button, as pages show it."""

_ELSEWHERE = "Approve the call by the command that shows all of them, or deny it."

Body = AnswerBody | ApprovalBody | ToolResultsBody
"""Body of a request that answers a wait."""


@dataclass(frozen=True, slots=True)
class Read:
    """An answer form that was read."""

    body: Body | None
    """The answer. None if it is invalid."""
    view: WaitForm
    """The form with the submitted values and their errors."""


def read_answer(wait: Await, view: WaitForm, form: Form) -> Read:
    """Read the submitted form of a wait.

    Args:
        wait: The wait.
        view: The form, as it would be shown now.
        form: The submitted values.
    """
    do = form.text("do")
    view = replace(view, reason=form.text("reason"))
    try:
        match do, view.kind:
            case (("approve" | "approve_tool"), "approval") if not view.is_whole:
                return Read(None, replace(view, fault="The arguments were not shown whole.", then=_ELSEWHERE))
            case (("approve" | "approve_tool" | "deny"), "approval"):
                return Read(_decision(view, do, form), view)
            case "decline", "question":
                return Read(AnswerBody(await_id=view.await_id, declined=True, reason=view.reason), view)
            case "answer", "question":
                assert isinstance(wait, AwaitClarification), "it is a question"
                return _answer(wait, view, form)
            case "provide", "tool_results":
                return _results(view, form)
            case _:
                return Read(
                    None,
                    replace(
                        view, fault="This form is of another kind of wait.", then="Answer it as it is now."
                    ),
                )
    except ValidationError as error:
        message = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        return Read(None, replace(view, fault=message, then="Correct it, and send it again."))


def _decision(view: WaitForm, do: str, form: Form) -> ApprovalBody:
    return ApprovalBody(
        await_id=view.await_id,
        approved=do != "deny",
        digest=form.text("digest") or None,
        reason=view.reason,
        scope="tool" if do == "approve_tool" else "call",
    )


def _answer(wait: AwaitClarification, view: WaitForm, form: Form) -> Read:
    sent = check_answer(wait.form, read_fields(view.fields, form))
    words = read_fields([view.words], form) if view.words else FilledForm((), {})
    view = replace(view, words=words.fields[0] if words.fields else None, fields=sent.fields)
    said: Any = words.values.get("answer")
    if said is not None and not words.has_faults:
        if words.fields[0].kind == "json" and not isinstance(said, dict):
            faulty = replace(words.fields[0], fault="This is no object of values by field.")
            return Read(None, replace(view, words=faulty))
        view = replace(view, fields=tuple(replace(each, fault="") for each in view.fields))
        return Read(AnswerBody(await_id=view.await_id, answer=cast("str | dict[str, Any]", said)), view)
    if sent.has_faults or (words.has_faults and not view.fields):
        return Read(None, view)
    if not sent.values and not (view.fields and wait.tool_call_id):
        what = "Fill in a field, or answer in words." if view.fields else "Write an answer."
        return Read(None, replace(view, fault="There is no answer in the form.", then=what))
    return Read(AnswerBody(await_id=view.await_id, answer=dict(sent.values)), view)


def _results(view: WaitForm, form: Form) -> Read:
    calls: list[CallForm] = []
    results: list[dict[str, Any]] = []
    is_only = len(view.calls) == 1 and not view.calls_left_out
    for call in view.calls:
        error = form.text(call.error.key).strip()
        if not error and not is_only and not any(_is_filled_in(each, form) for each in call.fields):
            calls.append(call)
            continue
        of_call: dict[str, Any] = {"tool_call_id": call.tool_call_id}
        if error:
            results.append({**of_call, "error": error})
            kept = tuple(replace(each, fault="") for each in read_fields(call.fields, form).fields)
            calls.append(replace(call, fields=kept, error=replace(call.error, texts=(error,))))
            continue
        fields, value = read_value(call.fields, call.schema, form, is_flat=call.is_flat)
        results.append({**of_call, "result": value})
        calls.append(replace(call, fields=fields))
    view = replace(view, calls=tuple(calls))
    if any(field.fault for call in calls for field in call.fields):
        return Read(None, view)
    if not results:
        return Read(
            None, replace(view, fault="There is no result in the form.", then="Fill in that of one call.")
        )
    return Read(ToolResultsBody(await_id=view.await_id, results=results), view)


def _is_filled_in(field: FormField, form: Form) -> bool:
    """Check whether a field was changed from its initial value."""
    sent = [text for text in form.texts(field.key) if text.strip()]
    return bool(sent) and sent != [text for text in field.texts if text.strip()]
