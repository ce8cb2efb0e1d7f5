"""Reading what a stranger raised: no code of its class runs but where that is said, and none of it escapes.

What an exception was raised from, where, and by which class is read where Python keeps it, whatever the class or its
metaclass overrides; and texts are copied, since a stranger's `str` may do anything.
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, TypeGuard, TypeVar

__all__ = ["attribute", "before", "chain", "copied", "is_a", "kind", "parts", "text", "trace"]

MAX_KIND = 100
"""Characters kept of a class's name."""

_T = TypeVar("_T")

_NAME: Any = type.__dict__["__name__"]
_CAUSE: Any = BaseException.__dict__["__cause__"]
_CONTEXT: Any = BaseException.__dict__["__context__"]
_IS_SUPPRESSED: Any = BaseException.__dict__["__suppress_context__"]
_TRACEBACK: Any = BaseException.__dict__["__traceback__"]
_PARTS: Any = BaseExceptionGroup.__dict__["exceptions"]


def is_a(value: object, kind: type[_T]) -> TypeGuard[_T]:
    """Whether a value is of a class, whatever it says of its `__class__`."""
    return type.__subclasscheck__(kind, type(value))


def copied(text: str) -> str:
    """The same text, as a `str` and of no class of a stranger's."""
    return str.__str__(text)


def kind(error: object) -> str:
    """The name of its class, at most 100 characters."""
    return copied(_NAME.__get__(type(error)))[:MAX_KIND]


def before(error: BaseException) -> BaseException | None:
    """What it was raised from, or while that was handled."""
    return (_CAUSE if _IS_SUPPRESSED.__get__(error) else _CONTEXT).__get__(error)


def chain(error: BaseException, most: int) -> Iterator[BaseException]:
    """It and what it was raised from, each once, the outermost first; at most so many."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(seen) < most:
        seen.add(id(link))
        yield link
        link = before(link)


def parts(error: BaseException) -> tuple[BaseException, ...]:
    """The exceptions of a group; none of any other."""
    return _PARTS.__get__(error) if is_a(error, BaseExceptionGroup) else ()


def trace(error: BaseException) -> TracebackType | None:
    """Where it was raised."""
    return _TRACEBACK.__get__(error)


def attribute(error: BaseException, name: str) -> Any:
    """What its class gives for a name; None where that raises. Its code runs."""
    try:
        return getattr(error, name, None)
    except BaseException:  # noqa: BLE001 - a stranger's property
        return None


def text(error: BaseException) -> str:
    """What it says; nothing where that raises. Its code runs."""
    try:
        return copied(str(error))
    except BaseException:  # noqa: BLE001 - a stranger's `__str__`; the class still tells something
        return ""
