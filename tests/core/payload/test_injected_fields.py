"""Injected fields: a payload's schema as planners see it."""

import json
from typing import Any

import pytest

from sojourn.core.payload.masking import advertised_schema

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "token": {"$ref": "#/$defs/Token"},
        "query": {"$ref": "#/$defs/Query"},
        "limit": {"type": "integer"},
    },
    "required": ["token"],
    "$defs": {
        "Token": {"type": "object", "properties": {"scope": {"$ref": "#/$defs/Scope"}}},
        "Scope": {"enum": ["secret"]},
        "Query": {"type": "object", "properties": {"words": {"$ref": "#/$defs/Words"}}},
        "Words": {"type": "array"},
    },
}


def test_an_injected_field_is_not_in_the_schema() -> None:
    """The schema has neither the field, nor its `required`, nor definitions that only the field uses."""
    shown = advertised_schema(SCHEMA, ["token"])
    assert list(shown["properties"]) == ["query", "limit"]
    assert list(shown["$defs"]) == ["Query", "Words"]
    assert "required" not in shown
    assert "token" in SCHEMA["properties"]


@pytest.mark.parametrize("word", ["example", "examples", "default"])
def test_examples_of_the_whole_payload_are_left_out(word: str) -> None:
    """An example or default of the payload would show injected fields; those of a field stay."""
    whole: Any = {"token": {"scope": "secret"}, "limit": 5}
    limit = {"type": "integer", "default": 7}
    schema = {**SCHEMA, word: [whole] if word == "examples" else whole}
    shown = advertised_schema({**schema, "properties": {**SCHEMA["properties"], "limit": limit}}, ["token"])
    assert word not in shown
    assert "secret" not in json.dumps(shown)
    assert shown["properties"]["limit"] == limit


def test_without_injected_fields_the_schema_is_unchanged() -> None:
    """A schema without injected fields keeps its examples and defaults."""
    schema = {**SCHEMA, "default": {}}
    assert advertised_schema(schema, []) == schema


def test_only_a_field_of_the_payload_is_injected() -> None:
    """An injected field that the payload lacks raises a ValueError."""
    with pytest.raises(ValueError, match="the payload has no field 'tokn' to inject"):
        advertised_schema(SCHEMA, ["tokn"])


def test_a_schema_that_is_only_a_reference_is_resolved() -> None:
    """The fields of a `$ref` at the top level, as pydantic writes for a recursive model, are found."""
    schema = {"$ref": "#/$defs/Query", "$defs": SCHEMA["$defs"]}
    assert advertised_schema(schema, ["words"])["properties"] == {}
