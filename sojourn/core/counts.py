"""What a run has done so far, and what its limits leave."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sojourn.contracts.plan import Finalize, Usage
from sojourn.contracts.run_policy import Caps, RunPolicy
from sojourn.contracts.tasks import Limits
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry

__all__ = ["Counts", "add_telemetry", "add_usage", "caps_left", "exhausted", "limits_of", "settle"]


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over a run, updated once a step."""

    tool_calls: int = 0
    """Calls executed in this run."""
    rounds: int = 0
    """Plans with calls in this run."""
    turn_rounds: int = 0
    """Plans with calls in this user turn (ME-20, ME-22)."""
    failed_steps: int = 0
    """Steps in a row in which every executed call failed."""
    children_count: int = 0
    """Calls executed here and in child runs (D-15)."""
    telemetry: ToolTelemetry = field(default_factory=lambda: ToolTelemetry(attempts=0))
    """Summed over results; one that tells none was answered at its first attempt, in no time."""
    usage: Usage = field(default_factory=Usage)
    """Summed over plans."""


def settle(counts: Counts, executed: Sequence[ToolResult]) -> Counts:
    """The counts after a step whose admitted calls ended with these results, in call order."""
    telemetry = counts.telemetry
    for result in executed:
        telemetry = add_telemetry(telemetry, result.telemetry or ToolTelemetry())
    failed = bool(executed) and all(result.error for result in executed)
    return replace(
        counts,
        tool_calls=counts.tool_calls + len(executed),
        rounds=counts.rounds + 1,
        turn_rounds=counts.turn_rounds + 1,
        failed_steps=counts.failed_steps + 1 if failed else 0,
        children_count=counts.children_count + sum(1 + result.children_count for result in executed),
        telemetry=telemetry,
    )


def caps_left(policy: RunPolicy, counts: Counts) -> Caps:
    """What the policy leaves after these counts."""
    calls, streak = policy.max_tool_calls, policy.max_consecutive_failed_tool_calls
    return Caps(
        tool_calls=None if calls is None else max(calls - counts.tool_calls, 0),
        rounds=max(policy.max_tool_rounds - counts.turn_rounds, 0),
        failed_steps=None if streak is None else max(streak - counts.failed_steps, 0),
    )


def limits_of(policy: RunPolicy) -> Limits:
    """What a plan is judged by, as later plans are told."""
    return Limits(
        max_calls_per_step=policy.max_calls_per_step,
        plan_timeout=policy.plan_timeout,
        tool_timeout=policy.tool_timeout,
        interrupts_allowed=policy.interrupts_allowed,
        max_depth=policy.max_depth,
    )


_ENDINGS = {
    "max_tool_calls": "The run has used all of its tool calls. Answer now with what you know.",
    "max_tool_rounds": "The maximum tool depth of this turn was exceeded. Answer now with what you know.",
    "failure_streak": "Every call of the last {streak} steps failed. Answer now with what you know.",
}


def exhausted(policy: RunPolicy, counts: Counts, refused: str | None) -> Finalize | None:
    """Why the next turn must be the last, or None (ME-18 to ME-25).

    A cap runs out when a call was refused for it: twenty rounds run, the twenty-first does not.
    The failure streak runs out by itself.
    """
    streak = policy.max_consecutive_failed_tool_calls
    if refused in ("max_tool_calls", "max_tool_rounds"):
        return Finalize(reason=refused, message=_ENDINGS[refused])
    if streak is not None and counts.failed_steps >= streak:
        return Finalize(reason="failure_streak", message=_ENDINGS["failure_streak"].format(streak=streak))
    return None


def add_telemetry(total: ToolTelemetry, more: ToolTelemetry) -> ToolTelemetry:
    """The sum of two costs; the first model named stays."""
    return ToolTelemetry(
        duration_ms=total.duration_ms + more.duration_ms,
        attempts=total.attempts + more.attempts,
        input_tokens=total.input_tokens + more.input_tokens,
        output_tokens=total.output_tokens + more.output_tokens,
        model=total.model or more.model,
        cost=_sum(total.cost, more.cost),
    )


def add_usage(total: Usage, more: Usage | None) -> Usage:
    """The sum of what two plans used of models."""
    if more is None:
        return total
    return Usage(
        input_tokens=total.input_tokens + more.input_tokens,
        output_tokens=total.output_tokens + more.output_tokens,
        cached_tokens=total.cached_tokens + more.cached_tokens,
        cost=_sum(total.cost, more.cost),
        model=total.model or more.model,
    )


def _sum(left: float | None, right: float | None) -> float | None:
    return right if left is None else left if right is None else left + right
