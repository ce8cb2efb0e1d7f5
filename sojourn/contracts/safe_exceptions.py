"""Read exceptions of foreign classes safely.

Cause, context, traceback and class name are read from Python's own descriptors, whatever the class or its
metaclass overrides. Texts are copied, since a `str` subclass may override anything.
"""

import types
from collections.abc import Iterator
from pathlib import PurePath
from types import FrameType, TracebackType
from typing import Any, TypeGuard, TypeVar

__all__ = [
    "attribute",
    "cause_of",
    "chain",
    "copy_text",
    "is_a",
    "is_key",
    "kind",
    "leaves",
    "members",
    "parts",
    "roots",
    "source_location",
    "text",
    "trace",
]

MAX_KIND = 100

_T = TypeVar("_T")

_NAME: Any = type.__dict__["__name__"]
_BASES: Any = type.__dict__["__mro__"]
_OWN: Any = type.__dict__["__dict__"]
_MODULE: Any = type.__dict__["__module__"]
_CAUSE: Any = BaseException.__dict__["__cause__"]
_CONTEXT: Any = BaseException.__dict__["__context__"]
_IS_SUPPRESSED: Any = BaseException.__dict__["__suppress_context__"]
_TRACEBACK: Any = BaseException.__dict__["__traceback__"]
_PARTS: Any = BaseExceptionGroup.__dict__["exceptions"]


def is_a(value: object, kind: type[_T]) -> TypeGuard[_T]:
    """Check the real type of a value, whatever its `__class__` claims."""
    return type.__subclasscheck__(kind, type(value))


def copy_text(text: str) -> str:
    """Return the same text as a plain `str`, of no subclass."""
    return str.__str__(text)


def kind(error: object) -> str:
    """Return the name of an exception's class, at most 100 characters."""
    return copy_text(_NAME.__get__(type(error)))[:MAX_KIND]


def roots(error: BaseException) -> set[str]:
    """Return the top-level packages of the exception's class and its bases."""
    modules: Iterator[Any] = (_MODULE.__get__(base) for base in _BASES.__get__(type(error)))
    return {copy_text(module).partition(".")[0] for module in modules if is_a(module, str)}


def is_key(error: BaseException) -> bool:
    """Check whether the exception is a `KeyError` whose text is Python's own."""
    if not is_a(error, KeyError):
        return False
    return next(base for base in _BASES.__get__(type(error)) if "__str__" in _OWN.__get__(base)) is KeyError


def cause_of(error: BaseException) -> BaseException | None:
    """Return the exception's cause, or its context unless that is suppressed."""
    return (_CAUSE if _IS_SUPPRESSED.__get__(error) else _CONTEXT).__get__(error)


def chain(error: BaseException, most: int) -> Iterator[BaseException]:
    """Yield the exception and its causes, each once, outermost first."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(seen) < most:
        seen.add(id(link))
        yield link
        link = cause_of(link)


def parts(error: BaseException) -> tuple[BaseException, ...]:
    """Return the exceptions of a group, or nothing for any other exception."""
    return _PARTS.__get__(error) if is_a(error, BaseExceptionGroup) else ()


def members(error: BaseException, most: int) -> Iterator[BaseException]:
    """Yield the exception, its causes, and the members of the groups among them."""
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < most:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        below = cause_of(link)
        waiting += [*parts(link), *([below] if below else [])]


def leaves(error: BaseException, most: int) -> list[BaseException]:
    """Return the exceptions that a group, and the groups in it, consist of.

    An exception that is no group, or a group of more than `most`, is returned itself.
    """
    found: list[BaseException] = []
    waiting, read = [error], 0
    while waiting:
        link, read = waiting.pop(), read + 1
        if read > most:
            return [error]
        below = parts(link)
        waiting += below
        if not below:
            found.append(link)
    return found[::-1]


def trace(error: BaseException) -> TracebackType | None:
    return _TRACEBACK.__get__(error)


def attribute(error: BaseException, name: str) -> Any:
    """Return the value of an attribute, or None if the class raises."""
    try:
        return getattr(error, name, None)
    except BaseException:  # noqa: BLE001 - a foreign class's property
        return None


def text(error: BaseException) -> str:
    """Return the text of an exception, or an empty text if the class raises."""
    try:
        return copy_text(str(error))
    except BaseException:  # noqa: BLE001 - a foreign class's `__str__`; the class name still helps
        return ""


MAX_NAME = 100

_OURS = ("sojourn", "activities", "workflows")
_LIBRARIES = {"site-packages", "dist-packages"}
_STANDARD = PurePath(types.__file__).parent


def source_location(error: BaseException) -> str | None:
    """Return the innermost line of the author's own code in a traceback."""
    if any(root in ("sojourn", "temporalio") for root in roots(error)):
        return None
    place, step = None, trace(error)
    while step is not None:
        if _is_authors(step.tb_frame):
            place = f"{PurePath(step.tb_frame.f_code.co_filename).name[-MAX_NAME:]}:{step.tb_lineno}"
        step = step.tb_next
    return place and place.encode("utf-8", "replace").decode()


def _is_authors(frame: FrameType) -> bool:
    file, module = PurePath(frame.f_code.co_filename), frame.f_globals.get("__name__")
    if file.name.startswith("<") or _LIBRARIES.intersection(file.parts) or file.is_relative_to(_STANDARD):
        return False
    return not is_a(module, str) or copy_text(module).partition(".")[0] not in _OURS
