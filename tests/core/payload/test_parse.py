"""Arguments from a model: parsed within limits, repaired only without loss, never guessed."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sojourn.core.payload.parse import Parsed, ParseFault, depth_of, json_fault, parse_arguments
from sojourn.values.json_fault import MAX_DEPTH, MAX_DIGITS
from sojourn.values.numbers import parse_number

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECT = st.dictionaries(st.text(), JSON, max_size=5)


def fault(raw: str, **options: Any) -> ParseFault:
    """The fault of a text that cannot be parsed as a payload."""
    found = parse_arguments(raw, **options)
    assert isinstance(found, ParseFault)
    return found


@given(OBJECT)
def test_a_json_object_is_parsed_without_repairs(payload: dict[str, Any]) -> None:
    """Every JSON object is read back equal, with no repair."""
    text = json.dumps(payload)
    assert parse_arguments(text) == Parsed(json.loads(text, parse_float=parse_number))


@given(
    st.text()
    | st.text('{}[]",:\\ \n`123e.-nulltrue', max_size=60)
    | st.binary().map(lambda raw: raw.decode("latin-1"))
)
@example("[" * 100_000)
@example('{"a":' * 100_000)
@example('{"a":' + "1" * 5_000 + "}")
@example('{"a":-' + "1" * 5_000 + "}")
@example('{"a":1e999}')
@example('{"a":"\ud800"}')
@example("\ufeff{}")
@example("\x00")
def test_every_text_gives_a_payload_or_a_fault(raw: str) -> None:
    """Parsing any text raises nothing; a fault has a kind and a message of less than 300 characters."""
    found = parse_arguments(raw)
    if isinstance(found, Parsed):
        assert json_fault(found.payload) is None
    else:
        assert found.kind
        assert 0 < len(found.message) < 300


def test_two_lossless_repairs_are_made_and_recorded(subtests: pytest.Subtests) -> None:
    """A code fence and a trailing comma are removed and recorded; strings that look like them are unchanged."""
    rows = [
        ('```json\n{"a": 1}\n```', {"a": 1}, ("code_fence",)),
        ('  ```\n{"a": 1}```\n', {"a": 1}, ("code_fence",)),
        ('```{"a": 1}```', {"a": 1}, ("code_fence",)),
        ('{"a": [1, 2,], }', {"a": [1, 2]}, ("trailing_comma",)),
        ('```json\n{"a": 1,}\n```', {"a": 1}, ("code_fence", "trailing_comma")),
        ('{"a": ",}", "b": "\\",]",}', {"a": ",}", "b": '",]'}, ("trailing_comma",)),
    ]
    for raw, payload, repairs in rows:
        with subtests.test(raw=raw, payload=payload, repairs=repairs):
            assert parse_arguments(raw) == Parsed(payload, repairs)


def test_unparsable_arguments_are_a_fault_with_its_position(subtests: pytest.Subtests) -> None:
    """Unparsable or truncated arguments never become `{}`: the fault has its kind and position."""
    rows = [
        ("", "empty", 0),
        (" \n", "empty", 0),
        ('{"a": 1', "truncated", 7),
        ('{"a": tru', "truncated", 6),
        ('{"a": "x', "truncated", 6),
        ('{"a": 1,,}', "syntax", 8),
        ('{"a": }', "syntax", 6),
        ('{"a": 1} and more', "syntax", 9),
        ("call it with a = 1", "syntax", 0),
        ("{'a': 1}", "syntax", 1),
        ('```json\n{"a": }\n```', "syntax", 14),
        ("[1]", "not_an_object", 0),
        ("null", "not_an_object", 0),
        ("true", "not_an_object", 0),
        ("4", "not_an_object", 0),
        ('"{}"', "not_an_object", 0),
        ('{"a": NaN}', "number", None),
        ('{"a": -Infinity}', "number", None),
        ('{"a": 1e400}', "number", None),
        ('{"a": ' + "9" * (MAX_DIGITS + 1) + "}", "number", None),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "duplicate_key", None),
        ('{"a": "\\ud83d"}', "not_json", None),
        ('{"\\ud83d": 1}', "not_json", None),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), "too_deep", None),
    ]
    for raw, kind, position in rows:
        with subtests.test(str((raw, kind, position))):
            found = fault(raw)
            assert (found.kind, found.position) == (kind, position)


def test_a_fault_has_its_line_and_column() -> None:
    """A fault's line and column are counted from 1, and `near` has the text around it."""
    found = fault('{"a": 1,\n  "b": oops}')
    assert (found.line, found.column) == (2, 8)
    assert "line 2, column 8" in found.message
    assert "oops" in found.near


def test_the_word_null_is_an_argument_like_any_other() -> None:
    """The value null and the text "null" are kept in the payload."""
    assert parse_arguments('{"a": null, "b": "null"}') == Parsed({"a": None, "b": "null"})


def test_size_is_counted_in_bytes() -> None:
    """A text over the limit in bytes, as UTF-8, is refused before it is parsed."""
    assert fault('{"a": "éé"}', max_bytes=12).kind == "too_large"
    assert fault("x" * 20, max_bytes=12).kind == "too_large"
    assert parse_arguments('{"a": "ee"}', max_bytes=12) == Parsed({"a": "ee"})


def test_numbers_at_the_limit_pass() -> None:
    """An integer of 300 digits is allowed, with and without a sign."""
    number = int("9" * MAX_DIGITS)
    assert parse_arguments(f'{{"a": [{number}, -{number}]}}') == Parsed({"a": [number, -number]})


def test_parsing_takes_linear_time() -> None:
    """Half a megabyte of quotes, escapes, commas or blanks is refused at once; a quadratic scan would take minutes."""
    for raw in (
        '"\\"' * 150_000,
        '{"a":"' + '\\"' * 200_000,
        "{" + "," * 400_000,
        "{" + ", " * 200_000,
        "{" + " \n" * 200_000 + ",",
        "`" * 400_000,
    ):
        assert isinstance(parse_arguments(raw), ParseFault)


@pytest.mark.parametrize(("value", "depth"), [(1, 0), ({}, 1), ([[]], 2), ({"a": [{"b": 1}]}, 3)])
def test_depth_counts_containers(value: Any, depth: int) -> None:
    """The depth of a value is the number of objects and arrays inside one another."""
    assert depth_of(value) == depth


def test_the_depth_of_a_deep_nesting_stops_at_the_limit() -> None:
    """`depth_of` does not recurse, and counts to one more than the limit."""
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert depth_of(value) == MAX_DEPTH + 1
    found = json_fault(value)
    assert found is not None
    assert found.kind == "too_deep"


def test_a_value_that_no_run_can_carry_is_a_fault(subtests: pytest.Subtests) -> None:
    """A planner's payload has the same limits as a model's text."""
    rows = [
        ({"a": float("nan")}, "number"),
        ({"a": float("inf")}, "number"),
        ({"a": 10**5_000}, "number"),
        ({"a": -(10**MAX_DIGITS)}, "number"),
        ({"a": "\udc00"}, "not_json"),
        ({"a": {1, 2}}, "not_json"),
        ({"a": (1, 2)}, "not_json"),
        ({"a": {"\udc00": 1}}, "not_json"),
        ({1: "a"}, "not_json"),
        ({"a": "x" * 100}, "too_large"),
    ]
    for number, (value, kind) in enumerate(rows):
        with subtests.test(f"row {number}, {kind}"):
            found = json_fault(value, max_bytes=100)
            assert found is not None
            assert found.kind == kind


@given(JSON)
def test_plain_json_fits(value: Any) -> None:
    """A JSON value within the limits has no fault."""
    assert json_fault(value) is None
