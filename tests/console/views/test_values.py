"""Values: which JSON is shown as fields, as a table, as a picture, as text."""

from hypothesis import given
from hypothesis import strategies as st

from sojourn.console.views.values import MOST, line_of, view_value

json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def test_a_value_has_the_shape_that_shows_it_best() -> None:
    """Only pictures of four kinds that no browser runs are shown as pictures."""
    rows = [
        (None, "nothing"),
        ({}, "nothing"),
        ({"a": 1, "b": {"c": 2}}, "fields"),
        ([{"a": 1}, {"a": 2, "b": 3}], "table"),
        ([1, 2], "json"),
        ([{"a": 1}], "json"),
        ("text", "text"),
        ("data:image/png;base64,AAAA", "picture"),
        ({"media_type": "image/png", "data": "AAAA"}, "picture"),
        ({"media_type": "image/svg+xml", "data": "AAAA"}, "fields"),
        ("data:text/html;base64,AAAA", "text"),
        ({"media_type": "image/png", "data": "' onerror='x"}, "fields"),
    ]
    assert [(value, found) for value, kind in rows if (found := view_value(value).kind) != kind] == []


@given(json_values)
def test_every_value_can_be_shown(value):
    """And on a line."""
    assert view_value(value).kind
    assert isinstance(line_of(value), str)


def test_what_is_long_is_cut_and_says_so():
    """A text, a field, a table; the size is that of the whole."""
    long = "x" * 1_000_000
    assert (len(view_value(long).text), view_value(long).is_whole, view_value(long).size) == (
        MOST,
        False,
        1_000_000,
    )
    assert not view_value({"a": long}).is_whole
    table = view_value([{"a": n} for n in range(500)])
    assert (len(table.rows), table.size, table.is_whole) == (20, 500, False)
    assert line_of([{"a": 1, "b": 2}] * 3) == "3 items: a, b"
