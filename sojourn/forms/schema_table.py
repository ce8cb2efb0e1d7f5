"""A JSON Schema as the rows of a table.

Each field has its types and rules in words, and its description. Schemas come from authors and from
foreign servers. So anything that is not a schema is left out, a type that contains itself appears once,
and a table has at most 200 rows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sojourn.core.payload.example import example_for
from sojourn.core.schema.validate import Validator
from sojourn.forms.fields import resolve_field
from sojourn.values.json_value import Schema, is_array, is_object
from sojourn.values.visible import one_line

__all__ = ["MAX_ROWS", "SchemaRow", "SchemaTable", "example_of", "schema_table"]

MAX_ROWS = 200
MAX_DEPTH = 6
"""Deepest nesting of fields to show."""

MAX_CHOICES = 12
MAX_VALUE = 80
MAX_ABOUT = 1_000

_RULES = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} character(s)",
    "maxLength": "at most {} character(s)",
    "pattern": "matches {}",
    "format": "{}",
    "minItems": "at least {} item(s)",
    "maxItems": "at most {} item(s)",
    "minProperties": "at least {} field(s)",
    "maxProperties": "at most {} field(s)",
    "contentEncoding": "in {}",
}
"""Rules in words, by keyword."""


@dataclass(frozen=True, slots=True)
class SchemaRow:
    name: str
    """The name, with `[]` after it for the items of an array. An alternative has its title in parentheses."""
    depth: int
    """Number of fields that the field is nested in."""
    types: str
    is_required: bool
    rules: Sequence[str]
    """Rules in words, such as `at least 1` and `default "x"`."""
    about: str
    """Its description."""


@dataclass(frozen=True, slots=True)
class SchemaTable:
    rows: Sequence[SchemaRow]
    is_whole: bool
    """Whether the rows are complete."""
    about: str
    """The schema's own description."""


def schema_table(schema: Any) -> SchemaTable:
    """Return the rows of a JSON Schema.

    A value that is not an object has one row without a name.
    """
    if not isinstance(schema, Mapping):
        return SchemaTable([], is_whole=True, about="")
    root: Schema = dict(schema)  # pyright: ignore[reportUnknownArgumentType] - a foreign schema
    reader = _Reader(root)
    resolved = resolve_field(root, root)
    found = reader.fields(resolved, 0, ()) if _has_fields(resolved) else reader.row("", root, 0, True, ())  # noqa: FBT003 - it is required
    rows: list[SchemaRow] = []
    for row in found:
        if len(rows) == MAX_ROWS:
            return SchemaTable(rows, is_whole=False, about=_about(resolved))
        rows.append(row)
    return SchemaTable(rows, is_whole=True, about=_about(resolved))


@dataclass(frozen=True, slots=True)
class _Reader:
    root: Schema

    def row(
        self, name: str, schema: Any, depth: int, is_required: bool, above: tuple[int, ...]
    ) -> Iterator[SchemaRow]:
        found = resolve_field(self.root, schema)
        yield SchemaRow(name, depth, self._types(found), is_required, _rules(found), _about(found))
        yield from self._inside(name, found, depth, above)

    def fields(self, schema: Schema, depth: int, above: tuple[int, ...]) -> Iterator[SchemaRow]:
        required = schema.get("required")
        names = required if is_array(required) else []
        properties = schema.get("properties")
        for name, each in properties.items() if is_object(properties) else ():
            yield from self.row(str(name), each, depth, name in names, above)
        other = schema.get("additionalProperties")
        if is_object(other) and other:
            yield from self.row("any other name", other, depth, False, above)  # noqa: FBT003 - it is not required

    def _inside(self, name: str, schema: Schema, depth: int, above: tuple[int, ...]) -> Iterator[SchemaRow]:
        mark = id(schema.get("properties") or schema.get("items") or schema.get("anyOf") or schema)
        if depth + 1 >= MAX_DEPTH or mark in above:
            return
        inner = (*above, mark)
        if _has_fields(schema):
            yield from self.fields(schema, depth + 1, inner)
        items = resolve_field(self.root, schema.get("items"))
        if _has_fields(items):
            yield from self.fields(items, depth + 1, inner)
        elif _options(items):
            yield from self._inside(f"{name}[]", items, depth, inner)
        options = [resolve_field(self.root, each) for each in _options(schema)]
        shapes = [
            each
            for each in options
            if _has_fields(each) or _has_fields(resolve_field(self.root, each.get("items")))
        ]
        for number, shape in enumerate(shapes[:MAX_CHOICES], 1):
            if len(shapes) > 1:
                title = one_line(shape.get("title") or f"shape {number}", MAX_VALUE)
                yield SchemaRow(f"({title})", depth + 1, self._types(shape), False, (), _about(shape))  # noqa: FBT003 - it is not required
            yield from self._inside(name, shape, depth + (len(shapes) > 1), inner)

    def _types(self, schema: Schema, within: int = 0) -> str:
        if within == MAX_DEPTH:
            return "anything"
        if options := _options(schema):
            names = [
                self._types(resolve_field(self.root, each), within + 1) for each in options[:MAX_CHOICES]
            ]
            return " or ".join(dict.fromkeys(names))
        if "const" in schema or is_array(schema.get("enum")):
            return "one of" if "enum" in schema else "always"
        kind = schema.get("type")
        kinds = kind if is_array(kind) else [kind]
        return " or ".join(self._type(each, schema, within) for each in kinds[:MAX_CHOICES])

    def _type(self, kind: Any, schema: Schema, within: int) -> str:
        if kind == "array":
            items = resolve_field(self.root, schema.get("items"))
            return f"array of {self._types(items, within + 1)}" if items else "array"
        if kind is None:
            return "object" if _has_fields(schema) else "anything"
        return one_line(kind, 20)


def _options(schema: Schema) -> list[Any]:
    found = schema.get("anyOf") or schema.get("oneOf")
    return found if is_array(found) else []


def _has_fields(schema: Schema) -> bool:
    return any(
        is_object(found) and bool(found)
        for found in (schema.get("properties"), schema.get("additionalProperties"))
    )


def _about(schema: Schema) -> str:
    about = schema.get("description")
    return about[:MAX_ABOUT] if isinstance(about, str) else ""


def _rules(schema: Schema) -> list[str]:
    rules: list[str] = []
    if is_array(values := schema.get("enum")):
        more = f" and {len(values) - MAX_CHOICES} more" if len(values) > MAX_CHOICES else ""
        rules.append(", ".join(map(_value, values[:MAX_CHOICES])) + more)
    if "const" in schema:
        rules.append(_value(schema["const"]))
    for keyword, words in _RULES.items():
        value = schema.get(keyword)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            rules.append(words.replace("(s)", "" if value == 1 else "s").format(one_line(value, MAX_VALUE)))
    if schema.get("uniqueItems") is True:
        rules.append("all different")
    for option in _options(schema)[:MAX_CHOICES]:
        if is_object(option):
            rules.extend(_rules(option))
    if "default" in schema:
        rules.append(f"default {_value(schema['default'])}")
    return rules


def _value(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False, default=str), MAX_VALUE)


def example_of(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a small object that a schema accepts, or None."""
    made = example_for(Validator(dict(schema)))
    return (made and made.payload) or None
