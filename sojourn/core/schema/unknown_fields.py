"""Forbid unknown fields in a schema, at every level.

A model that writes `siteid` for an optional `site_id` would otherwise be served as if it
had left the field out. `additionalProperties: false` sees only the `properties` beside it, so
where several subschemas describe one value together (`allOf`, a `$ref` or a union next
to `properties`, a condition) the whole gets `unevaluatedProperties: false` and its parts
stay open; closing each part would refuse every value. A schema with
`additionalProperties` or `unevaluatedProperties` keeps it, and one that names no property
(`{"type": "object"}`) is free-form and stays open. `not`, `if`, `contains` and
`propertyNames` are tests, not descriptions, and stay unchanged.
"""

from copy import copy

from sojourn.core.schema.drafts import in_2020_12
from sojourn.core.values.json_fault import MAX_DEPTH, depth_of
from sojourn.core.values.json_value import is_object
from sojourn.core.values.pointer import Schema, children, expand, resolve, to_pointer

__all__ = ["forbid_unknown_fields"]

_DECLARATIONS = ("additionalProperties", "unevaluatedProperties")
_DESCRIPTIONS = ("properties", "patternProperties")
_TESTS = ("contains", "if", "not", "propertyNames")
_PARTS = ("$ref", "allOf", "anyOf", "oneOf", "dependentSchemas", "else", "then")


def forbid_unknown_fields(schema: Schema) -> Schema:
    """A copy in 2020-12 that refuses undeclared fields.

    A definition that is part of a composition somewhere stays open itself, and is
    closed at each plain reference to it.

    Raises:
        ValueError: The schema is nested deeper than 64.
    """
    if depth_of(schema) > MAX_DEPTH:
        raise ValueError(f"the schema is nested deeper than {MAX_DEPTH}")
    parts: frozenset[str] = frozenset()
    translated = in_2020_12(schema)
    while True:
        closing = _Closing(translated, parts)
        closed = closing.close((), translated, part=False)
        if closing.found <= parts:
            return closed
        parts |= closing.found


class _Closing:
    """One pass over a schema; `found` collects the references that are parts of a composition."""

    def __init__(self, root: Schema, parts: frozenset[str]) -> None:
        self.root = root
        self.parts = parts
        self.found: set[str] = set()

    def close(self, path: tuple[str | int, ...], schema: Schema, *, part: bool) -> Schema:
        """The schema with its subschemas closed and, unless it is part of a composition, closed itself."""
        part = part or f"#{to_pointer(path)}" in self.parts
        word, inner_parts = (None, True) if part else self._how(schema)
        if inner_parts and isinstance(reference := schema.get("$ref"), str):
            self.found.add(reference)
        closed = {name: copy(value) for name, value in schema.items()}
        for (name, *step), child in children(schema):
            if name not in _TESTS:
                inner = self.close((*path, name, *step), child, part=inner_parts and name in _PARTS)
                if step:
                    closed[str(name)][step[0]] = inner
                else:
                    closed[str(name)] = inner
        return closed if word is None else {**closed, word: False}

    def _how(self, schema: Schema) -> tuple[str | None, bool]:
        """The keyword that closes a value, and whether the subschemas beside it must stay open."""
        if any(word in schema for word in _DECLARATIONS):
            return None, True
        describing = [word for word in _PARTS if self._describes(schema, word)]
        own = any(word in schema for word in _DESCRIPTIONS)
        if not describing:
            return ("additionalProperties" if own else None), False
        if own or len(describing) > 1 or not self._closes_itself(schema, describing[0]):
            return "unevaluatedProperties", True
        return None, False

    def _describes(self, schema: Schema, word: str) -> bool:
        """Whether a keyword adds fields to the same value."""
        if word == "$ref":
            target = resolve(self.root, str(schema.get(word, "#/")))
            found = [target] if is_object(target) else []
        else:
            found = [child for (name, *_), child in children(schema) if name == word]
        parts = (part for each in found for part in expand(self.root, each))
        return any(word in part for part in parts for word in _DESCRIPTIONS)

    def _closes_itself(self, schema: Schema, word: str) -> bool:
        """Whether closing each branch of the only describing keyword closes the value."""
        match word:
            case "anyOf" | "oneOf":
                return True
            case "$ref":
                return schema["$ref"] not in self.parts
            case _:
                return word == "allOf" and len(schema["allOf"]) == 1
