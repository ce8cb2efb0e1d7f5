"""Older drafts of JSON Schema, told in the words of 2020-12.

Servers of strangers (MCP) name the draft that their schemas are written in, most often draft-07.
What such a schema says is kept, its words are not: all that follows (validation, hints,
examples, the names of fields) knows one dialect. Draft-04, -06, -07 and 2019-09 are told
apart by `$schema`; without one, or with another, the words are read as 2020-12.

Left as it is, and so refused by `sojourn.core.schema.check`, is what has no counterpart, such
as a reference into a list of `items`.
"""

from typing import Any

from sojourn.core.values.json_value import is_array, is_object
from sojourn.core.values.pointer import Schema

__all__ = ["in_2020_12"]

_DRAFTS = {
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 8,
}
"""Each draft and its place in time; 2019-09 is the eighth."""

_SINCE = {
    6: ("const", "contains", "propertyNames"),
    7: ("if", "then", "else"),
    8: (
        "dependentRequired",
        "dependentSchemas",
        "maxContains",
        "minContains",
        "unevaluatedItems",
        "unevaluatedProperties",
    ),
    9: ("prefixItems",),
}
"""Words that an earlier draft does not know, so that they say nothing in it."""

_BESIDE_REFERENCE = (
    "$schema",
    "$ref",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "$comment",
)
"""What means something beside `$ref` up to draft-07, where the other words are ignored."""

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = (
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


def in_2020_12(schema: Schema) -> Schema:
    """The schema in the words of 2020-12, without `$schema`; itself where there is nothing to change.

    Args:
        schema: One nested no deeper than 64.
    """
    named = schema.get("$schema")
    if not isinstance(named, str):
        return schema
    draft = _DRAFTS.get(named.partition("://")[2].rstrip("#"))
    told = schema if draft is None else _told(schema, draft)
    return {word: value for word, value in told.items() if word != "$schema"}


def _told(schema: Any, draft: int) -> Any:
    """A subschema and those inside it; what is no schema stays, for `check` to refuse."""
    if not is_object(schema):
        return schema
    told = dict(schema)
    for since, words in _SINCE.items():
        if draft < since:
            told = {word: value for word, value in told.items() if word not in words}
    if "$ref" in told and draft < 8:
        told = {word: value for word, value in told.items() if word in _BESIDE_REFERENCE}
    if draft == 4:
        _bounds(told)
        if isinstance(told.get("id"), str):
            del told["id"]
    if draft < 8:
        _dependencies(told)
    _items(told)
    return {word: _inside(word, value, draft) for word, value in told.items()}


def _inside(word: str, value: Any, draft: int) -> Any:
    if word in _MAPS and is_object(value):
        return {name: _told(child, draft) for name, child in value.items()}
    if word in _LISTS and is_array(value):
        return [_told(child, draft) for child in value]
    return _told(value, draft) if word in _SCHEMAS else value


def _bounds(schema: Schema) -> None:
    """`exclusiveMinimum: true` beside `minimum`, as draft-04 has it."""
    for exclusive, bound in _BOUNDS:
        if isinstance(schema.get(exclusive), bool):
            is_exclusive = schema.pop(exclusive)
            if is_exclusive and bound in schema:
                schema[exclusive] = schema.pop(bound)


def _items(schema: Schema) -> None:
    """A list of `items`, and `additionalItems` for what comes after."""
    rest = schema.pop("additionalItems", None)
    if is_array(schema.get("items")):
        schema["prefixItems"] = schema.pop("items")
        if not schema["prefixItems"]:
            del schema["prefixItems"]
        if rest is not None:
            schema["items"] = rest


def _dependencies(schema: Schema) -> None:
    """`dependencies`, each a list of names or a schema."""
    needs = schema.get("dependencies")
    if not is_object(needs):
        return
    del schema["dependencies"]
    names = {name: need for name, need in needs.items() if is_array(need)}
    schemas = {name: need for name, need in needs.items() if not is_array(need)}
    if names:
        schema["dependentRequired"] = {**schema.get("dependentRequired", {}), **names}
    if schemas:
        schema["dependentSchemas"] = {**schema.get("dependentSchemas", {}), **schemas}
