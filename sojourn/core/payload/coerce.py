"""Readings of a value of the wrong form: values that its author most likely meant.

Each reading is a proposal: the caller takes the first that fits the schema.
"""

import json
import math
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from sojourn.contracts.retry_hint import FieldIssue
from sojourn.core.payload.parse import Parsed, parse_arguments
from sojourn.core.values.json_fault import MAX_DIGITS, json_fault
from sojourn.core.values.json_value import is_array, json_type

__all__ = ["meanings"]

_CLOSE = 0.6
_MAX_TEXT = 8_192
_MAX_WHOLE = 2**53


def meanings(issue: FieldIssue, sent: Any) -> Iterator[Any]:
    """Readings of a value that broke a constraint, the most literal first."""
    match issue.constraint:
        case "invalid_enum_value":
            yield from _choices(sent, issue.allowed or [])
        case "invalid_field_type":
            yield from _types(sent, (issue.expected_type or "").split(" or "))
        case "invalid_range" if json_type(sent) in ("integer", "number"):
            yield from _bounds(issue, sent)
        case "invalid_length":
            yield from _lengths(issue, sent)
        case "invalid_format" | "invalid_pattern" if isinstance(sent, str) and len(sent) <= _MAX_TEXT:
            text = sent.strip()
            yield from (text, text.lower(), text.upper())
            yield from _formatted(text, issue.format)
        case _:
            return


def _choices(sent: Any, allowed: list[Any]) -> Iterator[Any]:
    if not isinstance(sent, (str, int, float)):
        return
    by_text = {
        str(value).casefold(): value for value in reversed(allowed) if not isinstance(value, (dict, list))
    }
    close = get_close_matches(str(sent)[:100].strip().casefold(), list(by_text), n=1, cutoff=_CLOSE)
    yield from (by_text[each] for each in close)


def _types(sent: Any, expected: list[str]) -> Iterator[Any]:
    if isinstance(sent, str) and len(sent) <= _MAX_TEXT:
        yield from _read(sent.strip())
    elif isinstance(sent, (int, float)) and "string" in expected:
        yield json.dumps(sent)
    if is_array(sent) and len(sent) == 1:
        yield sent[0]
    if "array" in expected:
        yield [sent]


def _read(text: str) -> Iterator[Any]:
    """The JSON value that a string contains, or the boolean or null that it names."""
    words = {"true": True, "yes": True, "false": False, "no": False, "null": None, "none": None}
    if text.casefold() in words:
        yield words[text.casefold()]
    elif text.startswith("{"):
        parsed = parse_arguments(text)
        if isinstance(parsed, Parsed):
            yield parsed.payload
    elif len(text) <= MAX_DIGITS or text.startswith("["):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return
        if json_fault(value) is None:
            whole = isinstance(value, float) and value.is_integer() and abs(value) < _MAX_WHOLE
            yield int(value) if whole else value


def _bounds(issue: FieldIssue, sent: float) -> Iterator[Any]:
    """The nearest bound; for an exclusive bound the next whole number; for `multipleOf` the nearest multiple."""
    for bound, inward in ((issue.minimum, 1), (issue.maximum, -1)):
        if bound is not None and math.isfinite(bound):
            whole = int(bound) if bound.is_integer() else bound
            yield from (whole, whole + inward, whole + inward / 2)
    if (issue.expected_type or "").startswith("multiple of "):
        step = float((issue.expected_type or "").removeprefix("multiple of "))
        if math.isfinite(sent / step):
            nearest = round(sent / step) * step
            yield from (int(nearest), nearest) if nearest.is_integer() else (nearest, round(nearest, 10))


def _lengths(issue: FieldIssue, sent: Any) -> Iterator[Any]:
    most = None if issue.maximum is None else int(issue.maximum)
    if (isinstance(sent, str) or is_array(sent)) and most is not None:
        yield sent[:most]
    elif is_array(sent):
        yield [item for index, item in enumerate(sent[:1_000]) if item not in sent[:index]]


def _formatted(text: str, format_: str | None) -> Iterator[str]:
    """The date, time or address that a text nearly is, where the schema states that format; elsewhere it would be a guess."""
    match format_:
        case "date-time":
            moment = text.replace(" ", "T", 1)
            yield from (f"{moment}Z", f"{moment}:00Z", f"{text}T00:00:00Z")
        case "date" if text[10:11] in ("T", "t", " "):
            yield text[:10]
        case "time":
            time = text.replace(" ", "T", 1).split("T")[-1]
            yield from (f"{time}Z", f"{time}:00Z")
        case "uri" if "." in text and not any(each.isspace() or each == ":" for each in text):
            yield f"https://{text}"
        case _:
            return
