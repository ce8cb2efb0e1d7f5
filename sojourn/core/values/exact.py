"""Numbers as clients in JavaScript can read them: an integer that they would round becomes its digits as text.

`JSON.parse` reads every number as a double. A person who decides on a call has to see the number that the call runs with.
"""

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["exact", "is_exact", "is_same"]

MAX_EXACT = 2**53 - 1
"""The largest integer that a double holds beside its neighbours, as `Number.MAX_SAFE_INTEGER`."""


def exact(value: Any) -> Any:
    """A JSON value whose large integers are texts."""
    if isinstance(value, Mapping):
        return {name: exact(inner) for name, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [exact(inner) for inner in cast("list[Any]", value)]
    return str(value) if _is_rounded(value) else value


def is_exact(value: Any) -> bool:
    """Whether a client in JavaScript reads a JSON value as it is."""
    if isinstance(value, Mapping):
        return all(map(is_exact, cast("Mapping[str, Any]", value).values()))
    if isinstance(value, list):
        return all(map(is_exact, cast("list[Any]", value)))
    return not _is_rounded(value)


def is_same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same to a client in JavaScript, to which `1.0` is `1`."""
    return _as_read(one) == _as_read(other)


def _as_read(value: Any) -> Any:
    """A value such that equal ones are the same to `JSON.parse`: numbers are doubles, and truth is no number."""
    if isinstance(value, Mapping):
        return {name: _as_read(inner) for name, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_as_read(inner) for inner in cast("list[Any]", value)]
    return float(value) if type(value) in (int, float) else (type(value), value)


def _is_rounded(value: Any) -> bool:
    return type(value) is int and not -MAX_EXACT <= value <= MAX_EXACT
