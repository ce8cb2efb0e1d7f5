"""Read the texts of a filled-in form as values.

Each text is read by the kind of its field, then checked by the schema. Errors are given per field.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

from sojourn.core.awaits.form import mismatch_of
from sojourn.core.schema.issues import phrase
from sojourn.core.schema.validate import Validator
from sojourn.forms.fields import MOMENT, FormField
from sojourn.values.json_fault import json_fault
from sojourn.values.json_text import DuplicateNameError, loads
from sojourn.values.json_value import Schema, expand, is_array, is_object, to_tokens

__all__ = [
    "MISSING",
    "FilledForm",
    "FormTexts",
    "check_answer",
    "parse_value",
    "read_fields",
    "read_number",
    "read_value",
]

MISSING = "This is required."

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
        return any(field.fault for field in self.fields)


def read_fields(fields: Sequence[FormField], form: FormTexts) -> FilledForm:
    read: list[FormField] = []
    values: dict[str, Any] = {}
    for field in fields:
        texts = tuple(form.texts(field.key))
        fault = ""
        try:
            if _is_empty(field, texts):
                fault = MISSING if field.is_required else ""
                if field.is_null_empty:
                    values[field.name] = None
            else:
                values[field.name] = _value(field, texts)
        except ValueError as error:
            fault = str(error)
        kind = "lines" if field.kind == "text" and any("\n" in each for each in texts) else field.kind
        read.append(replace(field, kind=kind, texts=texts, fault=fault))
    return FilledForm(tuple(read), values)


def read_value(
    fields: Sequence[FormField], schema: Mapping[str, Any] | None, form: FormTexts, *, is_flat: bool
) -> tuple[tuple[FormField, ...], Any]:
    """Return the fields with their faults, and the value that they give."""
    filled = read_fields(fields, form)
    value: Any = dict(filled.values) if is_flat else next(iter(filled.values.values()), None)
    if filled.has_faults or schema is None:
        return filled.fields, value
    faults: dict[str, str] = {}
    for issue in Validator(dict(schema)).issues(value):
        tokens = to_tokens(issue.field) if issue.field.startswith("/") else ()
        name = str(tokens[0]) if is_flat and tokens else ""
        where = f"{issue.field} " if issue.field and (not is_flat or len(tokens) > 1) else ""
        faults.setdefault(name, _sentence(f"{where}{phrase(issue)}"))
    other = faults.pop("", "")
    checked = [replace(each, fault=faults.get(each.name, "")) for each in filled.fields]
    if other and checked:
        checked[0] = replace(checked[0], fault=checked[0].fault or other)
    return tuple(checked), value


def check_answer(form: Mapping[str, Any] | None, filled: FilledForm) -> FilledForm:
    """Add the faults that the run itself would find in these values of its form."""
    properties: Any = (form or {}).get("properties") or {}

    def check_field(field: FormField) -> FormField:
        if field.fault or field.name not in filled.values or field.name not in properties:
            return field
        of_field = {"properties": {field.name: properties[field.name]}}
        wrong = mismatch_of(of_field, {field.name: filled.values[field.name]}, whole=False)
        return replace(field, fault=_sentence(wrong.removeprefix(field.name))) if wrong else field

    return replace(filled, fields=tuple(map(check_field, filled.fields)))


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
