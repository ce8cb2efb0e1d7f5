"""Schemas: closing them against unknown fields, refusing those that cannot be enforced, reading their descriptions."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from sojourn.core.schema.enforceable import check, field_descriptions, forbid_unknown_fields
from sojourn.core.schema.validate import Validator

OBJECT_A = {"type": "object", "properties": {"a": {"type": "integer"}}}
OBJECT_B = {"type": "object", "properties": {"b": {"type": "integer"}}}
OBJECT_AB = {"type": "object", "properties": {**OBJECT_A["properties"], **OBJECT_B["properties"]}}
DEFS = {"$defs": {"A": OBJECT_A, "B": OBJECT_B}}
REF_A, REF_B = {"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}


def closed(schema: dict[str, Any]) -> Validator:
    """The validator of the closed schema."""
    made = forbid_unknown_fields(schema)
    check(made)
    return Validator(made)


def test_an_undeclared_field_is_refused_everywhere(subtests: pytest.Subtests) -> None:
    """A closed schema refuses undeclared fields at every place, and no declared field (SR-127)."""
    rows = [
        (OBJECT_A, {"a": 1}, {"a": 1, "x": 1}),
        ({"properties": {"o": OBJECT_A}}, {"o": {"a": 1}}, {"o": {"x": 1}}),
        ({"type": "array", "items": OBJECT_A}, [{"a": 1}], [{"x": 1}]),
        ({"type": "array", "prefixItems": [OBJECT_A]}, [{"a": 1}], [{"x": 1}]),
        ({"additionalProperties": OBJECT_A}, {"k": {"a": 1}}, {"k": {"x": 1}}),
        ({"patternProperties": {"^k": OBJECT_A}}, {"k": {"a": 1}}, {"x": {"a": 1}}),
        ({"patternProperties": {"^k": OBJECT_A}}, {"k": {"a": 1}}, {"k": {"x": 1}}),
        ({**DEFS, "properties": {"o": REF_A}}, {"o": {"a": 1}}, {"o": {"x": 1}}),
        ({"anyOf": [OBJECT_A, {"type": "null"}]}, {"a": 1}, {"x": 1}),
        ({"anyOf": [OBJECT_A, {"type": "null"}]}, None, 5),
        ({"anyOf": [OBJECT_A, OBJECT_B]}, {"b": 1}, {"a": 1, "b": 1}),
        ({**DEFS, "allOf": [REF_A]}, {"a": 1}, {"x": 1}),
        ({"allOf": [OBJECT_A, OBJECT_B]}, {"a": 1, "b": 1}, {"a": 1, "x": 1}),
        ({**DEFS, "allOf": [REF_A, REF_B]}, {"a": 1, "b": 1}, {"x": 1}),
        ({**DEFS, **REF_A, "properties": {"c": {}}}, {"a": 1, "c": 1}, {"x": 1}),
        ({**OBJECT_A, "anyOf": [OBJECT_B, {"properties": {"c": {}}}]}, {"a": 1, "c": 1}, {"x": 1}),
        ({**OBJECT_A, "anyOf": [{"required": ["a"]}, {"required": ["z"]}]}, {"a": 1}, {"a": 1, "x": 1}),
        ({**OBJECT_A, "if": {"required": ["a"]}, "then": OBJECT_B}, {"a": 1, "b": 1}, {"a": 1, "x": 1}),
        ({**OBJECT_A, "if": {"required": ["a"]}, "else": OBJECT_B}, {"b": 1}, {"a": 1, "b": 1}),
        ({**OBJECT_A, "dependentSchemas": {"a": OBJECT_B}}, {"a": 1, "b": 1}, {"b": 1}),
        (
            {**DEFS, "properties": {"o": REF_A, "p": {"allOf": [REF_A, REF_B]}}},
            {"o": {"a": 1}, "p": {"a": 1, "b": 1}},
            {"o": {"a": 1, "b": 1}},
        ),
        (
            {"$defs": {"N": {**OBJECT_A, "properties": {"n": {"$ref": "#/$defs/N"}}}}, "$ref": "#/$defs/N"},
            {"n": {"n": {}}},
            {"n": {"n": {"x": 1}}},
        ),
    ]
    for schema, good, bad in rows:
        with subtests.test(str((schema, good, bad))):
            assert Validator(schema).is_valid(good)
            validator = closed(schema)
            assert validator.issues(good) == []
            assert not validator.is_valid(bad)


def test_an_object_that_is_declared_open_stays_open() -> None:
    """`additionalProperties`, objects without properties, and subschemas of `not` and `contains` are not closed."""
    rows = [
        ({**OBJECT_A, "additionalProperties": True}, {"x": 1}),
        ({**OBJECT_A, "additionalProperties": {"type": "integer"}}, {"x": 1}),
        ({**OBJECT_A, "unevaluatedProperties": True}, {"x": 1}),
        ({**OBJECT_A, "additionalProperties": True, "anyOf": [OBJECT_B]}, {"x": 1}),
        ({"type": "object"}, {"x": 1}),
        ({"properties": {"meta": {"type": "object"}}}, {"meta": {"x": 1}}),
        ({"allOf": [OBJECT_A, {"additionalProperties": True}]}, {"x": 1}),
        ({"not": OBJECT_A}, {"a": "text"}),
        ({"type": "array", "contains": OBJECT_A}, [{"a": 1, "x": 1}]),
        ({"properties": {"o": True}}, {"o": {"x": 1}}),
        ({"default": {"properties": {}}, "enum": [{"properties": {}}]}, {"properties": {}}),
        ({"anyOf": [{"$ref": "#/$defs/F"}], "$defs": {"F": True}}, {"x": 1}),
    ]
    assert [(schema, payload) for schema, payload in rows if not (closed(schema).is_valid(payload))] == []


_HAS_A = {"properties": {"a": {"const": 1}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "bad"),
    [
        ({**OBJECT_AB, "not": _HAS_A}, {"a": 1, "b": 2}),
        ({**OBJECT_AB, "if": _HAS_A, "then": {"required": ["c"]}}, {"a": 1, "b": 2}),
        ({"type": "array", "contains": _HAS_A, "maxContains": 1}, [{"a": 1, "b": 2}, {"a": 1, "b": 3}]),
        ({"propertyNames": {"not": {"const": "a"}}}, {"a": 1, "b": 2}),
    ],
    ids=["not", "if", "contains", "propertyNames"],
)
def test_subschemas_that_only_test_are_not_closed(schema: dict[str, Any], bad: Any) -> None:
    """If `not`, `if` or `contains` were closed, a further field would make its test fail and the payload pass."""
    assert not Validator(schema).is_valid(bad)
    assert not closed(schema).is_valid(bad)


def test_closing_returns_a_changed_copy() -> None:
    """Closing does not change the schema; the copy has no `$schema`."""
    original = {"$schema": "http://json-schema.org/draft-07/schema#", **OBJECT_A}
    made = forbid_unknown_fields(original)
    assert made == {**OBJECT_A, "additionalProperties": False}
    assert original["$schema"]


def test_schemas_of_pydantic_models_are_closed() -> None:
    """Models and unions are closed; maps and models with `extra="allow"` stay open (SR-126)."""

    class Circle(BaseModel):
        kind: Literal["circle"]
        radius: float

    class Square(BaseModel):
        kind: Literal["square"]
        side: float

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")

    class Args(BaseModel):
        shape: Annotated[Circle | Square, Field(discriminator="kind")]
        other: Circle | None = None
        tags: dict[str, int] = {}
        anything: dict[str, Any] = {}
        open: Open = Open()

    validator = closed(Args.model_json_schema())
    good = {
        "shape": {"kind": "circle", "radius": 1},
        "tags": {"a": 1},
        "anything": {"x": 1},
        "open": {"y": 1},
    }
    assert validator.issues(good) == []
    fields = {
        issue.field
        for issue in validator.issues({**good, "shape": {"kind": "square", "side": 1, "x": 1}, "z": 1})
    }
    assert fields == {"/shape/x", "/z"}


def nested(levels: int) -> dict[str, Any]:
    """A schema of nested arrays."""
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


def test_a_schema_that_cannot_be_enforced_is_refused_with_its_place(subtests: pytest.Subtests) -> None:
    """A schema that is invalid, endless, too deep or refers elsewhere raises a ValueError that names the place."""
    rows = [
        ([], ["list"]),
        ({"type": "strin"}, ["#/type", "string"]),
        ({"properties": {"a/b": {"minimum": "x"}}}, ["#/properties/a~1b/minimum", "number"]),
        ({"required": "a"}, ["#/required"]),
        ({"items": {"$ref": "https://evil.example/schema"}}, ["#/items", "leaves the schema"]),
        ({"items": {"$ref": "other.json"}}, ["#/items", "leaves the schema"]),
        ({"$ref": "#anchor"}, ["leaves the schema"]),
        ({"$ref": "#/$defs/missing"}, ["leads to no schema"]),
        ({"$ref": "#/default", "default": {"$ref": "https://evil.example"}}, ["leads to no schema"]),
        ({"$dynamicRef": "#"}, ["$dynamicRef is not supported"]),
        ({"properties": {"a": {"$id": "https://example.com"}}}, ["#/properties/a", "$id"]),
        ({"properties": {"a": {"$schema": "https://example.com"}}}, ["#/properties/a", "$schema"]),
        ({"$ref": "#"}, ["without end"]),
        ({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, ["without end"]),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}}, ["without end"]),
        (nested(70), ["deeper than 64"]),
        (
            {"$defs": {**{f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(80)}, "d80": {}}},
            ["longer than 64"],
        ),
    ]
    for schema, words in rows:
        with subtests.test(str((schema, words))):
            with pytest.raises(ValueError, match=r"\S") as refused:
                check(schema)
            assert all(word in str(refused.value) for word in words), str(refused.value)
            assert len(str(refused.value)) < 900


def test_good_schemas_pass(subtests: pytest.Subtests) -> None:
    """Recursion through fields, an older draft, an `$id` and unknown keywords are allowed."""
    rows = [
        {},
        nested(63),
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$id": "https://example.com/a",
            "type": "object",
        },
        {"definitions": {"A b": True}, "items": {"$ref": "#/definitions/A%20b"}},
        {"properties": {"$ref": {"type": "string"}, "child": {"$ref": "#"}}},
        {"type": ["string", "null"], "pattern": "^(?!x)", "format": "whatever", "x-extra": {"$ref": 5}},
    ]
    for schema in rows:
        with subtests.test(schema=schema):
            check(schema)


def test_references_are_local_in_a_schema_with_an_id() -> None:
    """`#/...` refers to this schema even if it has an `$id`, and nothing is fetched."""
    schema = {"$id": "https://example.com/a", "$defs": {"A": OBJECT_A}, "properties": {"o": REF_A}}
    assert closed(schema).is_valid({"o": {"a": 1}})
    assert not closed(schema).is_valid({"o": {"a": "x"}})


def test_a_schema_too_deep_to_close_is_refused() -> None:
    """A schema nested deeper than 64 raises a ValueError, not a RecursionError."""
    with pytest.raises(ValueError, match="deeper than 64"):
        forbid_unknown_fields(nested(100_000))


def test_descriptions_are_found_by_path() -> None:
    """Descriptions are found through references, unions, lists and nested objects, outer ones first (SR-126)."""
    schema = {
        "$defs": {
            "Line": {
                "description": "A line",
                "properties": {"sku": {"description": "Article"}, "next": {"$ref": "#/$defs/Line"}},
            }
        },
        "properties": {
            "plain": {"type": "string"},
            "site": {"description": "Which site"},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
            "filter": {"anyOf": [{"properties": {"since": {"description": "From when"}}}, {"type": "null"}]},
        },
    }
    assert field_descriptions(schema) == {
        "site": "Which site",
        "lines[]": "A line",
        "filter.since": "From when",
        "lines[].sku": "Article",
    }


def test_descriptions_of_a_huge_schema_are_bounded() -> None:
    """At most 500 descriptions are read from a schema."""
    wide = {f"f{n}": {"$ref": "#/$defs/next"} for n in range(50)}
    schema: dict[str, Any] = {
        "properties": wide,
        "$defs": {
            "next": {
                "description": "d",
                "properties": {f"g{n}": {"description": "e", "properties": {"h": {}}} for n in range(50)},
            }
        },
    }
    assert 0 < len(field_descriptions(schema)) <= 500
