"""Turn an error of jsonschema into a `FieldIssue`, and issues into text.

Where `FieldIssue` has no field for a rule (an exclusive bound, a multiple, no
repeated items), `expected_type` describes it: "number above 0", "multiple of 5".
"""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jsonschema.exceptions import ValidationError

from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.schema.formats import FORMAT_EXAMPLES, FORMAT_SHAPES
from sojourn.values.json_value import ABSENT, is_array, is_object, json_type, to_pointer
from sojourn.values.text import MAX_NAME, echo, field_name, one_of, plain, with_article

__all__ = [
    "MAX_ALLOWED",
    "MAX_TEXT",
    "MISSING",
    "ONLY_ONE",
    "UNKNOWN",
    "phrase",
    "sentence",
    "shorten_choices",
    "to_issue",
    "type_issue",
    "type_names",
]

MAX_ALLOWED = 50

MAX_TEXT = 500

ONLY_ONE = "only_one"
"""The constraint of fields sent together that belong to different alternatives."""

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
    """Convert an error at a path to an issue."""
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
            return FieldIssue(field=field, constraint="invalid_enum_value", allowed=shorten_choices(allowed))
        case word if word == ONLY_ONE:
            *place, _ = path
            names = [field_name(to_pointer([*place, name])) for name in rule]
            more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
            expected = f"only one of {', '.join(names[:_MAX_NAMED])}{more}"
            return FieldIssue(field=field, constraint=ONLY_ONE, expected_type=expected)
        case "discriminator":
            absent = is_object(error.instance) and error.relative_path[-1] not in error.instance
            constraint = "missing_field" if absent else "invalid_enum_value"
            return FieldIssue(field=field, constraint=constraint, allowed=shorten_choices(rule))
        case "format":
            return FieldIssue(field=field, constraint="invalid_format", format=str(rule)[:MAX_TEXT])
        case "pattern":
            return FieldIssue(field=field, constraint="invalid_pattern", pattern=str(rule)[:MAX_TEXT])
        case _:
            return _limit_issue(field, str(error.validator), rule)


def type_issue(path: _Path, types: list[str], value: Any) -> FieldIssue:
    return FieldIssue(
        field=to_pointer(path),
        constraint="invalid_field_type",
        expected_type=" or ".join(types) or "nothing",
        actual_type=json_type(value),
    )


def type_names(rule: Any) -> list[str]:
    """Return the types that a `type` keyword allows.

    Empty for the schema `false`.
    """
    return [rule] if isinstance(rule, str) else rule or []


def _limit_issue(field: str, word: str, rule: Any) -> FieldIssue:
    if word in _LIMITS:
        constraint, bound = _LIMITS[word]
        issue = FieldIssue(field=field, constraint=constraint).model_copy(update={bound: _number_of(rule)})
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


def _number_of(rule: Any) -> float | None:
    try:
        return float(rule)
    except OverflowError:
        return None


def shorten_choices(allowed: list[Any]) -> list[Any]:
    """Return the values of an enum that an issue lists: short ones of the first 50."""
    return [value for value in allowed[:MAX_ALLOWED] if len(json.dumps(value)) <= MAX_TEXT]


def sentence(issue: FieldIssue, value: Any = ABSENT, *, close: str | None = None) -> str:
    """Return an issue with its field: `` `limit` must be at most 500, got 501 ``."""
    if issue.constraint == ONLY_ONE:  # all of these fields have this one sentence
        return f"give {issue.expected_type or 'only one of them'}"
    suggestion = f"; did you mean {field_name(close)}?" if close else ""
    return f"{field_name(issue.field)} {phrase(issue, value)}{suggestion}"


def phrase(issue: FieldIssue, value: Any = ABSENT) -> str:
    """Describe an issue without its field: `must be at most 500, got 501`.

    An unknown constraint is named as it is.
    """
    say = _PHRASES.get(issue.constraint, _other)
    text = say(issue, value)
    return text if value is ABSENT or issue.constraint in _SELF_EVIDENT else f"{text}, got {echo(value)}"


def _missing(issue: FieldIssue, _value: Any) -> str:
    demands = (
        f"one of: {one_of(issue.allowed)}" if issue.allowed else ", ".join(filter(None, _demands(issue)))
    )
    return f"is required ({demands})" if demands else "is required"


def _demands(issue: FieldIssue) -> Iterator[str]:
    kind = issue.expected_type or ""
    if issue.format:
        yield _of_format(issue.format)
    elif kind != "string":
        yield plain(kind, MAX_NAME)
    if issue.pattern is not None:
        yield f"matching {plain(issue.pattern, MAX_NAME)}"
    if issue.minimum is not None or issue.maximum is not None:
        noun = {"string": "character", "array": "item"}.get(kind)
        bounds = _bounds(issue.model_copy(update={"expected_type": None}))
        yield f"{bounds} {noun}{_plural(issue)}" if noun else bounds


def _unknown(_issue: FieldIssue, _value: Any) -> str:
    return "is not a known field"


def _enum(issue: FieldIssue, _value: Any) -> str:
    allowed = issue.allowed or []
    return f"must be {echo(allowed[0])}" if len(allowed) == 1 else f"must be one of {one_of(allowed)}"


def _type(issue: FieldIssue, value: Any) -> str:
    sent = f", not {with_article(issue.actual_type)}" if issue.actual_type and value is ABSENT else ""
    return f"must be {with_article(plain(issue.expected_type or 'of another type', MAX_NAME))}{sent}"


def _format(issue: FieldIssue, _value: Any) -> str:
    known = (issue.format or "") in FORMAT_EXAMPLES
    return f"must {'be' if known else 'have'} {_of_format(issue.format or '')}"


def _of_format(name: str) -> str:
    shown = plain(name, MAX_NAME)
    if name not in FORMAT_EXAMPLES:
        return f"the format {shown}"
    article = "an" if shown[:1] in "aeio" else "a"  # "a uri", as it is spoken
    return f"{article} {shown} {FORMAT_SHAPES.get(name, '')}".rstrip()


def _pattern(issue: FieldIssue, _value: Any) -> str:
    return f"must match the pattern {plain(issue.pattern or '', MAX_NAME)}"


def _range(issue: FieldIssue, _value: Any) -> str:
    return f"must be {_bounds(issue)}"


def _length(issue: FieldIssue, value: Any) -> str:
    if issue.expected_type:
        return f"must be {_bounds(issue)}"
    if value is ABSENT:
        return f"must have a length of {_bounds(issue)}"
    noun = {"string": "character", "array": "item", "object": "field"}.get(json_type(value), "item")
    return f"must have {_bounds(issue)} {noun}{_plural(issue)}{_length_sent(value)}"


def _plural(issue: FieldIssue) -> str:
    return "" if (issue.minimum if issue.maximum is None else issue.maximum) == 1 else "s"


def _length_sent(value: Any) -> str:
    return f", has {len(value)}" if isinstance(value, str) or is_array(value) or is_object(value) else ""


def _bounds(issue: FieldIssue) -> str:
    if issue.expected_type:
        article = "an" if issue.expected_type[0] in "aeiou" else "a"
        return f"{article} {plain(issue.expected_type, MAX_NAME)}"
    low = f"at least {_number_text(issue.minimum)}" if issue.minimum is not None else ""
    high = f"at most {_number_text(issue.maximum)}" if issue.maximum is not None else ""
    return " and ".join(filter(None, (low, high))) or "within other bounds"


def _rejection_text(issue: FieldIssue, _value: Any) -> str:
    return f"was refused: {plain(issue.expected_type or 'it breaks a rule of the tool', 2 * MAX_NAME)}"


def _only_one(issue: FieldIssue, _value: Any) -> str:
    return f"cannot be sent with the others: give {issue.expected_type or 'only one of them'}"


def _example_value(_issue: FieldIssue, _value: Any) -> str:
    return "holds the value of an example, not one that was given"


def _other(issue: FieldIssue, _value: Any) -> str:
    expected = issue.expected_type
    return f"must be {_bounds(issue)}" if expected else f"breaks the rule {plain(issue.constraint, MAX_NAME)}"


def _number_text(number: float) -> str:
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


_PHRASES: dict[str, Callable[[FieldIssue, Any], str]] = {
    "missing_field": _missing,
    "unknown_field": _unknown,
    "invalid_enum_value": _enum,
    "invalid_field_type": _type,
    "invalid_format": _format,
    "invalid_pattern": _pattern,
    "invalid_range": _range,
    "invalid_length": _length,
    "rejected": _rejection_text,
    ONLY_ONE: _only_one,
    "example_value": _example_value,
}
_SELF_EVIDENT = ("missing_field", "unknown_field", "invalid_length", ONLY_ONE)
