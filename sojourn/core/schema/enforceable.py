"""Whether a JSON Schema can be enforced, and its unknown fields forbidden.

A model that writes `siteid` for an optional `site_id` would otherwise be served as if it
had left the field out. `additionalProperties: false` sees only the `properties` beside it, so
where several subschemas describe one value together (`allOf`, a `$ref` or a union next
to `properties`, a condition) the whole gets `unevaluatedProperties: false` and its parts
stay open; closing each part would refuse every value. A schema with
`additionalProperties` or `unevaluatedProperties` keeps it, and one that names no property
(`{"type": "object"}`) is free-form and stays open. `not`, `if`, `contains` and
`propertyNames` are tests, not descriptions, and stay unchanged.

A schema comes from a type of the author's, or from a foreign source (an MCP server). A
foreign schema may be invalid, endless or refer elsewhere; `check` refuses it once, with the
place, so that later code can rely on it. The dialect is draft 2020-12; a schema that names
an older draft is translated first (`sojourn.core.schema.drafts`).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any, cast

from jsonschema import Draft202012Validator
from jsonschema_specifications import REGISTRY

from sojourn.core.schema.drafts import in_2020_12
from sojourn.core.schema.issues import phrase
from sojourn.core.schema.validate import Validator
from sojourn.values.json_fault import MAX_DEPTH, depth_of
from sojourn.values.json_value import (
    Schema,
    children,
    expand,
    in_place,
    is_object,
    resolve,
    to_pointer,
    to_tokens,
    value_at,
)

__all__ = ["check", "faults_of", "field_descriptions", "forbid_unknown_fields"]

_DECLARATIONS = ("additionalProperties", "unevaluatedProperties")
_DESCRIPTIONS = ("properties", "patternProperties")
_TESTS = ("contains", "if", "not", "propertyNames")
_PARTS = ("$ref", "allOf", "anyOf", "oneOf", "dependentSchemas", "else", "then")


def forbid_unknown_fields(schema: Schema) -> Schema:
    """Return a copy in 2020-12 that refuses undeclared fields.

    A definition that is part of a composition somewhere stays open itself, and is
    closed at each plain reference to it.
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
    """One pass over a schema."""

    def __init__(self, root: Schema, parts: frozenset[str]) -> None:
        self.root = root
        self.parts = parts
        self.found: set[str] = set()

    def close(self, path: tuple[str | int, ...], schema: Schema, *, part: bool) -> Schema:
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
        if word == "$ref":
            target = resolve(self.root, str(schema.get(word, "#/")))
            found = [target] if is_object(target) else []
        else:
            found = [child for (name, *_), child in children(schema) if name == word]
        parts = (part for each in found for part in expand(self.root, each))
        return any(word in part for part in parts for word in _DESCRIPTIONS)

    def _closes_itself(self, schema: Schema, word: str) -> bool:
        """Check that closing each branch of the only describing keyword closes the value."""
        match word:
            case "anyOf" | "oneOf":
                return True
            case "$ref":
                return schema["$ref"] not in self.parts
            case _:
                return word == "allOf" and len(schema["allOf"]) == 1


_UNSUPPORTED = ("$dynamicRef", "$recursiveRef")
_TOP_ONLY = ("$id", "$schema")
_MAX_VISITS = 500

_Path = tuple[str | int, ...]


def _flat_metaschema() -> Schema:
    # Six times as fast as dynamic references.
    flat: Schema = {"type": ["object", "boolean"], "properties": {}, "$defs": {}}
    plain = cast("Schema", Draft202012Validator.META_SCHEMA)
    for vocabulary in plain["allOf"]:
        part: Any = REGISTRY.contents(f"https://json-schema.org/draft/2020-12/{vocabulary['$ref']}")
        for word in ("properties", "$defs"):
            flat[word] |= _plainly_referring(part.get(word, {}))
    return flat


def _plainly_referring(node: Any) -> Any:
    if node == {"$dynamicRef": "#meta"}:
        return {"$ref": "#"}
    if is_object(node):
        return {word: _plainly_referring(value) for word, value in node.items()}
    return node


_METASCHEMA = Validator(_flat_metaschema())


def check(schema: object) -> None:
    """Check that a schema is JSON Schema that refers only to itself.

    It may be 2020-12 or older. A reference is `#` or `#/...`.
    """
    if not is_object(schema):
        raise ValueError(f"the schema is a {type(schema).__name__}, not a JSON object")
    if depth_of(schema) > MAX_DEPTH:
        raise ValueError(f"the schema is nested deeper than {MAX_DEPTH}")
    root = in_2020_12(schema)
    for issue in _METASCHEMA.issues(root):
        text = phrase(issue, value_at(root, to_tokens(issue.field)))
        raise ValueError(f"{_place(to_tokens(issue.field))}: {text}")
    known = {id(subschema) for _, subschema in _subschemas(root)}
    for path, subschema in _subschemas(root):
        _check_words(path, subschema)
        _check_reference(root, path, subschema.get("$ref"), known)
    _check_endless(root)


def faults_of(schema: Schema) -> list[str]:
    """Return the places of faults against JSON Schema 2020-12, at most 50."""
    return [issue.field for issue in _METASCHEMA.issues(schema)]


def field_descriptions(schema: Schema) -> dict[str, str]:
    """Return each described field's description by path, outer fields first.

    A path is such as `site`, nested `filter.since`, in a list `lines[].sku`.
    """
    found: dict[str, str] = {}
    pending: deque[tuple[str, Schema, frozenset[int]]] = deque([("", schema, frozenset())])
    for _ in range(_MAX_VISITS):
        if not pending:
            break
        prefix, each, above = pending.popleft()
        parts = [part for part in expand(schema, each) if id(part) not in above]
        text = next((part["description"] for part in parts if part.get("description")), None)
        if prefix and text is not None:
            found.setdefault(prefix, str(text))
        above = above.union(map(id, parts))
        pending.extend((path, child, above) for part in parts for path, child in _fields(prefix, part))
    return found


def _fields(prefix: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    for (word, *name), child in children(schema):
        if word == "properties":
            yield f"{prefix}.{name[0]}" if prefix else str(name[0]), child
        elif word == "items":
            yield f"{prefix}[]", child


def _subschemas(root: Schema) -> Iterator[tuple[_Path, Schema]]:
    pending: list[tuple[_Path, Schema]] = [((), root)]
    while pending:
        path, subschema = pending.pop()
        yield path, subschema
        pending.extend((path + step, child) for step, child in children(subschema))


def _check_words(path: _Path, subschema: Schema) -> None:
    for word in _UNSUPPORTED:
        if word in subschema:
            raise ValueError(f"{_place(path)}: {word} is not supported; use $ref with #/...")
    for word in _TOP_ONLY:
        if path and word in subschema:
            raise ValueError(f"{_place(path)}: {word} is allowed only at the top of the schema")


def _check_reference(root: Schema, path: _Path, reference: str | None, known: set[int]) -> None:
    if reference is None:
        return
    if reference != "#" and not reference.startswith("#/"):
        raise ValueError(
            f"{_place(path)}: $ref {ascii(reference)[:120]} leaves the schema; only #/... is followed"
        )
    target = resolve(root, reference)
    if not isinstance(target, bool) and id(target) not in known:
        raise ValueError(f"{_place(path)}: $ref {ascii(reference)[:120]} leads to no schema")


def _check_endless(root: Schema) -> None:
    # The validation of such a schema would never end.
    lengths: dict[int, int] = {}

    def visit(path: _Path, subschema: Schema, above: frozenset[int]) -> int:
        if id(subschema) in above:
            raise ValueError(f"{_place(path)}: the schema refers to itself without end")
        key = id(subschema)
        if key not in lengths and len(above) <= MAX_DEPTH:
            parts = in_place(root, subschema)
            lengths[key] = 1 + max((visit(path, part, above | {key}) for part in parts), default=0)
        if lengths.get(key, MAX_DEPTH + 1) > MAX_DEPTH:
            raise ValueError(f"{_place(path)}: the chain of references is longer than {MAX_DEPTH}")
        return lengths[key]

    for path, subschema in _subschemas(root):
        visit(path, subschema, frozenset())


def _place(path: Iterable[str | int]) -> str:
    return f"at #{to_pointer(path)}"
