"""Turn an error of jsonschema into a `FieldIssue`: which field, which constraint, and what would fit.

Where `FieldIssue` has no field for a rule (an exclusive bound, a multiple, no
repeated items), `expected_type` describes it: "number above 0", "multiple of 5".
"""

import json
from collections.abc import Iterable
from typing import Any

from jsonschema.exceptions import ValidationError

from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.values.json_value import is_object, json_type
from sojourn.core.values.pointer import to_pointer
from sojourn.core.values.text import field_name

__all__ = [
    "MAX_ALLOWED",
    "MAX_TEXT",
    "MISSING",
    "ONLY_ONE",
    "UNKNOWN",
    "shortened",
    "to_issue",
    "type_issue",
    "type_names",
]

MAX_ALLOWED = 50
"""Most values of an enum in an issue."""

MAX_TEXT = 500
"""Longest pattern, format or allowed value in an issue, in characters."""

ONLY_ONE = "only_one"
"""The constraint of fields of which each belongs to another alternative, and that were sent together."""

_MAX_NAMED = 6

_Path = Iterable[str | int]

_LIMITS = {
    "minimum": ("invalid_range", "minimum"),
    "maximum": ("invalid_range", "maximum"),
    "exclusiveMinimum": ("invalid_range", "minimum"),
    "exclusiveMaximum": ("invalid_range", "maximum"),
    "minLength": ("invalid_length", "minimum"),
    "maxLength": ("invalid_length", "maximum"),
    "minItems": ("invalid_length", "minimum"),
    "maxItems": ("invalid_length", "maximum"),
    "minProperties": ("invalid_length", "minimum"),
    "maxProperties": ("invalid_length", "maximum"),
    "minContains": ("invalid_length", "minimum"),
    "maxContains": ("invalid_length", "maximum"),
}
UNKNOWN = ("additionalProperties", "unevaluatedProperties", "propertyNames", None)
MISSING = ("required", "dependentRequired")
_OTHERS = {
    "contains": ("invalid_length", "array with an item of another kind"),
    "oneOf": ("invalid_value", "value that fits only one of the alternatives"),
    "unevaluatedItems": ("invalid_length", "array with fewer items"),
    "uniqueItems": ("invalid_length", "array without repeated items"),
}


def to_issue(error: ValidationError, path: _Path) -> FieldIssue:
    """The issue of an error at a path; `invalid_value` for an unknown rule."""
    field = to_pointer(path)
    rule: Any = error.validator_value
    match error.validator:
        case word if word in MISSING:
            return FieldIssue(field=field, constraint="missing_field")
        case word if word in UNKNOWN:
            return FieldIssue(field=field, constraint="unknown_field")
        case "type":
            return type_issue(path, type_names(rule), error.instance)
        case "enum" | "const":
            allowed = [rule] if error.validator == "const" else rule
            return FieldIssue(field=field, constraint="invalid_enum_value", allowed=shortened(allowed))
        case word if word == ONLY_ONE:
            *place, _ = path
            names = [field_name(to_pointer([*place, name])) for name in rule]
            more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
            expected = f"only one of {', '.join(names[:_MAX_NAMED])}{more}"
            return FieldIssue(field=field, constraint=ONLY_ONE, expected_type=expected)
        case "discriminator":
            absent = is_object(error.instance) and error.relative_path[-1] not in error.instance
            constraint = "missing_field" if absent else "invalid_enum_value"
            return FieldIssue(field=field, constraint=constraint, allowed=shortened(rule))
        case "format":
            return FieldIssue(field=field, constraint="invalid_format", format=str(rule)[:MAX_TEXT])
        case "pattern":
            return FieldIssue(field=field, constraint="invalid_pattern", pattern=str(rule)[:MAX_TEXT])
        case _:
            return _limit_issue(field, str(error.validator), rule)


def type_issue(path: _Path, types: list[str], value: Any) -> FieldIssue:
    """The issue of a value that has none of the types."""
    return FieldIssue(
        field=to_pointer(path),
        constraint="invalid_field_type",
        expected_type=" or ".join(types) or "nothing",
        actual_type=json_type(value),
    )


def type_names(rule: Any) -> list[str]:
    """The types that a `type` keyword allows; empty for the schema `false`."""
    return [rule] if isinstance(rule, str) else rule or []


def _limit_issue(field: str, word: str, rule: Any) -> FieldIssue:
    if word in _LIMITS:
        constraint, bound = _LIMITS[word]
        issue = FieldIssue(field=field, constraint=constraint).model_copy(update={bound: _number(rule)})
        beyond = {"exclusiveMinimum": "above", "exclusiveMaximum": "below"}.get(word)
        return (
            issue.model_copy(update={"expected_type": f"number {beyond} {rule}"[:MAX_TEXT]})
            if beyond
            else issue
        )
    if word == "multipleOf":
        return FieldIssue(
            field=field, constraint="invalid_range", expected_type=f"multiple of {rule}"[:MAX_TEXT]
        )
    constraint, expected = _OTHERS.get(word, ("invalid_value", "value that the schema allows"))
    return FieldIssue(field=field, constraint=constraint, expected_type=expected)


def _number(rule: Any) -> float | None:
    try:
        return float(rule)
    except OverflowError:
        return None


def shortened(allowed: list[Any]) -> list[Any]:
    """The values of an enum that an issue lists: the short ones of the first 50."""
    return [value for value in allowed[:MAX_ALLOWED] if len(json.dumps(value)) <= MAX_TEXT]
