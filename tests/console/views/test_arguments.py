"""Arguments as tables: each value as it is, and what differs between two calls."""

from sojourn.console.views.values import MOST_ROWS, arguments_of


def test_a_value_that_could_be_another_is_in_quotes():
    """A text of digits, an empty one and one with spaces at its ends are told from numbers and from nothing."""
    rows = {
        row.name: row.value
        for row in arguments_of({"a": "7", "b": 7, "c": "", "d": " x", "e": "x y", "f": None}).rows
    }
    assert rows == {"a": '"7"', "b": "7", "c": '""', "d": '" x"', "e": "x y", "f": "null"}


def test_what_differs_from_another_call_is_marked():
    """Changed values say what they were, also by their type; new ones and those that are gone are told."""
    made = arguments_of({"a": 1, "b": {"c": ["x"]}, "d": True}, {"a": 1, "b": {"c": ["y"]}, "d": 1, "e": 2})
    rows = {row.name: (row.change, row.before) for row in made.rows}
    assert rows == {"a": ("", ""), "b.c[0]": ("changed", "y"), "d": ("changed", "1"), "e": ("gone", "2")}
    assert made.changed == 3


def test_a_thousand_values_are_cut_and_still_whole():
    """A table has so many rows; the rest is counted, and all of it is there as JSON."""
    made = arguments_of({f"k{n}": n for n in range(1_000)})
    assert (len(made.rows), made.left_out) == (MOST_ROWS, 800)
    assert '"k999": 999' in made.whole


def test_long_names_that_begin_alike_can_be_told_apart():
    """Of a long name the beginning is shown, its length, and all of it."""
    one, other = arguments_of({"n" * 300 + "1": 1, "n" * 300 + "2": 2, "short": 3}).rows[:2]
    assert one.name == other.name == "n" * 100
    assert (one.whole_name, other.whole_name) == ("n" * 300 + "1", "n" * 300 + "2")
    assert one.name_length == 301
    assert arguments_of({"short": 3}).rows[0].whole_name == ""
