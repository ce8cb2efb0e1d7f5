"""Find values that a payload cannot carry.

Every integer of at most 300 digits has a float, so arithmetic never overflows.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sojourn.values.json_value import is_array, is_object
from sojourn.values.text import echo
from sojourn.values.wire import MAX_PAYLOAD_BYTES

__all__ = [
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_FIGURE",
    "ParseFault",
    "depth_of",
    "json_fault",
    "too_deep",
    "too_many_digits",
    "wrong_figure",
]

MAX_DEPTH = 64

MAX_DIGITS = 300
"""Most digits of an integer."""

_MAX_INTEGER = 10**MAX_DIGITS
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ParseFault:
    kind: str
    """The kind of fault.

    `empty` `syntax` `truncated` `not_an_object` `too_large` `too_deep` `number` `duplicate_key` `not_json`; `cut_off` if the
    response ended in the call.
    """
    message: str
    position: int | None = None
    line: int | None = None
    column: int | None = None
    near: str = ""
    """The text around the fault, at most 40 characters."""


def depth_of(value: Any) -> int:
    """Return the depth of nested containers: 0 for a scalar, 1 for `{}`, at most 65."""
    level = [value]
    for depth in range(MAX_DEPTH + 1):
        containers = [node for node in level if is_object(node) or is_array(node)]
        if not containers:
            return depth
        level = [item for node in containers for item in (node.values() if is_object(node) else node)]
    return MAX_DEPTH + 1


def json_fault(value: Any, *, max_bytes: int | None = MAX_PAYLOAD_BYTES) -> ParseFault | None:
    """Return why a parsed value cannot be a payload or result, or None."""
    level, depth = [value], 0
    while level:
        inner: list[Any] = []
        for node in level:
            if fault := _node_fault(node, depth, inner):
                return fault
        level, depth = inner, depth + 1
    if max_bytes is not None:
        size = len(_COMPACT.encode(value).encode())
        if size > max_bytes:
            return ParseFault("too_large", f"{size:,} bytes are more than the {max_bytes:,} allowed")
    return None


def _node_fault(node: Any, depth: int, inner: list[Any]) -> ParseFault | None:
    """Return the fault of one value by itself, and add its parts to `inner`."""
    if is_object(node):
        inner.extend(node.values())
        return too_deep() if depth == MAX_DEPTH else next(filter(None, map(_name_fault, node)), None)
    if is_array(node):
        inner.extend(node)
        return too_deep() if depth == MAX_DEPTH else None
    return _scalar_fault(node)


def _name_fault(name: object) -> ParseFault | None:
    if isinstance(name, str):
        return _text_fault(name)
    return ParseFault("not_json", "a name in an object is not a string")


def _scalar_fault(node: object) -> ParseFault | None:
    match node:
        case str():
            return _text_fault(node)
        case None | bool():
            return None
        case int():
            return None if -_MAX_INTEGER < node < _MAX_INTEGER else too_many_digits()
        case float():
            return None if math.isfinite(node) else ParseFault("number", f"{node} is not a JSON number")
        case _:
            return ParseFault("not_json", f"a {type(node).__name__} is not a JSON value")


def _text_fault(text: str) -> ParseFault | None:
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return ParseFault("not_json", "a string holds half of a surrogate pair, which is not a character")
    return None


def too_deep() -> ParseFault:
    return ParseFault("too_deep", f"the nesting is deeper than {MAX_DEPTH}")


def too_many_digits() -> ParseFault:
    return ParseFault("number", f"an integer has more than {MAX_DIGITS} digits")


MAX_FIGURE = 2**53
"""The largest count or cost: up to here every JSON reader agrees on an integer, and no sum is infinite."""


def wrong_figure(figures: Iterable[tuple[str, Any]]) -> str | None:
    """Return why the first invalid figure is refused, since it would lift a limit.

    An unknown figure is None, which is valid. Return None if all figures are valid.
    """
    for name, figure in figures:
        is_number = isinstance(figure, (int, float)) and not isinstance(figure, bool)
        if figure is not None and not (is_number and 0 <= figure <= MAX_FIGURE):
            return f"`{name}` is {echo(figure)}, and is a number from 0 to 2^53"
    return None
