"""Integers that JavaScript rounds become texts, and nothing else changes."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from sojourn.values.numbers import is_exact, is_same, write_exact

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
@example({"a": [2**53, 2**53 - 1, -(2**53)]})
def test_an_exact_value_is_not_rounded(value: object) -> None:
    """Read with every number as a double, an exact value is the same, and has the digits of each large integer."""
    shown = write_exact(value)
    read = json.loads(json.dumps(shown), parse_int=lambda digits: int(float(digits)))
    assert read == shown
    assert is_exact(shown)
    assert is_exact(value) == (shown == value)


def test_large_integers_are_their_digits() -> None:
    """Only integers beyond the safe ones change; truth is no number."""
    assert write_exact({"a": [2**53, 2**53 - 1], "b": {"c": -(2**63)}, "d": True}) == {
        "a": ["9007199254740992", 2**53 - 1],
        "b": {"c": "-9223372036854775808"},
        "d": True,
    }


def test_same_is_what_a_client_in_javascript_cannot_tell_apart() -> None:
    """`1.0` is `1`, and neither truth nor a text is a number."""
    assert is_same({"a": [1.0, None]}, {"a": [1, None]})
    for one, other in (
        (1, True),
        (0, False),
        ("1", 1),
        ([1], [1, 2]),
        ({"a": 1}, {"b": 1}),
        (None, False),
        ([], {}),
    ):
        assert not is_same(one, other)
