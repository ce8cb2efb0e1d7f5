"""Older drafts of JSON Schema: a schema is enforced by the draft that it names."""

from typing import Any

import pytest
from jsonschema import Draft4Validator, Draft6Validator, Draft7Validator, Draft201909Validator

from sojourn.core.schema.drafts import in_2020_12
from sojourn.core.schema.enforceable import check, forbid_unknown_fields
from sojourn.core.schema.validate import Validator

OLD = {
    "http://json-schema.org/draft-04/schema#": Draft4Validator,
    "http://json-schema.org/draft-06/schema": Draft6Validator,
    "https://json-schema.org/draft-07/schema#": Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": Draft201909Validator,
}
NEWEST = "https://json-schema.org/draft/2020-12/schema"

TUPLE = {"items": [{"type": "string"}, {"type": "integer"}]}
NEEDS = {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}
CASES: list[tuple[dict[str, Any], list[Any]]] = [
    (TUPLE, [["a", 1], [1], ["a", "b"], ["a", 1, None], []]),
    ({**TUPLE, "additionalItems": False}, [["a", 1], ["a", 1, None]]),
    ({**TUPLE, "additionalItems": {"type": "null"}}, [["a", 1, None], ["a", 1, 2]]),
    ({"items": {"type": "string"}, "additionalItems": False}, [["a", "b"], [1]]),
    ({"items": [], "additionalItems": {"type": "null"}}, [[None], [1]]),
    ({"properties": {"p": TUPLE}}, [{"p": ["a", 1]}, {"p": [1]}]),
    ({"anyOf": [TUPLE, {"type": "null"}]}, [["a"], [1], None]),
    (
        {"definitions": {"T": TUPLE}, "properties": {"p": {"$ref": "#/definitions/T"}}},
        [{"p": ["a"]}, {"p": [1]}],
    ),
    ({"dependencies": {"a": ["b"]}}, [{"a": 1}, {"a": 1, "b": 1}]),
    (NEEDS, [{"a": 1}, {"a": 1, "b": 1}, {"c": 1}, {"c": 1, "d": 1}, {}, 5]),
    ({"definitions": {"S": {"type": "string"}}, "$ref": "#/definitions/S", "maxLength": 1}, ["a", "ab", 1]),
    ({"const": 1}, [1, 2]),
    ({"propertyNames": {"maxLength": 1}}, [{"a": 1}, {"ab": 1}]),
    ({"contains": {"type": "string"}}, [["a"], [1]]),
    ({"if": {"type": "string"}, "then": {"maxLength": 1}, "else": {"minimum": 1}}, ["a", "ab", 0, 1]),
    ({"dependentRequired": {"a": ["b"]}}, [{"a": 1}, {"a": 1, "b": 1}]),
    ({"additionalProperties": TUPLE}, [{"p": ["a"]}, {"p": [1]}]),
]


def test_a_schema_means_what_it_means_in_its_own_draft(subtests: pytest.Subtests) -> None:
    """A translated schema accepts exactly the values that the draft's own validator accepts."""
    for words, values in CASES:
        for draft, validator in OLD.items():
            with subtests.test(str((draft, words, values))):
                schema = {"$schema": draft, **words}
                check(schema)
                ours, theirs = Validator(schema), validator(schema)
                assert [ours.is_valid(value) for value in values] == [
                    theirs.is_valid(value) for value in values
                ]


@pytest.mark.parametrize(
    ("words", "good", "bad"),
    [
        ({"minimum": 1, "exclusiveMinimum": True}, 2, 1),
        ({"maximum": 1, "exclusiveMaximum": True}, 0, 1),
        ({"minimum": 1, "exclusiveMinimum": False}, 1, 0),
        (
            {"type": "object", "id": "http://x.test/", "properties": {"id": {"type": "string"}}},
            {"id": "a"},
            {"id": 1},
        ),
    ],
)
def test_draft_4_has_its_own_bounds_and_ids(words: dict[str, Any], good: Any, bad: Any):
    """In draft-04, `exclusiveMinimum: true` makes `minimum` exclusive, and `id` is the schema's id."""
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", **words}
    check(schema)
    assert Validator(schema).is_valid(good)
    assert not Validator(schema).is_valid(bad)


def test_a_field_named_like_a_keyword_is_a_field():
    """Properties named `items`, `dependencies` or `id` are not translated."""
    words = {
        "properties": {"items": {"type": "array"}, "dependencies": {"type": "string"}, "id": {"type": "null"}}
    }
    assert in_2020_12({"$schema": "http://json-schema.org/draft-04/schema#", **words}) == words


def test_a_schema_of_the_newest_or_an_unknown_draft_is_unchanged():
    """A schema in 2020-12, or with an unknown `$schema`, keeps its keywords."""
    schema = {"type": "object", "properties": {"a": {"dependencies": {}}}}
    assert in_2020_12(schema) is schema
    assert in_2020_12({"$schema": NEWEST, **schema}) == schema
    assert in_2020_12({"$schema": "http://example.com/mine", **schema}) == schema


def test_a_schema_without_a_translation_is_refused_with_its_place(subtests: pytest.Subtests) -> None:
    """A ValueError names the place that is invalid or cannot be translated; `dependencies` that is no object is ignored."""
    rows = [
        ({"items": [5]}, "#/prefixItems/0"),
        ({"dependencies": 5}, None),
        ({"dependencies": {"a": 5}}, "#/dependentSchemas/a"),
        ({"items": [{}], "properties": {"a": {"$ref": "#/items/0"}}}, "#/properties/a"),
        ({"$recursiveRef": "#"}, "#"),
        ({"properties": {"a": {"$schema": NEWEST}}}, "#/properties/a"),
    ]
    for words, place in rows:
        with subtests.test(words=words, place=place):
            schema = {"$schema": "http://json-schema.org/draft-07/schema#", **words}
            if place is None:
                check(schema)
                return
            with pytest.raises(ValueError, match=f"at {place}: "):
                check(schema)


def test_closing_keeps_the_draft():
    """Closing a schema translates it to 2020-12 and removes `$schema`."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"p": TUPLE}}
    closed = forbid_unknown_fields(schema)
    assert closed == {"properties": {"p": {"prefixItems": TUPLE["items"]}}, "additionalProperties": False}
