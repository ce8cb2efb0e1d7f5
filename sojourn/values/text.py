"""Prepare text for people and models.

A model or a foreign server wrote every such value. So it is shortened, quoted as JSON, put on one line,
and holds no control, escape or direction characters (design, Security).
"""

import json
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

from sojourn.values.json_value import is_array, is_object, to_tokens

__all__ = [
    "CUT",
    "MAX_NAME",
    "clip",
    "closest_name",
    "count_noun",
    "echo",
    "field_name",
    "is_writable",
    "one_of",
    "plain",
    "readable",
    "with_article",
]

CUT = "…"

MAX_ECHO = 60
"""Most characters of a repeated value."""

MAX_NAME = 80

_MAX_CHOICES = 12


def clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}{CUT}"


def is_writable(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8.

    Half of a surrogate pair, or a byte of another encoding, cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def readable(text: str) -> str:
    """Return the text without control, escape and direction characters."""
    return "".join(each if each.isprintable() or each in "\n\t" else " " for each in text)


def plain(text: str, limit: int) -> str:
    """Return one printable line of at most `limit` characters, without backticks."""
    shown = "".join(each if each.isprintable() and each != "`" else " " for each in text[: limit + 1])
    return clip(" ".join(shown.split()), limit)


def echo(value: Any) -> str:
    """Return a value as JSON on one line, shortened."""
    match value:
        case str():
            text = json.dumps(clip(value, MAX_ECHO), ensure_ascii=False)
            return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
        case _ if is_object(value):
            return f"an object with {count_noun(len(value), 'field')}"
        case _ if is_array(value):
            return f"an array with {count_noun(len(value), 'item')}"
        case int() if abs(value) >= 10**MAX_ECHO:
            return "a huge integer"
        case _:
            return json.dumps(value, default=lambda other: type(other).__name__)


def one_of(values: Iterable[Any]) -> str:
    """Return the first choices, quoted: `"a", "b" (and 3 more)`."""
    known = list(values)
    more = f" (and {len(known) - _MAX_CHOICES} more)" if len(known) > _MAX_CHOICES else ""
    return ", ".join(map(echo, known[:_MAX_CHOICES])) + more


def field_name(pointer: str) -> str:
    """Return a pointer as people write a path, quoted: `` `lines[0].sku` ``."""
    text = ""
    for token in to_tokens(pointer):
        text += f"[{token}]" if token.isdecimal() else f".{token}" if text else token
    return f"`{plain(text, MAX_NAME)}`" if text else "the payload"


def count_noun(count: int, noun: str) -> str:
    """Return a number of things: `1 call`, `2 calls`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_TYPES = ("array", "boolean", "integer", "number", "object", "string")


def with_article(types: str) -> str:
    """Return JSON types with their articles: `an integer or null`."""
    named = {name: f"{'an' if name[0] in 'aio' else 'a'} {name}" for name in _TYPES}
    return " or ".join(named.get(name, name) for name in types.split(" or "))


_CLOSE = 0.75


def closest_name(name: str, names: Sequence[str]) -> str | None:
    """Return the most similar name, or None if none is similar.

    Case, dashes and underscores do not count.
    """
    by_letters = {_letters(each): each for each in reversed(names)}
    found = get_close_matches(_letters(name), list(by_letters), n=1, cutoff=_CLOSE)
    return by_letters[found[0]] if found else None


def _letters(name: str) -> str:
    return name[:100].replace("_", "").replace("-", "").casefold()
