"""Readings of a value of the wrong form: values that its author most likely meant.

Each reading is a proposal: the caller takes the first that fits the schema. `keeps_meaning` tells the readings that only
change the form, such as `"5"` for 5, from those that guess, such as the nearest bound. A time zone is never guessed.
Null and a missing field differ in a change: without `owner` a task keeps its owner, with null it has none.
"""

import json
import math
import re
from collections.abc import Iterator
from difflib import SequenceMatcher, get_close_matches
from typing import Any

from sojourn.contracts.tool_error import FieldIssue
from sojourn.core.payload.parse import Parsed, decode_text, parse_arguments
from sojourn.core.schema.validate import Validator
from sojourn.values.json_fault import MAX_DIGITS
from sojourn.values.json_value import ABSENT, Schema, expand, is_array, is_object, json_type, locate
from sojourn.values.numbers import MAX_WHOLE, WholeNumber
from sojourn.values.text import closest_name

__all__ = [
    "BLANKS",
    "MAPS",
    "is_blank",
    "is_spelling_of",
    "keeps_meaning",
    "lacks_zone",
    "letters",
    "list_readings",
    "may_be_misnamed",
    "null_differs",
    "takes_null",
]

BLANKS = (None, "", "null")
"""Values that models send in a field that they do not use."""


def is_blank(value: Any) -> bool:
    """Return whether a value says nothing: absent, null or a blank text.

    0, false and an empty list are choices.
    """
    return value is ABSENT or value is None or (isinstance(value, str) and not value.strip())


def takes_null(validator: Validator, tokens: tuple[str, ...]) -> bool:
    return any(validator.is_valid(None, schema=found) for found in locate(validator.schema, tokens))


def may_be_misnamed(root: Schema, tokens: tuple[str, ...], beside: Any) -> bool:
    """Return whether an undeclared field may hold the value of an absent one.

    If so, no default replaces the absent value. An open schema takes `{"amount_eur": 5}` beside a required
    `amount` with a default. An entry of a map counts only if its name is close.
    """
    if not is_object(beside):
        return False
    parts = [part for found in locate(root, tokens[:-1]) for part in expand(root, found)]
    declared: set[str] = {name for part in parts for name in part.get("properties", ())}
    undeclared = [name for name in beside if name not in declared]
    is_map = any(is_object(part.get(word)) and part[word] for part in parts for word in MAPS)
    return closest_name(tokens[-1], undeclared) is not None if is_map else bool(undeclared)


def null_differs(validator: Validator, tokens: tuple[str, ...]) -> bool:
    """Return whether a field may be null and is not null by default."""
    if not takes_null(validator, tokens):
        return False
    root = validator.schema
    parts = [part for found in locate(root, tokens) for part in expand(root, found)]
    defaults = [part["default"] for part in parts if "default" in part]
    return not defaults or any(each is not None for each in defaults)


MAPS = ("additionalProperties", "patternProperties")
"""The keywords with the schemas of fields whose names a schema does not state."""

_CLOSE = 0.6
_MAX_TEXT = 8_192
_SPELLING = 0.9
"""How similar a misspelt word and its repair are: `offlne` and `offline`, but not `inactive` and `active`."""

_LONG_NAME = 5
"""Letters from which on a name may lack one."""

_SEPARATORS = re.compile(r"(?<=[^\W\d_])[\s_-]+(?=[^\W_])|(?<=\d)[\s_-]+(?=[^\W\d_])")
"""Separators of the parts of a word. There are none in `2-3`, which is not 23."""

_SEVERAL = re.compile(r"[\s,;|\[{]")
"""Characters that a text may have between items, or before them."""

_DAY = r"(?P<day>\d{4}-\d\d-\d\d)"
_CLOCK = r"(?P<clock>\d\d:\d\d)(?P<seconds>:\d\d(?:\.\d{1,9})?)?"
_ZONE = r"\s?(?P<zone>Z|UTC|GMT|(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?)"
_MOMENT = re.compile(rf"{_DAY}[T\s]\s?{_CLOCK}{_ZONE}", re.ASCII | re.IGNORECASE)
_TIME = re.compile(rf"(?:{_DAY}[T\s]\s?)?{_CLOCK}{_ZONE}", re.ASCII | re.IGNORECASE)
_WITHOUT_ZONE = {
    "date-time": re.compile(rf"{_DAY}[T\s]\s?{_CLOCK}", re.ASCII | re.IGNORECASE),
    "time": re.compile(_CLOCK, re.ASCII),
}


def list_readings(issue: FieldIssue, sent: Any) -> Iterator[Any]:
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
            yield from _read_format(text, issue.format)
        case _:
            return


def _choices(sent: Any, allowed: list[Any]) -> Iterator[Any]:
    if not isinstance(sent, (str, int, float)):
        return
    yield from _same_choice(sent, allowed)
    by_text = {
        str(value).casefold(): value for value in reversed(allowed) if not isinstance(value, (dict, list))
    }
    close = get_close_matches(str(sent)[:100].strip().casefold(), list(by_text), n=1, cutoff=_CLOSE)
    yield from (by_text[each] for each in close)


def _same_choice(sent: Any, allowed: list[Any]) -> list[Any]:
    # Empty if several choices are, unless one of them is written exactly like the value.
    same = [each for each in allowed if _word(each) == _word(sent)]
    return same if len(same) == 1 else [each for each in same if _unquote(each) == _unquote(sent)][:1]


def _word(value: Any) -> str:
    # `-1` is not 1, and `C#` not C.
    return _SEPARATORS.sub("", _unquote(value).casefold())


def _unquote(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text[:_MAX_TEXT].strip().strip("\"'`").strip()


def _types(sent: Any, expected: list[str]) -> Iterator[Any]:
    if isinstance(sent, str) and len(sent) <= _MAX_TEXT:
        yield from _read(sent.strip())
    elif isinstance(sent, (int, float)) and "string" in expected:
        yield json.dumps(sent)
    if is_array(sent) and len(sent) == 1:
        yield sent[0]
    if "array" in expected and sent not in (None, ""):  # which say nothing
        yield [sent]


def _read(text: str) -> Iterator[Any]:
    words = {"true": True, "yes": True, "false": False, "no": False, "null": None, "none": None}
    if text.casefold() in words:
        yield words[text.casefold()]
    elif text.startswith("{"):
        parsed = parse_arguments(text)
        if isinstance(parsed, Parsed):
            yield parsed.payload
    elif len(text) <= MAX_DIGITS or text.startswith("["):
        value = decode_text(text)
        if value is not ABSENT:
            whole = isinstance(value, float) and value.is_integer() and abs(value) < MAX_WHOLE
            yield int(value) if whole or isinstance(value, WholeNumber) else value


def _bounds(issue: FieldIssue, sent: float) -> Iterator[Any]:
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


def _read_format(text: str, format_: str | None) -> Iterator[str]:
    # Only if the schema states that format. Otherwise it would be a guess.
    match format_:
        case "date-time" if moment := _MOMENT.fullmatch(text):
            yield f"{moment['day']}T{_clock(moment)}"
        case "date" if text[10:11] in ("T", "t", " "):
            yield text[:10]
        case "time" if moment := _TIME.fullmatch(text):
            yield _clock(moment)
        case "uri" if "." in text and not any(each.isspace() or each == ":" for each in text):
            yield f"https://{text}"
        case _:
            return


def _clock(moment: re.Match[str]) -> str:
    # `+0100` becomes `+01:00`.
    zone = f"{moment['sign']}{moment['hours']}:{moment['minutes'] or '00'}" if moment["sign"] else "Z"
    return f"{moment['clock']}{moment['seconds'] or ':00'}{zone}"


def lacks_zone(format_: str | None, value: Any) -> bool:
    """Return whether a value would be a date-time or a time, if it said its time zone."""
    lacking = _WITHOUT_ZONE.get(format_ or "")
    return lacking is not None and isinstance(value, str) and lacking.fullmatch(value.strip()) is not None


def keeps_meaning(issue: FieldIssue, sent: Any, reading: Any, *, reads: bool) -> bool:
    """Return whether a reading is the value that was sent, in another form.

    Args:
        issue: The constraint that the value broke.
        sent: The value.
        reading: One of its `meanings`.
        reads: Whether the tool changes nothing, so that a likely guess costs one call: a misspelt word, the nearest bound.
    """
    before, after = letters(sent), letters(reading)
    match issue.constraint:
        case "invalid_field_type":
            return reads or _is_same_form(sent, reading)
        case "invalid_range":
            return reads
        case "invalid_length":
            return isinstance(sent, str) and isinstance(reading, str) and sent.strip() == reading.strip()
        case "invalid_format" if issue.format == "date":
            return before.startswith(after)
        case "invalid_format" if issue.format in ("date-time", "time"):
            return True  # only its zone as it is written
        case "invalid_enum_value":
            same = _same_choice(sent, issue.allowed or [])
            likely = reads and not same and SequenceMatcher(None, before, after).ratio() > _SPELLING
            return likely or any(type(reading) is type(each) and reading == each for each in same)
        case _:
            return before == after


def _is_same_form(sent: Any, reading: Any) -> bool:
    # A float does not: `3.10` has lost its zero. `a,b` may be one item or two.
    if isinstance(reading, str):
        return not isinstance(sent, (float, WholeNumber))
    if isinstance(sent, str) and reading == [sent]:
        return _SEVERAL.search(sent) is None
    return True


def is_spelling_of(name: str, field: str) -> bool:
    """Return whether a name is another spelling of a field's name.

    It may differ in case or separators, or have one letter too few or too many. Another letter makes another
    name (`employer_id`, `employee_id`), and so does one at the beginning, or a digit.
    """
    short, long = sorted((letters(name), letters(field)), key=len)
    if short == long:
        return True
    if len(long) - len(short) != 1 or len(short) < _LONG_NAME or short[0] != long[0]:
        return False
    place = next((at for at, each in enumerate(short) if each != long[at]), len(short))
    return long[place].isalpha() and short[place:] == long[place + 1 :]


def letters(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return "".join(each for each in text.casefold() if each.isalnum())
