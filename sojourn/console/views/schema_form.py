"""Forms made from JSON Schemas: a field for each simple value, and a text area for JSON where a schema has more."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from sojourn.console.views.numbers import number_in
from sojourn.console.views.text import one_line, readable
from sojourn.core.values.json_text import DuplicateNameError, json_fault, loads

__all__ = ["MISSING", "Field", "Sent", "SentForm", "fields_of", "read_fields", "whole_field"]

MAX_FIELDS = 60
"""Most fields of a form; a schema with more of them is answered as JSON."""

LONG_TEXT = 200
"""A text that may be longer than this gets several lines."""

MISSING = "This is required."

_FORMATS = {"date": "date", "date-time": "datetime-local", "time": "time", "email": "email", "uri": "url"}
_SIMPLE = ("string", "number", "integer", "boolean")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?\Z")
_SHOWN = {
    "number": re.compile(r"-?\d*\.?\d+([eE][+-]?\d+)?\Z"),
    "date": re.compile(r"\d{4}-\d\d-\d\d\Z"),
    "datetime-local": _MOMENT,
    "time": re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?\Z"),
}
"""What an input of a kind can show; it would be empty with any other text."""


class SentForm(Protocol):
    """What a browser has sent."""

    def texts(self, name: str) -> list[str]:
        """The texts of all fields of a name."""
        ...


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form."""

    name: str
    """Of the value."""
    key: str
    """Of the field in the form that a browser sends."""
    label: str
    about: str
    kind: str
    """`text` `lines` `number` `boolean` `choice` `choices` `date` `datetime-local` `time` `email` `url` or `json`."""
    is_integer: bool = False
    is_required: bool = False
    choices: tuple[tuple[str, Any], ...] = ()
    """What can be chosen: in words, and the values."""
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    example: str = ""
    texts: tuple[str, ...] = ()
    """What stands in it; of choices, their numbers."""
    fault: str = ""
    """Why what stands in it cannot be taken."""
    is_null_empty: bool = False
    """Whether it has to be there and may be null, which it is where nothing stands in it."""

    @property
    def text(self) -> str:
        """What stands in it."""
        return self.texts[0] if self.texts else ""

    is_optional: bool = False
    """Whether it need not be filled in where others have to be."""

    @property
    def input_type(self) -> str:
        """The `type` of its input: `text` where an input of its kind cannot show what stands in it."""
        shown = _SHOWN.get(self.kind)
        return "text" if shown and self.text and not shown.match(self.text) else self.kind

    @property
    def step(self) -> str:
        """The steps of a number."""
        return "1" if self.is_integer else "any"


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent in the fields."""

    fields: tuple[Field, ...]
    """The fields with what was sent, and why it cannot be taken."""
    values: Mapping[str, Any]
    """The values of those that were filled in."""

    @property
    def has_faults(self) -> bool:
        """Whether a field cannot be taken."""
        return any(field.fault for field in self.fields)


def fields_of(
    schema: Mapping[str, Any] | None, prefix: str, example: Mapping[str, Any] | None = None
) -> tuple[Field, ...] | None:
    """The fields of a schema; None where it is no object of simple values, so that its value is given as JSON.

    Args:
        schema: A JSON Schema, perhaps a foreign and malformed one.
        prefix: What the keys of the fields begin with.
        example: An example of the object, whose values are shown where nothing is filled in.
    """
    properties = _mapping((schema or {}).get("properties"))
    if schema is None or not properties or len(properties) > MAX_FIELDS:
        return None
    if any(word in schema for word in ("oneOf", "anyOf", "allOf", "if", "not", "$ref", "patternProperties")):
        return None
    definitions = _mapping(schema.get("$defs")) or {}
    required = _list(schema.get("required"))
    found: list[Field] = []
    for index, (name, given) in enumerate(properties.items()):
        resolved, is_required = _resolved(given, definitions), name in required
        may_be_null = is_required and (_takes_null(given) or _takes_null(resolved))
        field = _field(name, f"{prefix}{index}", resolved, is_required=is_required and not may_be_null)
        if field is None:
            return None
        if may_be_null:
            field = replace(field, is_null_empty=True, about=f"{field.about} Left empty, it is null.".strip())
        given_as = "" if (value := (example or {}).get(name)) is None else _word(value)
        found.append(replace(field, is_optional=bool(required) and name not in required, example=given_as))
    return tuple(found)


def whole_field(schema: Mapping[str, Any] | None, key: str, label: str, example: Any = None) -> Field:
    """One field for a value of a schema: of its own kind, if it is simple, else for JSON."""
    simple = _field(label, key, schema or {}, is_required=True) if schema else None
    if simple is not None and simple.kind != "json" and (schema or {}).get("type") in _SIMPLE:
        return replace(simple, label=label)
    return Field(
        label,
        key,
        label,
        "as JSON",
        "json",
        is_required=True,
        example="" if example is None else json.dumps(example, ensure_ascii=False, indent=2),
    )


def _mapping(value: Any) -> Mapping[str, Any] | None:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None


def _resolved(schema: Any, definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """A field's schema, with what it refers to in the same document, and without null as an alternative."""
    found = dict(_mapping(schema) or {})
    for word in ("anyOf", "oneOf"):
        options = found.get(word)
        if isinstance(options, list):
            real = [each for each in cast("list[Any]", options) if not _is_null(each)]
            if len(real) == 1:
                del found[word]
                found = {**(_mapping(real[0]) or {}), **found}
    reference = found.pop("$ref", None)
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        found = {**(_mapping(definitions.get(reference.removeprefix("#/$defs/"))) or {}), **found}
    return found


def _is_null(schema: Any) -> bool:
    return (_mapping(schema) or {}).get("type") == "null"


def _takes_null(schema: Any) -> bool:
    """Whether a field's schema names null beside other values."""
    found = _mapping(schema) or {}
    options = [each for word in ("anyOf", "oneOf") for each in _list(found.get(word))]
    return (
        "null" in _list(found.get("type")) or None in _list(found.get("enum")) or any(map(_is_null, options))
    )


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _field(name: str, key: str, schema: Mapping[str, Any], *, is_required: bool) -> Field | None:
    kinds = schema.get("type")
    wanted = [kinds] if isinstance(kinds, str) else _list(kinds)
    wanted = [each for each in wanted if each != "null"]
    base = Field(
        name,
        key,
        one_line(schema.get("title") or name, 100),
        readable(schema.get("description") or "")[:1_000],
        "text",
        is_required=is_required,
        texts=_begin(schema),
    )
    if "const" in schema or isinstance(schema.get("enum"), list):
        values = [schema["const"]] if "const" in schema else cast("list[Any]", schema["enum"])
        return _choice(base, [(_word(each), each) for each in values if each is not None], schema)
    if titled := _titled(schema):
        return _choice(base, titled, schema)
    if len(wanted) != 1:
        return replace(base, kind="json" if wanted else "text", texts=base.texts)
    if wanted[0] == "array":
        return _several(base, schema)
    if wanted[0] == "boolean":
        default = schema.get("default")
        texts = ("yes" if default else "no",) if isinstance(default, bool) else ()
        return replace(base, kind="boolean", texts=texts)
    if wanted[0] in ("number", "integer"):
        return replace(
            base,
            kind="number",
            is_integer=wanted[0] == "integer",
            minimum=_number(schema.get("minimum")),
            maximum=_number(schema.get("maximum")),
        )
    return _text_field(base, schema) if wanted[0] == "string" else replace(base, kind="json")


def _begin(schema: Mapping[str, Any]) -> tuple[str, ...]:
    default = schema.get("default")
    if default is None or isinstance(default, bool):
        return ()
    return (default if isinstance(default, str) else json.dumps(default, ensure_ascii=False),)


def _choice(base: Field, choices: Sequence[tuple[str, Any]], schema: Mapping[str, Any]) -> Field:
    default = [str(at) for at, (_, value) in enumerate(choices) if value == schema.get("default")][:1]
    return replace(base, kind="choice", choices=tuple(choices[:500]), texts=tuple(default))


def _titled(schema: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Values that have titles, as MCP's forms name them."""
    for word in ("oneOf", "anyOf"):
        options = schema.get(word)
        if isinstance(options, list):
            found = [_mapping(each) or {} for each in cast("list[Any]", options)]
            if found and all("const" in each for each in found):
                return [
                    (one_line(each.get("title") or _word(each["const"]), 200), each["const"])
                    for each in found
                ]
    return []


def _several(base: Field, schema: Mapping[str, Any]) -> Field:
    items = _mapping(schema.get("items")) or {}
    listed = items.get("enum")
    choices = _titled(items) or (
        [(_word(each), each) for each in cast("list[Any]", listed)] if isinstance(listed, list) else []
    )
    return (
        replace(base, kind="choices", choices=tuple(choices), texts=())
        if choices
        else replace(base, kind="json")
    )


def _text_field(base: Field, schema: Mapping[str, Any]) -> Field:
    longest, pattern = schema.get("maxLength"), schema.get("pattern")
    shortest = schema.get("minLength")
    kind = _FORMATS.get(str(schema.get("format") or ""), "text")
    if kind == "text" and ((isinstance(longest, int) and longest > LONG_TEXT) or "\n" in base.text):
        kind = "lines"
    return replace(
        base,
        kind=kind,
        min_length=shortest if isinstance(shortest, int) and shortest >= 0 else None,
        max_length=longest if isinstance(longest, int) and longest >= 0 else None,
        pattern=pattern if isinstance(pattern, str) and kind == "text" else "",
        about=" ".join(filter(None, (base.about, "In UTC." if kind == "datetime-local" else ""))),
    )


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _word(value: Any) -> str:
    return one_line(value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False), 200)


def read_fields(fields: Sequence[Field], form: SentForm) -> Sent:
    """What was sent in these fields.

    Args:
        fields: The fields, as they were shown.
        form: What the browser sent.
    """
    read: list[Field] = []
    values: dict[str, Any] = {}
    for field in fields:
        texts = tuple(form.texts(field.key))
        try:
            value = _value(field, texts)
            fault = MISSING if value is None and field.is_required else ""
        except ValueError as error:
            value, fault = None, str(error)
        kind = "lines" if field.kind == "text" and any("\n" in each for each in texts) else field.kind
        read.append(replace(field, kind=kind, texts=texts, fault=fault))
        if value is not None:
            values[field.name] = value[0]
        elif field.is_null_empty and not fault:
            values[field.name] = None
    return Sent(tuple(read), values)


def _value(field: Field, texts: Sequence[str]) -> tuple[Any] | None:
    """The value, in a tuple; None where nothing was filled in.

    Raises:
        ValueError: It is no value of the field; the text says what would be.
    """
    if field.kind == "choices":
        return ([_chosen(field, each) for each in texts],) if texts else None
    text = texts[-1] if texts else ""
    if not text.strip() and not (field.kind in ("text", "lines") and text):
        return None
    match field.kind:
        case "choice":
            return (_chosen(field, text),)
        case "boolean":
            return (text == "yes",)
        case "number":
            return (number_in(text, is_whole=field.is_integer),)
        case "json":
            return (_read_json(text),)
        case "datetime-local":
            if not _MOMENT.match(text.strip()):
                raise ValueError("This is no date with a time, such as 2026-03-01T09:30.")
            moment = text.strip()
            return (f"{moment}:00Z" if moment.count(":") == 1 else f"{moment}Z",)
        case "time":
            return (f"{text}:00" if text.count(":") == 1 else text,)
        case _:
            return (text,)


def _chosen(field: Field, text: str) -> Any:
    if not text.isdecimal() or int(text) >= len(field.choices):
        raise ValueError("Choose one of the list.")
    return field.choices[int(text)][1]


def _read_json(text: str) -> Any:
    try:
        value = loads(text)
    except DuplicateNameError as error:
        raise ValueError(f"{str(error).capitalize()}.") from error
    except (ValueError, RecursionError) as error:
        where = f": {error.msg}, line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"This is not JSON{where}.") from error
    if fault := json_fault(value, max_bytes=None):
        raise ValueError(fault.message)
    return value
