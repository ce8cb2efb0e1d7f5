"""Secret fields of a payload: those whose schema states `writeOnly`, or `format: password`.

Pydantic writes both for `SecretStr` and `SecretBytes`. The caller of a tool knows such a value, and it is
recorded with the call; results and messages about the call do not repeat it.
"""

from collections.abc import Iterator
from typing import Any

from sojourn.core.values.json_value import is_array, is_object
from sojourn.core.values.pointer import Schema, children, expand, locate

__all__ = ["has_secrets", "is_secret", "secrets_in"]


def has_secrets(schema: Schema) -> bool:
    """Whether a schema marks any field as secret."""
    return _is_marked(schema) or any(has_secrets(child) for _, child in children(schema))


def is_secret(root: Schema, tokens: tuple[str, ...]) -> bool:
    """Whether a schema marks the value at a path, or a value that contains it, as secret."""
    return any(
        _is_marked(part)
        for length in range(1, len(tokens) + 1)
        for found in locate(root, tokens[:length])
        for part in expand(root, found)
    )


def secrets_in(root: Schema, payload: dict[str, Any]) -> dict[str, Any]:
    """The secret values of a payload; each key is the field's path, which ends in its name."""
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
