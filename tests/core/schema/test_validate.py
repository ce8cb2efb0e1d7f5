"""Validation: valid payloads pass, invalid ones have every issue as data, and the work is bounded.

`SOJOURN_CASES=1000 pytest tests/core/schema/test_validate.py` tries as many schemas.
"""

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.schema.enforceable import check, forbid_unknown_fields
from sojourn.core.schema.formats import FORMAT_EXAMPLES, FORMATS, matches
from sojourn.core.schema.validate import MAX_ISSUES, Validator

CASES = int(os.environ.get("SOJOURN_CASES", "120"))


def issues(schema: dict[str, Any], payload: Any) -> list[dict[str, Any]]:
    """The issues of a payload, without defaults."""
    check(schema)
    return [issue.model_dump(exclude_defaults=True) for issue in Validator(schema).issues(payload)]


def of_field(schema: Any, value: Any) -> list[dict[str, Any]]:
    """The issues of one field."""
    return issues({"properties": {"f": schema}}, {"f": value})


def test_each_constraint_has_its_name_and_what_would_fit() -> None:
    """A broken constraint becomes an issue of the field, with the data to repair it (SR-127, SR-138)."""
    rows = [
        ({"type": "string"}, 5, "invalid_field_type", {"expected_type": "string", "actual_type": "integer"}),
        ({"type": "integer"}, True, "invalid_field_type", {"expected_type": "integer", "actual_type": "boolean"}),
        ({"type": "number"}, "1", "invalid_field_type", {"expected_type": "number", "actual_type": "string"}),
        ({"type": "integer"}, 1.5, "invalid_field_type", {"expected_type": "integer", "actual_type": "number"}),
        ({"type": "object"}, [], "invalid_field_type", {"expected_type": "object", "actual_type": "array"}),
        ({"type": "array"}, {}, "invalid_field_type", {"expected_type": "array", "actual_type": "object"}),
        ({"type": ["string", "null"]}, 5, "invalid_field_type", {"expected_type": "string or null", "actual_type": "integer"}),
        ({"type": "boolean"}, None, "invalid_field_type", {"expected_type": "boolean", "actual_type": "null"}),
        ({"enum": ["a", "b"]}, "c", "invalid_enum_value", {"allowed": ["a", "b"]}),
        ({"enum": [1]}, True, "invalid_enum_value", {"allowed": [1]}),
        ({"const": "a"}, "c", "invalid_enum_value", {"allowed": ["a"]}),
        ({"format": "date-time"}, "yesterday", "invalid_format", {"format": "date-time"}),
        ({"pattern": "^s-"}, "x", "invalid_pattern", {"pattern": "^s-"}),
        ({"minimum": 1}, 0, "invalid_range", {"minimum": 1.0}),
        ({"maximum": 5}, 6, "invalid_range", {"maximum": 5.0}),
        ({"exclusiveMinimum": 0}, 0, "invalid_range", {"minimum": 0.0, "expected_type": "number above 0"}),
        ({"exclusiveMaximum": 5}, 5, "invalid_range", {"maximum": 5.0, "expected_type": "number below 5"}),
        ({"multipleOf": 5}, 7, "invalid_range", {"expected_type": "multiple of 5"}),
        ({"minimum": 10**400}, 7, "invalid_range", {}),
        ({"minLength": 2}, "a", "invalid_length", {"minimum": 2.0}),
        ({"maxLength": 2}, "abc", "invalid_length", {"maximum": 2.0}),
        ({"minItems": 1}, [], "invalid_length", {"minimum": 1.0}),
        ({"maxItems": 1}, [1, 2], "invalid_length", {"maximum": 1.0}),
        ({"prefixItems": [{}], "items": False}, [1, 2], "invalid_length", {"maximum": 1.0}),
        ({"uniqueItems": True}, [1, 1.0], "invalid_length", {"expected_type": "array without repeated items"}),
        ({"minProperties": 1}, {}, "invalid_length", {"minimum": 1.0}),
        ({"maxProperties": 0}, {"a": 1}, "invalid_length", {"maximum": 0.0}),
        ({"contains": {"const": 1}}, [2], "invalid_length", {"expected_type": "array with an item of another kind"}),
        ({"contains": {"const": 1}, "minContains": 2}, [1], "invalid_length", {"minimum": 2.0}),
        ({"contains": {"const": 1}, "maxContains": 1}, [1, 1], "invalid_length", {"maximum": 1.0}),
        ({"prefixItems": [{}], "unevaluatedItems": False}, [1, 2], "invalid_length", {"expected_type": "array with fewer items"}),
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3, "invalid_value", {"expected_type": "value that fits only one of the alternatives"}),
        ({"not": {"type": "string"}}, "a", "invalid_value", {"expected_type": "value that the schema allows"}),
        (False, 1, "unknown_field", {}),
    ]  # fmt: skip
    assert [
        (schema, value, constraint, details, found)
        for schema, value, constraint, details in rows
        if (found := of_field(schema, value)) != [{"field": "/f", "constraint": constraint, **details}]
    ] == []


def test_issues_have_the_pointers_of_their_fields() -> None:
    """An issue in a nested object, a list or a name has the JSON pointer of the field itself (SR-120, SR-139)."""
    rows = [
        ({"required": ["a", "b"]}, {"b": 1}, [("/a", "missing_field")]),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, [("/b", "missing_field")]),
        ({"properties": {"o": {"required": ["x"]}}}, {"o": {}}, [("/o/x", "missing_field")]),
        ({"items": {"required": ["x"]}}, [{"x": 1}, {}], [("/1/x", "missing_field")]),
        ({"additionalProperties": False}, {"a": 1, "b~/": 1}, [("/a", "unknown_field"), ("/b~0~1", "unknown_field")]),
        ({"additionalProperties": {"type": "string"}}, {"a": 1}, [("/a", "invalid_field_type")]),
        ({"unevaluatedProperties": False, "allOf": [{"properties": {"a": {}}}]}, {"a": 1, "x": 1}, [("/x", "unknown_field")]),
        ({"unevaluatedProperties": {"type": "string"}}, {"x": 1, "y": "s"}, [("/x", "unknown_field")]),
        ({"propertyNames": {"maxLength": 2}}, {"abc": 1}, [("/abc", "unknown_field")]),
        ({"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}, {"n1": 1, "n2": "x", "z": 1}, [("/z", "unknown_field"), ("/n2", "invalid_field_type")]),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, [1, "x"], [("/0", "invalid_field_type"), ("/1", "invalid_field_type")]),
        ({"allOf": [{"required": ["a"]}, {"required": ["a"]}]}, {}, [("/a", "missing_field")]),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}, [("/b", "missing_field")]),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, [("/b", "missing_field")]),
        ({"type": "object"}, 5, [("", "invalid_field_type")]),
        ({"propertyNames": {"maxLength": 2}, "dependentRequired": {"a": ["b"]}}, "text", []),
        ({"dependentRequired": {"a": ["b"], "c": ["d"]}}, {"c": 1}, [("/d", "missing_field")]),
    ]  # fmt: skip
    assert [
        (schema, payload, actual)
        for schema, payload, expected in rows
        if (actual := [(found["field"], found["constraint"]) for found in issues(schema, payload)])
        != expected
    ] == []


def test_a_field_with_two_issues_has_each_of_them_once() -> None:
    """Both issues of a field are returned, and an issue that `allOf` repeats is returned once."""
    short, plate = {"minLength": 5}, {"pattern": "^s-"}
    validator = Validator(
        {"type": "object", "properties": {"f": {**short, **plate, "allOf": [short, plate]}}}
    )
    issues = validator.issues({"f": "x"})
    assert sorted(issue.constraint for issue in issues) == ["invalid_length", "invalid_pattern"]
    assert {issue.field for issue in issues} == {"/f"}


def test_all_issues_are_returned_with_missing_fields_first() -> None:
    """All issues of a payload are returned at once: missing fields, unknown fields, the rest in schema order (SR-139)."""
    schema = {
        "properties": {
            "site": {},
            "limit": {"maximum": 5},
            "since": {"format": "date"},
            "tags": {"items": {"type": "string"}},
        },
        "required": ["site"],
        "additionalProperties": False,
    }
    payload = {"tags": ["a", 1], "since": "x", "limit": 6, "sit": 1}
    assert [issue["field"] for issue in issues(schema, payload)] == [
        "/site",
        "/sit",
        "/limit",
        "/since",
        "/tags/1",
    ]


CIRCLE = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}},
    "required": ["kind", "r"],
}
SQUARE = {
    "type": "object",
    "properties": {"kind": {"enum": ["square", "box"]}, "s": {"type": "number"}},
    "required": ["kind", "s"],
}
NULL = {"type": "null"}
BY_REFERENCE = {
    "$defs": {"C": CIRCLE, "S": SQUARE},
    "oneOf": [{"$ref": "#/$defs/C"}, {"$ref": "#/$defs/S"}, NULL],
}


def test_a_union_has_the_issues_of_the_likely_branch(subtests: pytest.Subtests) -> None:
    """A constant selects the branch, else the type, else the fewest issues; a wrong tag's issue lists the right ones."""
    rows = [
        ({"anyOf": [{"type": "string"}, NULL]}, 5, [("", "invalid_field_type", "string or null", None)]),
        ({"anyOf": [{"type": "string"}, {"anyOf": [{"type": "boolean"}, NULL]}]}, 5, [("", "invalid_field_type", "string or boolean or null", None)]),
        ({"anyOf": [{"enum": ["a"], "type": "string"}, NULL]}, 5, [("", "invalid_field_type", "string or null", None)]),
        ({"anyOf": [{"enum": ["a"], "type": "string"}, NULL]}, "b", [("", "invalid_enum_value", None, ["a"])]),
        ({"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 1}]}, 0, [("", "invalid_range", None, None)]),
        ({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}, [5], [("/0", "invalid_field_type", "string", None)]),
        ({"anyOf": [{"required": ["a", "b"]}, {"required": ["a", "c", "d"]}]}, {"a": 1}, [("/b", "missing_field", None, None)]),
        ({"oneOf": [CIRCLE, SQUARE]}, {"kind": "square"}, [("/s", "missing_field", None, None)]),
        ({"oneOf": [CIRCLE, SQUARE]}, {"kind": "oval"}, [("/kind", "invalid_enum_value", None, ["circle", "square", "box"])]),
        ({"oneOf": [CIRCLE, SQUARE]}, {"r": 1}, [("/kind", "missing_field", None, ["circle", "square", "box"])]),
        ({"anyOf": [CIRCLE, SQUARE, NULL]}, {"kind": 5}, [("/kind", "invalid_enum_value", None, ["circle", "square", "box"])]),
        (BY_REFERENCE, {"kind": "circle", "r": "x"}, [("/r", "invalid_field_type", "number", None)]),
        (BY_REFERENCE, 5, [("", "invalid_field_type", "object or null", None)]),
        ({"anyOf": [False, {"type": "string"}]}, 5, [("", "invalid_field_type", "string", None)]),
        ({"oneOf": [{**CIRCLE, "required": []}, SQUARE]}, {"r": "x"}, [("/r", "invalid_field_type", "number", None)]),
        ({"anyOf": [{**CIRCLE, "required": []}, {"properties": {"kind": True}}]}, {"kind": 1}, []),
    ]  # fmt: skip
    for schema, value, expected in rows:
        with subtests.test(str((schema, value, expected))):
            found = [
                (each["field"], each["constraint"], each.get("expected_type"), each.get("allowed"))
                for each in issues(schema, value)
            ]
            assert found == expected


def test_a_long_chain_of_references_is_no_discriminator() -> None:
    """Branches behind long chains of references are tried one by one, with the same result."""
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(9)}
    schema = {
        "$defs": {**chain, "d9": CIRCLE, "S": SQUARE},
        "oneOf": [{"$ref": "#/$defs/d0"}, {"$ref": "#/$defs/S"}],
    }
    assert issues(schema, {"kind": "circle", "r": 1}) == []
    assert [found["field"] for found in issues(schema, {"kind": "circle"})] == ["/r"]


def test_unevaluated_properties_agree_with_jsonschema(subtests: pytest.Subtests) -> None:
    """Sojourn's own `unevaluatedProperties`, whose patterns run on RE2, accepts what jsonschema accepts."""
    rows = [
        ({"anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}}]}, {"a": 1, "b": 1}, {"c": 1}),
        ({"anyOf": [True, {"required": ["z"]}]}, {}, None),
        ({"patternProperties": {"^a": {}}}, {"ab": 1}, {"c": 1}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {}}}}}, {"a": 1}, {"c": 1}),
        ({"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"properties": {"a": {}}}, "else": {"properties": {"b": {}}}}, {"k": 1, "a": 1}, {"k": 2, "b": 1}),
        ({"dependentSchemas": {"a": {"properties": {"b": {}}}}, "properties": {"a": {}}}, {"a": 1, "b": 1}, {"b": 1}),
        ({"additionalProperties": True}, {"c": 1}, None),
        ({"allOf": [{"unevaluatedProperties": True}]}, {"c": 1}, None),
    ]  # fmt: skip
    for schema, good, bad in rows:
        with subtests.test(schema=schema, good=good, bad=bad):
            closed = {**schema, "unevaluatedProperties": False}
            for payload in (good, bad, {}, {"a": 1, "b": 1, "k": 1, "c": 1}, "text"):
                assert Validator(closed).is_valid(payload) == Draft202012Validator(closed).is_valid(payload)
            assert Validator(closed).is_valid(good)


def test_the_fields_of_a_failed_union_are_not_unknown() -> None:
    """If no branch of a closed union fits, the only issue is the invalid value, not an unknown field."""
    schema = forbid_unknown_fields(
        {"properties": {"a": {}}, "anyOf": [{"properties": {"b": {"type": "string"}}, "required": ["b"]}]}
    )
    assert [(found["field"], found["constraint"]) for found in issues(schema, {"a": 1, "b": 2})] == [
        ("/b", "invalid_field_type")
    ]


def test_multiples_are_counted_in_decimals() -> None:
    """19.99 is a multiple of 0.01, though not in binary fractions; infinity is a multiple of no number."""
    rows = [(0.01, 19.99, True), (0.1, 0.3, True), (0.1, 0.35, False), (5, 10, True), (5, 10.0, True), (0.5, 10**299, True), (3, 1e300, False), (2, float("inf"), False), (2, "x", True), (2, True, True)]  # fmt: skip
    assert [
        (step, number, found)
        for step, number, fits in rows
        if (found := Validator({"multipleOf": step}).is_valid(number)) is not fits
    ] == []


def test_items_repeat_when_they_are_equal_json(subtests: pytest.Subtests) -> None:
    """Items are compared as JSON: 1 equals 1.0, and true does not equal 1."""
    rows = [([1, True], True), ([0, False], True), ([1, 1.0], False), ([[1], [True]], True), ([{"a": 1}, {"a": 1.0}], False), ([{"a": [1]}, {"a": [2]}], True), (["1", 1], True), ([None, None], False), ("aa", True)]  # fmt: skip
    for items, unique in rows:
        with subtests.test(items=items, unique=unique):
            assert Validator({"uniqueItems": True}).is_valid(items) is unique


def test_every_enforced_format_has_an_example_that_fits_and_refuses_nonsense(
    subtests: pytest.Subtests,
) -> None:
    """An enforced format accepts its example and values that are no strings, and refuses nonsense (SR-138)."""
    rows = sorted(FORMAT_EXAMPLES)
    for name in rows:
        with subtests.test(str(name)):
            assert FORMATS.conforms(FORMAT_EXAMPLES[name], name)
            assert FORMATS.conforms(5, name)
            assert not FORMATS.conforms("\u00b2 \ud800 \x00", name)
            assert not FORMATS.conforms("²" + " " * 20_000, name)


def test_only_a_uri_may_have_more_than_8_192_characters() -> None:
    """A string with a format has at most 8,192 characters; a URI may have more, since `data:` holds a whole file."""
    email = "a@" + "b" * 8_190
    assert FORMATS.conforms(email, "email")
    assert not FORMATS.conforms(email + "b", "email")
    assert FORMATS.conforms("data:," + "x" * 8_192, "uri")


def test_an_address_needs_both_halves(subtests: pytest.Subtests) -> None:
    """An e-mail address has exactly one `@`, with text without spaces on both sides."""
    rows = ["@", "a@", "@b", "a b@c", "a@b@c", "a@b c"]
    for address in rows:
        with subtests.test(address=address):
            assert not FORMATS.conforms(address, "email")


def test_a_duration_is_that_of_rfc_3339() -> None:
    """The format `duration` is that of RFC 3339, Appendix A, with fractions of seconds."""
    rows = [("P1Y2M3DT4H5M6S", True), ("PT0.5S", True), ("P2W", True), ("P1D", True), ("P", False), ("PT", False), ("P1DT", False), ("1D", False), ("P1D2H", False), ("P1W2D", False), ("-P1D", False)]  # fmt: skip
    assert [
        (text, found) for text, fits in rows if (found := FORMATS.conforms(text, "duration")) is not fits
    ] == []


@given(st.sampled_from(sorted(FORMAT_EXAMPLES)), st.text(max_size=40))
def test_no_text_makes_a_format_raise(name: str, text: str) -> None:
    """Checking a format returns a boolean for every string."""
    assert FORMATS.conforms(text, name) in (True, False)


def test_patterns_are_those_of_json_schema_on_re2() -> None:
    """Patterns follow ECMA 262 as far as RE2 supports it; an unsupported pattern accepts every text."""
    rows = [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        ("b", "abc", True),
        (r"^\u00e9$", "é", True),
        (r"^\\u00e9$", r"\u00e9", True),
        (r"^\d$", "٣", False),
        (r"^\p{L}+$", "é", True),
        ("^(?!a)", "a", True),
        ("(", "a", True),
        ("^.$", "\ud800", True),
    ]
    assert [
        (pattern, text, actual)
        for pattern, text, found in rows
        if (actual := matches(pattern, text)) is not found
    ] == []


def ends(schema: dict[str, Any], payload: Any) -> list[FieldIssue]:
    """The issues of a payload; exponential work would exceed the suite's time limit."""
    return Validator(schema).issues(payload)


def test_a_hostile_pattern_costs_linear_time() -> None:
    """A pattern with exponential work in Python's `re` is decided at once, in every keyword that has patterns."""
    evil, text = "^(a+)+$", "a" * 5_000 + "!"
    assert ends({"pattern": evil}, text)
    assert ends({"patternProperties": {evil: {}}, "additionalProperties": False}, {text: 1})
    assert ends({"patternProperties": {evil: {}}, "unevaluatedProperties": False}, {text: 1})


def test_a_recursive_union_has_bounded_work() -> None:
    """Where no tag distinguishes the branches of a recursive union, a deep payload is refused as too large."""
    branch = {"properties": {"l": {"$ref": "#"}, "r": {"type": "integer"}}}
    schema = {"anyOf": [{**branch, "required": ["a"]}, {**branch, "required": ["b"]}, {"type": "integer"}]}
    check(schema)
    payload: dict[str, Any] = {"r": "x"}
    for _ in range(40):
        payload = {"l": payload, "r": 1}
    (found,) = ends(schema, payload)
    assert (found.field, found.constraint) == ("", "invalid_length")


def test_a_discriminated_recursion_stays_linear() -> None:
    """A tagged expression nested 60 levels deep is valid; trying all branches would take 2**60 steps."""
    member = {"properties": {"l": {"$ref": "#"}}, "required": ["op"]}
    schema = {
        "anyOf": [
            {**member, "properties": {**member["properties"], "op": {"const": op}}}
            for op in ("and", "or", "not")
        ]
    }
    payload: dict[str, Any] = {"op": "not"}
    for _ in range(60):
        payload = {"op": "not", "l": payload}
    assert ends(schema, payload) == []


def test_many_equal_looking_items_are_compared_in_linear_time() -> None:
    """`uniqueItems` does not compare each of 20,000 objects with each other."""
    assert ends({"uniqueItems": True}, [{"a": n} for n in range(20_000)]) == []


def test_issues_are_bounded() -> None:
    """A payload has at most 50 issues, with pointers of at most 500 characters and at most 50 allowed values."""
    payload = {f"x{n}": 1 for n in range(500)} | {"k" * 10_000: 1, "\ud800": 1}
    found = Validator({"additionalProperties": False, "properties": {"e": {}}}).issues(payload)
    assert len(found) == MAX_ISSUES
    (wide,) = Validator({"enum": [*range(500), "x" * 5_000]}).issues("y")
    assert wide.allowed == list(range(50))
    (long,) = Validator({"enum": ["x" * 5_000, 1]}).issues("y")
    assert long.allowed == [1]
    (name,) = Validator({"additionalProperties": False}).issues({"k" * 10_000: 1})
    assert len(name.field) == 500
    (half,) = Validator({"additionalProperties": False}).issues({"\ud800": 1})
    assert half.model_dump_json()


def test_a_value_that_cannot_be_validated_is_refused() -> None:
    """Too deep values, huge integers and broken references are invalid, and validation raises nothing."""
    deep: Any = "x"
    for _ in range(2_000):
        deep = [deep]
    schema = {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "integer"}]}
    assert [issue.field for issue in Validator(schema).issues(deep)] == [""]
    assert [issue.field for issue in Validator({"maximum": 5}).issues(10**5_000)] == [""]
    assert not Validator({"maximum": 5}).is_valid(10**4_000)
    assert not Validator({"$ref": "#/nowhere"}).is_valid(1)


def test_a_value_can_be_validated_against_a_subschema() -> None:
    """A value is validated against a subschema, with the definitions of the whole schema."""
    validator = Validator({"$defs": {"A": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/A"}}})
    assert validator.is_valid(5, schema={"$ref": "#/$defs/A"})
    assert not validator.is_valid("x", schema={"$ref": "#/$defs/A"})


SCALARS = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 2, "maxLength": 4},
        {"type": "string", "pattern": "^a"},
        {"type": "string", "format": "date"},
        {"type": "integer", "minimum": 1, "maximum": 9},
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 3},
        {"type": "integer", "multipleOf": 3},
        {"type": "boolean"},
        {"type": ["integer", "null"]},
        {"enum": ["a", "b", 1, None]},
        {"const": "a"},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"$ref": "#/$defs/Code"},
        True,
        False,
    ]
)
DEFINITIONS = {"Code": {"type": "string", "minLength": 1, "maxLength": 3}}
NAMES = st.sampled_from(["a", "b", "c", "kind"])


def objects(fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A strategy for schemas of objects with these fields."""
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, fields, max_size=3)},
        optional={
            "required": st.lists(NAMES, unique=True, max_size=2),
            "additionalProperties": st.booleans() | fields,
            "minProperties": st.just(1),
        },
    )


FIELDS = st.recursive(
    SCALARS,
    lambda inner: (
        objects(inner)
        | st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner},
            optional={
                "uniqueItems": st.just(True),
                "maxItems": st.just(2),
                "prefixItems": st.lists(inner, min_size=1, max_size=1),
            },
        )
        | st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)})
        | st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2)})
    ),
    max_leaves=6,
)
SCHEMAS = objects(FIELDS).map(lambda schema: {**schema, "$defs": DEFINITIONS})
VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, 2.5, 3, 12, "", "a", "b", "abc", "zzzzz", "2024-01-31"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
PAYLOADS = st.dictionaries(NAMES, VALUES, max_size=4)


@settings(max_examples=CASES, deadline=None)
@given(SCHEMAS, PAYLOADS)
def test_there_are_no_issues_exactly_when_jsonschema_accepts(
    schema: dict[str, Any], payload: dict[str, Any]
) -> None:
    """The dialect accepts what jsonschema accepts, and a refused payload has issues, the same each time."""
    check(schema)
    accepted = Draft202012Validator(schema, format_checker=FORMATS).is_valid(payload)
    validator = Validator(schema)
    assert validator.is_valid(payload) is accepted
    found = validator.issues(payload)
    assert bool(found) is not accepted
    assert found == validator.issues(payload)
    assert all(issue.constraint and len(issue.model_dump_json()) < 3_000 for issue in found)


@settings(max_examples=CASES, deadline=None)
@given(SCHEMAS, PAYLOADS)
def test_closing_only_refuses_unknown_fields(schema: dict[str, Any], payload: dict[str, Any]) -> None:
    """Without unions, a payload that the open schema accepts has only issues of unknown fields in the closed one."""
    made = forbid_unknown_fields(schema)
    check(made)
    if "oneOf" not in str(schema) and Validator(schema).is_valid(payload):
        for issue in Validator(made).issues(payload):
            assert issue.constraint in (
                "unknown_field",
                "invalid_field_type",
                "invalid_enum_value",
                "invalid_length",
                "invalid_pattern",
                "invalid_format",
                "invalid_range",
                "missing_field",
            )
            assert issue.constraint == "unknown_field" or "anyOf" in str(schema)


TIMES = [
    ("date-time", "2026-12-01T10:00:00Z", True, True),
    ("date-time", "2026-12-01T10:00:00", False, True),
    ("date-time", "2026-12-01 10:00", False, True),
    ("date-time", "2026-12-01T10:00:00+0100", False, True),
    ("date-time", "1764583200", False, False),
    ("date-time", "tomorrow", False, False),
    ("date-time", "2026-13-01T10:00:00", False, False),
    ("time", "10:00", False, True),
    ("time", "10", False, False),
    ("date", "2026-12-01", True, True),
    ("date", "2026-12-01T00:00:00", False, True),
    ("date", "2026-12-01T10:00:00", False, False),
    ("duration", "PT1H", True, True),
    ("duration", "04:00:00", False, True),
    ("duration", "30", False, False),
    ("email", "nobody", False, False),
]


def test_a_type_takes_its_own_forms_of_times(subtests: pytest.Subtests) -> None:
    """A schema of a Python type takes the dates and times that pydantic reads, by the fast check and the full one alike."""
    for name, text, strict, typed in TIMES:
        with subtests.test(name=name, text=text, strict=strict, typed=typed):
            schema = {"type": "object", "properties": {"f": {"type": "string", "format": name}}}
            for is_typed, fits in ((False, strict), (True, typed)):
                validator = Validator(schema, typed=is_typed)
                assert validator.is_valid({"f": text}) is fits
                assert (validator.issues({"f": text}) == []) is fits
                assert validator.fits_at_once({"f": text}) is fits


def test_whole_floats_are_no_integers_where_that_is_asked() -> None:
    """By JSON Schema `1.0` is an integer; the issues of a strict reading name it."""
    validator = Validator(
        {"type": "object", "properties": {"n": {"type": ["integer", "null"]}, "f": {"type": "number"}}}
    )
    payload = {"n": 1.0, "f": 2.0}
    assert validator.is_valid(payload)
    assert validator.issues(payload) == []
    assert [issue.field for issue in validator.issues(payload, exact_integers=True)] == ["/n"]
    assert (
        validator.has_integers,
        Validator({"properties": {"integer": {"type": "string"}}}).has_integers,
    ) == (True, False)
