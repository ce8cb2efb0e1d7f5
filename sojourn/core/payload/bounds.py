"""Bounds of a bounded tool's result: read from the result, noted where inconsistent, never changed (SR-22 to SR-40)."""

from typing import Any, TypeGuard, cast

from sojourn.contracts.tool_result import Bounds, ToolResult
from sojourn.core.values.pointer import Schema, expand
from sojourn.core.values.text import echo

__all__ = ["bounds_of", "can_state_bounds", "inconsistency", "with_bounds", "with_note"]


def can_state_bounds(schema: Schema) -> bool:
    """Whether a result's schema has `returned`, the field that bounds require (SR-32)."""
    return any("returned" in part.get("properties", {}) for part in expand(schema, schema))


def with_bounds(result: ToolResult) -> ToolResult:
    """A bounded tool's result with the bounds that it states, unchanged."""
    bounds = bounds_of(result.result) if result.ok else None
    return result if bounds is None else result.model_copy(update={"bounds": bounds})


def bounds_of(result: Any) -> Bounds | None:
    """The bounds that a result states, unchanged; None where `returned` is not a count."""
    if not isinstance(result, dict):
        return None
    fields = cast("dict[str, Any]", result)
    returned = fields.get("returned")
    if not _is_count(returned):
        return None
    total = fields.get("total")
    made = Bounds(
        returned=returned,
        total=total if _is_count(total) else None,
        truncated=fields.get("truncated") is True,
        refinement_hint=_text(fields.get("refinement_hint")),
        next_cursor=_text(fields.get("next_cursor")),
    )
    return with_note(made, result)


def with_note(bounds: Bounds, result: Any) -> Bounds:
    """The bounds with a note on inconsistencies, for the planner and the operator; no number is changed."""
    note = inconsistency(bounds, result)
    return bounds.model_copy(update={"note": note}) if note else bounds


def inconsistency(bounds: Bounds | None, result: Any) -> str | None:
    """What is inconsistent between a bounded result and its bounds, as a clause, or None."""
    fields = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    if bounds is None:
        actual = f", not {echo(fields['returned'])}" if "returned" in fields else ""
        return f"a bounded tool's result is an object with `returned`, a number of items{actual}"
    odd = _inconsistent_figures(bounds, fields) or _inconsistent_texts(fields)
    if odd is None and bounds.truncated and not bounds.refinement_hint and not bounds.next_cursor:
        return "`truncated` without a `refinement_hint` or a `next_cursor`"
    return odd


def _inconsistent_figures(bounds: Bounds, fields: dict[str, Any]) -> str | None:
    returned, total = bounds.returned, bounds.total
    if total is not None and total < returned:
        return f"`total` ({echo(total)}) is less than `returned` ({echo(returned)})"
    if fields.get("total") is not None and total is None:
        return f"`total` is a number of items, or absent, not {echo(fields['total'])}"
    lists = [cast("list[Any]", value) for value in fields.values() if isinstance(value, list)]
    if len(lists) == 1 and len(lists[0]) != returned:
        return f"`returned` is {echo(returned)}, the list holds {len(lists[0])}"
    return None


def _inconsistent_texts(fields: dict[str, Any]) -> str | None:
    for name in ("refinement_hint", "next_cursor"):
        if fields.get(name) and not isinstance(fields[name], str):
            return f"`{name}` is a text, or absent, not {echo(fields[name])}"
    return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
