"""A JSON Schema without its wording: what is left decides which payloads are valid, and what they mean."""

from typing import Any, cast

__all__ = ["without_wording"]

_WORDING = frozenset({"title", "description", "examples", "$comment", "deprecated"})
"""Keywords that are written for readers (JSON Schema 2020-12, validation, section 9)."""

_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value is an object of schemas by name: a name such as `title` is no keyword there."""

_VALUES = frozenset({"const", "enum", "default"})
"""Keywords whose value is data, and no schema."""


def without_wording(schema: Any) -> Any:
    """The schema without its wording, its keywords and names in alphabetical order."""
    if isinstance(schema, list):
        return [without_wording(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    keywords = cast("dict[str, Any]", schema)
    return {name: _value(name, keywords[name]) for name in sorted(keywords.keys() - _WORDING)}


def _value(keyword: str, value: Any) -> Any:
    if keyword in _VALUES:
        return value
    if keyword == "required" and isinstance(value, list):
        return sorted(cast("list[Any]", value), key=str)
    if keyword in _BY_NAME and isinstance(value, dict):
        schemas = cast("dict[str, Any]", value)
        return {name: without_wording(schemas[name]) for name in sorted(schemas)}
    return without_wording(value)
