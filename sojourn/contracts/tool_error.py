"""ToolError: what went wrong in a tool call, as a value with its chain of causes."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, cast

from pydantic import ValidationError

from sojourn.contracts import raised
from sojourn.contracts.place import place_of
from sojourn.contracts.record import Record
from sojourn.contracts.refused import refused_by

__all__ = ["LEFT_OUT", "MAX_CAUSES", "MAX_CODE", "MAX_MESSAGE", "ToolError"]

MAX_MESSAGE = 2_000
"""Longest message kept, in characters."""

MAX_CODE = 100
"""Longest code kept, in characters."""

MAX_CAUSES = 8
"""Longest chain of causes kept; of a longer chain, the outermost errors and the root are kept."""

LEFT_OUT = "left_out"
"""The code of the error that stands for the middle of a shortened chain."""

_MAX_READ = 1_000
"""How many causes of an exception are read to find its root."""

_MAX_COMPARED = 50
"""How many errors of a chain are compared for repeated texts."""


class ToolError(Record):
    """A summary for planners and people, with the chain of causes (SR-87, SR-122, SR-123)."""

    message: str
    """What happened, in one or two sentences; at most 2,000 characters."""
    cause: "ToolError | None" = None
    """The cause; a chain of more than 8 errors loses its middle, never its root."""
    code: str | None = None
    """A short machine-readable kind: the exception's class name, or a tool's own code."""
    place: str | None = None
    """The line of the author's own code that raised, as `desk.py:41`; None where nothing was raised there."""
    outcome_unknown: bool = False
    """Whether the call, or an earlier attempt of it, may have taken effect although it failed; of a run or a turn, whether one of its calls may have."""
    without_effect: bool = False
    """Whether the call was cut off before it could take effect, so that nothing is open about it."""

    @property
    def text(self) -> str:
        """The message after its type and before its place, as in `RuntimeError: no stock (desk.py:41)`; without a place the message alone."""
        if not self.place:
            return self.message
        is_named = not self.code or self.message == self.code or self.message.startswith(f"{self.code}: ")
        return f"{self.message if is_named else f'{self.code}: {self.message}'} ({self.place})"

    @classmethod
    def new(cls, message: str, *, code: str | None = None) -> "ToolError":
        """An error without a cause (SR-88 `NewToolError`)."""
        return cls(message=_clip(message), code=code)

    @classmethod
    def with_cause(cls, message: str, cause: "BaseException | ToolError") -> "ToolError":
        """An error with a cause (SR-88 `NewToolErrorWithCause`); an exception becomes a chain."""
        return _chained(_shortened([cls(message=_clip(message)), *cls.from_error(cause).chain()]))

    @classmethod
    def from_error(
        cls, error: "BaseException | ToolError", hide: Callable[[str], str] | None = None
    ) -> "ToolError":
        """Turn an exception with its `__cause__` and `__context__` into a chain; a ToolError stays unchanged (SR-123).

        An exception whose `error` is a ToolError, such as `RunFailed`, continues the chain with the causes of
        that ToolError.

        Args:
            error: What was raised.
            hide: Masks secrets in a message before it is shortened, since half a secret would escape the mask.
        """
        if raised.is_a(error, ToolError):
            return error
        links: list[ToolError] = []
        for link in raised.chain(cast("BaseException", error), _MAX_READ):
            kind, text = raised.kind(link), _text(link)
            message = _clip(hide(text) if hide else text) or kind
            links.append(cls(message=message, code=_code(link) or kind, place=place_of(link)))
            if carried := _carried(link):
                return _chained([*links, *carried]).without_repeats()
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

    def without_repeats(self) -> "ToolError":
        """The chain bounded, and without texts that a cause repeats (SR-87).

        A message that ends with the text of its causes keeps only the part before that text; an error whose
        message has nothing else is left out. So a chain neither doubles from one run to the
        next nor loses its root.
        """
        kept: list[ToolError] = []
        causes_text, full_text = "", ""
        for link in reversed(_shortened([_clean(link) for link in self.chain()], _MAX_COMPARED)):
            message = _without(link.message, (causes_text, full_text, kept[-1].message if kept else ""))
            if message:
                kept.append(link.model_copy(update={"message": message, "cause": None}))
                causes_text = f"{message}: {causes_text}" if causes_text else message
            elif kept and (link.code or link.outcome_unknown):
                open_ = link.outcome_unknown or kept[-1].outcome_unknown
                changes = {"code": link.code or kept[-1].code, "outcome_unknown": open_}
                kept[-1] = kept[-1].model_copy(update=changes)
            full_text = f"{link.message}: {full_text}" if full_text else link.message
        return _chained(_shortened(kept[::-1] or [_clean(self)]))

    def __str__(self) -> str:
        """The messages joined, outermost first, without a message that the text before already ends with."""
        text = ""
        for link in self.chain():
            if text != link.message and not text.endswith(f": {link.message}"):
                text = f"{text}: {link.message}" if text else link.message
        return text


def _chained(links: Iterable[ToolError]) -> ToolError:
    """Join errors into one chain, each the cause of the one before."""
    built: ToolError | None = None
    for link in reversed(list(links)):
        built = link if link.cause is built else link.model_copy(update={"cause": built})
    assert built is not None
    return built


def _shortened(links: list[ToolError], most: int = MAX_CAUSES) -> list[ToolError]:
    """At most `most` errors: the outermost and the innermost, with one between that counts the errors left out."""
    if len(links) <= most:
        return links
    head, tail = links[: most // 2], links[-(most // 2 - 1) :]
    between = sum(_counted(link) for link in links[len(head) : -len(tail)])
    return [*head, ToolError(message=f"({between} more)", code=LEFT_OUT), *tail]


def _counted(link: ToolError) -> int:
    """How many errors a link of the chain stands for."""
    number = link.message.removeprefix("(").removesuffix(" more)")
    return int(number) if link.code == LEFT_OUT and number.isdecimal() and len(number) < 10 else 1


def _without(message: str, below: tuple[str, ...]) -> str:
    """A message without the texts of its causes at its end; empty where nothing else is left."""
    for text in filter(None, below):
        if message == text:
            return ""
        if message.endswith(f": {text}"):
            return message.removesuffix(f": {text}")
    return message


def _clean(link: ToolError) -> ToolError:
    message = _clip(link.message)
    code = _clip(link.code)[:MAX_CODE] if link.code else link.code
    same = message == link.message and code == link.code
    return link if same else link.model_copy(update={"message": message, "code": code})


def _carried(error: BaseException) -> list[ToolError]:
    """The chain that an exception carries as its `error`; empty where it cannot be read."""
    carried = raised.attribute(error, "error")
    if not raised.is_a(carried, ToolError):
        return []
    try:
        return [
            ToolError(message=_clip(link.message), code=link.code and _clip(link.code)[:MAX_CODE])
            for link in islice(ToolError.chain(carried), _MAX_READ)
        ]
    except BaseException:  # noqa: BLE001 - a foreign class's `error`, or one that only looks like a ToolError
        return []


def _text(error: BaseException) -> str:
    """The text of an exception, after its class where the text alone says nothing, as in `KeyError: 'x'`.

    Of a validation error neither the input nor the link to its documentation, after the record of Sojourn that was made wrongly.
    """
    if not raised.is_a(error, ValidationError):
        text = raised.text(error)
        if raised.is_key(error) or not any(map(str.isalpha, text)):
            return f"{raised.kind(error)}: {text}" if text.strip() else ""
        return text
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    made = refused_by(error)
    text = "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or error.title}: {fault['msg']}" for fault in faults[:5]
    )
    return f"{made}: {text}" if made else text


def _code(error: BaseException) -> str | None:
    code = raised.attribute(error, "code")
    return _clip(code)[:MAX_CODE] if raised.is_a(code, str) else None


def _clip(text: str) -> str:
    """The text cut to its limit in the middle, since the end often names the cause."""
    text = raised.copied(text)
    if len(text) > MAX_MESSAGE:
        tail = MAX_MESSAGE // 4
        text = f"{text[: MAX_MESSAGE - tail - 1]}…{text[-tail:]}"
    return text.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be sent
