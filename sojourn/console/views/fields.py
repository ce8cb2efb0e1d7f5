"""Fields of a JSON Schema as rows of a table: each with its place, its type and rules in words, and what it is for.

Schemas come from authors and from servers of strangers: what is no schema is left out, a type that holds itself is shown once, and
a table has an end.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sojourn.console.views.text import one_line
from sojourn.core.values.json_value import is_object

__all__ = ["Field", "Fields", "fields_of"]

MOST = 200
"""Most rows of a table."""

DEEPEST = 6
"""How deep fields of fields are shown."""

MAX_CHOICES = 12
MAX_VALUE = 80
MAX_ABOUT = 1_000

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A row."""

    name: str
    """The name; `[]` after it for what is in an array, and of another shape that a value may have its title in parentheses."""
    depth: int
    """How many fields it is in."""
    types: str
    is_required: bool
    rules: Sequence[str]
    """Such as `at least 1` and `default "x"`."""
    about: str
    """Its description."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The rows of a schema."""

    rows: Sequence[Field]
    is_whole: bool
    """Whether that is all."""
    about: str
    """The schema's own description."""


def fields_of(schema: Any) -> Fields:
    """The rows; one without a name for a value that is no object.

    Args:
        schema: A JSON Schema.
    """
    if not isinstance(schema, Mapping):
        return Fields([], is_whole=True, about="")
    root = cast("Schema", schema)
    reader = _Reader(root)
    resolved = reader.resolved(root)
    rows: list[Field] = []
    begun = reader.below("", resolved, 0, ()) if _holds(resolved) else reader.row("", root, 0, True, ())  # noqa: FBT003 - whether it is required
    for row in begun:
        if len(rows) == MOST:
            return Fields(rows, is_whole=False, about=_about(resolved))
        rows.append(row)
    return Fields(rows, is_whole=True, about=_about(resolved))


@dataclass(frozen=True, slots=True)
class _Reader:
    root: Schema

    def resolved(self, schema: Any) -> Schema:
        """What a schema refers to, with what stands beside the reference; an empty one for what is no schema."""
        found: dict[str, Any] = {}
        for _ in range(DEEPEST):
            if not isinstance(schema, Mapping):
                break
            here = cast("Schema", schema)
            found = {**here, **found}
            found.pop("$ref", None)
            parts = here.get("allOf")
            if isinstance(parts, list) and len(cast("list[Any]", parts)) == 1 and "$ref" not in here:
                found.pop("allOf", None)
                schema = cast("list[Any]", parts)[0]
            elif isinstance(here.get("$ref"), str):
                schema = self._referred(here["$ref"])
            else:
                break
        return found

    def _referred(self, reference: str) -> Any:
        if not reference.startswith("#"):
            return None
        at: Any = self.root
        for part in reference[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            at = cast("Schema", at).get(key) if isinstance(at, Mapping) else None
        return at

    def row(
        self, name: str, schema: Any, depth: int, is_required: bool, above: tuple[int, ...]
    ) -> Iterator[Field]:
        """The row of a field, and those of what is in it."""
        found = self.resolved(schema)
        yield Field(name, depth, self._types(found), is_required, _rules(found), _about(found))
        yield from self._inside(name, found, depth, above)

    def _inside(self, name: str, schema: Schema, depth: int, above: tuple[int, ...]) -> Iterator[Field]:
        mark = id(schema.get("properties") or schema.get("items") or schema.get("anyOf") or schema)
        if depth + 1 >= DEEPEST or mark in above:
            return
        inner = (*above, mark)
        options = [each for each in map(self.resolved, _options(schema)) if each.get("type") != "null"]
        shapes = [each for each in options if _holds(each) or _holds(self.resolved(each.get("items")))]
        if _holds(schema):
            yield from self.below(name, schema, depth + 1, inner)
        items = self.resolved(schema.get("items"))
        if items and (_holds(items) or _options(items)):
            if _holds(items):
                yield from self.below(f"{name}[]", items, depth + 1, inner)
            else:
                yield from self._inside(f"{name}[]", items, depth, inner)
        for number, shape in enumerate(shapes[:MAX_CHOICES], 1):
            if len(shapes) > 1:
                title = one_line(shape.get("title") or f"shape {number}", MAX_VALUE)
                yield Field(f"({title})", depth + 1, self._types(shape), False, (), _about(shape))  # noqa: FBT003 - nothing requires it
            yield from self._inside(name, shape, depth + (len(shapes) > 1), inner)

    def below(self, _name: str, schema: Schema, depth: int, above: tuple[int, ...]) -> Iterator[Field]:
        """The rows of an object's fields."""
        required = schema.get("required")
        names = cast("list[Any]", required) if isinstance(required, list) else []
        properties = cast("Schema", schema.get("properties") or {})
        for name, each in properties.items():
            yield from self.row(str(name), each, depth, name in names, above)
        other = schema.get("additionalProperties")
        if isinstance(other, Mapping) and other:
            yield from self.row("any other name", other, depth, False, above)  # noqa: FBT003 - nothing requires it

    def _types(self, schema: Schema, within: int = 0) -> str:
        options = _options(schema)
        if within == DEEPEST:
            return "anything"
        if options:
            names = [self._types(self.resolved(each), within + 1) for each in options[:MAX_CHOICES]]
            return " or ".join(dict.fromkeys(names))
        if "const" in schema or isinstance(schema.get("enum"), list):
            return "one of" if "enum" in schema else "always"
        kind = schema.get("type")
        kinds = cast("list[Any]", kind) if isinstance(kind, list) else [kind]
        return " or ".join(self._type(each, schema, within) for each in kinds[:MAX_CHOICES])

    def _type(self, kind: Any, schema: Schema, within: int) -> str:
        if kind == "array":
            items = self.resolved(schema.get("items"))
            return f"array of {self._types(items, within + 1)}" if items else "array"
        if kind is None:
            return "object" if _holds(schema) else "anything"
        return one_line(kind, 20)


def _options(schema: Schema) -> list[Any]:
    found = schema.get("anyOf") or schema.get("oneOf")
    return cast("list[Any]", found) if isinstance(found, list) else []


def _holds(schema: Schema) -> bool:
    """Whether a schema has fields."""
    fields, other = schema.get("properties"), schema.get("additionalProperties")
    return (is_object(fields) and bool(fields)) or (is_object(other) and bool(other))


def _about(schema: Schema) -> str:
    about = schema.get("description")
    return about[:MAX_ABOUT] if isinstance(about, str) else ""


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
"""In words, by keyword."""


def _rules(schema: Schema) -> list[str]:
    rules: list[str] = []
    if isinstance(schema.get("enum"), list):
        values = cast("list[Any]", schema["enum"])
        more = f" and {len(values) - MAX_CHOICES} more" if len(values) > MAX_CHOICES else ""
        rules.append(", ".join(map(_value, values[:MAX_CHOICES])) + more)
    if "const" in schema:
        rules.append(_value(schema["const"]))
    for keyword, words in _RULES.items():
        value = schema.get(keyword)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            plural = "" if value == 1 else "s"
            rules.append(words.replace("(s)", plural).format(one_line(value, MAX_VALUE)))
    if schema.get("uniqueItems") is True:
        rules.append("all different")
    for option in _options(schema)[:MAX_CHOICES]:
        if isinstance(option, Mapping):
            rules.extend(_rules(cast("Schema", option)))
    if "default" in schema:
        rules.append(f"default {_value(schema['default'])}")
    return rules


def _value(value: Any) -> str:
    return one_line(json.dumps(value, ensure_ascii=False, default=str), MAX_VALUE)
