"""Declaration: base class of the records that an author writes in code, and the text of what is wrong with one.

A policy with a misspelt field would run without the limit that it should set. So the class raises a
`DefinitionError`, which names the field and the closest one that exists. Only the call of a class does so: what
pydantic reads, such as the body of an HTTP request, stays a `ValidationError`.
"""

from collections.abc import Sequence
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from sojourn.contracts.definition import DefinitionError
from sojourn.contracts.record import Input

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = ["Declaration", "PositiveDuration", "faults_of", "suggestion"]

PositiveDuration = Annotated[timedelta, Field(gt=timedelta(0))]
"""A time limit. Temporal rejects a non-positive one at every attempt, and the run would hang."""

_MAX_FAULTS = 5
"""Most faults named; further ones are counted."""


if TYPE_CHECKING:  # type checkers read the fields of the class

    class Declaration(Input):
        """What an author declares: frozen, and an unknown field or a wrong value is a `DefinitionError`."""

else:

    class _Declared(type(BaseModel)):
        def __call__(cls, *values: Any, **fields: Any) -> Any:
            if values:
                first = next(iter(cls.model_fields))
                raise DefinitionError(f"{cls.__name__}: write its fields by name, such as {first}=...")
            try:
                return super().__call__(**fields)
            except ValidationError as error:
                raise DefinitionError(
                    f"{cls.__name__}: {faults_of(error, list(cls.model_fields))}"
                ) from error

    class Declaration(Input, metaclass=_Declared):
        """What an author declares: frozen, and an unknown field or a wrong value is a `DefinitionError`."""


def faults_of(error: ValidationError, fields: Sequence[str] = ()) -> str:
    """What pydantic refuses, in one sentence without the values: the field, and what fits it.

    Args:
        error: The refusal.
        fields: The fields of the class, for the closest name to an unknown one.
    """
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    more = [f"{len(faults) - _MAX_FAULTS} more"] if len(faults) > _MAX_FAULTS else []
    return "; ".join([*(_fault(fault, fields) for fault in faults[:_MAX_FAULTS]), *more])


def _fault(fault: "ErrorDetails", fields: Sequence[str]) -> str:
    """One fault as a clause: `max_tool_calls should be greater than or equal to 0`."""
    place, text = ".".join(map(str, fault["loc"])), fault["msg"]
    if not place:
        return text
    if fault["type"] == "extra_forbidden":
        return f"there is no field {place}{suggestion(place, fields)}"
    if fault["type"] == "missing":
        return f"{place} is required"
    return f"{place} {text.removeprefix('Input ')}" if text.startswith("Input ") else f"{place}: {text}"


def suggestion(name: str, names: Sequence[str]) -> str:
    """The closest of the names, as the end of a sentence: `; did you mean 'destructive'?`; else nothing."""
    found = get_close_matches(name.casefold(), names, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
