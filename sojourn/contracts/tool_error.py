"""ToolError: what went wrong in a tool call, as a value that survives every hop."""

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from sojourn.contracts.record import Record

__all__ = ["MAX_CAUSES", "MAX_CODE", "MAX_MESSAGE", "ToolError"]

MAX_MESSAGE = 2_000
"""Characters kept of one message."""

MAX_CODE = 100
"""Characters kept of an exception's own code."""

MAX_CAUSES = 8
"""Links kept of a chain of causes."""


class ToolError(Record):
    """A summary for planners and people, with the chain of causes (SR-87, SR-122, SR-123)."""

    message: str
    """What happened, in one or two sentences; at most 2,000 characters."""
    cause: "ToolError | None" = None
    """What led to it; at most 8 links."""
    code: str | None = None
    """A short machine-readable kind: the exception's class, or a tool's own code."""

    @classmethod
    def new(cls, message: str, *, code: str | None = None) -> "ToolError":
        """An error with no cause (SR-88 `NewToolError`)."""
        return cls(message=_clip(message), code=code)

    @classmethod
    def with_cause(cls, message: str, cause: "BaseException | ToolError") -> "ToolError":
        """An error that wraps another (SR-88 `NewToolErrorWithCause`); an exception becomes a chain."""
        return cls(message=_clip(message), cause=_bounded(cls.from_error(cause), MAX_CAUSES - 1))

    @classmethod
    def from_error(cls, error: "BaseException | ToolError") -> "ToolError":
        """An exception with its `__cause__` and `__context__` as a chain; a ToolError unchanged (SR-123)."""
        if isinstance(error, ToolError):
            return error
        built: ToolError | None = None
        for link in reversed(list(_links(error))):
            code, kind = _code(link), type(link).__name__[:MAX_CODE]
            built = cls(message=_clip(_text(link)) or kind, cause=built, code=code or kind)
        assert built is not None
        return built

    @classmethod
    def format(cls, fmt: str, *args: Any) -> "ToolError":
        """An error whose message is `fmt % args` (SR-88 `ToolErrorf`)."""
        return cls.new(fmt % args if args else fmt)

    def chain(self) -> "Iterator[ToolError]":
        """This error, then its causes, outermost first."""
        link: ToolError | None = self
        while link is not None:
            yield link
            link = link.cause

    def __str__(self) -> str:
        """The messages, outermost first."""
        return ": ".join(link.message for link in self.chain())


def _links(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen and len(seen) < MAX_CAUSES:
        seen.add(id(link))
        yield link
        link = link.__cause__ if link.__suppress_context__ else link.__context__


def _bounded(error: ToolError, links: int) -> ToolError:
    if error.cause is None:
        return error
    cause = _bounded(error.cause, links - 1) if links > 1 else None
    return error if cause is error.cause else error.model_copy(update={"cause": cause})


def _text(error: BaseException) -> str:
    try:
        if isinstance(error, ValidationError):
            # Its own text repeats the input and ends in a link.
            faults = error.errors(include_url=False, include_input=False, include_context=False)
            return "; ".join(
                f"{'.'.join(map(str, fault['loc'])) or error.title}: {fault['msg']}" for fault in faults[:5]
            )
        return str(error)
    except BaseException:  # noqa: BLE001 - a stranger's `__str__`; the class still tells something
        return ""


def _code(error: BaseException) -> str | None:
    try:
        code = getattr(error, "code", None)
        return _clip(code)[:MAX_CODE] if isinstance(code, str) else None
    except BaseException:  # noqa: BLE001 - a stranger's property
        return None


def _clip(text: str) -> str:
    clipped = text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"
    return clipped.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be sent
