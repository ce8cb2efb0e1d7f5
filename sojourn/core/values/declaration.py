"""Declarations that pydantic refuses, in one sentence: the field, and what fits it; without the value and the link."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pydantic.errors import PydanticErrorMixin

from sojourn.errors import DefinitionError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["declaration_fault", "declared_at"]

_MAX_FAULTS = 5
"""Most faults named; further ones are counted."""


@contextmanager
def declared_at(place: str) -> Generator[None]:
    """Raise what pydantic refuses in this block as a `DefinitionError` of the place."""
    try:
        yield
    except ValidationError as error:
        raise DefinitionError(f"{place}: {_faults(error)}") from error


def declaration_fault(error: BaseException) -> str | None:
    """What pydantic refuses, after the class that refuses it; None for an exception of another library."""
    if isinstance(error, ValidationError):
        return f"{error.title}: {_faults(error)}"
    if isinstance(error, PydanticErrorMixin):
        return " ".join(error.message.split())
    return None


def _faults(error: ValidationError) -> str:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    more = [f"{len(faults) - _MAX_FAULTS} more"] if len(faults) > _MAX_FAULTS else []
    return "; ".join([*map(_fault, faults[:_MAX_FAULTS]), *more])


def _fault(fault: "ErrorDetails") -> str:
    """One fault as a clause: `max_tool_calls should be greater than or equal to 0`."""
    place, text = ".".join(map(str, fault["loc"])), fault["msg"]
    if not place:
        return text
    if fault["type"] == "extra_forbidden":
        return f"there is no field {place}"
    if fault["type"] == "missing":
        return f"{place} is required"
    return f"{place} {text.removeprefix('Input ')}" if text.startswith("Input ") else f"{place}: {text}"
