"""The memory of a run, besides its transcript."""

from collections.abc import Mapping
from typing import Annotated, Any, Generic, NoReturn, TypeVar, cast

from pydantic import AfterValidator, BeforeValidator
from pydantic_core import PydanticCustomError

__all__ = ["MAX_MEMORY_BYTES", "MemoryPatch", "SessionMemory", "WithMemory", "read_only"]

MAX_MEMORY_BYTES = 64_000
"""Largest memory of a run, in bytes of JSON."""


def _refuse(*_arguments: object, **_fields: object) -> NoReturn:
    raise TypeError(
        "the memory is read-only; a planner changes it with PlanResult.final(..., memory={...}), "
        "and a tool by returning WithMemory(result, {...})"
    )


class _Object(dict[str, Any]):
    """A JSON object that refuses changes, since they would be lost."""

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class _Array(list[Any]):
    """A JSON array that refuses changes, since they would be lost."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def read_only(value: Any) -> Any:
    """Return a JSON value whose objects and arrays raise `TypeError` when changed."""
    if isinstance(value, Mapping):
        return _Object({name: read_only(part) for name, part in cast("Mapping[str, Any]", value).items()})
    if isinstance(value, list):
        return _Array([read_only(part) for part in cast("list[Any]", value)])
    return value


SessionMemory = Annotated[Mapping[str, Any], AfterValidator(read_only)]
"""The memory of a run: a JSON object, read-only."""


def _patch(value: Any) -> Any:
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in cast("Mapping[Any, Any]", value)):
        return cast("Any", value)
    raise PydanticCustomError(
        "memory_patch",
        "a change of the memory is a JSON object whose names are strings, such as "
        '{"visits": 3}; a field with the value None removes that field',
    )


MemoryPatch = Annotated[dict[str, Any], BeforeValidator(_patch)]
"""A change of the memory: a JSON object. Its values are checked on application."""

R = TypeVar("R")


class WithMemory(Generic[R]):
    """A result with a change of the run's memory, as a tool returns them.

    Args:
        result: The result, for the planner; also a `WithArtifacts`.
        patch: A JSON Merge Patch (RFC 7396) of the memory: fields are set, objects are merged, and None removes a field.
    """

    __slots__ = ("patch", "result")

    def __init__(self, result: R, patch: Mapping[str, Any], /) -> None:
        self.result = result
        self.patch = patch
