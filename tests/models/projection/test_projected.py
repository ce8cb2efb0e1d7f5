"""Schemas of tools as models are offered them."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sojourn.models.projection import project
from sojourn.testing.providers import ToolOffer
from sojourn.testing.providers.rules import anthropic, openai

CIRCLE = {"properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]}
SQUARE = {"properties": {"kind": {"const": "square"}, "a": {"type": "number"}}, "required": ["kind", "a"]}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}
BOTH = {"a": {"type": "string"}, "b": {"type": "string"}}


def refusals(schema: dict[str, Any]) -> list[str]:
    """Return what Anthropic or OpenAI refuse of a tool with this schema."""
    tool = ToolOffer("a__b__c", "", schema)
    return [*anthropic([tool]), *openai([tool])]


ROOTS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    # schema, projection, rules
    (
        {"type": "object", "oneOf": [CIRCLE, SQUARE]},
        {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["circle", "square"]},
                "r": {"type": "number"},
                "a": {"type": "number"},
            },
            "required": ["kind"],
        },
        'Give exactly one of these: `kind` is "circle", with `r`; or `kind` is "square", with `a`.',
    ),
    (
        {"oneOf": [{"$ref": "#/$defs/C"}, {"$ref": "#/$defs/S"}], "$defs": {"C": CIRCLE, "S": SQUARE}},
        {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": ["circle", "square"]},
                "r": {"type": "number"},
                "a": {"type": "number"},
            },
            "required": ["kind"],
        },
        'Give exactly one of these: `kind` is "circle", with `r`; or `kind` is "square", with `a`.',
    ),
    (
        {"type": "object", "properties": BOTH, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"type": "object", "properties": BOTH},
        "Give at least one of these: `a`; or `b`.",
    ),
    (
        {
            "type": "object",
            "allOf": [
                {"properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"properties": {"b": {}}},
            ],
        },
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
        "",
    ),
    (
        {"type": "object", "properties": BOTH, "not": {"required": ["a", "b"]}},
        {"type": "object", "properties": BOTH},
        "Do not give `a` and `b` together.",
    ),
    (
        {
            "type": "object",
            "properties": {"kind": {"type": "string"}, **BOTH},
            "if": {"properties": {"kind": {"const": "x"}}},
            "then": {"required": ["a"]},
            "else": {"required": ["b"]},
            "dependentRequired": {"a": ["kind"]},
        },
        {"type": "object", "properties": {"kind": {"type": "string"}, **BOTH}},
        'If `kind` is "x": give `a`. Unless `kind` is "x": give `b`. With `a`, also give `kind`.',
    ),
    (
        {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}},
        {**NODE, "$defs": {"Node": NODE}},
        "",
    ),
    ({"type": "object", "properties": None, "required": None}, {"type": "object", "properties": {}}, ""),
    ({}, {"type": "object", "properties": {}}, ""),
    (
        {
            "type": "object",
            "properties": {"a": {}},
            "required": ["a", "b", "a"],
            "$schema": "https://json-schema.org/draft/2020-12/schema",
        },
        {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"]},
        "",
    ),
    (
        {"type": "object", "properties": {"a": {}}, "required": ["a", "b"], "additionalProperties": False},
        {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False},
        "",
    ),
]


def test_a_root_is_one_plain_object(subtests: pytest.Subtests) -> None:
    """Combinators, conditions and references at the root become one object and sentences, which every provider takes."""
    for schema, projection, rules in ROOTS:
        with subtests.test(str(schema)):
            given_schema = deepcopy(schema)
            made = project(schema)
            assert made.schema == projection
            assert made.rules == rules
            assert schema == given_schema
            assert refusals(made.schema) == []


FIELDS: list[tuple[Any, Any]] = [
    # a field's schema, its projection
    ({"type": "array"}, {"type": "array", "items": {}}),
    ({"type": ["array", "null"]}, {"type": ["array", "null"], "items": {}}),
    ({"type": "array", "items": True}, {"type": "array", "items": {}}),
    (
        {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
        {"type": "array", "prefixItems": [{"type": "string"}], "maxItems": 1, "items": {}},
    ),
    (
        {"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "null"}},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "null"}},
    ),
    ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, {"type": "number", "exclusiveMinimum": 1}),
    ({"type": "number", "maximum": 1, "exclusiveMaximum": False}, {"type": "number", "maximum": 1}),
    ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
    (
        {"type": "string", "enum": ["a"], "nullable": True},
        {"type": ["string", "null"], "enum": ["a", None]},
    ),
    (
        {"oneOf": [{"type": "string"}], "nullable": True, "description": "d"},
        {"description": "d", "anyOf": [{"oneOf": [{"type": "string"}]}, {"type": "null"}]},
    ),
    ({"type": "any", "minLength": "1", "title": None, "required": True}, {}),
    ({"type": ["string", "file"], "$id": "x", "$schema": "y", "$comment": "z"}, {"type": "string"}),
    (True, {}),
    ({"not": False}, {"not": {"not": {}}}),
    ({"$ref": "#/nowhere", "type": "string"}, {"type": "string"}),
    (
        {
            "type": "object",
            "properties": {"a": {}, "b": False},
            "dependencies": {"a": ["c"], "c": {"required": ["a"]}},
        },
        {
            "type": "object",
            "properties": {"a": {}},
            "dependentRequired": {"a": ["c"]},
            "dependentSchemas": {"c": {"required": ["a"]}},
        },
    ),
    ({"type": "string", "pattern": r"^A-\d+$"}, {"type": "string", "pattern": "^A-[0-9]+$"}),
    (
        {"type": "string", "pattern": "(?!x)y", "description": "d"},
        {"type": "string", "description": "d Must match the pattern (?!x)y"},
    ),
]


def test_a_field_is_in_2020_12(subtests: pytest.Subtests) -> None:
    """Older forms, wrong values, and arrays without items are put right, at any depth."""
    for schema, projection in FIELDS:
        with subtests.test(str(schema)):
            made = project(
                {"type": "object", "properties": {"f": schema, "g": {"properties": {"h": schema}}}}
            ).schema
            assert made["properties"] == {"f": projection, "g": {"properties": {"h": projection}}}
            assert refusals(made) == []


def test_references_lead_to_definitions_that_are_copied_too() -> None:
    """A reference to any place leads to a definition, and no definition is kept that nothing refers to."""
    made = project(
        {
            "type": "object",
            "properties": {
                "a": {"$ref": "#/definitions/L"},
                "$b": {"type": "array"},
                "c": {"$ref": "#/properties/$b", "description": "as b"},
                "d": {"$ref": "#"},
            },
            "definitions": {"L": {"type": "array", "items": {"$ref": "#/definitions/L"}}, "unused": {}},
        }
    ).schema
    fields, definitions = made["properties"], made["$defs"]
    assert fields["a"] == {"$ref": "#/$defs/L"}
    assert fields["c"] == {"$ref": "#/$defs/b", "description": "as b"}
    assert definitions["L"] == {"type": "array", "items": {"$ref": "#/$defs/L"}}
    assert definitions["b"] == {"type": "array", "items": {}}
    assert set(definitions["root"]["properties"]) == {"a", "$b", "c", "d"}
    assert set(definitions) == {"L", "b", "root"}


def test_a_projection_is_made_once() -> None:
    """The same schema has the same projection, so that each request has the same bytes."""
    schema = {"type": "object", "properties": {"a": {}}}
    assert project(schema) is project(schema)


# Any schema at all.

ANY = st.recursive(
    st.sampled_from(
        [
            None,
            True,
            False,
            0,
            -1,
            1.5,
            "",
            "object",
            "array",
            "string",
            "a",
            r"^\d$",
            "#",
            "#/$defs/D",
            "#/x",
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "properties",
                    "required",
                    "items",
                    "prefixItems",
                    "additionalItems",
                    "additionalProperties",
                    "oneOf",
                    "anyOf",
                    "allOf",
                    "not",
                    "if",
                    "then",
                    "else",
                    "$ref",
                    "$defs",
                    "definitions",
                    "dependencies",
                    "dependentSchemas",
                    "dependentRequired",
                    "nullable",
                    "enum",
                    "const",
                    "pattern",
                    "minimum",
                    "exclusiveMinimum",
                    "maxLength",
                    "description",
                    "$id",
                    "$top",
                ]
            )
            | st.sampled_from(["D", "a"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                "type",
                "properties",
                "oneOf",
                "allOf",
                "not",
                "if",
                "then",
                "$ref",
                "$defs",
                "required",
                "items",
            ]
        ),
        ANY,
        max_size=5,
    )
)
def test_whatever_a_schema_is_its_projection_is_accepted(schema: dict[str, Any]) -> None:
    """Any JSON at all has a projection that every provider takes."""
    made = project(schema)
    Draft202012Validator.check_schema(made.schema)
    assert refusals(made.schema) == []
    assert len(made.rules) <= 600
