"""Words of a schema that decide no validity: secret fields, and wording.

Pydantic writes both for `SecretStr` and `SecretBytes`. The caller of a tool knows such a value, and it is
recorded with the call; results and messages about the call do not repeat it.
"""

from collections.abc import Iterator
from typing import Any, cast

from sojourn.values.json_value import Schema, children, expand, is_array, is_object, locate

__all__ = ["has_secrets", "is_secret", "mask_secrets", "secrets_in", "without_wording"]


def has_secrets(schema: Schema) -> bool:
    return _is_marked(schema) or any(has_secrets(child) for _, child in children(schema))


def is_secret(root: Schema, tokens: tuple[str, ...]) -> bool:
    """Return whether a schema marks the value at a path as secret.

    A value is secret, too, if the schema marks a value that contains it.
    """
    return any(
        _is_marked(part)
        for length in range(1, len(tokens) + 1)
        for found in locate(root, tokens[:length])
        for part in expand(root, found)
    )


def secrets_in(root: Schema, payload: dict[str, Any]) -> dict[str, Any]:
    """Return the secret values of a payload."""
    return {"/".join(tokens): value for tokens, value in _leaves(payload, ()) if is_secret(root, tokens)}


def mask_secrets(root: Schema, payload: dict[str, Any]) -> dict[str, Any]:
    """Return a payload with the name of its field in place of each secret value."""
    return {name: _masked(root, value, (name,)) for name, value in payload.items()}


def _masked(root: Schema, value: Any, tokens: tuple[str, ...]) -> Any:
    if is_object(value):
        return {name: _masked(root, inner, (*tokens, name)) for name, inner in value.items()}
    if is_array(value):
        return [_masked(root, inner, (*tokens, str(index))) for index, inner in enumerate(value)]
    return f"[{'/'.join(tokens)}]" if value is not None and is_secret(root, tokens) else value


def _is_marked(schema: Schema) -> bool:
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def _leaves(value: Any, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if is_object(value):
        for name, inner in value.items():
            yield from _leaves(inner, (*above, name))
    elif is_array(value):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*above, str(index)))
    else:
        yield above, value


_WORDING = frozenset({"title", "description", "examples", "$comment", "deprecated"})
"""Keywords that are written for readers (JSON Schema 2020-12, validation, section 9)."""

_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value is an object of schemas by name: a name such as `title` is no keyword there."""

_VALUES = frozenset({"const", "enum", "default"})
"""Keywords whose value is data, and no schema."""


def without_wording(schema: Any) -> Any:
    """Return the schema without its wording, with keywords and names sorted."""
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
