"""Results of calls that ended outside the tool, such as lost or cancelled ones.

Any client of the namespace may complete a pending activity with any value. A value that is not a tool
result becomes an error result of the call, a value that is not a plan becomes a planner fault, and an invalid figure
counts as zero. Only an empty completion has no answer: Temporal's core fails on it before any code of Sojourn runs.
"""

from typing import Any, TypeVar

from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.ids import CALL_ID
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Usage
from sojourn.contracts.record import Record
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import CallEdit, InputRequired, ToolCallMeta, ToolRequest
from sojourn.contracts.tool_error import RetryHint, RetryReason, ToolError
from sojourn.contracts.tool_result import MaskedEdit, ToolResult
from sojourn.core.payload.parse import arguments_digest
from sojourn.core.payload.unknown_outcome import NOT_REPEATED, mark_unknown
from sojourn.core.run.effects import is_settled
from sojourn.core.run.ids import artifact_ref
from sojourn.core.run.retry import OUTCOME_UNKNOWN
from sojourn.values.json_fault import MAX_FIGURE
from sojourn.values.json_value import is_object
from sojourn.values.undecodable import Undecodable
from sojourn.values.wire import MAX_FORMS_BYTES

__all__ = [
    "MAX_FAULTS",
    "attach_call",
    "attempt_failure_result",
    "awaits_approval",
    "by_reference",
    "cancellation_result",
    "correct_result",
    "correct_usage",
    "failure_result",
    "interruption_result",
    "lost_result",
    "no_input",
    "not_read",
    "not_repeated",
    "not_started_result",
    "overtime_result",
    "plan_fault",
    "says_unknown",
    "state_effect",
    "still_unknown",
    "timeout_result",
    "too_much_input",
    "unanswered_message",
    "unusable_plan",
    "unusable_result",
    "with_edit",
]

MAX_FAULTS = 2
"""Faulty plans in a row that the planner corrects.

The next one ends the run. If it was to answer a message while approvals are open, the turn's next plan reads the message.
"""


def attach_call(call: ToolRequest, result: ToolResult, run_id: str) -> ToolResult:
    """Return the result of an activity with its call's name and id.

    The history holds these with the call.
    """
    changes: dict[str, Any] = {"name": call.name, "tool_call_id": call.tool_call_id}
    if result.artifacts:
        changes["artifacts"] = [
            artifact.model_copy(
                update={
                    "source_tool": call.name,
                    "ref": artifact_ref(run_id, call.tool_call_id, artifact.kind),
                }
            )
            for artifact in result.artifacts
        ]
    return result.model_copy(update=changes)


def by_reference(result: ToolResult) -> ToolResult:
    """Return the result without the data of its artifacts (SR-102).

    Runs, plans and parents carry it in this form.
    """
    if not result.artifacts:
        return result
    bare = [artifact.model_copy(update={"data": None, "claim": None}) for artifact in result.artifacts]
    return result.model_copy(update={"artifacts": bare})


def with_edit(result: ToolResult, edit: CallEdit | None, key_run_id: str) -> ToolResult:
    """Return the result of a call with the arguments that an approver gave it.

    `key_run_id` is the run whose id the keys of calls are made from.
    """
    if edit is None:
        return result
    masked = None
    if edit.masked is not None:
        call = ToolRequest(name="", payload=edit.arguments, tool_call_id=result.tool_call_id)
        key = ToolCallMeta.key_of(key_run_id, call)
        masked = MaskedEdit(digest=arguments_digest(edit.arguments), idempotency_key=key)
    return result.model_copy(update={"edited_arguments": edit.for_planner, "masked_edit": masked})


def timeout_result(call: ToolRequest, kind: str, queue: str, waited: str) -> ToolResult:
    """Return the result of a call that the server timed out."""
    return not_started_result(call, queue, waited) if kind == "schedule-to-start" else lost_result(call, kind)


def not_started_result(call: ToolRequest, queue: str, waited: str) -> ToolResult:
    """Return the result of a call that no worker took from its queue in time."""
    why = (
        f"no worker took this call from task queue {queue} within {waited}: none runs there, or all are busy"
    )
    return _unavailable(call, f"{why}; the call did not run")


def lost_result(call: ToolRequest, kind: str) -> ToolResult:
    """Return the result of a call whose worker was lost."""
    why = (
        f"the worker that ran this call was lost, or did not end it in time ({kind}); its outcome is unknown"
    )
    result = _unavailable(call, why)
    assert result.error
    assert result.retry_hint
    fact = {"outcome_unknown": True}
    return result.model_copy(
        update={
            "error": result.error.model_copy(update=fact),
            "retry_hint": result.retry_hint.model_copy(update=fact),
        }
    )


def not_repeated(call: ToolRequest, maker: str = "", *, beside: bool = False) -> ToolResult:
    """Return the result of a call that is not made.

    An earlier call may have taken effect already. `maker` says who made it, if the run itself did not.
    """
    who = f"{maker[0].lower()}{maker[1:]}" if maker else "an earlier call with these arguments"
    had = "may have carried out this call already" if maker else "may have taken effect"
    why = (
        "and another call of this plan, with the same arguments, repeats that one. Once the other call has succeeded, or was "
        "refused for certain, make this call again if it is meant to have its effect once more"
        if beside
        else "and the tool is declared idempotent=False, so that nothing repeats it. "
        "Find out whether it happened, with a tool that only reads or by asking a person, and go on by that. A run "
        "that may ask (interrupts_allowed=True) lets a person approve the call; other arguments are another effect"
    )
    message = f"{call.name} was not called: {who} {had}, {why}"
    return failure_result(
        call, ToolError.new(message, code=NOT_REPEATED).model_copy(update={"outcome_unknown": True})
    )


def failure_result(call: ToolRequest, error: ToolError) -> ToolResult:
    """Return the result of a call whose activity failed outside the boundary."""
    return ToolResult(name=call.name, tool_call_id=call.tool_call_id, error=error)


def attempt_failure_result(
    call: ToolRequest, error: ToolError, details: Any, *, may_act: bool | None
) -> ToolResult:
    """Return the result of a call whose last attempt failed.

    It is not attempted again, since it was cut off or tried too often.
    """
    result = failure_result(call, error)
    is_definite = is_object(details) and details.get(OUTCOME_UNKNOWN) is False
    return mark_unknown(result) if may_act and not is_definite else result


def cancellation_result(call: ToolRequest, reason: str | None) -> ToolResult:
    """Return the result of a call in flight or queued when the run was cancelled."""
    why = f": {reason}" if reason else ""
    return failure_result(call, ToolError.new(f"canceled with the run{why}", code="canceled"))


def interruption_result(call: ToolRequest) -> ToolResult:
    """Return the result of a call whose turn a message interrupted."""
    return failure_result(call, ToolError.new("canceled, because the turn was interrupted", code="canceled"))


def awaits_approval(call: ToolRequest, *, is_open: bool) -> ToolResult:
    """Return a placeholder for the result of a call that asks for approval."""
    if not is_open:
        return failure_result(
            call, ToolError.new("decided, and under way: its result is not known yet", code="under_way")
        )
    message = "not carried out: it waits for the approval of a person, and may still be denied"
    return failure_result(call, ToolError.new(message, code="awaiting_approval"))


def overtime_result(call: ToolRequest) -> ToolResult:
    """Return the result of a call that the time budget cut off."""
    return failure_result(
        call, ToolError.new("not finished: the run's time budget is used up", code="time_budget")
    )


def state_effect(result: ToolResult, dispatch: Dispatch, *, begun: bool) -> ToolResult:
    """Return the result of a call that was cut off.

    It says whether the call may have taken effect.

    Args:
        result: The result that says why the call was cut off.
        dispatch: How the call was to be carried out, and whether it may have an effect.
        begun: Whether a worker, a child run or a program outside may have begun to carry it out. A child run that
            says that nothing it called had an effect has not. A call that was to repeat one that was not carried out
            has not begun by that.
    """
    if dispatch.may_act is None or result.error is None:
        return result
    repeats = dispatch.effect is not None and not dispatch.effect.unexecuted
    if dispatch.may_act and (begun or repeats):
        return mark_unknown(result)
    error = result.error
    message = f"{error.message}; the call had no effect"
    told = error.model_copy(update={"message": message, "without_effect": True})
    return result.model_copy(update={"error": told})


def says_unknown(result: ToolResult, dispatch: Dispatch) -> bool:
    """Return whether a worker's result says that an attempt may have taken effect.

    The call is not over with this result.
    """
    error, needed = result.error, result.input_required
    is_open = (error is not None and error.outcome_unknown) or (needed is not None and needed.outcome_unknown)
    return is_open and dispatch.may_act is not False


def still_unknown(result: ToolResult) -> ToolResult:
    """Return the result of a call whose earlier attempt may have taken effect.

    No later attempt has settled the outcome. The call was denied, given up or not begun again: that
    settles nothing about the earlier attempt.
    """
    return result if is_settled(result) else mark_unknown(result)


def not_read(call: ToolRequest) -> ToolResult:
    """Return the result of an external call that has no room in the run's history."""
    message = "the run has gone on for as long as one can, and reads no result of it; whether it was carried out is unknown"
    return failure_result(call, ToolError.new(message, code="history"))


def no_input(call: ToolRequest, needed: InputRequired) -> ToolResult:
    """Return the result of a call that needs input in a run that may ask no person."""
    if any(form.sign_in for form in needed.forms):
        message = f"{needed.server} needs a person to sign in, and this run may ask nobody"
        return failure_result(call, ToolError.new(message, code="sign_in_required"))
    message = f"{needed.server} asks for a person's input to go on, and this run may ask nobody"
    return failure_result(call, ToolError.new(message, code="input_required"))


def too_much_input(call: ToolRequest, server: str) -> ToolResult:
    """Return the result of a call that asked for a person's input too often."""
    message = f"{server} keeps asking for a person's input, and is asked no more"
    return failure_result(call, ToolError.new(message, code="input_required"))


def too_long_input(call: ToolRequest, server: str) -> ToolResult:
    """Return the result of a call whose answers by a person are too large together."""
    message = f"the answers to what {server} asks are together more than {MAX_FORMS_BYTES:,} bytes; it was not called with them"
    return failure_result(call, ToolError.new(message, code="input_required"))


def unanswered_message(why: str, limit: str) -> Message:
    """Return the answer of a run whose final turn failed too."""
    separator = "\n\n" if "\n" in limit else " "
    return Message.assistant(f"{limit}{separator}The run ended without an answer: {why}")


def _unavailable(call: ToolRequest, message: str) -> ToolResult:
    return ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        error=ToolError.new(message, code=RetryReason.TOOL_UNAVAILABLE),
        retry_hint=RetryHint(reason=RetryReason.TOOL_UNAVAILABLE, tool=call.name, message=message),
    )


R = TypeVar("R", bound=Record)

_USAGE = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "cost")
_TELEMETRY = ("duration_ms", "attempts", "input_tokens", "output_tokens", "cost")


def unusable_result(call: ToolRequest, reason: str) -> ToolResult:
    """Return the result of a call whose activity was completed with another value.

    The value is no tool result.
    """
    message = f"{call.name} was completed by hand with a value that is not a call's result: {reason}"
    return ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        error=ToolError.new(message, code=RetryReason.MALFORMED_RESPONSE),
        retry_hint=RetryHint(
            reason=RetryReason.MALFORMED_RESPONSE,
            tool=call.name,
            message=f"Whether {call.name} was carried out is unknown: its activity was completed by hand, and the result cannot be used.",
        ),
    )


def unusable_plan(reason: str) -> PlanOutcome:
    """Return the fault in place of a plan.

    Its attempt is 0, so that no worker's cache entry matches it.
    """
    return PlanOutcome(
        fault=f"the plan was completed by hand with a value that is not a plan: {reason}", attempt=0
    )


def plan_fault(plan: PlanOutcome | Undecodable, *, final_turn: bool) -> str | None:
    """Return why a plan cannot be carried out, or None.

    A plan by `PlanActivity` always can be.
    """
    if isinstance(plan, Undecodable):
        return plan.reason
    if plan.calls:
        ids = {call.tool_call_id for call in plan.calls}
        are_unique = len(ids) == len(plan.calls) and all(map(CALL_ID.match, ids))
        return None if are_unique else "a call's id is missing, malformed or comes twice"
    if plan.final or plan.fault or plan.failure or plan.await_ or plan.wait_:
        return None
    return None if plan.overtime and not final_turn else "it holds nothing to do"


def correct_result(result: ToolResult) -> ToolResult:
    """Return the result with its invalid figures corrected.

    Figures below zero or not finite become zero, and such a cost becomes None.
    """
    telemetry = result.telemetry and _correct(result.telemetry, _TELEMETRY)
    if telemetry is not result.telemetry:
        result = result.model_copy(update={"telemetry": telemetry})
    return _correct(result, ("children_count",))


def correct_usage(usage: Usage) -> Usage:
    return _correct(usage, _USAGE)


def _correct(record: R, names: tuple[str, ...]) -> R:
    wrong: dict[str, Any] = {}
    for name in names:
        figure = getattr(record, name)
        if figure is not None and not 0 <= figure <= MAX_FIGURE:
            wrong[name] = None if name == "cost" else 0
    return record.model_copy(update=wrong) if wrong else record
