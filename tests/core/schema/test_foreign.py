"""Foreign schemas: what servers and generators write beside JSON Schema is read by its obvious meaning, or dropped."""

import copy
from typing import Any

import pytest

from sojourn.core.schema.enforceable import check
from sojourn.core.schema.foreign import mend
from sojourn.core.schema.validate import Validator

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
OWN = "https://example.com/tool.json"
STRING = {"type": "string"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_an_odd_schema_is_read_by_its_obvious_meaning(subtests: pytest.Subtests) -> None:
    """The mended schema can be enforced, accepts what was meant and refuses what was not; the given one is not changed."""
    rows = [
        (of(a={"$schema": DRAFT_7, "type": "string"}), {"a": "x"}, {"a": 1}),
        (of(a={"$schema": DRAFT_7, "items": [STRING], "additionalItems": False}), {"a": ["x"]}, {"a": ["x", 1]}),
        (of(a={"$id": "inner", "type": "string"}), {"a": "x"}, {"a": 1}),
        (
            {"$id": OWN, **of(a={"$ref": f"{OWN}#/definitions/S"}), "definitions": {"S": STRING}},
            {"a": "x"},
            {"a": 1},
        ),
        ({"$id": OWN, **of(a={"$ref": "tool.json#/$defs/S"}), "$defs": {"S": STRING}}, {"a": "x"}, {"a": 1}),
        (of(a={"$ref": "#Text"}) | {"$defs": {"S": {"$anchor": "Text", **STRING}}}, {"a": "x"}, {"a": 1}),
        (of(a={"$id": "in", **of(s={"$ref": "#/$defs/S"}), "$defs": {"S": STRING}}), {"a": {"s": "x"}}, {"a": {"s": 1}}),
        (of(a={"$ref": "in"}) | {"$defs": {"x": {"$id": "in", **STRING}}}, {"a": "x"}, {"a": 1}),
        (of(a={"$recursiveRef": "#"}), {"a": {"a": {}}}, {"a": {"a": 1}}),
        (of(a={"$ref": "https://elsewhere.example/x.json"}, b=STRING), {"a": 1, "b": "x"}, {"b": 1}),
        (of(a={"$ref": "#/definitions/none"}, b=STRING), {"a": 1, "b": "x"}, {"b": 1}),
        ({"type": "object", "required": None, "properties": None, "description": None}, {"a": 1}, None),
        ({"type": "object", "properties": []}, {"a": 1}, None),
        (of(a={**STRING, "required": True}, b={**STRING, "required": False}), {"a": "x"}, {"b": "x"}),
        (of(a={"type": "integer", "minimum": 0, "exclusiveMinimum": True}), {"a": 1}, {"a": 0}),
        (of(a={"type": "integer", "minimum": 0, "exclusiveMinimum": False}), {"a": 0}, {"a": -1}),
        (of(a={"type": "any"}) | {"required": ["a", "a"]}, {"a": 1}, {}),
        (of(a={"type": "file"}), {"a": "x"}, {"a": 1}),
        (of(a={"type": "int"}, b={"type": ["str", "none"]}), {"a": 1, "b": None}, {"a": "x"}),
        (of(a={"type": ["string", "string"]}), {"a": "x"}, {"a": 1}),
        (of(a={"type": "strange"}, b=STRING), {"a": 1, "b": "x"}, {"b": 1}),
        (of(a={**STRING, "minLength": "2", "title": None, "description": ["two", "lines"]}), {"a": "xx"}, {"a": "x"}),
        (of(a={"type": "array", "items": [STRING]}), {"a": ["x"]}, {"a": [1]}),
        (of(a={"type": "array", "items": None}, b=None, c="string", d=[1]), {"a": [1], "c": "x"}, {"c": 1}),
        (of(a={"enum": 5}, b={"pattern": 7}, c={"format": 9, **STRING}), {"a": 1, "c": "x"}, {"c": 1}),
        (of(a={"enum": 5, "items": {"enum": 6}}, b={"minimum": [], **STRING}), {"a": 1, "b": "x"}, {"b": 1}),
        ({**of(a={"properties": {}, "additionalProperties": "false"}), "required": 1}, {"a": {}}, {"a": {"x": 1}}),
        (of(a={"anyOf": []}, b={"allOf": "x", **STRING}), {"a": 1, "b": "x"}, {"b": 1}),
        (of(a={**STRING, "nullable": True}), {"a": None}, {"a": 1}),
        (of(a={**STRING, "nullable": False}), {"a": "x"}, {"a": None}),
        (of(a={"type": "string", "enum": ["x"], "nullable": True}), {"a": None}, {"a": "y"}),
        (of(a={"$ref": "#/$defs/S", "nullable": True, "description": "d"}) | {"$defs": {"S": STRING}}, {"a": None}, {"a": 1}),
        (of(a={"anyOf": [STRING], "nullable": True}), {"a": None}, {"a": 1}),
        (
            {"$schema": "http://json-schema.org/draft-03/schema#", **of(a={**STRING, "required": True, "divisibleBy": 2})},
            {"a": "x"},
            {},
        ),
    ]  # fmt: skip
    for schema, fits, fits_not in rows:
        with subtests.test(schema=schema, fits=fits, fits_not=fits_not):
            before = copy.deepcopy(schema)
            made = mend(schema)
            assert made is not None
            check(made)
            validator = Validator(made)
            assert validator.is_valid(fits)
            assert fits_not is None or not validator.is_valid(fits_not)
            assert schema == before


def test_what_cannot_be_enforced_is_none(subtests: pytest.Subtests) -> None:
    """A schema that is no object, or that applies itself without end, has no mended form."""
    rows = [
        None,
        True,
        [],
        "object",
        {"type": "object", "allOf": [{"$ref": "#"}]},
        {"not": {"$ref": "#"}},
    ]
    for schema in rows:
        with subtests.test(schema=schema):
            assert mend(schema) is None


def test_a_schema_that_is_too_deep_is_none():
    """The walk is bounded by the depth of any schema."""
    schema: dict[str, Any] = {}
    for _ in range(100):
        schema = {"not": schema}
    assert mend(schema) is None


def test_descriptions_stay():
    """A list of texts is one text, and what a reference lacks does not take the description along."""
    made = mend(of(a={"$ref": "https://elsewhere.example/x", "description": "of a"}, b={"title": ["x", "y"]}))
    assert made == of(a={"description": "of a"}, b={"title": "x y"})
