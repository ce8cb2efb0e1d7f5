"""Numbers whose digits a float does not hold, with the digits that were written.

A float has 53 bits: `9007199254740993.0` would become `...992.0`, and a payment of `1234567890123456.78` would lose two
cents. So such a number is read exactly, or not at all.
"""

import json
import math
from decimal import Decimal
from typing import Any, Self

from sojourn.core.values.json_value import is_array, is_object

__all__ = ["MAX_EXACT", "LongNumber", "WholeNumber", "dumps", "written_number"]

MAX_EXACT = 2**53
"""Up to here a float holds each whole number."""

_MAX_WHOLE = 10**300
_MAX_PLAIN = 15
"""The longest text whose digits, at most 15, a float certainly holds, unless it is tiny."""

_TINY = 1e-300


class WholeNumber(int):
    """An integer that was written as a float: `9007199254740993.0` or `1e23`."""


class LongNumber(float):
    """A fraction with more digits than a float holds.

    Args:
        text: The number as it was written.
    """

    text: str

    def __new__(cls, text: str) -> Self:
        """Make the nearest float, which keeps its text when it is copied."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]
        return (self.text,)


def written_number(text: str) -> int | float:
    """The number that a JSON text with a point or an exponent is, with all its digits.

    Raises:
        ValueError: It is beyond the range of floats, or a fraction that would become a whole number.
    """
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is beyond the range of numbers")
    if len(text) <= _MAX_PLAIN and _TINY < abs(number) < MAX_EXACT:
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
    return number if abs(whole) < MAX_EXACT or abs(whole) >= _MAX_WHOLE else WholeNumber(whole)


def dumps(value: Any) -> str:
    """The JSON text of a value that was parsed, in which each number has the digits that were written."""
    if is_object(value):
        return f"{{{', '.join(f'{json.dumps(name)}: {dumps(each)}' for name, each in value.items())}}}"
    if is_array(value):
        return f"[{', '.join(map(dumps, value))}]"
    return value.text if isinstance(value, LongNumber) else json.dumps(value)
