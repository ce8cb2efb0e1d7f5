"""The totals of a run: calls, rounds, failed steps, tokens and money, summed once a step."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sojourn.contracts.plan import Usage
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.core.safeguards.judge import was_tried
from sojourn.core.values.frozen import changed

__all__ = ["RunTotals", "add_telemetry", "add_totals", "add_usage", "cost_of", "settle", "tokens_of", "used"]


@dataclass(frozen=True)
class RunTotals:
    """Sums over a run, updated once a step."""

    tool_calls: int = 0
    """Calls admitted in this run; a call that was denied, canceled or had no room in the history counts too."""
    rounds: int = 0
    """Plans with calls in this run."""
    turn_rounds: int = 0
    """Plans with calls in this user turn (ME-20, ME-22)."""
    failed_steps: int = 0
    """Consecutive steps in which every executed call failed."""
    children_count: int = 0
    """Calls admitted in this run and its child runs."""
    telemetry: ToolTelemetry = field(default_factory=lambda: ToolTelemetry(attempts=0))
    """Summed over results; a result without telemetry counts as one attempt of no duration."""
    usage: Usage = field(default_factory=Usage)
    """Summed over plans."""


def settle(counts: RunTotals, executed: Sequence[ToolResult]) -> RunTotals:
    """The totals after a step, from the results of its admitted calls, in call order."""
    telemetry = counts.telemetry
    for result in executed:
        telemetry = add_telemetry(telemetry, result.telemetry or ToolTelemetry())
    tried = [result for result in executed if was_tried(result)]
    return changed(
        counts,
        tool_calls=counts.tool_calls + len(executed),
        rounds=counts.rounds + 1,
        turn_rounds=counts.turn_rounds + 1,
        failed_steps=_failed_steps(counts, tried),
        children_count=counts.children_count + sum(1 + result.children_count for result in executed),
        telemetry=telemetry,
    )


def _failed_steps(counts: RunTotals, tried: Sequence[ToolResult]) -> int:
    """Consecutive failed steps; a step in which no call ran, because a person denied every one, changes nothing."""
    if not tried:
        return counts.failed_steps
    return counts.failed_steps + 1 if all(result.error for result in tried) else 0


def tokens_of(counts: RunTotals) -> int:
    """Tokens read and written so far, by this run's plans, its tools and its child runs."""
    usage, telemetry = counts.usage, counts.telemetry
    return usage.input_tokens + usage.output_tokens + telemetry.input_tokens + telemetry.output_tokens


def cost_of(counts: RunTotals) -> float:
    """US dollars spent so far, where known."""
    return (counts.usage.cost or 0.0) + (counts.telemetry.cost or 0.0)


def used(counts: RunTotals) -> Usage:
    """Usage of models so far, by this run's plans, its tools and its child runs."""
    below = counts.telemetry
    more = Usage(input_tokens=below.input_tokens, output_tokens=below.output_tokens, cost=below.cost)
    return add_usage(counts.usage, more).model_copy(update={"model": None})


def add_totals(total: RunTotals, more: RunTotals) -> RunTotals:
    """The sum of the totals of two turns."""
    return changed(
        total,
        tool_calls=total.tool_calls + more.tool_calls,
        rounds=total.rounds + more.rounds,
        children_count=total.children_count + more.children_count,
        telemetry=add_telemetry(total.telemetry, more.telemetry),
        usage=add_usage(total.usage, more.usage),
    )


def add_telemetry(total: ToolTelemetry, more: ToolTelemetry) -> ToolTelemetry:
    """The sum of two telemetries; the first model name is kept."""
    return ToolTelemetry(
        duration_ms=total.duration_ms + more.duration_ms,
        attempts=total.attempts + more.attempts,
        input_tokens=total.input_tokens + more.input_tokens,
        output_tokens=total.output_tokens + more.output_tokens,
        model=total.model or more.model,
        cost=_sum(total.cost, more.cost),
    )


def add_usage(total: Usage, more: Usage | None) -> Usage:
    """The sum of the usage of two plans."""
    if more is None:
        return total
    return Usage(
        input_tokens=total.input_tokens + more.input_tokens,
        output_tokens=total.output_tokens + more.output_tokens,
        cached_tokens=total.cached_tokens + more.cached_tokens,
        cache_write_tokens=total.cache_write_tokens + more.cache_write_tokens,
        cost=_sum(total.cost, more.cost),
        model=total.model or more.model,
    )


def _sum(left: float | None, right: float | None) -> float | None:
    return right if left is None else left if right is None else left + right
