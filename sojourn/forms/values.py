"""Read the texts of a filled-in form as values.

Each text is read by the kind of its field, then checked by the schema. Errors are given per field.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

from sojourn.core.awaits.form import mismatch_of
from sojourn.core.schema.enforceable import check
from sojourn.core.schema.issues import phrase
from sojourn.core.schema.validate import Validator
from sojourn.forms.fields import MOMENT, FormField, rekey
from sojourn.values.json_fault import json_fault
from sojourn.values.json_text import DuplicateNameError, loads
from sojourn.values.json_value import (
    ABSENT,
    Schema,
    expand,
    is_array,
    is_object,
    list_of,
    locate,
    to_pointer,
    to_tokens,
)

__all__ = [
    "MISSING",
    "FilledForm",
    "FormTexts",
    "check_answer",
    "edit_rows",
    "field_paths",
    "is_filled_in",
    "parse_pairs",
    "parse_value",
    "place_fault",
    "place_issues",
    "read_field",
    "read_fields",
    "read_number",
    "read_value",
    "typed_fields",
]

MISSING = "This is required."

MAX_ROWS = 50
"""Most rows of an array in a form."""

MAX_STEPS = 20
"""Most steps of a path on a command line."""

MAX_DIGITS = 300
"""Most digits of a whole number."""

_NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})([eE][+-]?\d{1,3})?\Z", re.ASCII)


class FormTexts(Protocol):
    def texts(self, name: str) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class FilledForm:
    fields: tuple[FormField, ...]
    """The fields with their texts and faults."""
    values: Mapping[str, Any]
    """The values of the fields that are not empty."""

    @property
    def has_faults(self) -> bool:
        return any(field.has_fault for field in self.fields)


def read_fields(fields: Sequence[FormField], form: FormTexts) -> FilledForm:
    read: list[FormField] = []
    values: dict[str, Any] = {}
    for field in fields:
        found, value = read_field(field, form)
        read.append(found)
        if value is not ABSENT:
            values[field.name] = value
    return FilledForm(tuple(read), values)


def read_field(field: FormField, form: FormTexts) -> tuple[FormField, Any]:
    """Return a field with its texts and faults, and its value, or `ABSENT`."""
    empty = None if field.is_null_empty else ABSENT
    match field.kind:
        case "fixed":
            return field, field.choices[0].value
        case "group":
            inner = read_fields(field.fields, form)
            if not field.is_required and not is_filled_in(field, form):
                return replace(field, fields=_without_faults(inner.fields)), empty
            return replace(field, fields=inner.fields), dict(inner.values)
        case "list":
            return _read_rows(field, form)
        case "union":
            return _read_union(field, form)
        case _:
            return _read_simple(field, form)


def _read_simple(field: FormField, form: FormTexts) -> tuple[FormField, Any]:
    texts = tuple(form.texts(field.key))
    fault, value = "", ABSENT
    try:
        if _is_empty(field, texts):
            fault = MISSING if field.is_required else ""
            value = None if field.is_null_empty else ABSENT
        else:
            value = _value(field, texts)
    except ValueError as error:
        fault = str(error)
    kind = "lines" if field.kind == "text" and any("\n" in each for each in texts) else field.kind
    return replace(field, kind=kind, texts=texts, fault=fault), value


def _read_rows(field: FormField, form: FormTexts) -> tuple[FormField, Any]:
    """Read the rows that are filled in.

    Empty rows move behind them, so that the place of a row is that of its value.
    """
    assert field.row
    count = _row_count(field, form)
    rows: list[FormField] = []
    values: list[Any] = []
    for at in range(count):
        row = rekey(field.row, f"{field.key}-{at}")
        if is_filled_in(row, form):
            read, value = read_field(row, form)
            rows.append(rekey(read, f"{field.key}-{len(rows)}"))
            values.append(value)
    rows += [rekey(field.row, f"{field.key}-{at}") for at in range(len(rows), count)]
    value = values if values or field.is_required else None if field.is_null_empty else ABSENT
    return replace(field, fields=tuple(rows), fault=""), value


def _read_union(field: FormField, form: FormTexts) -> tuple[FormField, Any]:
    which = (form.texts(f"{field.key}-which") or [""])[-1]
    if not which:
        fault = MISSING if field.is_required else ""
        return replace(field, texts=(), fault=fault), None if field.is_null_empty else ABSENT
    if not which.isdecimal() or int(which[:9]) >= len(field.fields):
        return replace(field, fault="Choose one of the list."), ABSENT
    at = int(which)
    options = list(field.fields)
    options[at], value = read_field(options[at], form)
    for other, option in enumerate(field.fields):
        if other != at:  # what was typed there stays, and is not part of the value
            read, _ = read_field(option, form)
            options[other] = _without_fault(read)
    return replace(field, texts=(which,), fields=tuple(options), fault=""), value


def _row_count(field: FormField, form: FormTexts) -> int:
    text = (form.texts(f"{field.key}-rows") or [""])[-1]
    return min(int(text[:9]), MAX_ROWS) if text.isdecimal() and text.isascii() else 0


def is_filled_in(field: FormField, form: FormTexts) -> bool:
    """Return whether anything was entered into a field, or into one inside it."""
    match field.kind:
        case "fixed":
            return False
        case "group":
            return any(is_filled_in(each, form) for each in field.fields)
        case "list":
            rows = range(_row_count(field, form))
            return any(is_filled_in(rekey(field.row, f"{field.key}-{at}"), form) for at in rows if field.row)
        case "union":
            return bool("".join(form.texts(f"{field.key}-which")))
        case _:
            return not _is_empty(field, form.texts(field.key))


def typed_fields(fields: Sequence[FormField], form: FormTexts) -> tuple[FormField, ...]:
    """Return the fields with what was typed, and without faults."""
    return _without_faults(read_fields(fields, form).fields)


def edit_rows(fields: Sequence[FormField], form: FormTexts, command: str) -> tuple[FormField, ...] | None:
    """Return the fields after a button that adds or removes a row, or None.

    The command of the button is `add:KEY` of the array, or `drop:KEY` of the row.
    """
    action, _, key = command.partition(":")
    if action not in ("add", "drop") or not key:
        return None
    read = typed_fields(fields, _Edited(form, action, key))
    return (
        read if action == "add" else tuple(_without_last_row(each, key.rpartition("-")[0]) for each in read)
    )


def _without_last_row(field: FormField, key: str) -> FormField:
    if field.key == key and field.kind == "list":
        return replace(field, fields=field.fields[:-1])
    return replace(field, fields=tuple(_without_last_row(each, key) for each in field.fields))


@dataclass(frozen=True, slots=True)
class _Edited:
    form: FormTexts
    action: str
    key: str

    def texts(self, name: str) -> list[str]:
        found = self.form.texts(name)
        if self.action == "add":
            is_count = name == f"{self.key}-rows" and bool(found) and found[-1].isdecimal()
            return [str(int(found[-1][:9]) + 1)] if is_count else found
        return [] if name == self.key or name.startswith(f"{self.key}-") else found


def _without_fault(field: FormField) -> FormField:
    return replace(field, fault="", fields=_without_faults(field.fields))


def _without_faults(fields: Sequence[FormField]) -> tuple[FormField, ...]:
    return tuple(map(_without_fault, fields))


def place_fault(fields: Sequence[FormField], tokens: Sequence[str], fault: str) -> tuple[FormField, ...]:
    """Return the fields with a fault at the last one on the way of a path."""

    def place(field: FormField, rest: Sequence[str]) -> FormField:
        names: list[str] = []
        if field.kind in ("group", "list"):
            names = [str(at) if field.kind == "list" else each.name for at, each in enumerate(field.fields)]
        at = names.index(rest[0]) if rest and rest[0] in names else -1
        if field.kind == "union" and field.text and rest:
            at, rest = int(field.text), ("", *rest)
        if at >= 0:
            changed = place(field.fields[at], rest[1:])
            return replace(field, fields=(*field.fields[:at], changed, *field.fields[at + 1 :]))
        where = f"{to_pointer(rest)} " if rest else ""
        return field if field.fault else replace(field, fault=_sentence(f"{where}{fault}"))

    return tuple(place(each, tokens[1:]) if tokens and each.name == tokens[0] else each for each in fields)


def read_value(
    fields: Sequence[FormField], schema: Mapping[str, Any] | None, form: FormTexts, *, is_flat: bool
) -> tuple[tuple[FormField, ...], Any]:
    """Return the fields with their faults, and the value that they give."""
    filled = read_fields(fields, form)
    value: Any = dict(filled.values) if is_flat else next(iter(filled.values.values()), None)
    if filled.has_faults:
        return filled.fields, value
    return place_issues(filled.fields, schema, value, is_flat=is_flat), value


def place_issues(
    fields: tuple[FormField, ...], schema: Mapping[str, Any] | None, value: Any, *, is_flat: bool
) -> tuple[FormField, ...]:
    """Return the fields with the faults that a schema finds in their value."""
    if schema is None:
        return fields
    for issue in Validator(dict(schema)).issues(value):
        tokens = to_tokens(issue.field) if issue.field.startswith("/") else ()
        if is_flat and tokens and any(each.name == tokens[0] for each in fields):
            fields = place_fault(fields, tokens, phrase(issue))
        elif fields and not fields[0].fault:
            where = f"{issue.field} " if issue.field else ""
            fault = _sentence(f"{where}{phrase(issue)}")
            fields = (replace(fields[0], fault=fault), *fields[1:])
    return fields


def check_answer(form: Mapping[str, Any] | None, filled: FilledForm) -> FilledForm:
    """Add the faults that the run itself would find in these values of its form."""
    properties: Any = (form or {}).get("properties") or {}

    def check_field(field: FormField) -> FormField:
        if field.fault or field.name not in filled.values or field.name not in properties:
            return field
        of_field = {"properties": {field.name: properties[field.name]}}
        wrong = mismatch_of(of_field, {field.name: filled.values[field.name]}, whole=False)
        if wrong:
            return replace(field, fault=_sentence(wrong.removeprefix(field.name)))
        return _check_inside(field, properties[field.name], filled.values[field.name])

    return replace(filled, fields=tuple(map(check_field, filled.fields)))


def _check_inside(field: FormField, schema: Any, value: Any) -> FormField:
    """Check patterns, formats and nested values, unless the schema is no JSON Schema."""
    if field.has_fault or not is_object(schema):
        return field
    try:
        check(schema)
    except ValueError:
        return field
    for issue in Validator(schema).issues(value):
        (field,) = place_fault((field,), (field.name, *to_tokens(issue.field)), phrase(issue))
    return field


def parse_value(form: Mapping[str, Any] | None, name: str, text: str) -> Any:
    """Return the value of a text for a field, as in `NAME=TEXT` on a command line.

    The text stays as it is if the field may be a string, or if the text is not JSON: the run's own check then reports it.
    """
    root = dict(form or {})
    properties = root.get("properties")
    schema = properties.get(name) if is_object(properties) else None
    parts = expand(root, schema) if is_object(schema) else []
    types = {each for part in parts for each in _types(part)}
    if not types or "string" in types or any(text in (part.get("enum") or ()) for part in parts):
        return text
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return text


_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]*)\]")


def parse_pairs(form: Mapping[str, Any] | None, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return the values of `NAME=TEXT` pairs.

    A name may lead into an object or an array: `to.city` and `to[city]` are a value of an object, `tags[0]` and `tags[]` one of an array.

    Raises:
        ValueError: A name is no path, leads into a simple value, or skips a place of an array.
    """
    root = dict(form or {})
    values: dict[str, Any] = {}
    properties = root.get("properties")
    known: Mapping[str, Any] = properties if is_object(properties) else {}
    for name, text in pairs:
        if name in known or not known or not re.search(r"[.\[]", name):
            values[name] = parse_value(form, name, text)
            continue
        steps = _steps(name)
        tokens = ["0" if is_index and not step.isdecimal() else step for step, is_index in steps]
        schemas = locate(root, tokens)
        typed = parse_value(
            {"properties": {"": {"anyOf": schemas}}, "$defs": root.get("$defs", {})}, "", text
        )
        _put(values, name, steps, typed)
    return values


def field_paths(form: Mapping[str, Any] | None, names: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Return the fields that `parse_pairs` takes, with those inside objects and lists.

    Each is its path, its type or an empty text, and whether the form requires it.
    """
    known, required = _objects(form or {}), list_of((form or {}).get("required"))
    return [
        found
        for name in names
        for found in _paths(name, known.get(name, {}), not required or name in required)
    ]


def _paths(path: str, schema: Schema, is_required: bool) -> Iterator[tuple[str, str, bool]]:
    inner, items, kind = _objects(schema), schema.get("items"), schema.get("type")
    if inner and not any(re.search(r"[.\[\]]", name) for name in inner):
        for name, field in inner.items():
            yield from _paths(
                f"{path}.{name}", field, is_required and name in list_of(schema.get("required"))
            )
    elif is_object(items):
        yield from _paths(f"{path}[0]" if _objects(items) else f"{path}[]", items, is_required)
    else:
        yield path, kind if isinstance(kind, str) else "", is_required


def _objects(schema: Mapping[str, Any]) -> dict[str, Schema]:
    properties = schema.get("properties")
    return (
        {name: each for name, each in properties.items() if is_object(each)} if is_object(properties) else {}
    )


def _steps(name: str) -> list[tuple[str, bool]]:
    """Return the steps of a path, and whether each is a place in an array."""
    found: list[tuple[str, bool]] = []
    at = 0
    while at < len(name):
        step = _STEP.match(name, at)
        if not step or len(found) > MAX_STEPS:
            raise ValueError(f"{name!r} is no path such as to.city or tags[0]")
        word = step[1] if step[1] is not None else step[2]
        found.append((word, step[1] is None and (not word or word.isdecimal())))
        at = step.end()
    return found


def _put(values: dict[str, Any], name: str, steps: Sequence[tuple[str, bool]], value: Any) -> None:
    place: Any = values
    for at, (step, is_index) in enumerate(steps):
        is_last = at + 1 == len(steps)
        made: Any = value if is_last else [] if steps[at + 1][1] else {}
        if is_index and is_array(place):
            index = len(place) if not step else int(step[:9])
            if index > len(place):
                raise ValueError(f"{name!r} skips {len(place)} before {index}")
            if index == len(place):
                place.append(made)
            elif is_last:
                place[index] = made
            place = place[index]
        elif not is_index and is_object(place):
            if is_last or step not in place:
                place[step] = made
            place = place[step]
        else:
            raise ValueError(f"{name!r} leads into a value of another kind")


def read_number(text: str, *, is_whole: bool) -> int | float:
    """Read a number, without losing a digit of a whole number."""
    plain = text.strip()
    if not _NUMBER.match(plain):
        raise ValueError("This is no number.")
    if not is_whole and not plain.lstrip("+-").isdecimal():
        if not math.isfinite(number := float(plain)):
            raise ValueError("This is no number.")
        return number
    exact = Fraction(plain)
    if exact.denominator != 1:
        raise ValueError("This is a whole number.")
    if abs(exact) >= 10**MAX_DIGITS:
        raise ValueError(f"This has more than {MAX_DIGITS} digits.")
    return int(exact)


def _types(schema: Schema) -> list[Any]:
    """Return the JSON types that a schema names."""
    kind: Any = schema.get("type")
    named: list[Any] = [kind] if isinstance(kind, str) else kind if is_array(kind) else []
    return [*named, "any"] if "enum" in schema or "const" in schema else named


def _is_empty(field: FormField, texts: Sequence[str]) -> bool:
    if field.kind == "choices":
        return not texts
    text = texts[-1] if texts else ""
    return not (text if field.kind in ("text", "lines") else text.strip())


def _value(field: FormField, texts: Sequence[str]) -> Any:
    text = texts[-1]
    match field.kind:
        case "choices":
            return [_parse_choice(field, each) for each in texts]
        case "choice":
            return _parse_choice(field, text)
        case "boolean":
            return text == "yes"
        case "number":
            return read_number(text, is_whole=field.is_integer)
        case "json":
            return _read_json(text)
        case "datetime-local":
            moment = text.strip()
            if not MOMENT.match(moment):
                raise ValueError("This is no date with a time, such as 2026-03-01T09:30.")
            return f"{moment}:00Z" if moment.count(":") == 1 else f"{moment}Z"
        case "time":
            return f"{text}:00" if text.count(":") == 1 else text
        case _:
            return text


def _parse_choice(field: FormField, text: str) -> Any:
    if not text.isdecimal() or int(text) >= len(field.choices):
        raise ValueError("Choose one of the list.")
    return field.choices[int(text)].value


def _read_json(text: str) -> Any:
    try:
        value = loads(text)
    except DuplicateNameError as error:
        raise ValueError(f"{str(error).capitalize()}.") from error
    except (ValueError, RecursionError) as error:
        where = f": {error.msg}, line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f"Not valid JSON{where}.") from error
    if fault := json_fault(value, max_bytes=None):
        raise ValueError(fault.message)
    return value


def _sentence(clause: str) -> str:
    text = clause.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
