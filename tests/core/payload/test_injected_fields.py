"""Injected fields: a payload's schema as whoever calls sees it."""

import json
from typing import Any

import pytest

from sojourn.core.payload.injected_fields import advertised

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


def test_what_is_injected_leaves_no_trace() -> None:
    """Neither the field nor that it is required, nor a definition that only it uses, however far away."""
    shown = advertised(SCHEMA, ["token"])
    assert list(shown["properties"]) == ["query", "limit"]
    assert list(shown["$defs"]) == ["Query", "Words"]
    assert "required" not in shown
    assert "token" in SCHEMA["properties"]


@pytest.mark.parametrize("word", ["example", "examples", "default"])
def test_an_example_of_the_whole_is_not_shown(word: str) -> None:
    """It would show what is hidden; one of a field stays."""
    whole: Any = {"token": {"scope": "secret"}, "limit": 5}
    limit = {"type": "integer", "default": 7}
    schema = {**SCHEMA, word: [whole] if word == "examples" else whole}
    shown = advertised({**schema, "properties": {**SCHEMA["properties"], "limit": limit}}, ["token"])
    assert word not in shown
    assert "secret" not in json.dumps(shown)
    assert shown["properties"]["limit"] == limit


def test_a_schema_of_which_nothing_is_injected_is_itself() -> None:
    """With its examples."""
    schema = {**SCHEMA, "default": {}}
    assert advertised(schema, []) == schema


def test_only_a_field_of_the_payload_is_injected() -> None:
    """One of another name is told when the tool is declared."""
    with pytest.raises(ValueError, match="the payload has no field 'tokn' to inject"):
        advertised(SCHEMA, ["tokn"])


def test_a_payload_that_is_only_a_reference_is_read_where_that_leads() -> None:
    """As pydantic writes a model that refers to itself."""
    schema = {"$ref": "#/$defs/Query", "$defs": SCHEMA["$defs"]}
    assert advertised(schema, ["words"])["properties"] == {}
