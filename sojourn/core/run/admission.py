"""Which calls of a plan are carried out; the rest are answered as not executed."""

from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.contracts.run_policy import Caps, Limits
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.values.sizes import MAX_PAYLOAD_BYTES, MAX_PLAN_BYTES, MAX_STEP_BYTES
from sojourn.core.values.text import counted
from sojourn.core.values.wire import size_of

__all__ = ["Admission", "admit", "not_executed"]


@dataclass(frozen=True, slots=True)
class Admission:
    """How many calls of a plan are carried out, from the first, and which limit stops the rest."""

    count: int
    refused: str | None


def admit(calls: Sequence[ToolRequest], caps: Caps, limits: Limits) -> Admission:
    """Admit a plan's calls, in order, as far as the caps and limits allow."""
    bounds = [(limits.max_calls_per_step, "max_calls_per_step")]
    if caps.tool_calls is not None:
        bounds.append((caps.tool_calls, "max_tool_calls"))
    if caps.rounds is not None and caps.rounds <= 0:
        bounds.append((0, "max_tool_rounds"))
    count, refused = min(bounds, key=lambda bound: bound[0])
    within = _within_bytes(calls[:count])
    if within < min(count, len(calls)):
        return Admission(within, "plan_size")
    return Admission(len(calls), None) if len(calls) <= count else Admission(count, refused)


def _within_bytes(calls: Sequence[ToolRequest]) -> int:
    if len(calls) * MAX_PAYLOAD_BYTES <= MAX_STEP_BYTES:
        return len(calls)  # the boundary has found each payload to fit by itself
    total = 0
    for index, call in enumerate(calls):
        total += size_of(call)
        if total > MAX_STEP_BYTES:
            return index
    return len(calls)


_WHY = {
    "max_calls_per_step": "one plan may execute at most {limit}; ask for the rest in the next",
    "max_tool_calls": "the run's tool calls are used up",
    "max_tokens": "no tokens are left for another agent",
    "max_cost": "no money is left for another agent",
    "max_tool_rounds": "the maximum tool depth of this turn was exceeded",
    "history": "the run has gone on for as long as one can",
    "plan_bytes": f"one plan's calls, with the messages to other agents, are together at most {MAX_PLAN_BYTES:,} bytes; "
    "ask for fewer, or for less",
    "plan_size": f"the arguments of one plan's calls are together at most {MAX_STEP_BYTES:,} bytes; ask for fewer",
}


def not_executed(call: ToolRequest, refused: str | None, limits: Limits) -> ToolResult:
    """The result of a call that a limit stopped before it ran."""
    why = _WHY.get(refused or "", "a limit of the run was reached").format(
        limit=counted(limits.max_calls_per_step, "call")
    )
    return ToolResult(
        name=call.name,
        tool_call_id=call.tool_call_id,
        error=ToolError(message=f"not executed: {why}", code="not_executed"),
    )
