"""JSON values: the name of a value's type, and tests for type checkers."""

from typing import Any, TypeGuard

__all__ = ["is_array", "is_object", "json_type"]


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value is a JSON object."""
    return isinstance(value, dict)


def is_array(value: object) -> TypeGuard[list[Any]]:
    """Whether a value is a JSON array."""
    return isinstance(value, list)


def json_type(value: object) -> str:
    """The JSON type of a value; a bool is not a number."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
