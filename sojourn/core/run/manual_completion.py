"""Check activity results that an operator completed by hand.

Any client of the namespace may complete a pending activity with any value. A value that is not a tool
result becomes an error result of the call, a value that is not a plan becomes a planner fault, and an invalid figure
counts as zero. Only an empty completion has no answer: Temporal's core fails on it before any code of Sojourn runs.
"""

from typing import Any, TypeVar

from sojourn.contracts.ids import CALL_ID
from sojourn.contracts.plan import Usage
from sojourn.contracts.record import Record
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryHint, RetryReason, ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.values.json_fault import MAX_FIGURE
from sojourn.values.undecodable import Undecodable

__all__ = ["correct_result", "correct_usage", "plan_fault", "unusable_plan", "unusable_result"]

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
