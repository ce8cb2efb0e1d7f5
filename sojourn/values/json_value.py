"""Name the types of JSON values, and point into them and schemas (RFC 6901)."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeGuard
from urllib.parse import unquote

__all__ = [
    "ABSENT",
    "Schema",
    "children",
    "expand",
    "in_place",
    "is_array",
    "is_object",
    "json_type",
    "list_of",
    "locate",
    "resolve",
    "to_pointer",
    "to_tokens",
    "value_at",
]


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def list_of(value: Any) -> list[Any]:
    """Return an array as it is, and an empty list for any other value."""
    return value if is_array(value) else []


def is_array(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def json_type(value: object) -> str:
    """Return the JSON type of a value.

    A bool is not a number.
    """
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


Schema: TypeAlias = dict[str, Any]
"""A JSON Schema that is an object; callers handle `true` and `false` separately."""

ABSENT: Any = object()
"""The result of `value_at` if there is no value. None is a JSON value."""

MAX_POINTER = 500
"""Longest pointer, in characters.

A longer one is shortened and leads to no value, which its readers tolerate.
"""

_MAX_PARTS = 100

_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_IN_PLACE = ("if", "then", "else", "not")
_CHILD_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_CHILD_LISTS = (*_IN_PLACE_LISTS, "prefixItems")
_CHILDREN = (
    *_IN_PLACE,
    "additionalProperties",
    "contains",
    "items",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)


def to_pointer(tokens: Iterable[str | int]) -> str:
    """Return the pointer of a path, which is empty for the whole value."""
    joined = "".join(f"/{str(token).replace('~', '~0').replace('/', '~1')}" for token in tokens)
    joined = joined if len(joined) <= MAX_POINTER else f"{joined[: MAX_POINTER - 1]}…"
    return joined.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be sent


def to_tokens(pointer: str) -> tuple[str, ...]:
    if not pointer:
        return ()
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.removeprefix("/").split("/"))


def value_at(value: Any, tokens: Iterable[str]) -> Any:
    """Return the value at a path, or `ABSENT`."""
    for token in tokens:
        if is_object(value) and token in value:
            value = value[token]
        elif is_array(value) and token.isdecimal() and int(token[:9]) < len(value):
            value = value[int(token[:9])]
        else:
            return ABSENT
    return value


def resolve(root: Schema, reference: str) -> Schema | bool | None:
    """Return the schema at a `#/...` reference, or None when there is none."""
    found = value_at(root, to_tokens(unquote(reference.removeprefix("#"))))
    return found if is_object(found) or isinstance(found, bool) else None


def children(schema: Schema) -> Iterator[tuple[tuple[str | int, ...], Schema]]:
    """Yield the direct subschemas of a schema, each with its path."""
    for word in _CHILD_MAPS:
        if is_object(part := schema.get(word)):
            yield from (((word, name), child) for name, child in _schemas(part.items()))
    for word in _CHILD_LISTS:
        if is_array(part := schema.get(word)):
            yield from (((word, index), child) for index, child in _schemas(enumerate(part)))
    yield from (((word,), child) for word, child in _schemas((word, schema.get(word)) for word in _CHILDREN))


def in_place(root: Schema, schema: Schema) -> Iterator[Schema]:
    """Yield the subschemas that apply to the same value.

    They come from references, compositions and conditions.
    """
    if isinstance(reference := schema.get("$ref"), str) and isinstance(
        target := resolve(root, reference), dict
    ):
        yield target
    for word in _IN_PLACE_LISTS:
        if is_array(part := schema.get(word)):
            yield from (child for _, child in _schemas(enumerate(part)))
    if is_object(part := schema.get("dependentSchemas")):
        yield from (child for _, child in _schemas(part.items()))
    yield from (child for _, child in _schemas((word, schema.get(word)) for word in _IN_PLACE))


def expand(root: Schema, schema: Schema) -> list[Schema]:
    """Return a schema and all subschemas that may apply to the same value.

    They are found by references and compositions, at most 100 of them.
    """
    found = [schema]
    for each in found:
        for part in in_place(root, each):
            if (
                len(found) < _MAX_PARTS
                and part is not each.get("not")
                and not any(part is known for known in found)
            ):
                found.append(part)
    return found


def locate(root: Schema, tokens: Iterable[str]) -> list[Schema]:
    level = [root]
    for token in tokens:
        wide = [part for schema in level for part in expand(root, schema)]
        level = [child for schema in wide if (child := _child(schema, token)) is not None][:_MAX_PARTS]
    return level


def _child(schema: Schema, token: str) -> Schema | None:
    properties = schema.get("properties")
    if is_object(properties) and token in properties:
        child = properties[token]
        return child if is_object(child) else None
    prefix: list[Any] = schema.get("prefixItems") or []
    if token.isdecimal() and int(token[:9]) < len(prefix):
        child = prefix[int(token[:9])]
    else:
        child = schema.get("items" if token.isdecimal() and "items" in schema else "additionalProperties")
    return child if is_object(child) else None


def _schemas(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Schema]]:
    return ((step, child) for step, child in pairs if is_object(child))
