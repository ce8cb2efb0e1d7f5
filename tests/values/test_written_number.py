"""Numbers as they were written: with all their digits, or refused."""

import copy
import json
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sojourn.values.numbers import LongNumber, parse_number

TEXTS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,22}(e[+-]?[0-9]{1,2})?|e[+-]?[0-9]{1,3})", fullmatch=True
)


@given(TEXTS)
@example("9007199254740993.0")
@example("1e22")
@example("1e23")
@example("1.0000000000000000001")
@example("0.99999999999999999999")
@example("4.9e-324")
@example("12345678901234567.89")
@example("-0.0")
def test_a_number_is_what_was_written_or_refused(text: str) -> None:
    """A whole number has all its digits; a fraction is never whole, and where its float has other digits its text is kept."""
    exact = Fraction(text)
    try:
        number = parse_number(text)
    except ValueError:
        assert (exact.denominator > 1 and float(text).is_integer()) or abs(exact) > 10**300
        return
    assert json.loads(json.dumps(number)) == number
    assert copy.deepcopy([number]) == [number]
    if exact.denominator == 1:
        assert Fraction(number) == exact or abs(exact) >= 10**300
    else:
        assert number == float(text)
        assert not number.is_integer()
        assert (
            copy.deepcopy(number).text == text
            if isinstance(number, LongNumber)
            else Fraction(repr(number)) == exact
        )


@pytest.mark.parametrize(
    "text",
    [
        "0e99999999999999999999",
        "-0.000e-99999999999999999999",
        f"0.{'0' * 5_000}1e5001",
        f"1.{'0' * 500_000}",
    ],
)
def test_a_long_way_to_write_a_number_is_that_number(text: str) -> None:
    """Zeros and exponents of any length change nothing, and cost no time."""
    assert parse_number(text) in (0, 1)
