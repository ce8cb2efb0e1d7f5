"""Formats of strings in JSON Schema, and patterns on RE2.

Both run on hostile strings under hostile schemas, so a pattern takes linear time and a
format check reads no more than it needs. `regex`, `iri` and `uri-template` are annotations
here: their checkers take quadratic time, build a grammar for seconds, or warn. Durations
are checked here because the usual checker imports a whole calendar library.
"""

import datetime as dt
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol, cast

import re2 as _re2
from jsonschema import Draft202012Validator, FormatChecker
from pydantic import TypeAdapter

__all__ = ["FORMATS", "FORMAT_EXAMPLES", "FORMAT_SHAPES", "TYPED_FORMATS", "matches", "runs"]

re2: Any = _re2  # has no types

MAX_FORMATTED = 8_192
"""Longest string with a format, in characters; only URIs (`data:`) may be longer."""

FORMAT_EXAMPLES = {
    "date": "2024-01-31",
    "date-time": "2024-01-31T09:30:00Z",
    "duration": "PT1H30M",
    "email": "name@example.com",
    "hostname": "host.example.com",
    "idn-email": "name@example.com",
    "idn-hostname": "host.example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "json-pointer": "/field/0",
    "relative-json-pointer": "1/field",
    "time": "09:30:00Z",
    "uri": "https://example.com/",
    "uri-reference": "/path",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
"""The enforced formats, each with an example."""

FORMAT_SHAPES = {
    "date": "like YYYY-MM-DD",
    "date-time": "like YYYY-MM-DDThh:mm:ss with its zone, Z or +hh:mm",
    "duration": "like PnDTnHnMnS",
    "time": "like hh:mm:ss with its zone, Z or +hh:mm",
    "uri": "with its scheme",
    "uuid": "like xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx",
}
"""Descriptions of texts of these formats. They are not examples, because a model may copy an example."""

_LONG = ("uri", "uri-reference")
_DURATION = re.compile(
    r"P(?:\d+W|(?=[\dT])(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?)",
    re.ASCII,
)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)

_Check = Callable[[Any], bool]


class _Pattern(Protocol):
    def search(self, text: bytes) -> object | None: ...


def matches(pattern: str, text: str) -> bool:
    """Return whether a text contains a match of a pattern.

    True for a pattern that RE2 does not support.
    """
    compiled = _compile(pattern)
    return compiled is None or compiled.search(text.encode("utf-8", "replace")) is not None


def runs(pattern: str) -> bool:
    """Return whether RE2 supports a pattern.

    Other patterns are not enforced.
    """
    return _compile(pattern) is not None


@lru_cache(maxsize=1_024)
def _compile(pattern: str) -> _Pattern | None:
    options = re2.Options()
    options.log_errors = False
    rewritten = _ESCAPE.sub(lambda escape: rf"\x{{{escape[1]}}}" if escape[1] else escape[0], pattern)
    try:
        return cast("_Pattern", re2.compile(rewritten.encode("utf-8", "replace"), options=options))
    except re2.error:
        return None


def _bound_length(
    name: str, check: _Check, refusals: type[Exception] | tuple[type[Exception], ...]
) -> _Check:
    # Some checkers raise more than they declare, such as ValueError for a digit that is no ASCII digit.
    caught = (ValueError, OverflowError, *(refusals if isinstance(refusals, tuple) else (refusals,)))

    def conforms(instance: Any) -> bool:
        if not isinstance(instance, str):
            return True
        if len(instance) > MAX_FORMATTED and name not in _LONG:
            return False
        try:
            return bool(check(instance))
        except caught:
            return False

    return conforms


def _email(instance: Any) -> bool:
    return _EMAIL.fullmatch(instance) is not None


def _duration(instance: Any) -> bool:
    return _DURATION.fullmatch(instance) is not None


_OWN: dict[str, _Check] = {"duration": _duration, "email": _email, "idn-email": _email}


def _by_type(kind: type, form: str) -> _Check:
    adapter, has_form = TypeAdapter[Any](kind), re.compile(form, re.ASCII)

    def check(instance: Any) -> bool:
        return has_form.match(instance) is not None and adapter.validate_python(instance) is not None

    return check


# A number in a text is no time here: pydantic would guess whether it counts seconds or milliseconds.
_OF_TYPES: dict[str, _Check] = {
    "date": _by_type(dt.date, r"\d{4}-\d\d-\d\d"),
    "date-time": _by_type(dt.datetime, r"\d{4}-\d\d-\d\d"),
    "duration": _by_type(dt.timedelta, r"(?=.*[A-Za-z:])"),
    "time": _by_type(dt.time, r"\d\d:\d\d"),
}


def _format_checker(lax: Mapping[str, _Check]) -> FormatChecker:
    known = Draft202012Validator.FORMAT_CHECKER.checkers
    checker = FormatChecker(())
    for name in FORMAT_EXAMPLES:
        check, refusals = (_OWN[name], ()) if name in _OWN else known[name]
        conforms = _bound_length(name, cast("_Check", check), refusals)
        if name in lax:
            conforms = _either(conforms, _bound_length(name, lax[name], ()))
        checker.checkers[name] = (conforms, ())
    return checker


def _either(one: _Check, other: _Check) -> _Check:
    return lambda instance: one(instance) or other(instance)


FORMATS = _format_checker({})
"""Checks the formats of `FORMAT_EXAMPLES`; any other format is an annotation."""

TYPED_FORMATS = _format_checker(_OF_TYPES)
"""The same for a schema made from a Python type, which decodes the value afterwards: a date or time has any form that
pydantic reads, such as one without an offset. A type that needs an offset refuses it by itself.
"""
