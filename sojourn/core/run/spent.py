"""What a run has spent: summed up when it ends, and read by its parent from a failure or a signal.

Reading uses no pydantic validation: anybody may send a signal, and an error in workflow code would fail every
workflow task of the parent. An invalid figure counts as zero.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, cast

from sojourn.contracts.principal import Principal
from sojourn.contracts.run import Spent
from sojourn.contracts.tool_result import Artifact, RunLink, ToolTelemetry
from sojourn.core.awaits.principals import MAX_ASKERS, PRINCIPAL, principal_of
from sojourn.core.run.totals import RunTotals, add_telemetry

__all__ = ["MAX_ARTIFACTS", "read_child_spent", "read_spent", "spent_by"]

MAX_ARTIFACTS = 100
"""Most artifacts that a run's output refers to; the last ones are kept."""

_MOST = 2**53
_MAX_TEXT = 1_000
"""Longest text in bytes; a hundred artifacts with all their texts stay below the size limit of a payload."""


def spent_by(
    counts: RunTotals,
    artifacts: Sequence[Artifact],
    active: timedelta | None,
    *,
    has_acted: bool = False,
    also_asked_by: Sequence[Principal] = (),
) -> Spent | None:
    """The spending that a run reports to its parent, and whether it may have had effects; None when it is all zero."""
    used = ToolTelemetry(
        **counts.usage.model_dump(exclude={"cached_tokens", "cache_write_tokens"}), attempts=0
    )
    spent = Spent(
        children_count=counts.children_count,
        telemetry=add_telemetry(counts.telemetry, used),
        artifacts=list(artifacts),
        active_ms=int(active / timedelta(milliseconds=1)) if active else 0,
        also_asked_by=list(also_asked_by),
    )
    is_zero = spent == Spent(telemetry=ToolTelemetry(attempts=0))
    return None if is_zero else spent.model_copy(update={"may_have_acted": has_acted})


def read_spent(value: Any) -> Spent | None:
    """The spending in a failure's details or a signal; None when the value is not an object."""
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
    )


def read_child_spent(values: Sequence[Any]) -> tuple[str, Spent | None]:
    """The child run's id and its spending, from the arguments of the signal."""
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
    items = cast("list[Any]", value)[-MAX_ARTIFACTS:] if isinstance(value, list) else []
    described = [cast("dict[str, Any]", fields) for fields in items if isinstance(fields, dict)]
    return [
        Artifact(
            kind=_text(fields.get("kind")),
            source_tool=_text(fields.get("source_tool")),
            size=_count(fields.get("size")),
            ref=_text(fields.get("ref")),
            run_link=_link(fields.get("run_link")),
        )
        for fields in described
    ]


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
