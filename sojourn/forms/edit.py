"""Show the values of an object in a form, and read the form with what was changed.

A value that its field would not read back unchanged gets a field for JSON. So a form that is sent
unchanged changes nothing.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sojourn.forms.fields import FormField, form_fields, rekey
from sojourn.forms.values import MAX_ROWS, FormTexts, place_issues, read_field, read_fields
from sojourn.values.json_value import ABSENT, is_array, is_object

__all__ = ["edit_fields", "read_edit"]


def edit_fields(
    schema: Mapping[str, Any] | None, values: Mapping[str, Any], prefix: str
) -> tuple[FormField, ...]:
    """Return the fields of an object with its values, or one field for JSON."""
    fields = form_fields(schema, prefix)
    if fields is None:
        whole = FormField("", prefix, "Arguments", "as JSON", "json", is_required=True)
        return (replace(whole, texts=(_as_json(values),)),)
    return tuple(_with_value(each, values.get(each.name, ABSENT)) for each in fields)


def read_edit(
    fields: tuple[FormField, ...],
    schema: Mapping[str, Any] | None,
    values: Mapping[str, Any],
    form: FormTexts,
) -> tuple[tuple[FormField, ...], Any]:
    """Return the fields with their faults, and the values as they were edited.

    Values without a field stay, and so does what a field left as it was shown stands for.
    """
    filled = read_fields(fields, form)
    if fields and not fields[0].name:
        edited: Any = filled.values.get("")
    else:
        changed = {each.name: filled.values.get(each.name, ABSENT) for each in fields}
        for each in fields:
            shown = read_field(each, _SentForm.of(each))[1]
            if _is_same(changed[each.name], shown):
                changed[each.name] = values.get(each.name, ABSENT)
        edited = {name: value for name, value in {**values, **changed}.items() if value is not ABSENT}
    if filled.has_faults:
        return filled.fields, edited
    return place_issues(filled.fields, schema, edited, is_flat=bool(fields and fields[0].name)), edited


def _with_value(field: FormField, value: Any) -> FormField:
    """Return a field with a value, as text or JSON if its own kind would change it."""
    if value is ABSENT or (value in (None, "") and not field.is_required):
        return _blank(field)
    plain = replace(field, kind="lines" if "\n" in str(value) else "text", fields=(), row=None)
    as_json = replace(plain, kind="json", texts=(_as_json(value),))
    as_text = replace(plain, texts=(value,)) if isinstance(value, str) else as_json
    made = (_fill(field, value), as_text, as_json)
    return next((each for each in made if each is not None and _reads_as(each, value)), as_json)


def _fill(field: FormField, value: Any) -> FormField | None:
    match field.kind:
        case "fixed":
            return field
        case "group":
            return _fill_group(field, value) if is_object(value) else None
        case "list":
            return _fill_rows(field, value) if is_array(value) else None
        case "union":
            return _fill_union(field, value)
        case "choice":
            return replace(field, texts=tuple(_places(field, [value])))
        case "choices":
            return replace(field, texts=tuple(_places(field, value))) if is_array(value) else None
        case "boolean":
            return replace(field, texts=("yes" if value else "no",))
        case "datetime-local" | "time" if isinstance(value, str):
            return replace(field, texts=(value.removesuffix("Z"),))
        case "json":
            return replace(field, texts=(_as_json(value),))
        case _:
            text = value if isinstance(value, str) else json.dumps(value)
            kind = "lines" if field.kind == "text" and "\n" in text else field.kind
            return replace(field, kind=kind, texts=(text,))


def _fill_group(field: FormField, value: Mapping[str, Any]) -> FormField | None:
    filled = [
        _blank(each) if each.name not in value else _fill(each, value[each.name]) for each in field.fields
    ]
    found = tuple(each for each in filled if each is not None)
    return replace(field, fields=found) if len(found) == len(filled) else None


def _fill_rows(field: FormField, value: list[Any]) -> FormField | None:
    if field.row is None or len(value) > MAX_ROWS:
        return None
    rows = [_fill(rekey(field.row, f"{field.key}-{at}"), each) for at, each in enumerate(value)]
    found = tuple(each for each in rows if each is not None)
    return replace(field, fields=found) if len(found) == len(rows) else None


def _fill_union(field: FormField, value: Any) -> FormField | None:
    for at, option in enumerate(field.fields):
        filled = _fill(option, value)
        if filled is not None and _reads_as(filled, value):
            options = (*field.fields[:at], filled, *field.fields[at + 1 :])
            return replace(field, fields=options, texts=(str(at),))
    return None


def _places(field: FormField, values: list[Any]) -> list[str]:
    known = [_as_json(each.value) for each in field.choices]
    return [str(known.index(_as_json(each))) for each in values if _as_json(each) in known]


def _blank(field: FormField) -> FormField:
    """Return a field without texts: a default is no value of the object."""
    rows = () if field.kind == "list" else tuple(map(_blank, field.fields))
    return replace(field, texts=(), fields=rows)


def _reads_as(field: FormField, value: Any) -> bool:
    read, found = read_field(field, _SentForm.of(field))
    return not read.has_fault and found is not ABSENT and _is_same(found, value)


def _is_same(one: Any, other: Any) -> bool:
    if one is ABSENT or other is ABSENT:
        return one is other
    return _as_json(one) == _as_json(other)


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=False, default=str)


@dataclass(frozen=True, slots=True)
class _SentForm:
    """The texts of a form that is sent as it is shown."""

    known: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @classmethod
    def of(cls, shown: FormField) -> "_SentForm":
        texts = cls()
        texts.add(shown)
        return texts

    def add(self, shown: FormField) -> None:
        if shown.kind == "list":
            self.known[f"{shown.key}-rows"] = [str(len(shown.fields))]
        elif shown.kind == "union":
            self.known[f"{shown.key}-which"] = list(shown.texts)
        else:
            self.known[shown.key] = [_sanitize(shown.kind, text) for text in shown.texts]
        for each in shown.fields:
            self.add(each)

    def texts(self, name: str) -> list[str]:
        return self.known.get(name, [])


def _sanitize(kind: str, text: str) -> str:
    """Return a text as a browser sends it from an input of a kind."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if kind in ("lines", "json"):
        return text
    line = text.replace("\n", "")
    return line.strip() if kind in ("email", "url", "number") else line
