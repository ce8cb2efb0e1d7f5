"""Older drafts of JSON Schema, translated into 2020-12.

Foreign servers (MCP) name the draft of their schemas, most often draft-07. The translation keeps the meaning
of a schema, not its keywords, so that all later code (validation, hints, examples, field names) needs one
dialect. `$schema` distinguishes draft-04, -06, -07 and 2019-09; without `$schema`, or with another draft, a
schema is read as 2020-12.

A keyword without a counterpart, such as a reference into a list of `items`, stays unchanged, and
`sojourn.core.schema.enforceable` refuses it.
"""

from typing import Any

from sojourn.values.json_value import Schema, is_array, is_object

__all__ = ["in_2020_12", "translate_bounds", "translate_items"]

_DRAFTS = {
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 8,
}
"""Each draft with its number in order; 2019-09 is the eighth."""

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
"""Keywords by the draft that introduced them; earlier drafts ignore them."""

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
"""Keywords that count beside `$ref` up to draft-07, which ignores all others."""

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
    """Return the schema in 2020-12, without `$schema`.

    If nothing changes, return the identical schema.
    """
    named = schema.get("$schema")
    if not isinstance(named, str):
        return schema
    draft = _DRAFTS.get(named.partition("://")[2].rstrip("#"))
    translated = schema if draft is None else _translate(schema, draft)
    return {word: value for word, value in translated.items() if word != "$schema"}


def _translate(schema: Any, draft: int) -> Any:
    # A value that is not a schema stays, for `check` to refuse.
    if not is_object(schema):
        return schema
    result = dict(schema)
    for since, words in _SINCE.items():
        if draft < since:
            result = {word: value for word, value in result.items() if word not in words}
    if "$ref" in result and draft < 8:
        result = {word: value for word, value in result.items() if word in _BESIDE_REFERENCE}
    if draft == 4:
        translate_bounds(result)
        if isinstance(result.get("id"), str):
            del result["id"]
    if draft < 8:
        _dependencies(result)
    translate_items(result)
    return {word: _inside(word, value, draft) for word, value in result.items()}


def _inside(word: str, value: Any, draft: int) -> Any:
    if word in _MAPS and is_object(value):
        return {name: _translate(child, draft) for name, child in value.items()}
    if word in _LISTS and is_array(value):
        return [_translate(child, draft) for child in value]
    return _translate(value, draft) if word in _SCHEMAS else value


def translate_bounds(schema: Schema) -> None:
    """Translate `exclusiveMinimum: true` beside `minimum`, as in draft-04."""
    for exclusive, bound in _BOUNDS:
        if isinstance(schema.get(exclusive), bool):
            is_exclusive = schema.pop(exclusive)
            if is_exclusive and bound in schema:
                schema[exclusive] = schema.pop(bound)


def translate_items(schema: Schema) -> None:
    """Translate a list of `items`, and `additionalItems` for the items after it."""
    rest = schema.pop("additionalItems", None)
    if is_array(schema.get("items")):
        schema["prefixItems"] = schema.pop("items")
        if not schema["prefixItems"]:
            del schema["prefixItems"]
        if rest is not None:
            schema["items"] = rest


def _dependencies(schema: Schema) -> None:
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
