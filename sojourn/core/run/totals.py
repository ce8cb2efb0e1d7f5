"""Count a run's active time, calls, tokens and money.

The figures of a child run are read without pydantic validation: any client may send a signal, and an
error in workflow code would fail every workflow task of the parent. An invalid figure counts as zero.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from sojourn.contracts.plan import Usage
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import Spent
from sojourn.contracts.taint import MAX_FIRST, MAX_NEWEST, Taint, TaintSource
from sojourn.contracts.tool_result import Artifact, RunLink, ToolResult, ToolTelemetry
from sojourn.core.awaits.principals import MAX_ASKERS, PRINCIPAL, principal_of
from sojourn.core.safeguards.judge import was_tried
from sojourn.values.frozen import copy_with
from sojourn.values.json_value import is_object, list_of

__all__ = [
    "MAX_ARTIFACTS",
    "ActiveTime",
    "RunTotals",
    "add_telemetry",
    "add_totals",
    "add_usage",
    "cost_of",
    "count_step",
    "read_child_spent",
    "read_spent",
    "spending_of",
    "tokens_of",
    "total_usage",
]


@dataclass(frozen=True)
class ActiveTime:
    """How long a run was active, against its time budget.

    It is a frozen value with pure transitions. In the workflow, `now` is the workflow's clock. In the
    fold, it is the time of a history event.
    """

    budget: timedelta | None = None
    expired: bool = False
    """Whether the budget ran out during a plan or a call."""
    counted: timedelta = timedelta(0)
    """Active time of the periods that have ended."""
    since: datetime | None = None
    """Start of the current active period; None while the run is not active."""
    works: int = 0
    paused: bool = False

    def active_time(self, now: datetime) -> timedelta:
        return self.counted + (now - self.since if self.since else timedelta(0))

    def time_left(self, now: datetime) -> timedelta | None:
        return None if self.budget is None else max(self.budget - self.active_time(now), timedelta(0))

    def is_used_up(self, now: datetime) -> bool:
        return self.expired or self.time_left(now) == timedelta(0)

    def begun(self, now: datetime) -> "ActiveTime":
        """Count one more plan or call in progress."""
        return self._turned(now, self.works + 1, paused=self.paused)

    def ended(self, now: datetime) -> "ActiveTime":
        """Count one less plan or call in progress."""
        return self._turned(now, self.works - 1, paused=self.paused)

    def stopped(self, now: datetime, *, paused: bool) -> "ActiveTime":
        """Pause or resume the run."""
        return self._turned(now, self.works, paused=paused)

    def added(self, spent: timedelta) -> "ActiveTime":
        """Add the time that child runs were active while this run only waited for them."""
        return copy_with(self, counted=self.counted + spent)

    def _turned(self, now: datetime, works: int, *, paused: bool) -> "ActiveTime":
        is_active = works > 0 and not paused
        if is_active == (self.since is not None):
            return copy_with(self, works=works, paused=paused)
        return copy_with(
            self, works=works, paused=paused, counted=self.active_time(now), since=now if is_active else None
        )


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
    """Sum over results. One without telemetry counts as one attempt of no duration."""
    usage: Usage = field(default_factory=Usage)
    """Summed over plans."""


def count_step(counts: RunTotals, executed: Sequence[ToolResult]) -> RunTotals:
    """Return the totals after a step, from its admitted calls' results in call order."""
    telemetry = counts.telemetry
    for result in executed:
        telemetry = add_telemetry(telemetry, result.telemetry or ToolTelemetry())
    tried = [result for result in executed if was_tried(result)]
    return copy_with(
        counts,
        tool_calls=counts.tool_calls + len(executed),
        rounds=counts.rounds + 1,
        turn_rounds=counts.turn_rounds + 1,
        failed_steps=_failed_steps(counts, tried),
        children_count=counts.children_count + sum(1 + result.children_count for result in executed),
        telemetry=telemetry,
    )


def _failed_steps(counts: RunTotals, tried: Sequence[ToolResult]) -> int:
    # A step in which no call ran, because a person denied every one, changes nothing.
    if not tried:
        return counts.failed_steps
    return counts.failed_steps + 1 if all(result.error for result in tried) else 0


def tokens_of(counts: RunTotals) -> int:
    """Return the tokens read and written so far."""
    usage, telemetry = counts.usage, counts.telemetry
    return usage.input_tokens + usage.output_tokens + telemetry.input_tokens + telemetry.output_tokens


def cost_of(counts: RunTotals) -> float:
    """Return the US dollars spent so far, as far as they are known."""
    return (counts.usage.cost or 0.0) + (counts.telemetry.cost or 0.0)


def total_usage(counts: RunTotals) -> Usage:
    """Usage of models so far, by this run's plans, its tools and its child runs."""
    below = counts.telemetry
    more = Usage(input_tokens=below.input_tokens, output_tokens=below.output_tokens, cost=below.cost)
    return add_usage(counts.usage, more).model_copy(update={"model": None})


def add_totals(total: RunTotals, more: RunTotals) -> RunTotals:
    return copy_with(
        total,
        tool_calls=total.tool_calls + more.tool_calls,
        rounds=total.rounds + more.rounds,
        children_count=total.children_count + more.children_count,
        telemetry=add_telemetry(total.telemetry, more.telemetry),
        usage=add_usage(total.usage, more.usage),
    )


def add_telemetry(total: ToolTelemetry, more: ToolTelemetry) -> ToolTelemetry:
    return ToolTelemetry(
        duration_ms=total.duration_ms + more.duration_ms,
        attempts=total.attempts + more.attempts,
        input_tokens=total.input_tokens + more.input_tokens,
        output_tokens=total.output_tokens + more.output_tokens,
        model=total.model or more.model,
        cost=_sum(total.cost, more.cost),
    )


def add_usage(total: Usage, more: Usage | None) -> Usage:
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


MAX_ARTIFACTS = 100
"""Most artifacts that a run's output refers to. It has the last ones."""

_MAX_SOURCES = MAX_FIRST + MAX_NEWEST

_MOST = 2**53
_MAX_TEXT = 1_000
"""Longest text in bytes; a hundred artifacts with all their texts stay below the size limit of a payload."""


def spending_of(
    counts: RunTotals,
    artifacts: Sequence[Artifact],
    active: timedelta | None,
    *,
    has_acted: bool = False,
    also_asked_by: Sequence[Principal] = (),
    taint: Taint | None = None,
) -> Spent | None:
    """Return the spending that a run reports to its parent."""
    used = ToolTelemetry(
        **counts.usage.model_dump(exclude={"cached_tokens", "cache_write_tokens"}), attempts=0
    )
    spent = Spent(
        children_count=counts.children_count,
        telemetry=add_telemetry(counts.telemetry, used),
        artifacts=list(artifacts),
        active_ms=int(active / timedelta(milliseconds=1)) if active else 0,
        also_asked_by=list(also_asked_by),
        taint=taint,
    )
    is_zero = spent == Spent(telemetry=ToolTelemetry(attempts=0))
    return None if is_zero else spent.model_copy(update={"may_have_acted": has_acted})


def read_spent(value: Any) -> Spent | None:
    """Return the spending in a failure's details or a signal."""
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, Any]", value)
    return Spent(
        children_count=_count(fields.get("children_count")),
        telemetry=_telemetry(fields.get("telemetry")),
        artifacts=_artifacts(fields.get("artifacts")),
        active_ms=_count(fields.get("active_ms")),
        may_have_acted=acted if isinstance(acted := fields.get("may_have_acted"), bool) else None,
        also_asked_by=_principals(fields.get("also_asked_by")),
        taint=_taint(fields.get("taint")),
    )


def read_child_spent(values: Sequence[Any]) -> tuple[str, Spent | None]:
    """Return the child run's id and its spending, from the arguments of the signal."""
    value = values[0] if len(values) == 1 else None
    if not isinstance(value, Mapping):
        return "", None
    fields = cast("Mapping[str, Any]", value)
    return _text(fields.get("run_id")), read_spent(fields.get("spent"))


def _telemetry(value: Any) -> ToolTelemetry | None:
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, Any]", value)
    cost = fields.get("cost")
    known = isinstance(cost, int | float) and not isinstance(cost, bool) and math.isfinite(cost) and cost >= 0
    return ToolTelemetry(
        duration_ms=_count(fields.get("duration_ms")),
        attempts=_count(fields.get("attempts", 1)),
        input_tokens=_count(fields.get("input_tokens")),
        output_tokens=_count(fields.get("output_tokens")),
        model=_text(fields.get("model")) or None,
        cost=float(cast("float", cost)) if known else None,
    )


def _artifacts(value: Any) -> list[Artifact]:
    return [
        Artifact(
            kind=_text(fields.get("kind")),
            source_tool=_text(fields.get("source_tool")),
            size=_count(fields.get("size")),
            ref=_text(fields.get("ref")),
            run_link=_link(fields.get("run_link")),
        )
        for fields in _last_objects(value, MAX_ARTIFACTS)
    ]


def _taint(value: Any) -> Taint | None:
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[str, Any]", value)
    sources = [
        TaintSource(
            number=_count(each.get("number")),
            tool=_text(each.get("tool")),
            tool_call_id=_text(each.get("tool_call_id")),
            run_id=_text(each.get("run_id")),
            reason=_text(each.get("reason")),
            source=_text(each.get("source")),
        )
        for each in _last_objects(fields.get("sources"), _MAX_SOURCES)
    ]
    return Taint(sources=sources, count=max(_count(fields.get("count")), len(sources)))


def _last_objects(value: Any, most: int) -> list[dict[str, Any]]:
    return [each for each in list_of(value)[-most:] if is_object(each)]


def _principals(value: Any) -> list[Principal]:
    items = cast("list[Any]", value)[:MAX_ASKERS] if isinstance(value, list) else []
    read = [principal_of({PRINCIPAL: each}) for each in items]
    return [each for each in read if isinstance(each, Principal)]


def _link(value: Any) -> RunLink | None:
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, Any]", value)
    return RunLink(**{name: _text(fields.get(name)) for name in RunLink.model_fields})


def _count(value: Any) -> int:
    return min(max(value, 0), _MOST) if isinstance(value, int) and not isinstance(value, bool) else 0


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    return value[:_MAX_TEXT].encode("utf-8", "replace")[:_MAX_TEXT].decode("utf-8", "ignore")
