"""JSON texts: a name that stands twice in one object is found, whatever is around it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.values.json_text import DuplicateNameError, duplicate_name, loads

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_what_has_each_name_once_is_read_as_it_is(value):
    """Nothing is found in a value that a program has written, and it is read as Python reads it."""
    text = json.dumps(value)
    assert loads(text) == value
    assert duplicate_name(text) is None
    assert duplicate_name(text.encode()) is None


@given(JSON, st.text(max_size=3), st.text(max_size=3))
def test_a_name_that_stands_twice_is_found(value, name, other):
    """At any depth, in whichever spelling."""
    escaped = "".join(f"\\u{ord(sign):04x}" if ord(sign) < 2**16 else sign for sign in name)
    if any(0xD800 <= ord(sign) < 0xE000 for sign in name):
        escaped = json.dumps(name)[1:-1]
    inner = (
        f'{{{json.dumps(name)}: 1, {json.dumps(other + name + "x")}: {json.dumps(value)}, "{escaped}": 2}}'
    )
    text = f'[{json.dumps(value)}, {{"a": {inner}}}]'
    assert duplicate_name(text) == name
    with pytest.raises(DuplicateNameError) as caught:
        loads(text)
    assert caught.value.name == name


@pytest.mark.parametrize(
    "text",
    [
        '\ufeff{"a": 1, "a": 2}',
        ' \r\n\t{"a": 1, "a": 2}',
        '{"n": ' + "9" * 5_000 + ', "a": 1, "a": 2}',
        '{"n": NaN, "a": 1, "a": 2}',
        '{"n": "\x01", "a": 1, "a": 2}',
        '{"n": {"a": 1, "a": 2}, ',
    ],
    ids=["byte order mark", "white space", "long number", "no number", "control character", "cut off"],
)
def test_it_is_found_in_whatever_some_reader_accepts(text):
    """A reader that is less strict than others is no way around."""
    assert duplicate_name(text.encode()) == "a"


def test_of_what_is_no_json_nothing_is_told(subtests: pytest.Subtests) -> None:
    """It is for the route to say what is wrong with it."""
    rows = [b"", b"a=1&a=2", b'"x"', b"{", b'\xff{"a": 1, "a": 2}', b"[" * 100_000]
    for body in rows:
        with subtests.test(body=body):
            assert duplicate_name(body) is None
