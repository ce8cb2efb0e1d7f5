"""Tell from a schema whether its values have room for text.

A value without room for text cannot carry an instruction: it is one of few that the schema's author wrote.
"""

from typing import Any

from sojourn.values.json_value import Schema, is_array, is_object, list_of, resolve

__all__ = ["admits_text"]

_MAX_DEPTH = 20

_MAX_ITEMS = 8

_FIXED = {"boolean", "null"}


def admits_text(root: Schema) -> bool:
    """Return whether a value that fits a schema may hold a text of its own.

    Numbers count as text, since their digits can spell one. A schema that is not understood admits it.
    """
    return _admits(root, root, 0)


def _admits(root: Schema, schema: Any, depth: int) -> bool:
    if not is_object(schema):
        return schema is not False
    if depth > _MAX_DEPTH:
        return True
    if "const" in schema or "enum" in schema:
        return False
    # A value fits all of these keywords, so that one of them that admits no text is enough.
    return all(
        (
            _of_reference(root, schema, depth),
            _of_choices(root, schema, depth),
            all(_admits(root, each, depth + 1) for each in list_of(schema.get("allOf"))),
            _of_type(root, schema, depth),
        )
    )


def _of_reference(root: Schema, schema: Schema, depth: int) -> bool:
    reference = schema.get("$ref")
    return not isinstance(reference, str) or _admits(root, resolve(root, reference), depth + 1)


def _of_choices(root: Schema, schema: Schema, depth: int) -> bool:
    choices = [schema[word] for word in ("anyOf", "oneOf") if is_array(schema.get(word))]
    return all(any(_admits(root, each, depth + 1) for each in choice) for choice in choices)


def _of_type(root: Schema, schema: Schema, depth: int) -> bool:
    kinds = schema.get("type")
    kinds = kinds if is_array(kinds) else [kinds]
    return any(_of_kind(root, schema, kind, depth) for kind in kinds)


def _of_kind(root: Schema, schema: Schema, kind: Any, depth: int) -> bool:
    if kind in _FIXED:
        return False
    if kind == "object":  # the names of further fields are text too
        fields = schema.get("properties", {})
        is_open = schema.get("additionalProperties", True) is not False or "patternProperties" in schema
        return is_open or any(_admits(root, each, depth + 1) for each in fields.values())
    if kind == "array":
        items = [schema.get("items", True), *schema.get("prefixItems", ())]
        return not _is_short(root, schema) or any(_admits(root, each, depth + 1) for each in items)
    return True


def _is_short(root: Schema, schema: Schema) -> bool:
    # A long row of letters is a text, also if a schema lists each letter.
    items = schema.get("items", True)
    first, most = schema.get("prefixItems", ()), schema.get("maxItems")
    if items is False:
        return len(first) <= _MAX_ITEMS
    if isinstance(most, int) and most <= _MAX_ITEMS:
        return True
    reference = items.get("$ref") if is_object(items) else None
    listed = resolve(root, reference) if isinstance(reference, str) else items
    return schema.get("uniqueItems") is True and is_object(listed) and "enum" in listed and not first
