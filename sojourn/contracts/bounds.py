"""Bounds: how a result was cut down from the full data."""

from typing import Any

from pydantic_core import to_jsonable_python

from sojourn.contracts.record import Record

__all__ = ["Bounds"]


class Bounds(Record):
    """How much of a result is here, and how to get the rest (SR-23 to SR-27)."""

    returned: int
    """Items in this result."""
    total: int | None = None
    """Items there are, when the tool knows."""
    truncated: bool = False
    """Whether any cap was applied: paging, length, time window, depth or size."""
    refinement_hint: str | None = None
    """How to narrow the query."""
    next_cursor: str | None = None
    """Where the next page starts, for tools that page."""
    note: str | None = None
    """What is odd about these figures, which stand as the tool gave them."""

    @classmethod
    def of(cls, value: Any) -> "Bounds":
        """The bounds that a bounded tool's typed result states, or the same as JSON (SR-35).

        Raises:
            pydantic.ValidationError: it states none.
        """
        return cls.model_validate(to_jsonable_python(value, by_alias=True))
