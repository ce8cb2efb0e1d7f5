"""Bounds of a bounded tool's result: read from it, checked, never made by trimming (SR-22 to SR-40)."""

from typing import Any, TypeGuard, cast

from sojourn.contracts.bounds import Bounds
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.pointer import Schema, expand

__all__ = ["bounds_of", "can_state_bounds", "with_bounds"]


def can_state_bounds(schema: Schema) -> bool:
    """Whether a result's schema has the one field that bounds need (SR-32)."""
    return any("returned" in part.get("properties", {}) for part in expand(schema, schema))


def with_bounds(result: ToolResult) -> ToolResult:
    """A bounded tool's result with the bounds that it states; as it is, where they contradict themselves (D-22)."""
    bounds = bounds_of(result.result) if result.ok else ""
    return result if isinstance(bounds, str) else result.model_copy(update={"bounds": bounds})


def bounds_of(result: Any) -> Bounds | str:
    """The bounds that a result states, or why they contradict themselves."""
    if not isinstance(result, dict):
        return "a bounded tool's result is an object with `returned`"
    fields = cast("dict[str, Any]", result)
    returned, total = fields.get("returned"), fields.get("total")
    if not _is_count(returned):
        return f"`returned` is the number of items in the result, not {returned!r}"
    if total is not None and not _is_count(total):
        return f"`total` is the number of items there are, or absent, not {total!r}"
    if total is not None and total < returned:
        return f"`total` ({total}) is less than `returned` ({returned})"
    truncated = fields.get("truncated") is True
    hint, cursor = fields.get("refinement_hint") or None, fields.get("next_cursor") or None
    for name, text in (("refinement_hint", hint), ("next_cursor", cursor)):
        if text is not None and not isinstance(text, str):
            return f"`{name}` is a text, or absent, not {text!r}"[:300]
    if truncated and not hint and not cursor:
        return "`truncated` needs a `refinement_hint` or a `next_cursor`"
    lists = [cast("list[Any]", value) for value in fields.values() if isinstance(value, list)]
    if len(lists) == 1 and len(lists[0]) != returned:
        return f"`returned` is {returned}, the list holds {len(lists[0])}"
    return Bounds(
        returned=returned, total=total, truncated=truncated, refinement_hint=hint, next_cursor=cursor
    )


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
