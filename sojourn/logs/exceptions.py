"""Log exceptions with type, message and a few frames, never variable values.

structlog's `ExceptionDictTransformer` is not used, because it logs the text of an exception unchanged, with
the input that a validation error quotes.
"""

import sys
import traceback
from collections.abc import Iterator
from typing import Any, cast

from structlog.typing import EventDict, WrappedLogger

from sojourn.contracts import safe_exceptions
from sojourn.contracts.tool_error import MAX_CAUSES, ToolError
from sojourn.logs.values import current_mask, printable

__all__ = ["WITHOUT_MESSAGES", "described", "described_exception", "in_short", "is_described"]

MAX_FRAMES = 8

WITHOUT_MESSAGES = "_without_messages"
"""Field of a record whose exception is logged without its messages."""

_SHORT = 3


def described_exception(logger: WrappedLogger, name: str, event_dict: EventDict) -> EventDict:
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
        event_dict["exception"] = described(error, with_messages=with_messages)
    return event_dict


def is_described(value: Any) -> bool:
    """Return whether a field has the value of `described`, and not a program's own."""
    if not isinstance(value, list) or not value:
        return False
    links = cast("list[Any]", value)
    return all(isinstance(link, dict) and link.keys() == {"type", "message", "at"} for link in links)


def described(error: BaseException, *, with_messages: bool = True) -> list[dict[str, Any]]:
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
        link = safe_exceptions.before(link)
