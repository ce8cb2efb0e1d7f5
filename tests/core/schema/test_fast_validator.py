"""The fast check: it accepts only what the dialect accepts, and exists only for schemas with bounded work."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.core.schema.fast_validator import fast_validator
from sojourn.core.schema.validate import Validator

NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.sampled_from(
    [
        {},
        {"type": "string", "minLength": 1, "maxLength": 3},
        {"type": "string", "pattern": "^a+$"},
        {"type": "string", "pattern": r"^\w\d$"},
        {"type": "string", "pattern": "(?=a)b"},
        {"type": "string", "format": "date"},
        {"type": "string", "format": "email"},
        {"type": "string", "format": "idn-hostname"},
        {"type": "string", "format": "regex"},
        {"type": "integer", "minimum": 1, "maximum": 3},
        {"type": "number", "exclusiveMinimum": 1},
        {"type": "number", "multipleOf": 0.1},
        {"enum": [1, "1", None, True, 1e300]},
        {"const": 1},
        {"type": ["boolean", "null"]},
        {"$ref": "#/$defs/Leaf"},
        {"$ref": "#/$defs/Pair"},
        {"not": {"type": "integer"}},
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            lambda fields, required, more: {
                "type": "object",
                "properties": fields,
                "required": sorted(set(required)),
                "additionalProperties": more,
            },
            st.dictionaries(NAMES, inner, max_size=3),
            st.lists(NAMES, max_size=2),
            st.one_of(st.booleans(), inner),
        ),
        st.builds(
            lambda item, first, unique: {
                "type": "array",
                "items": item,
                "prefixItems": first,
                "uniqueItems": unique,
            },
            inner,
            st.lists(inner, min_size=1, max_size=2),
            st.booleans(),
        ),
        st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"oneOf": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda one, two: {"allOf": [one, two]}, inner, inner),
        st.builds(lambda one, two, three: {"if": one, "then": two, "else": three}, inner, inner, inner),
        st.builds(lambda names: {"type": "object", "propertyNames": names}, inner),
        st.builds(lambda item: {"contains": item, "maxContains": 1}, inner),
    ),
    max_leaves=6,
).map(
    lambda schema: {
        **schema,
        "$defs": {
            "Leaf": {"type": "string", "pattern": "a$"},
            "Pair": {"type": "array", "items": {"$ref": "#/$defs/Leaf"}, "maxItems": 2},
        },
    }
)
VALUES = st.recursive(
    st.sampled_from(
        [None, True, False, 0, 1, 1.0, 2, 2.5, 3.0, 10**30, 1e300, "", "a", "aa", "a\n", "b1", "é1", "٣", "1",
         "2024-01-31", "x@y", "xn--", "[", "a" * 9]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(SCHEMAS, VALUES)
def test_the_fast_check_accepts_only_valid_values(schema: dict[str, Any], value: Any) -> None:
    """For any schema and value, the dialect accepts what jsonschema-rs accepts."""
    quick = fast_validator(schema)
    if quick is not None and quick.accepts(value):
        slow = Validator(schema)
        slow._quick = None
        assert slow.is_valid(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"next": {"$ref": "#"}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": [{"$ref": "#/$defs/B"}]}, "B": {"items": {"$ref": "#/$defs/A"}}}},
        {"properties": {"a": {"multipleOf": 0.01}}},
        {"patternProperties": {"^a": {}}},
        {"unevaluatedProperties": False},
        {
            "$ref": "#/$defs/n0",
            "$defs": {
                **{f"n{n}": {"allOf": [{"$ref": f"#/$defs/n{n + 1}"}] * 2} for n in range(40)},
                "n40": {},
            },
        },
    ],
    ids=["recursive", "recursive by two", "multipleOf", "patternProperties", "unevaluated", "doubling"],
)  # fmt: skip
def test_some_schemas_have_no_fast_check(schema: dict[str, Any]) -> None:
    """Schemas whose work is not bounded by their size, or with keywords that the two validators read differently, have none."""
    assert fast_validator(schema) is None


def test_schemas_as_pydantic_writes_them_have_a_fast_check() -> None:
    """A schema with nested models, lists and optional fields has a fast check, which refuses values that do not fit."""
    quick = fast_validator(
        {
            "type": "object",
            "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}}},
            "required": ["rows"],
            "$defs": {
                "Row": {
                    "type": "object",
                    "properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
                }
            },
        }
    )
    assert quick is not None
    assert quick.accepts({"rows": [{"n": 1}, {"n": None}]})
    assert not quick.accepts({"rows": [{"n": "1"}]})
    assert not quick.accepts({"rows": float("nan")})
    assert not quick.accepts({"rows": ["\ud800"]})
