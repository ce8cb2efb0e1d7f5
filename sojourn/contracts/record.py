"""The base classes of contracts, which reject a misspelt field.

A policy with a misspelt field would run without the limit that it should set, so the class raises a
`DefinitionError` with the closest field. What pydantic reads, such as the body of an HTTP request, stays a
`ValidationError`.
"""

import inspect
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from difflib import get_close_matches
from types import CodeType
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.errors import PydanticErrorMixin

from sojourn.contracts import safe_exceptions
from sojourn.contracts.definition import DefinitionError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

__all__ = [
    "Declaration",
    "PositiveDuration",
    "declaration_fault",
    "declare_at",
    "faults_of",
    "refusing_record",
    "suggestion",
]


class Record(BaseModel):
    """A frozen record that ignores fields which a newer version adds."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        use_attribute_docstrings=True,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        hide_input_in_errors=True,
    )

    def __init_subclass__(cls, **options: Any) -> None:
        """Pydantic would deep-copy the defaults, at four times the cost."""
        super().__init_subclass__(**options)
        for name in inspect.get_annotations(cls):
            default = vars(cls).get(name)
            if default in ([], {}) or (isinstance(default, Record) and not default.model_fields_set):
                factory = cast("Callable[[], Any]", type(default))
                setattr(cls, name, Field(default_factory=factory))


class Input(Record):
    """A frozen record that a person, planner or client writes.

    An unknown field is an error. In JSON it is ignored: the input was checked when it was made, so the field comes from a
    newer version, and refusing it would fail every workflow task of an older worker during a deploy.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _tolerate_newer(cls, value: Any, info: ValidationInfo) -> Any:
        if info.mode != "json" or not isinstance(value, dict):
            return value
        fields = cast("dict[str, Any]", value)
        known = set(cls.model_fields)
        for field in cls.model_fields.values():
            if isinstance(field.validation_alias, AliasChoices):
                known.update(str(choice) for choice in field.validation_alias.choices)
        return {name: item for name, item in fields.items() if name in known}


PositiveDuration = Annotated[timedelta, Field(gt=timedelta(0))]
"""A time limit. Temporal rejects a non-positive one at every attempt, and the run would hang."""

_MAX_FAULTS = 5


if TYPE_CHECKING:  # type checkers read the fields of the class
    _DeclarationType = type(BaseModel)
else:

    class _DeclarationType(type(BaseModel)):
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


class Declaration(Input, metaclass=_DeclarationType):
    """A frozen record that an author declares. A fault is a `DefinitionError`."""


def faults_of(error: ValidationError, fields: Sequence[str] = ()) -> str:
    """Return what pydantic refuses, in one sentence without the values."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    more = [f"{len(faults) - _MAX_FAULTS} more"] if len(faults) > _MAX_FAULTS else []
    return "; ".join([*(_fault(fault, fields) for fault in faults[:_MAX_FAULTS]), *more])


def _fault(fault: "ErrorDetails", fields: Sequence[str]) -> str:
    place, text = ".".join(map(str, fault["loc"])), fault["msg"]
    if not place:
        return text
    if fault["type"] == "extra_forbidden":
        return f"there is no field {place}{suggestion(place, fields)}"
    if fault["type"] == "missing":
        return f"{place} is required"
    return f"{place} {text.removeprefix('Input ')}" if text.startswith("Input ") else f"{place}: {text}"


def suggestion(name: str, names: Sequence[str]) -> str:
    """Return the closest of the names, as the end of a sentence."""
    found = get_close_matches(name.casefold(), names, n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


_CONSTRUCTOR: CodeType = BaseModel.__init__.__code__


def refusing_record(error: BaseException) -> str | None:
    """Return the name of the record whose constructor raised this validation error.

    For example `PlanResult`. None for a record that was read from data (`model_validate`), which
    may be other data next time, and for other models.
    """
    step = safe_exceptions.trace(error) if safe_exceptions.is_a(error, ValidationError) else None
    while step is not None:
        if step.tb_frame.f_code is _CONSTRUCTOR:
            made: Any = step.tb_frame.f_locals.get("self")
            return type(made).__name__ if safe_exceptions.is_a(made, Record) else None
        step = step.tb_next
    return None


@contextmanager
def declare_at(place: str) -> Generator[None]:
    """Raise what pydantic refuses in this block as a `DefinitionError` of the place."""
    try:
        yield
    except ValidationError as error:
        raise DefinitionError(f"{place}: {faults_of(error)}") from error


def declaration_fault(error: BaseException) -> str | None:
    """Return what pydantic refuses, after the class that refuses it.

    None for an exception of another library.
    """
    if isinstance(error, ValidationError):
        return f"{error.title}: {faults_of(error)}"
    if isinstance(error, PydanticErrorMixin):
        return " ".join(error.message.split())
    return None
