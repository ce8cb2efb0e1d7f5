"""Convert forms to and from the schemas of MCP's elicitation.

A foreign server's schema becomes a form, and a question's form becomes a schema for a client. A
form is a flat object of simple fields. A server's schema is untrusted: only those keywords remain
that the form displays or that an answer is checked against. Names and choices go back to the server
unchanged, so a form is refused if one of them cannot be displayed.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sojourn.core.awaits.form import mismatch_of
from sojourn.forms.fields import Choice, choices_of
from sojourn.values.json_value import Schema, is_array, is_object
from sojourn.values.text import plain

__all__ = ["MAX_FORM_BYTES", "MAX_FORM_FIELDS", "CleanText", "elicitation_schema", "sanitize_form"]

CleanText = Callable[[str, int], str]
"""Makes a server's text safe to display. The second argument is the longest length, in characters."""

MAX_FORM_FIELDS = 50
"""Fields of one form."""

MAX_FORM_BYTES = 20_000
"""Bytes of one form, as JSON."""

_MAX_NAME = 100
_MAX_TITLE = 200
_MAX_DESCRIPTION = 500
_MAX_CHOICES = 100
_MAX_CHOICE = 200
_FARTHEST = 1e300
"""Largest number to display, positive or negative. A larger integer may have thousands of digits."""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -_FARTHEST < value < _FARTHEST


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == int(value)


_IS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str) and len(value) <= _MAX_DESCRIPTION and value.isprintable(),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
}
"""The simple types, each with a check whether a value from the server has the type and can be displayed."""

_BOUNDS: Mapping[str, Mapping[str, Callable[[Any], bool]]] = {
    "string": {"minLength": _is_count, "maxLength": _is_count, "format": _IS["string"]},
    "integer": {"minimum": _is_number, "maximum": _is_number},
    "number": {"minimum": _is_number, "maximum": _is_number},
    "boolean": {},
    "array": {"minItems": _is_count, "maxItems": _is_count},
}
"""The keywords that bound a value of each type, each with a check of its own value."""

_KEYWORDS = ("type", "title", "description", "enum", "default", *_BOUNDS["string"], *_BOUNDS["number"])


def elicitation_schema(form: Mapping[str, Any] | None, missing: Sequence[str]) -> Schema | None:
    """Return a question's elicitation schema, or None if its form is not flat."""
    fields: Any = (form or {}).get("properties") or {}
    names = [name for name in missing if name in fields] or list(fields)
    flat = {name: _without_null(fields[name]) for name in names}
    if not names or any(each.get("type") not in _IS for each in flat.values()):
        return None
    return {
        "type": "object",
        "properties": {
            name: {word: each[word] for word in _KEYWORDS if word in each} for name, each in flat.items()
        },
        "required": [name for name in names if name in missing],
    }


def _without_null(field: Schema) -> Schema:
    """Return a field of one type. Null is the answer that leaves it out."""
    kinds: Any = field.get("type")
    if not is_array(kinds):
        return field if isinstance(kinds, str) else {}
    others = [each for each in kinds if each != "null"]
    if len(others) != 1 or not isinstance(others[0], str):
        return {}
    found = {**field, "type": others[0]}
    if is_array(values := field.get("enum")):
        found["enum"] = [each for each in values if each is not None]
    if found.get("default", "") is None:
        del found["default"]
    return found


def sanitize_form(schema: Schema, clean: CleanText) -> Schema:
    """Return the schema of a server's elicitation (MCP, `requestedSchema`) as a form."""
    properties = schema.get("properties")
    if not is_object(properties) or len(properties) > MAX_FORM_FIELDS:
        raise ValueError(f"a form has at most {MAX_FORM_FIELDS} fields, in `properties`")
    form: Schema = {
        "type": "object",
        "properties": {name: _field(name, field, clean) for name, field in properties.items()},
    }
    required: Any = schema.get("required")
    if required is not None:
        if not is_array(required) or not all(
            isinstance(each, str) and each in properties for each in required
        ):
            raise ValueError("`required` must name fields of the form")
        form["required"] = list(dict.fromkeys(required))
    if len(json.dumps(form)) > MAX_FORM_BYTES:
        raise ValueError(f"a form has at most {MAX_FORM_BYTES:,} bytes")
    return form


def _field(name: str, schema: Any, clean: CleanText) -> Schema:
    place = f"`{plain(clean(name, _MAX_NAME), _MAX_NAME)}`"
    if not (0 < len(name) <= _MAX_NAME and name.isprintable()):
        raise ValueError(f"the field {place} has a name that cannot be shown")
    if not is_object(schema):
        raise ValueError(f"the field {place} has no type")
    choices = _choices(schema)
    kind: Any = schema.get("type", "string" if choices else None)
    if not isinstance(kind, str) or kind not in _BOUNDS:
        raise ValueError(f"the field {place} is not a text, a number, a boolean or a choice")
    field: Schema = {"type": kind}
    if kind == "array":
        items = schema.get("items")
        if not is_object(items) or items.get("type", "string") != "string":
            raise ValueError(f"the field {place} is a list of values that are not texts")
        field["items"] = {"type": "string", **_choose_schema(place, "string", _choices(items), clean)}
    else:
        field |= _choose_schema(place, kind, choices, clean)
    for word, limit in (("title", _MAX_TITLE), ("description", _MAX_DESCRIPTION)):
        if isinstance(schema.get(word), str):
            field[word] = clean(schema[word], limit)
    field |= {
        word: schema[word] for word, fits in _BOUNDS[kind].items() if word in schema and fits(schema[word])
    }
    if "default" in schema and _is_default(field, schema["default"]):
        field["default"] = schema["default"]
    return field


def _choices(schema: Schema) -> list[Choice] | None:
    """Return the choices, or an empty list if alternatives are not choices."""
    found = choices_of(schema)
    return [] if found is None and any(is_array(schema.get(word)) for word in ("oneOf", "anyOf")) else found


def _choose_schema(place: str, kind: str, choices: Sequence[Choice] | None, clean: CleanText) -> Schema:
    if choices is None:
        return {}
    fits = all(_IS[kind](each.value) and len(str(each.value)) <= _MAX_CHOICE for each in choices)
    if not fits or not 0 < len(choices) <= _MAX_CHOICES:
        raise ValueError(f"the field {place} is not a choice of 1 to {_MAX_CHOICES} values that can be shown")
    made: Schema = {"enum": [each.value for each in choices]}
    if any(isinstance(each.title, str) for each in choices):
        made["enumNames"] = [
            clean(each.title, _MAX_TITLE) if isinstance(each.title, str) else str(each.value)
            for each in choices
        ]
    return made


def _is_default(field: Schema, value: Any) -> bool:
    if field["type"] == "array":
        can_be_shown = is_array(value) and len(value) <= _MAX_CHOICES and all(map(_IS["string"], value))
    else:
        can_be_shown = _IS[field["type"]](value)
    return can_be_shown and mismatch_of({"properties": {"": field}}, {"": value}, whole=False) is None
