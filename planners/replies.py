"""Replies: values by field, read from a person's answer."""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, cast

from planners.questions import EMAIL, PHONE

__all__ = ["declines", "read_reply", "values_of"]

_NO = frozenset(
    {"no", "nobody", "none", "nothing", "skip", "cancel", "stop", "leave it", "never mind", "no thanks"}
)
_PATTERNS = {
    "email": EMAIL,
    "phone": PHONE,
    "role": re.compile(r"\b(?:operations|maintenance|owner)\b", re.IGNORECASE),
    "site_id": re.compile(r"\bs-\w{1,10}\b", re.IGNORECASE),
    "device_id": re.compile(r"\bd-\w{1,10}\b", re.IGNORECASE),
}
_LOWER = frozenset({"role", "site_id", "device_id"})


def declines(text: str) -> bool:
    """Whether the answer is a no, such as `nobody` or `never mind`."""
    return text.strip().strip(".!").lower() in _NO


def read_reply(text: str, wanted: Sequence[str]) -> dict[str, Any] | None:
    """Return the values of an answer; None for a no."""
    return None if declines(text) else values_of(text, wanted)


def values_of(text: str, wanted: Collection[str]) -> dict[str, Any]:
    """Return the values of an answer: those of a JSON object that are not empty, or those found in a text.

    In a text, values of a known form are found first; what is left is the name, if a name is wanted. A text
    without any wanted value is the value of the one wanted field; the tool validates it.
    """
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if isinstance(given, dict):
        return {key: value for key, value in cast("dict[str, Any]", given).items() if value not in (None, "")}
    values: dict[str, Any] = {}
    rest = text
    for field, pattern in _PATTERNS.items():
        if match := pattern.search(rest):
            values[field] = match[0].rstrip(".").lower() if field in _LOWER else match[0].rstrip(".")
            rest = rest.replace(match[0], " ", 1)
    if "name" in wanted and (name := _name_in(rest)):
        values["name"] = name
    missed = [field for field in wanted if field not in values]
    if not values.keys() & set(wanted) and len(missed) == 1:
        values[missed[0]] = text.strip()
    return values


def _name_in(rest: str) -> str:
    words = re.sub(r"\b(?:as|for|the|contact|of|is|it|please|name|email)\b", " ", rest, flags=re.IGNORECASE)
    name = " ".join(re.findall(r"[^\W\d_][\w.'-]*", words))
    return name.title() if name.islower() else name
