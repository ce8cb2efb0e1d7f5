"""Issues as text, for models and people: one clause per issue, from one table."""

from collections.abc import Callable, Iterator
from typing import Any

from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.schema.formats import FORMAT_EXAMPLES, FORMAT_SHAPES
from sojourn.core.schema.issues import ONLY_ONE
from sojourn.core.values.json_value import is_array, is_object, json_type
from sojourn.core.values.pointer import ABSENT
from sojourn.core.values.text import MAX_NAME, echo, field_name, one_of, plain, with_article

__all__ = ["phrase", "sentence"]


def sentence(issue: FieldIssue, value: Any = ABSENT, *, close: str | None = None) -> str:
    """An issue with its field: `` `limit` must be at most 500, got 501 ``."""
    if issue.constraint == ONLY_ONE:  # all of these fields have this one sentence
        return f"give {issue.expected_type or 'only one of them'}"
    suggestion = f"; did you mean {field_name(close)}?" if close else ""
    return f"{field_name(issue.field)} {phrase(issue, value)}{suggestion}"


def phrase(issue: FieldIssue, value: Any = ABSENT) -> str:
    """An issue without its field: `must be at most 500, got 501`; an unknown constraint is named as it is."""
    say = _PHRASES.get(issue.constraint, _other)
    text = say(issue, value)
    return text if value is ABSENT or issue.constraint in _SELF_EVIDENT else f"{text}, got {echo(value)}"


def _missing(issue: FieldIssue, _value: Any) -> str:
    demands = (
        f"one of: {one_of(issue.allowed)}" if issue.allowed else ", ".join(filter(None, _demands(issue)))
    )
    return f"is required ({demands})" if demands else "is required"


def _demands(issue: FieldIssue) -> Iterator[str]:
    """What a missing field has to be, where that is more than any string."""
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
    low = f"at least {_number(issue.minimum)}" if issue.minimum is not None else ""
    high = f"at most {_number(issue.maximum)}" if issue.maximum is not None else ""
    return " and ".join(filter(None, (low, high))) or "within other bounds"


def _rejected(issue: FieldIssue, _value: Any) -> str:
    return f"was refused: {plain(issue.expected_type or 'it breaks a rule of the tool', 2 * MAX_NAME)}"


def _only_one(issue: FieldIssue, _value: Any) -> str:
    return f"cannot be sent with the others: give {issue.expected_type or 'only one of them'}"


def _example_value(_issue: FieldIssue, _value: Any) -> str:
    return "holds the value of an example, not one that was given"


def _other(issue: FieldIssue, _value: Any) -> str:
    expected = issue.expected_type
    return f"must be {_bounds(issue)}" if expected else f"breaks the rule {plain(issue.constraint, MAX_NAME)}"


def _number(number: float) -> str:
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
    "rejected": _rejected,
    ONLY_ONE: _only_one,
    "example_value": _example_value,
}
_SELF_EVIDENT = ("missing_field", "unknown_field", "invalid_length", ONLY_ONE)
