"""Bounds: how a result was cut down from the full data."""

from typing import Any

from pydantic_core import to_jsonable_python

from sojourn.contracts.record import Record

__all__ = ["Bounds"]


class Bounds(Record):
    """How much of the full data a result holds, and how to get the rest (SR-23 to SR-27)."""

    returned: int
    """Number of items in this result."""
    total: int | None = None
    """Number of items in the full data, when the tool knows."""
    truncated: bool = False
    """Whether any cap was applied: paging, length, time window, depth or size."""
    refinement_hint: str | None = None
    """How to narrow the query."""
    next_cursor: str | None = None
    """Where the next page starts, for tools that page."""
    note: str | None = None
    """What is inconsistent in these numbers, which are unchanged from the tool."""

    @classmethod
    def of(cls, value: Any) -> "Bounds":
        """Read the bounds from a bounded tool's typed result, or from the same result as JSON (SR-35).

        Raises:
            pydantic.ValidationError: The result states no bounds.
        """
        return cls.model_validate(to_jsonable_python(value, by_alias=True))
