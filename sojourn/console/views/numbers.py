"""Numbers as people write them, read exactly: no digit of a whole number is lost, however it is written."""

import math
import re
from fractions import Fraction

__all__ = ["number_in"]

MAX_DIGITS = 300
"""Most digits of a whole number."""

_NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,3})?\Z", re.ASCII)


def number_in(text: str, *, is_whole: bool) -> int | float:
    """The number in a text.

    Args:
        text: The text, perhaps with spaces around it.
        is_whole: Whether it has to be a whole number; `1e3` and `3.0` are.

    Raises:
        ValueError: It is none; the text says what would be.
    """
    plain = text.strip()
    if not _NUMBER.match(plain):
        raise ValueError("This is no number.")
    is_plain = plain.lstrip("+-").isdecimal()
    if not (is_whole or is_plain):
        number = float(plain)
        if not math.isfinite(number):
            raise ValueError("This is no number.")
        return number
    exact = Fraction(plain)
    if exact.denominator != 1:
        raise ValueError("This is a whole number.")
    if abs(exact) >= 10**MAX_DIGITS:
        raise ValueError(f"This has more than {MAX_DIGITS} digits.")
    return int(exact)
