"""The fields of a form, one for each value of a JSON Schema.

An object has a field for each of its values, an array has rows, and alternatives are a choice. What is
nested deeper than 4, contains itself or has no known shape gets a field for JSON. Schemas come from authors, planners and foreign
servers, so a malformed one gives fewer fields, never an error.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sojourn.values.json_value import Schema, is_array, is_object, list_of, resolve
from sojourn.values.visible import one_line, readable

__all__ = [
    "MOMENT",
    "Choice",
    "FormField",
    "choices_of",
    "form_fields",
    "rekey",
    "resolve_field",
    "whole_field",
]

MAX_FIELDS = 60
"""Most fields of a form, nested ones included. What would exceed it is answered as JSON."""

MAX_DEPTH = 4
"""Deepest nesting of fields."""

MAX_OPTIONS = 8
"""Most alternatives of a value."""

EMPTY_ROWS = 2
"""Rows of an array before anything is filled in, unless it has `minItems`."""

MAX_EMPTY_ROWS = 10
"""Most rows that an array has for its `minItems` before anything is filled in."""

LONG_TEXT = 200
"""Characters beyond which a text field gets several lines."""

MAX_REFERENCES = 6
"""Most references to follow from one schema."""

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?\Z")
"""A date with a time, as a browser sends it."""

_FORMATS = {"date": "date", "date-time": "datetime-local", "time": "time", "email": "email", "uri": "url"}
_SIMPLE = ("string", "number", "integer", "boolean")
_NOT_FLAT = ("oneOf", "anyOf", "allOf", "if", "not", "$ref", "patternProperties")
_NOT_NESTED = ("allOf", "if", "not", "$ref", "patternProperties", "prefixItems", "dependentSchemas")
_UUID = "[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_SHOWN = {
    "number": re.compile(r"-?\d*\.?\d+([eE][+-]?\d+)?\Z"),
    "date": re.compile(r"\d{4}-\d\d-\d\d\Z"),
    "datetime-local": MOMENT,
    "time": re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?\Z"),
}
"""Texts that an input of each type can display. A browser displays any other text as an empty input."""


@dataclass(frozen=True, slots=True)
class Choice:
    value: Any
    title: str | None = None
    """None if the schema gives it none."""

    @property
    def label(self) -> str:
        return one_line(self.title, 200) if self.title else _as_text(self.value)


@dataclass(frozen=True, slots=True)
class FormField:
    name: str
    """The name of its value."""
    key: str
    """The name of the field in the form that a browser sends."""
    label: str
    about: str
    kind: str
    """`text` `lines` `number` `boolean` `choice` `choices` `date` `datetime-local` `time` `email` `url` or `json`.

    With fields of its own: `group` (an object), `list` (an array) or `union` (alternatives). `fixed` is a constant.
    """
    is_integer: bool = False
    is_required: bool = False
    choices: tuple[Choice, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    example: str = ""
    texts: tuple[str, ...] = ()
    """Texts in the field. For choices, their numbers."""
    fault: str = ""
    """Why the texts are not a value of the field."""
    is_null_empty: bool = False
    """Whether the value is required and may be null, which it is if the field is empty."""
    is_optional: bool = False
    """Whether the field may stay empty while others of the form may not."""
    fields: tuple["FormField", ...] = ()
    """The values of an object, the rows of an array, or the alternatives of a union."""
    row: "FormField | None" = None
    """An empty row of an array."""

    @property
    def has_fault(self) -> bool:
        return bool(self.fault) or any(each.has_fault for each in self.fields)

    @property
    def has_rows(self) -> bool:
        return self.kind == "list" or any(each.has_rows for each in self.fields)

    @property
    def text(self) -> str:
        return self.texts[0] if self.texts else ""

    @property
    def input_type(self) -> str:
        """`text` if an input of the field's kind could not show its text."""
        shown = _SHOWN.get(self.kind)
        return "text" if shown and self.text and not shown.match(self.text) else self.kind

    @property
    def step(self) -> str:
        """The `step` of an HTML input for a number."""
        return "1" if self.is_integer else "any"


def form_fields(
    schema: Mapping[str, Any] | None, prefix: str, example: Mapping[str, Any] | None = None
) -> tuple[FormField, ...] | None:
    """Return the fields of an object of 1 to 60 values, or None."""
    root = dict(schema or {})
    properties = root.get("properties")
    if not is_object(properties) or not 0 < len(properties) <= MAX_FIELDS:
        return None
    if any(word in root for word in _NOT_FLAT):
        return None
    builder = _Builder(root, MAX_FIELDS - len(properties))
    return builder.fields(root, prefix, example, 0, ())


@dataclass(slots=True)
class _Builder:
    root: Schema
    left: int
    """Nested fields that the form may still have."""

    def fields(
        self,
        schema: Schema,
        prefix: str,
        example: Mapping[str, Any] | None,
        depth: int,
        above: tuple[int, ...],
    ) -> tuple[FormField, ...]:
        root, required = self.root, list_of(schema.get("required"))
        properties: dict[str, Any] = schema["properties"]
        found: list[FormField] = []
        for index, (name, given) in enumerate(properties.items()):
            schema_of_field = resolve_field(root, given, drop_null=True)
            is_required = name in required
            is_null_empty = is_required and (_takes_null(given) or _takes_null(schema_of_field))
            field = self.field(name, f"{prefix}{index}", schema_of_field, depth, above)
            if field.kind == "group" and not (is_object(given) and "title" in given):
                field = replace(field, label=one_line(name, 100))  # the title is that of its type
            about = f"{field.about} Left empty, it is null.".strip() if is_null_empty else field.about
            field = replace(
                _with_example(field, (example or {}).get(name)),
                about=about,
                is_required=is_required and not is_null_empty,
                is_null_empty=is_null_empty,
                is_optional=(bool(required) or depth > 0) and not is_required,
            )
            is_inside = depth > 0 or field.kind in ("group", "list", "union")
            found.append(_without_defaults(field) if is_inside and not is_required else field)
        return tuple(found)

    def field(self, name: str, key: str, schema: Schema, depth: int, above: tuple[int, ...]) -> FormField:
        """Return the field of a resolved schema."""
        field = _field(name, key, schema)
        options = [each for each in _options(schema) if not _is_null(each)]
        if field.kind not in ("json", "text") or not (field.kind == "json" or options):
            return field
        mark = id(schema.get("properties") or schema.get("items") or schema.get("anyOf") or schema)
        inner = (depth + 1, (*above, mark))
        properties, items = schema.get("properties"), schema.get("items")
        is_known = depth < MAX_DEPTH and mark not in above and not any(map(schema.__contains__, _NOT_NESTED))
        size = len(options or (properties if is_object(properties) else ())) or 1
        if is_known and size <= self.left:
            self.left -= size
            if 1 < len(options) <= MAX_OPTIONS and not properties:
                return self._union(field, options, *inner)
            if not options and is_object(properties) and properties:
                fields = self.fields(schema, f"{key}-", _object_or_none(schema.get("default")), *inner)
                return replace(field, kind="group", fields=fields, texts=())
            if not options and is_object(items) and items:
                return self._list(field, items, schema, *inner)
        outline = skeleton(self.root, schema)
        text = json.dumps(outline, ensure_ascii=False, indent=2) if outline else ""
        return replace(field, kind="json" if field.kind == "json" or options else field.kind, example=text)

    def _list(
        self, field: FormField, items: Schema, array: Schema, depth: int, above: tuple[int, ...]
    ) -> FormField:
        schema, default, least = (
            resolve_field(self.root, items, drop_null=True),
            array.get("default"),
            array.get("minItems"),
        )
        row = self.field(field.label, f"{field.key}-0", schema, depth, above)
        row = replace(_without_defaults(row), is_required=True)
        if is_array(default) and default:
            return replace(field, kind="json")  # its default is shown as JSON
        count = min(least, MAX_EMPTY_ROWS) if isinstance(least, int) and least > 0 else EMPTY_ROWS
        rows = tuple(rekey(row, f"{field.key}-{at}") for at in range(count))
        return replace(field, kind="list", fields=rows, row=row, texts=())

    def _union(self, field: FormField, options: list[Any], depth: int, above: tuple[int, ...]) -> FormField:
        found: list[FormField] = []
        for at, given in enumerate(options):
            schema = resolve_field(self.root, given, drop_null=True)
            label = schema.get("title") or schema.get("type")
            option = self.field(str(label or f"Shape {at + 1}"), f"{field.key}-{at}", schema, depth, above)
            found.append(replace(_fix_constants(_without_defaults(option)), is_required=True))
        return replace(field, kind="union", fields=tuple(found), texts=())


def rekey(field: FormField, key: str) -> FormField:
    """Return a field, and those inside it, under another key."""
    old = len(field.key)
    inner = tuple(rekey(each, key + each.key[old:]) for each in field.fields)
    row = field.row and rekey(field.row, key + field.row.key[old:])
    return replace(field, key=key, fields=inner, row=row)


def skeleton(root: Schema, schema: Any, depth: int = 0) -> Any:
    """Return an outline of a value, whose texts are empty."""
    found = resolve_field(root, schema, drop_null=True)
    if depth > MAX_DEPTH:
        return None
    if choices := choices_of(found):
        return choices[0].value
    if options := _options(found):
        return skeleton(root, options[0], depth + 1)
    if is_object(properties := found.get("properties")):
        shown = list(properties.items())[:10]
        return {name: skeleton(root, each, depth + 1) for name, each in shown}
    kind = found.get("type")
    if kind == "array":
        return [skeleton(root, found["items"], depth + 1)] if is_object(found.get("items")) else []
    return _EMPTY.get(kind) if isinstance(kind, str) else None


_EMPTY: Mapping[str, Any] = {"string": "", "number": 0, "integer": 0, "boolean": False, "object": {}}


def _with_example(field: FormField, example: Any) -> FormField:
    if field.kind == "group" and is_object(example):
        inner = tuple(_with_example(each, example.get(each.name)) for each in field.fields)
        return replace(field, fields=inner)
    if field.kind == "list" and is_array(example) and example and field.row:
        rows = tuple(_with_example(each, example[0]) for each in field.fields)
        return replace(field, fields=rows, row=_with_example(field.row, example[0]))
    return field if example is None else replace(field, example=_as_text(example))


def _without_defaults(field: FormField) -> FormField:
    """Return a field with its default as a placeholder: its parent can stay empty."""
    default = field.text if field.kind in ("text", "lines", "number", "email", "url") else ""
    inner = tuple(map(_without_defaults, field.fields))
    return replace(field, texts=(), example=field.example or default, fields=inner)


def _fix_constants(field: FormField) -> FormField:
    """Return an alternative whose constants are fixed, not fields to fill in."""
    inner = tuple(
        replace(each, kind="fixed") if each.kind == "choice" and len(each.choices) == 1 else each
        for each in field.fields
    )
    return replace(field, fields=inner)


def _options(schema: Schema) -> list[Any]:
    return list_of(schema.get("anyOf")) or list_of(schema.get("oneOf"))


def _object_or_none(value: Any) -> Mapping[str, Any] | None:
    return value if is_object(value) else None


def whole_field(schema: Mapping[str, Any] | None, key: str, label: str, example: Any = None) -> FormField:
    """Return one field for a whole value: of its own kind if simple, else for JSON."""
    if schema and schema.get("type") in _SIMPLE:
        simple = _field(label, key, dict(schema))
        if simple.kind != "json":
            return replace(simple, label=label, is_required=True)
    text = "" if example is None else json.dumps(example, ensure_ascii=False, indent=2)
    return FormField(label, key, label, "as JSON", "json", is_required=True, example=text)


def resolve_field(root: Schema, schema: Any, *, drop_null: bool = False) -> Schema:
    """Resolve a schema's references, whose keywords its own ones override."""
    found: Schema = {}
    for _ in range(MAX_REFERENCES):
        if not is_object(schema):
            break
        found = {**schema, **found}
        parts = list_of(schema.get("allOf"))
        alternatives = next((word for word in ("anyOf", "oneOf") if is_array(schema.get(word))), "")
        others = [each for each in list_of(schema.get(alternatives)) if not _is_null(each)]
        reference = found.pop("$ref", None)
        if isinstance(reference, str):
            schema = resolve(root, reference) if reference.startswith("#") else None
        elif len(parts) == 1:
            del found["allOf"]
            schema = parts[0]
        elif drop_null and len(others) == 1:
            del found[alternatives]
            schema = others[0]
        else:
            break
    return found


def choices_of(schema: Schema) -> list[Choice] | None:
    """Return the choices of a schema, or None if it has none.

    Choices are an `enum` (with MCP's `enumNames`), a `const`, or alternatives that are each a
    `const`, perhaps with a title.
    """
    for word in ("oneOf", "anyOf"):
        given = [each for each in list_of(schema.get(word)) if not _is_null(each)]
        options = [each for each in given if is_object(each) and "const" in each]
        if options and len(options) == len(given):
            return [Choice(each["const"], each.get("title")) for each in options]
    if "const" in schema:
        return [Choice(schema["const"])]
    values = schema.get("enum")
    if not is_array(values):
        return None
    titles = list_of(schema.get("enumNames"))
    return [
        Choice(value, titles[at] if len(titles) == len(values) and isinstance(titles[at], str) else None)
        for at, value in enumerate(values)
    ]


def _field(name: str, key: str, schema: Schema) -> FormField:
    kinds = schema.get("type")
    wanted = [each for each in ([kinds] if isinstance(kinds, str) else list_of(kinds)) if each != "null"]
    default = schema.get("default")
    base = FormField(
        name,
        key,
        one_line(schema.get("title") or name, 100),
        readable(schema.get("description") or "")[:1_000],
        "text",
        texts=() if default is None or isinstance(default, bool) else (_as_input(default),),
    )
    choices = [each for each in choices_of(schema) or () if each.value is not None]
    if choices:
        chosen = [str(at) for at, each in enumerate(choices) if each.value == default][:1]
        return replace(base, kind="choice", choices=tuple(choices[:500]), texts=tuple(chosen))
    if len(wanted) != 1:
        return replace(base, kind="json" if wanted else "text")
    match wanted[0]:
        case "string":
            return _text_field(base, schema)
        case "boolean":
            texts = ("yes" if default else "no",) if isinstance(default, bool) else ()
            return replace(base, kind="boolean", texts=texts)
        case "number" | "integer" as kind:
            low, high = _number(schema.get("minimum")), _number(schema.get("maximum"))
            return replace(base, kind="number", is_integer=kind == "integer", minimum=low, maximum=high)
        case "array" if is_object(items := schema.get("items")) and (options := choices_of(items)):
            return replace(base, kind="choices", choices=tuple(options), texts=())
        case _:
            return replace(base, kind="json")


def _text_field(base: FormField, schema: Schema) -> FormField:
    longest = _length(schema.get("maxLength"))
    pattern = schema.get("pattern")
    kind = _FORMATS.get(str(schema.get("format") or ""), "text")
    if kind == "text" and ((longest or 0) > LONG_TEXT or "\n" in base.text):
        kind = "lines"
    return replace(
        base,
        kind=kind,
        min_length=_length(schema.get("minLength")),
        max_length=longest,
        pattern=pattern if isinstance(pattern, str) and kind == "text" else _pattern_of(schema, kind),
        about=f"{base.about} In UTC.".strip() if kind == "datetime-local" else base.about,
    )


def _pattern_of(schema: Schema, kind: str) -> str:
    return f"^{_UUID}$" if kind == "text" and schema.get("format") == "uuid" else ""


def _takes_null(schema: Any) -> bool:
    if not is_object(schema):
        return False
    options = [each for word in ("anyOf", "oneOf") for each in list_of(schema.get(word))]
    return (
        "null" in list_of(schema.get("type"))
        or None in list_of(schema.get("enum"))
        or any(map(_is_null, options))
    )


def _is_null(schema: Any) -> bool:
    return is_object(schema) and schema.get("type") == "null"


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _length(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _as_input(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_text(value: Any) -> str:
    return one_line(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False), 200)
