"""The fields of a form, one for each value of a JSON Schema.

A value that is not simple gets a field for JSON. Schemas come from authors, planners and foreign
servers, so a malformed one gives fewer fields, never an error.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sojourn.values.json_value import Schema, is_array, is_object, resolve
from sojourn.values.visible import one_line, readable

__all__ = ["MOMENT", "Choice", "FormField", "choices_of", "form_fields", "resolve_field", "whole_field"]

MAX_FIELDS = 60
"""Most fields of a form. The user answers a schema with more fields as JSON."""

LONG_TEXT = 200
"""Characters beyond which a text field gets several lines."""

MAX_REFERENCES = 6
"""Most references to follow from one schema."""

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?\Z")
"""A date with a time, as a browser sends it."""

_FORMATS = {"date": "date", "date-time": "datetime-local", "time": "time", "email": "email", "uri": "url"}
_SIMPLE = ("string", "number", "integer", "boolean")
_NOT_FLAT = ("oneOf", "anyOf", "allOf", "if", "not", "$ref", "patternProperties")
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
    """`text` `lines` `number` `boolean` `choice` `choices` `date` `datetime-local` `time` `email` `url` or `json`."""
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
    """Return the fields of a flat object of 1 to 60 values, or None."""
    root = dict(schema or {})
    properties = root.get("properties")
    if not is_object(properties) or not 0 < len(properties) <= MAX_FIELDS:
        return None
    if any(word in root for word in _NOT_FLAT):
        return None
    required = _items(root.get("required"))
    found: list[FormField] = []
    for index, (name, given) in enumerate(properties.items()):
        schema_of_field = resolve_field(root, given, drop_null=True)
        is_required = name in required
        is_null_empty = is_required and (_takes_null(given) or _takes_null(schema_of_field))
        field = _field(name, f"{prefix}{index}", schema_of_field)
        about = f"{field.about} Left empty, it is null.".strip() if is_null_empty else field.about
        value = (example or {}).get(name)
        field = replace(
            field,
            about=about,
            example="" if value is None else _as_text(value),
            is_required=is_required and not is_null_empty,
            is_null_empty=is_null_empty,
            is_optional=bool(required) and not is_required,
        )
        found.append(field)
    return tuple(found)


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
        parts = _items(schema.get("allOf"))
        alternatives = next((word for word in ("anyOf", "oneOf") if is_array(schema.get(word))), "")
        others = [each for each in _items(schema.get(alternatives)) if not _is_null(each)]
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
        options = [each for each in _items(schema.get(word)) if is_object(each) and "const" in each]
        if options and len(options) == len(schema[word]):
            return [Choice(each["const"], each.get("title")) for each in options]
    if "const" in schema:
        return [Choice(schema["const"])]
    values = schema.get("enum")
    if not is_array(values):
        return None
    titles = _items(schema.get("enumNames"))
    return [
        Choice(value, titles[at] if len(titles) == len(values) and isinstance(titles[at], str) else None)
        for at, value in enumerate(values)
    ]


def _field(name: str, key: str, schema: Schema) -> FormField:
    kinds = schema.get("type")
    wanted = [each for each in ([kinds] if isinstance(kinds, str) else _items(kinds)) if each != "null"]
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
        pattern=pattern if isinstance(pattern, str) and kind == "text" else "",
        about=f"{base.about} In UTC.".strip() if kind == "datetime-local" else base.about,
    )


def _takes_null(schema: Any) -> bool:
    if not is_object(schema):
        return False
    options = [each for word in ("anyOf", "oneOf") for each in _items(schema.get(word))]
    return (
        "null" in _items(schema.get("type"))
        or None in _items(schema.get("enum"))
        or any(map(_is_null, options))
    )


def _is_null(schema: Any) -> bool:
    return is_object(schema) and schema.get("type") == "null"


def _items(value: Any) -> list[Any]:
    return value if is_array(value) else []


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _length(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _as_input(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_text(value: Any) -> str:
    return one_line(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False), 200)
