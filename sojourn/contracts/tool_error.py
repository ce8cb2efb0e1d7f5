"""Errors of tool calls, and hints to repair the calls."""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import islice
from typing import Any, cast

from pydantic import ValidationError

from sojourn.contracts import safe_exceptions
from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.record import Record, refusing_record
from sojourn.contracts.safe_exceptions import source_location
from sojourn.contracts.tool_call import ToolRequest

__all__ = [
    "LEFT_OUT",
    "MAX_CAUSES",
    "MAX_CODE",
    "MAX_MESSAGE",
    "FieldIssue",
    "RetryHint",
    "RetryReason",
    "ToolError",
]

MAX_MESSAGE = 2_000

MAX_CODE = 100

MAX_CAUSES = 8
"""Longest chain of causes. A longer one keeps its outermost errors and its root."""

LEFT_OUT = "left_out"
"""Code of the error that replaces the middle of a shortened chain."""

_MAX_READ = 1_000
"""Most causes of an exception that are read to find its root."""

_MAX_COMPARED = 50
"""Most errors of a chain that are compared for repeated texts."""


class ToolError(Record):
    """A summary for planners and people, with the chain of causes (SR-87, SR-122, SR-123)."""

    message: str
    """What happened, in one or two sentences; at most 2,000 characters."""
    cause: "ToolError | None" = None
    """The cause; a chain of more than 8 errors loses its middle, never its root."""
    code: str | None = None
    """A short machine-readable kind: the exception's class name, or a tool's own code."""
    place: str | None = None
    """The line of the author's own code that raised, such as `desk.py:41`, or None."""
    outcome_unknown: bool = False
    """Whether the call, or an earlier attempt of it, may have taken effect although it failed; of a run or a turn, whether one of its calls may have."""
    without_effect: bool = False
    """Whether the call was cut off before it could take effect, so that nothing is open about it."""

    @property
    def text(self) -> str:
        """The message with its type and place.

        For example `RuntimeError: no stock (desk.py:41)`. Without a place, the message alone.
        """
        if not self.place:
            return self.message
        is_named = not self.code or self.message == self.code or self.message.startswith(f"{self.code}: ")
        return f"{self.message if is_named else f'{self.code}: {self.message}'} ({self.place})"

    @classmethod
    def new(cls, message: str, *, code: str | None = None) -> "ToolError":
        """Return an error without a cause (SR-88 `NewToolError`)."""
        return cls(message=_clip(message), code=code)

    @classmethod
    def with_cause(cls, message: str, cause: "BaseException | ToolError") -> "ToolError":
        """Return an error with a cause (SR-88 `NewToolErrorWithCause`).

        An exception becomes a chain.
        """
        return _chain(_shorten([cls(message=_clip(message)), *cls.from_error(cause).chain()]))

    @classmethod
    def from_error(
        cls, error: "BaseException | ToolError", hide: Callable[[str], str] | None = None
    ) -> "ToolError":
        """Turn an exception with its causes into a chain (SR-123).

        The causes are its `__cause__` and `__context__`. A ToolError stays unchanged.

        An exception whose `error` is a ToolError, such as `RunFailed`, continues the chain with the
        causes of that ToolError.

        Args:
            error: The exception.
            hide: Masks secrets in a message before it is shortened, since half a secret would escape the mask.
        """
        if safe_exceptions.is_a(error, ToolError):
            return error
        links: list[ToolError] = []
        for link in safe_exceptions.chain(cast("BaseException", error), _MAX_READ):
            kind, text = safe_exceptions.kind(link), _text(link)
            message = _clip(hide(text) if hide else text) or kind
            links.append(cls(message=message, code=_code(link) or kind, place=source_location(link)))
            if carried := _find_carried(link):
                return _chain([*links, *carried]).without_repeats()
        return _chain(_shorten(links))

    @classmethod
    def format(cls, fmt: str, *args: Any) -> "ToolError":
        """Return an error whose message is `fmt % args` (SR-88 `ToolErrorf`)."""
        return cls.new(fmt % args if args else fmt)

    def chain(self) -> "Iterator[ToolError]":
        """This error, then its causes, outermost first."""
        link: ToolError | None = self
        while link is not None:
            yield link
            link = link.cause

    def without_repeats(self) -> "ToolError":
        """Return the chain bounded, and without texts that a cause repeats (SR-87).

        A message that ends with the text of its causes keeps only the part before that text; an error whose
        message has nothing else is left out. So a chain neither doubles from one run to the
        next nor loses its root.
        """
        kept: list[ToolError] = []
        causes_text, full_text = "", ""
        for link in reversed(_shorten([_clean(link) for link in self.chain()], _MAX_COMPARED)):
            message = _without(link.message, (causes_text, full_text, kept[-1].message if kept else ""))
            if message:
                kept.append(link.model_copy(update={"message": message, "cause": None}))
                causes_text = f"{message}: {causes_text}" if causes_text else message
            elif kept and (link.code or link.outcome_unknown):
                open_ = link.outcome_unknown or kept[-1].outcome_unknown
                changes = {"code": link.code or kept[-1].code, "outcome_unknown": open_}
                kept[-1] = kept[-1].model_copy(update=changes)
            full_text = f"{link.message}: {full_text}" if full_text else link.message
        return _chain(_shorten(kept[::-1] or [_clean(self)]))

    def __str__(self) -> str:
        """Return the messages joined, outermost first.

        A message that the text before already ends with is left out.
        """
        text = ""
        for link in self.chain():
            if text != link.message and not text.endswith(f": {link.message}"):
                text = f"{text}: {link.message}" if text else link.message
        return text


def _chain(links: Iterable[ToolError]) -> ToolError:
    built: ToolError | None = None
    for link in reversed(list(links)):
        built = link if link.cause is built else link.model_copy(update={"cause": built})
    assert built is not None
    return built


def _shorten(links: list[ToolError], most: int = MAX_CAUSES) -> list[ToolError]:
    if len(links) <= most:
        return links
    head, tail = links[: most // 2], links[-(most // 2 - 1) :]
    between = sum(_count(link) for link in links[len(head) : -len(tail)])
    return [*head, ToolError(message=f"({between} more)", code=LEFT_OUT), *tail]


def _count(link: ToolError) -> int:
    number = link.message.removeprefix("(").removesuffix(" more)")
    return int(number) if link.code == LEFT_OUT and number.isdecimal() and len(number) < 10 else 1


def _without(message: str, below: tuple[str, ...]) -> str:
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


def _find_carried(error: BaseException) -> list[ToolError]:
    carried = safe_exceptions.attribute(error, "error")
    if not safe_exceptions.is_a(carried, ToolError):
        return []
    try:
        return [
            ToolError(message=_clip(link.message), code=link.code and _clip(link.code)[:MAX_CODE])
            for link in islice(ToolError.chain(carried), _MAX_READ)
        ]
    except BaseException:  # noqa: BLE001 - a foreign class's `error`, or one that only looks like a ToolError
        return []


def _text(error: BaseException) -> str:
    # It follows the name of the class if the text alone says nothing, as in `KeyError: 'x'`. The text of a
    # validation error has neither the input nor the link to its documentation. It follows the name of the
    # Sojourn record that was made wrongly.
    if not safe_exceptions.is_a(error, ValidationError):
        text = safe_exceptions.text(error)
        if safe_exceptions.is_key(error) or not any(map(str.isalpha, text)):
            return f"{safe_exceptions.kind(error)}: {text}" if text.strip() else ""
        return text
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    made = refusing_record(error)
    text = "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or error.title}: {fault['msg']}" for fault in faults[:5]
    )
    return f"{made}: {text}" if made else text


def _code(error: BaseException) -> str | None:
    code = safe_exceptions.attribute(error, "code")
    return _clip(code)[:MAX_CODE] if safe_exceptions.is_a(code, str) else None


def _clip(text: str) -> str:
    """Cut a text to its limit in the middle, since the end often names the cause."""
    text = safe_exceptions.copy_text(text)
    if len(text) > MAX_MESSAGE:
        tail = MAX_MESSAGE // 4
        text = f"{text[: MAX_MESSAGE - tail - 1]}…{text[-tail:]}"
    return text.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be sent


class RetryReason:
    """Why a call failed, as far as a planner needs to know (SR-90).

    The set is open.
    """

    INVALID_ARGUMENTS = "invalid_arguments"
    """The payload does not fit the tool's schema."""
    MISSING_FIELDS = "missing_fields"
    """Every issue of the payload is a required field that is missing."""
    MALFORMED_RESPONSE = "malformed_response"
    """The tool's result does not fit the tool's own schema."""
    TIMEOUT = "timeout"
    """The tool did not answer in time."""
    RATE_LIMITED = "rate_limited"
    """The tool is over a rate limit; see `retry_after`."""
    TOOL_UNAVAILABLE = "tool_unavailable"
    """There is no such tool, or it cannot be reached or used now."""


class FieldIssue(Record):
    """One issue of one field (SR-138, SR-139)."""

    field: str
    """JSON pointer into the payload; empty for the payload itself."""
    constraint: str
    """`missing_field` `invalid_enum_value` `invalid_format` `invalid_pattern` `invalid_range` `invalid_length`
    `invalid_field_type` `unknown_field` `example_value` `only_one`; an open set.
    """
    allowed: list[Any] | None = None
    """The values that `enum` or `const` allows."""
    minimum: float | None = None
    """Smallest value, length or count that fits."""
    maximum: float | None = None
    """Largest value, length or count that fits."""
    pattern: str | None = None
    """The regular expression that a string must match."""
    format: str | None = None
    """The JSON Schema format a string must have."""
    expected_type: str | None = None
    """JSON type or types that the schema requires."""
    actual_type: str | None = None
    """JSON type of the value in the payload."""


class RetryHint(Record):
    """Advice for a planner to repair a call.

    `example_input` is a payload that fits, `invented` names the values in it without a source (and those of the call that
    it leaves out), and `template` is the example for a model, with placeholders for them. `mended()` is the example as a
    call if nothing is invented, and `question()` asks a person.
    """

    reason: str
    """A value of `RetryReason`; an open set."""
    tool: str
    """The id of the called tool."""
    restrict_to_tool: bool = False
    """Whether the next call should be to this tool again."""
    missing_fields: list[str] = []
    """Names of required fields that are missing, without their path; `issues` has the pointer of a nested one."""
    example_input: dict[str, Any] | None = None
    """A payload that fits type and schema: the prior input repaired, the author's example, or one derived from the schema.

    It may hold values without a source; `invented` names them. To send it as it is, use `mended()`; to show it to a
    model, use `template`.
    """
    prior_input: dict[str, Any] | None = None
    """The payload of the failed call."""
    clarifying_question: str | None = None
    """One short question for a person who can supply the missing values."""
    message: str | None = None
    """What to change, in a sentence a model can act on."""
    issues: list[FieldIssue] = []
    """Every issue of the payload."""
    retry_after: timedelta | None = None
    """How long to wait before the same call can succeed."""
    outcome_unknown: bool = False
    """Whether the call, or an earlier attempt of it, may have taken effect although it failed."""
    invented: list[str] = []
    """JSON pointers to the values of `example_input` that do not follow from the call, at most 100.

    A value follows from the call if it was sent, in this form or in another one with the same meaning, or if it is the
    schema's default of an absent field. The empty pointer stands for all of a text that could not be read. All others come from the author's example or were made to fit: a person never gave them. Of a
    tool that changes something, a value that was sent and is left out is named here too: an optional one that does not fit, or
    an unknown field.
    """
    template: dict[str, Any] | None = None
    """`example_input` for a model, which copies examples: with a placeholder such as `<order_id>` for each invented value.

    It cannot pass as it is: where the tool would accept the placeholder, the field is left out. None if nothing is
    invented, or if no such payload exists.
    """
    advice: str | None = None
    """What to try now, in view of the agent's other tools and of earlier failures; Sojourn fills it in for a planner's turn."""

    def question(self) -> AwaitClarification:
        """Return the question whose answer repairs the call (SR-94).

        Nested fields are named by JSON pointer.
        """
        return AwaitClarification(
            id=f"fix-{self.tool}",
            question=self.clarifying_question or self.message or f"What should {self.tool} be called with?",
            missing_fields=self._missing_names(),
            restrict_to_tool=self.tool,
            example_input=self.example_input,
            clarifying_prompt=self.message,
        )

    def _missing_names(self) -> list[str]:
        pointers = [
            issue.field
            for issue in self.issues
            if issue.constraint in ("missing_field", "only_one") and issue.field
        ]
        nested = [pointer for pointer in pointers if pointer.count("/") > 1]
        own = [
            pointer[1:].replace("~1", "/").replace("~0", "~") for pointer in pointers if pointer not in nested
        ]
        return [*own, *nested] if nested or len(own) > len(self.missing_fields) else self.missing_fields

    def mended(self) -> ToolRequest | None:
        """Return the repaired call.

        None without an example, and for an example with invented values. An invented value may name
        the wrong order: ask for it (`question()`).
        """
        if self.example_input is None or self.invented:
            return None
        return ToolRequest(name=self.tool, payload=self.example_input)
