"""Numbers that a float does not hold exactly.

`JSON.parse` reads every number as a double. A person who decides on a call has to see the number that the call runs with.

A float has 53 bits: `9007199254740993.0` would become `...992.0`, and a payment of `1234567890123456.78` would lose two
cents. So such a number is read exactly, or not at all.
"""

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Self, cast

from sojourn.values.json_value import is_array, is_object

__all__ = [
    "MAX_WHOLE",
    "LongNumber",
    "WholeNumber",
    "dumps",
    "is_exact",
    "is_same",
    "parse_number",
    "restore_exact",
    "write_exact",
]

MAX_EXACT = 2**53 - 1
"""The largest integer that a double holds beside its neighbours, as `Number.MAX_SAFE_INTEGER`."""


def write_exact(value: Any) -> Any:
    """Return a JSON value whose large integers are texts."""
    if isinstance(value, Mapping):
        return {name: write_exact(inner) for name, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [write_exact(inner) for inner in cast("list[Any]", value)]
    return str(value) if _is_rounded(value) else value


def restore_exact(given: Any, original: Any) -> Any:
    """Return a JSON value from a client, with the integers that it got as texts."""
    kept: Any = given
    if _is_rounded(original):
        return original if given == str(original) else kept
    if isinstance(given, Mapping) and isinstance(original, Mapping):
        before = cast("Mapping[str, Any]", original)
        fields = cast("Mapping[str, Any]", given).items()
        return {name: restore_exact(inner, before.get(name)) for name, inner in fields}
    if isinstance(given, list) and isinstance(original, list):
        items, known = cast("list[Any]", given), cast("list[Any]", original)
        return [restore_exact(item, known[at] if at < len(known) else None) for at, item in enumerate(items)]
    return kept


def is_exact(value: Any) -> bool:
    """Return whether a client in JavaScript reads a JSON value as it is."""
    if isinstance(value, Mapping):
        return all(map(is_exact, cast("Mapping[str, Any]", value).values()))
    if isinstance(value, list):
        return all(map(is_exact, cast("list[Any]", value)))
    return not _is_rounded(value)


def is_same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same to a client in JavaScript.

    To such a client `1.0` is `1`.
    """
    return _as_read(one) == _as_read(other)


def _as_read(value: Any) -> Any:
    # Numbers are doubles, and a truth value is no number.
    if isinstance(value, Mapping):
        return {name: _as_read(inner) for name, inner in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_as_read(inner) for inner in cast("list[Any]", value)]
    return float(value) if type(value) in (int, float) else (type(value), value)


def _is_rounded(value: Any) -> bool:
    return type(value) is int and not -MAX_EXACT <= value <= MAX_EXACT


MAX_WHOLE = 2**53
"""Up to here a float holds each whole number."""

_LONGEST_WHOLE = 10**300
_MAX_PLAIN = 15
"""The longest text whose digits, at most 15, a float certainly holds, unless it is tiny."""

_TINY = 1e-300


class WholeNumber(int):
    """An integer that was written as a float: `9007199254740993.0` or `1e23`."""


class LongNumber(float):
    """A fraction with more digits than a float holds."""

    text: str

    def __new__(cls, text: str) -> Self:
        """Make the nearest float, which keeps its text when it is copied."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]
        return (self.text,)


def parse_number(text: str) -> int | float:
    """Parse a JSON number with a point or an exponent, with all its digits."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is beyond the range of numbers")
    if len(text) <= _MAX_PLAIN and _TINY < abs(number) < MAX_WHOLE:
        return number
    if not number:
        if text.strip("-0.")[:1] in ("", "e", "E"):
            return number
        raise ValueError(f"{text[:40]} is too small for a number, and would become 0")
    written = Decimal(text)
    if not number.is_integer():
        return number if Decimal(repr(number)) == written else LongNumber(text)
    whole = int(written)
    if whole != written:
        raise ValueError(f"{text[:40]} has more digits than a number holds, and would become {number!r}")
    return number if abs(whole) < MAX_WHOLE or abs(whole) >= _LONGEST_WHOLE else WholeNumber(whole)


def dumps(value: Any) -> str:
    """Return the JSON text of a value that was parsed.

    Each number has the digits that were written.
    """
    if is_object(value):
        return f"{{{', '.join(f'{json.dumps(name)}: {dumps(each)}' for name, each in value.items())}}}"
    if is_array(value):
        return f"[{', '.join(map(dumps, value))}]"
    return value.text if isinstance(value, LongNumber) else json.dumps(value)
