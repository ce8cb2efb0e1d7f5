"""Track which failed calls may have taken effect, and until when.

An idempotency key belongs to an effect, not to a call. A call whose outcome is unknown stays unsettled
until a call of the same tool with equal arguments ends with an outcome that is known. Until then such a
call has the key of the first one, so that a service can refuse the repetition. A call that its tool has
refused as not carried out leaves nothing in doubt. An equal call has its key too, in case the service was
wrong about it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sojourn.contracts.dispatch import CarriedEffect, Dispatch, Effect
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_error import RetryReason
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.payload.unknown_outcome import Doubt, doubt_about, is_unknown

__all__ = [
    "MAX_UNSETTLED",
    "carried_after",
    "doubts_after",
    "has_acted",
    "has_effect",
    "has_step_acted",
    "is_remembered",
    "is_settled",
    "is_unexecuted",
    "unexecuted_after",
    "unsettled_after",
    "without_steps",
]

MAX_UNSETTLED = 100
"""Most unsettled calls that a run remembers; the oldest are forgotten first."""

_OPEN_CODES = ("canceled", "time_budget", "history")
"""Codes of calls that were cut off while they ran, or before they began."""
_NOT_RUN_CODES = ("denied", "not_executed", "approval_void", "input_required", "sign_in_required")
"""Codes of calls that never ran: they say nothing about an earlier one."""
_NOT_RUN_REASONS = (
    RetryReason.RATE_LIMITED,
    RetryReason.TOOL_UNAVAILABLE,
    RetryReason.INVALID_ARGUMENTS,
    RetryReason.MISSING_FIELDS,
)


def is_settled(result: ToolResult) -> bool | None:
    """Return whether a result settles its effect.

    None if the result says nothing about it, since the call did not run. A success and a definite failure
    settle it. A malformed result does not: the tool ran, and a repetition must not have its effect a second
    time.
    """
    error = result.error
    if error is None:
        return True
    if error.without_effect:
        return None
    if is_unknown(result) or error.code in _OPEN_CODES:
        return False
    reason = result.retry_hint.reason if result.retry_hint else None
    if reason in (RetryReason.TIMEOUT, RetryReason.MALFORMED_RESPONSE):
        return False
    return None if reason in _NOT_RUN_REASONS or error.code in _NOT_RUN_CODES else True


def has_acted(result: ToolResult) -> bool:
    """Return whether a call with this result took effect, or may have."""
    return result.error is None or is_settled(result) is False


def is_unexecuted(result: ToolResult) -> bool:
    """Return whether the tool says that the call was not carried out.

    The tool may have sent the call's key to its service before.
    """
    reason = result.retry_hint.reason if result.retry_hint else None
    is_refused = reason in (RetryReason.RATE_LIMITED, RetryReason.TOOL_UNAVAILABLE)
    code = result.error.code if result.error else ""
    return is_settled(result) is None and (is_refused or code in ("input_required", "sign_in_required"))


def unsettled_after(
    unsettled: Sequence[str], plan: PlanOutcome, executed: Iterable[ToolResult]
) -> tuple[str, ...]:
    """Return the calls whose outcome is unknown after a step, oldest first."""
    after = dict.fromkeys(unsettled)
    for first, dispatch, result in _list_ended(plan, executed):
        effect = _effect_of(dispatch, result)
        if not is_remembered(dispatch) or (effect and effect.carried is not None):
            continue
        settled = _settles(dispatch, result)
        if settled:
            after.pop(first, None)
        elif settled is False:
            after.setdefault(first)
    return tuple(after)[-MAX_UNSETTLED:] if after else ()


def doubts_after(
    doubts: Mapping[str, Doubt], plan: PlanOutcome, executed: Iterable[ToolResult]
) -> Mapping[str, Doubt]:
    """Return the open doubts about the calls of a turn after a step, by call.

    Calls of child runs and of programs outside are included. Calls that only read are not.
    """
    after = dict(doubts)
    for first, dispatch, result in _list_ended(plan, executed):
        settled = is_settled(result)
        if settled:
            after.pop(first, None)
        elif settled is False and dispatch.may_act:
            after[first] = doubt_about(result) or "unknown"
    return dict(list(after.items())[-MAX_UNSETTLED:])


def unexecuted_after(
    unexecuted: Sequence[str], plan: PlanOutcome, executed: Iterable[ToolResult]
) -> tuple[str, ...]:
    """Return the calls that were not carried out, oldest first.

    A call drops out once another call has repeated it.
    """
    after = dict.fromkeys(unexecuted)
    for first, dispatch, result in _list_ended(plan, executed):
        effect = _effect_of(dispatch, result)
        if not has_effect(dispatch) or (effect and (effect.carried is not None or not effect.unexecuted)):
            continue
        if is_settled(result) is not None:
            after.pop(first, None)
        elif is_unexecuted(result):
            after.setdefault(first)
    return tuple(after)[-MAX_UNSETTLED:] if after else ()


def carried_after(
    carried: tuple[CarriedEffect, ...], plan: PlanOutcome, executed: Iterable[ToolResult]
) -> tuple[CarriedEffect, ...]:
    """Return the effects of a fork's origin that are not settled after a step."""
    if not carried:
        return ()
    after = dict(enumerate(carried))
    for call, dispatch, result in zip(plan.calls, plan.dispatches, executed, strict=False):
        repeated = _effect_of(dispatch, result)
        index = repeated.carried if repeated else None
        if index is None or index not in after:
            continue
        settled, effect = is_settled(result), after[index]
        if settled and call.tool_call_id == effect.call.tool_call_id:
            del after[index]
        elif settled:
            after[index] = effect.model_copy(update={"taken": True})
        elif settled is False and effect.unexecuted:
            after[index] = effect.model_copy(update={"unexecuted": False})
    return tuple(after.values())


def has_step_acted(plan: PlanOutcome, executed: Iterable[ToolResult]) -> bool:
    """Return whether one of the calls of a step took effect, or may have."""
    return any(
        dispatch.may_act is True and has_acted(result) for _, dispatch, result in _list_ended(plan, executed)
    )


def without_steps(carried: tuple[CarriedEffect, ...]) -> tuple[CarriedEffect, ...]:
    """Return the carried effects of a fork's origin, no longer bound to a step.

    This applies once a person has given the fork new input. From then on a step with other arguments is
    another effect.
    """
    return tuple(each.model_copy(update={"step": False}) if each.step else each for each in carried)


def has_effect(dispatch: Dispatch) -> bool:
    """Check whether a worker carries out the call.

    Only then may it have an effect under its key.
    """
    return dispatch.kind in ("activity", "local")


def is_remembered(dispatch: Dispatch) -> bool:
    """Return whether the run remembers the call while its outcome is unknown.

    It remembers the call of an agent too, although the calls of its child run have keys of their own.
    """
    return has_effect(dispatch) or dispatch.kind == "child"


def _list_ended(
    plan: PlanOutcome, executed: Iterable[ToolResult]
) -> Iterator[tuple[str, Dispatch, ToolResult]]:
    for call, dispatch, result in zip(plan.calls, plan.dispatches, executed, strict=False):
        effect = _effect_of(dispatch, result)
        yield effect.tool_call_id if effect else call.tool_call_id, dispatch, result


def _effect_of(dispatch: Dispatch, result: ToolResult) -> Effect | None:
    """Return the effect that a call repeated. An edited call has its own."""
    return dispatch.effect if result.edited_arguments is None else None


def _settles(dispatch: Dispatch, result: ToolResult) -> bool | None:
    # A child run without an answer that fits says itself whether it may have acted.
    settled, error = is_settled(result), result.error
    is_open = error is not None and error.outcome_unknown
    return None if settled is False and dispatch.kind == "child" and not is_open else settled
