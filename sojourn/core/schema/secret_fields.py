"""Secret fields of a payload: those whose schema says `writeOnly`, or `format: password`.

Pydantic writes both for `SecretStr` and `SecretBytes`. Whoever calls the tool knows such a value, and it is
recorded with the call; what is said about the call does not repeat it.
"""

from collections.abc import Iterator
from typing import Any

from sojourn.core.values.json_value import is_array, is_object
from sojourn.core.values.pointer import Schema, children, expand, locate

__all__ = ["has_secrets", "is_secret", "secrets_in"]


def has_secrets(schema: Schema) -> bool:
    """Whether a schema marks a field anywhere."""
    return _is_marked(schema) or any(has_secrets(child) for _, child in children(schema))


def is_secret(root: Schema, tokens: tuple[str, ...]) -> bool:
    """Whether a schema marks the value at a path, or one that this is a part of."""
    return any(
        _is_marked(part)
        for length in range(1, len(tokens) + 1)
        for found in locate(root, tokens[:length])
        for part in expand(root, found)
    )


def secrets_in(root: Schema, payload: dict[str, Any]) -> dict[str, Any]:
    """The values of a payload that its schema marks; each key ends in the name of the field."""
    return {"/".join(tokens): value for tokens, value in _leaves(payload, ()) if is_secret(root, tokens)}


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
