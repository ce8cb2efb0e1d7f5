"""ToolError: what went wrong in a tool call, as a value that survives every hop."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, cast

from pydantic import ValidationError

from sojourn.contracts import raised
from sojourn.contracts.record import Record

__all__ = ["LEFT_OUT", "MAX_CAUSES", "MAX_CODE", "MAX_MESSAGE", "ToolError"]

MAX_MESSAGE = 2_000
"""Characters kept of one message."""

MAX_CODE = 100
"""Characters kept of an exception's own code."""

MAX_CAUSES = 8
"""Links kept of a chain of causes: the outermost ones and the root, of a longer one."""

LEFT_OUT = "left_out"
"""The code of the link that stands for those that were left out in the middle of a chain."""

_MAX_READ = 1_000
"""Links of an exception's chain that are looked at, to find its root."""

_MAX_COMPARED = 50
"""Links of a chain whose texts are compared."""


class ToolError(Record):
    """A summary for planners and people, with the chain of causes (SR-87, SR-122, SR-123)."""

    message: str
    """What happened, in one or two sentences; at most 2,000 characters."""
    cause: "ToolError | None" = None
    """What led to it; of more than 8 links the middle is left out, never the root."""
    code: str | None = None
    """A short machine-readable kind: the exception's class, or a tool's own code."""

    @classmethod
    def new(cls, message: str, *, code: str | None = None) -> "ToolError":
        """An error with no cause (SR-88 `NewToolError`)."""
        return cls(message=_clip(message), code=code)

    @classmethod
    def with_cause(cls, message: str, cause: "BaseException | ToolError") -> "ToolError":
        """An error that wraps another (SR-88 `NewToolErrorWithCause`); an exception becomes a chain."""
        return _chained(_shortened([cls(message=_clip(message)), *cls.from_error(cause).chain()]))

    @classmethod
    def from_error(
        cls, error: "BaseException | ToolError", hide: Callable[[str], str] | None = None
    ) -> "ToolError":
        """An exception with its `__cause__` and `__context__` as a chain; a ToolError unchanged (SR-123).

        An exception that carries a ToolError as its `error`, as `RunFailed` does, goes on with that one's links.

        Args:
            error: What was raised.
            hide: Masks what an exception says, before it is cut: the half of a secret tells much.
        """
        if raised.is_a(error, ToolError):
            return error
        links: list[ToolError] = []
        for link in raised.chain(cast("BaseException", error), _MAX_READ):
            kind, said = raised.kind(link), _text(link)
            links.append(cls(message=_clip(hide(said) if hide else said) or kind, code=_code(link) or kind))
            if carried := _carried(link):
                return _chained([*links, *carried]).told_once()
        return _chained(_shortened(links))

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

    def told_once(self) -> "ToolError":
        """The chain bounded, and without what a link says that its cause says again (SR-87).

        A message that ends with the text of its causes keeps what stands before it; a link that
        says no more than its cause is left out. So a chain neither doubles from one run to the
        next nor loses its root.
        """
        told: list[ToolError] = []
        below, heard = "", ""
        for link in reversed(_shortened([_clean(link) for link in self.chain()], _MAX_COMPARED)):
            said = _without(link.message, (below, heard, told[-1].message if told else ""))
            if said:
                told.append(link.model_copy(update={"message": said, "cause": None}))
                below = f"{said}: {below}" if below else said
            elif told and link.code:
                told[-1] = told[-1].model_copy(update={"code": link.code})
            heard = f"{link.message}: {heard}" if heard else link.message
        return _chained(_shortened(told[::-1] or [_clean(self)]))

    def __str__(self) -> str:
        """The messages, outermost first; what the message before ends with is not said again."""
        said = ""
        for link in self.chain():
            if said != link.message and not said.endswith(f": {link.message}"):
                said = f"{said}: {link.message}" if said else link.message
        return said


def _chained(links: Iterable[ToolError]) -> ToolError:
    """The links as one error, each the cause of the one before."""
    built: ToolError | None = None
    for link in reversed(list(links)):
        built = link if link.cause is built else link.model_copy(update={"cause": built})
    assert built is not None
    return built


def _shortened(links: list[ToolError], most: int = MAX_CAUSES) -> list[ToolError]:
    """At most so many links: the outermost and the innermost, and one that says how many stood between."""
    if len(links) <= most:
        return links
    head, tail = links[: most // 2], links[-(most // 2 - 1) :]
    between = sum(_counted(link) for link in links[len(head) : -len(tail)])
    return [*head, ToolError(message=f"({between} more)", code=LEFT_OUT), *tail]


def _counted(link: ToolError) -> int:
    """How many links one stands for."""
    number = link.message.removeprefix("(").removesuffix(" more)")
    return int(number) if link.code == LEFT_OUT and number.isdecimal() and len(number) < 10 else 1


def _without(message: str, below: tuple[str, ...]) -> str:
    """A message less what its causes say at its end; empty where it says nothing else."""
    for said in filter(None, below):
        if message == said:
            return ""
        if message.endswith(f": {said}"):
            return message.removesuffix(f": {said}")
    return message


def _clean(link: ToolError) -> ToolError:
    message = _clip(link.message)
    code = _clip(link.code)[:MAX_CODE] if link.code else link.code
    same = message == link.message and code == link.code
    return link if same else link.model_copy(update={"message": message, "code": code})


def _carried(error: BaseException) -> list[ToolError]:
    """The links that an exception carries as its `error`; none where they cannot be read."""
    carried = raised.attribute(error, "error")
    if not raised.is_a(carried, ToolError):
        return []
    try:
        return [
            ToolError(message=_clip(link.message), code=link.code and _clip(link.code)[:MAX_CODE])
            for link in islice(ToolError.chain(carried), _MAX_READ)
        ]
    except BaseException:  # noqa: BLE001 - a stranger's record, or one that is none
        return []


def _text(error: BaseException) -> str:
    """What an exception says; of a validation error neither the input nor its link."""
    if not raised.is_a(error, ValidationError):
        return raised.text(error)
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or error.title}: {fault['msg']}" for fault in faults[:5]
    )


def _code(error: BaseException) -> str | None:
    code = raised.attribute(error, "code")
    return _clip(code)[:MAX_CODE] if raised.is_a(code, str) else None


def _clip(text: str) -> str:
    """The text within its limit, less its middle: what led to an error often stands at its end."""
    text = raised.copied(text)
    if len(text) > MAX_MESSAGE:
        tail = MAX_MESSAGE // 4
        text = f"{text[: MAX_MESSAGE - tail - 1]}…{text[-tail:]}"
    return text.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be sent
