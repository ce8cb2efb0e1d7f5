"""The values and exceptions of a log line, masked, bounded and printable.

The mask and the ids are context variables: the thread of a sync tool and the tasks that a tool starts
inherit a copy, and both are reset when the call has ended.

Models, tools and servers write part of what is logged. So a line has no control, escape or direction
characters, and a secret is masked before a text is cut: half a secret reveals much. An exception has type,
message and a few frames, never variable values: structlog's `ExceptionDictTransformer` logs its text unchanged,
with the input that a validation error quotes.
"""

import math
import sys
import traceback
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, timedelta
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

import structlog
from structlog.typing import EventDict, WrappedLogger

from sojourn.contracts import safe_exceptions
from sojourn.contracts.tool_error import MAX_CAUSES, ToolError
from sojourn.core.payload.masking import Mask
from sojourn.values.text import clip, readable

__all__ = [
    "WITHOUT_MESSAGES",
    "call_context",
    "current_mask",
    "describe_error",
    "describe_exception",
    "hide",
    "in_short",
    "is_described",
    "mask_event",
    "printable",
]

_MASK: ContextVar[Mask | None] = ContextVar("sojourn_log_mask", default=None)


@contextmanager
def call_context(**ids: str) -> Generator[None]:
    """Bind the ids of a call to every line written in the body, without a mask."""
    token = _MASK.set(None)
    try:
        with structlog.contextvars.bound_contextvars(**{name: id for name, id in ids.items() if id}):
            yield
    finally:
        _MASK.reset(token)


def hide(mask: Mask) -> None:
    """Mask every text of the call's further lines, until its `call_context` ends."""
    _MASK.set(mask)


def current_mask() -> Mask | None:
    return _MASK.get()


MAX_TEXT = 4_000
MAX_ITEMS = 50
MAX_DEPTH = 5
_META = ("_record", "_from_structlog")


def mask_event(logger: WrappedLogger, name: str, event_dict: EventDict) -> EventDict:
    """Make every value JSON, printable and bounded, with the call's secrets masked.

    This is a structlog processor. A program with its own configuration of structlog places it before its
    renderer, and after the processor that turns an exception into text.
    """
    del logger, name
    meta = {key: event_dict.pop(key) for key in _META if key in event_dict}
    return {**_object(event_dict, 0), **meta}


def printable(text: str, limit: int = MAX_TEXT) -> str:
    """Return a text with its secrets masked, cut, and only line breaks and tabs."""
    mask = current_mask()
    shown = mask(text) if mask else text
    return clip(readable(shown[: limit + 1]), limit)


def _json(value: Any, depth: int) -> Any:
    match value:
        case None | bool():
            return value
        case int() | float():
            return _number(value)
        case str():
            return printable(value)
        case bytes() | bytearray():
            return f"<{len(value)} bytes>"
        case BaseException():
            kind = type(value).__name__
            text = str(ToolError.from_error(value, current_mask())).removeprefix(f"{kind}: ")
            return printable(f"{kind}: {text}")
        case date() | timedelta() | UUID() | PurePath():
            return printable(str(value))
        case _:
            return _container(value, depth)


def _container(value: object, depth: int) -> Any:
    if isinstance(value, Mapping) and depth < MAX_DEPTH:
        return _object(cast("Mapping[Any, Any]", value), depth + 1)
    if isinstance(value, (list, tuple, set, frozenset)) and depth < MAX_DEPTH:
        items = list(cast("Iterable[Any]", value))
        more = [f"... {len(items) - MAX_ITEMS} more"] if len(items) > MAX_ITEMS else []
        return [_json(item, depth + 1) for item in items[:MAX_ITEMS]] + more
    return _show(cast("object", value))


def _show(value: object) -> str:
    try:
        return printable(repr(value))
    except Exception:  # noqa: BLE001 - a `__repr__` that raises must not lose the line
        return f"<{type(value).__name__}>"


def _object(fields: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    shown = list(fields.items())[:MAX_ITEMS]
    shown_fields = {printable(str(key), 100): _json(value, depth) for key, value in shown}
    return {**shown_fields, "...": len(fields) - MAX_ITEMS} if len(fields) > MAX_ITEMS else shown_fields


def _number(value: float) -> float | str:
    """Return the number, or its text if JSON lacks it or its digits are a secret."""
    text = str(value)
    shown = printable(text)
    return value if shown == text and math.isfinite(value) else shown


MAX_FRAMES = 8

WITHOUT_MESSAGES = "_without_messages"
"""Field of a record whose exception is logged without its messages."""

_SHORT = 3


def describe_exception(logger: WrappedLogger, name: str, event_dict: EventDict) -> EventDict:
    """Replace `exc_info` by `exception`, a list that begins with the exception raised.

    Sojourn's own lines have this list as the field `raised` instead of an `exc_info`, for which renderers
    of other configurations may show the values of variables.
    """
    del logger, name
    error = _error_of(event_dict.pop("exc_info", None))
    with_messages = not event_dict.pop(WITHOUT_MESSAGES, False)
    if is_described(event_dict.get("raised")):
        event_dict["exception"] = event_dict.pop("raised")
    elif error is not None:
        event_dict["exception"] = describe_error(error, with_messages=with_messages)
    return event_dict


def is_described(value: Any) -> bool:
    """Return whether a field has the value of `described`, and not a program's own."""
    if not isinstance(value, list) or not value:
        return False
    links = cast("list[Any]", value)
    return all(isinstance(link, dict) and link.keys() == {"type", "message", "at"} for link in links)


def describe_error(error: BaseException, *, with_messages: bool = True) -> list[dict[str, Any]]:
    """Return an exception, then its parts and causes, at most 8.

    The message of a validation error leaves out the input (`ToolError.from_error`). Messages are left out
    if their secrets cannot be masked.
    """
    return [
        {
            "type": safe_exceptions.kind(link),
            "message": printable(_message(link)) if with_messages else "(left out)",
            "at": [
                f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}"
                for frame, line in traceback.walk_tb(safe_exceptions.trace(link))
            ][-MAX_FRAMES:],
        }
        for link, _ in zip(_links(error, set()), range(MAX_CAUSES), strict=False)
    ]


def in_short(exception: list[dict[str, Any]]) -> str:
    lines: list[str] = []
    for number, link in enumerate(exception):
        lines.append(
            f"    {'from ' if number else ''}{link['type']}: {link['message']}".replace("\n", "\n      ")
        )
        lines += [f"        {place}" for place in link["at"][-_SHORT:]]
    return "\n".join(lines)


def _message(error: BaseException) -> str:
    return ToolError.from_error(error, current_mask()).message.removeprefix(
        f"{safe_exceptions.kind(error)}: "
    )


def _error_of(exc_info: Any) -> BaseException | None:
    if safe_exceptions.is_a(exc_info, BaseException):
        return exc_info
    match exc_info:
        case (_, error, _) if safe_exceptions.is_a(error, BaseException):
            return error
        case None | False | (None, None, None):
            return None
        case _:
            return sys.exception()


def _links(error: BaseException, seen: set[int]) -> Iterator[BaseException]:
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        for part in safe_exceptions.parts(link):
            yield from _links(part, seen)
        link = safe_exceptions.cause_of(link)
