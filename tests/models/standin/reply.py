"""What a script says: answers and faults, the same words for every protocol.

Every word is a pydantic model, so that a script travels to another process as JSON.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, TypeAdapter

ErrorKind = Literal[
    "bad_request",
    "context_length",
    "forbidden",
    "overloaded",
    "quota",
    "rate_limit",
    "server_error",
    "unauthorized",
    "unknown_model",
]
"""What a provider complains of; each protocol has its status and its body for it."""


class Word(BaseModel):
    """A word of a script."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Text(Word):
    """Text of the answer."""

    kind: Literal["text"] = "text"
    text: str


class Thinking(Word):
    """What the model thought. Chat Completions has no place for it and leaves it out."""

    kind: Literal["thinking"] = "thinking"
    text: str
    signature: str = "c2lnbmVk"
    """Anthropic's signature; the encrypted content of a reasoning item of Responses."""


class ToolCall(Word):
    """A call of a tool, with its arguments as the model wrote them."""

    kind: Literal["tool_call"] = "tool_call"
    name: str
    """The name on the wire."""
    arguments: str = "{}"
    """Sent exactly so, JSON or not. Only a plain answer of Anthropic cannot: its wire holds an object there, so that
    other text arrives as `{"INVALID_JSON": text}`; a streamed one sends it as it is."""
    id: str | None = None
    """None: an id of the protocol's own kind, new for every call."""


class Refusal(Word):
    """The model will not; its words why."""

    kind: Literal["refusal"] = "refusal"
    text: str


Part = Annotated[Text | Thinking | ToolCall | Refusal, Field(discriminator="kind")]


class Usage(Word):
    """Tokens of a request."""

    input: NonNegativeInt = 10
    """With those read from the cache, for every protocol."""
    output: NonNegativeInt = 5
    cached: NonNegativeInt = 0
    """Of `input`, those read from the cache."""


class Answer(Word):
    """What every answer may do before it begins."""

    delay: float = 0
    """Seconds until the first byte."""
    headers: dict[str, str] = {}
    """Response headers beside the usual ones."""


class Reply(Answer):
    """The model's answer."""

    kind: Literal["reply"] = "reply"
    parts: tuple[Part, ...] = ()
    """In order. None is an answer that says nothing."""
    finish: str | None = None
    """`stop`, `tool_call`, `length` or `content_filter` in the protocol's own word; any other word as it is. None is
    what follows from the parts."""
    usage: Usage = Usage()
    piece: int = Field(default=12, gt=0)
    """Characters of a streamed delta."""
    pace: float = 0
    """Seconds between the events of a stream."""
    hold: float | None = Field(default=None, ge=0, lt=1)
    """The part of the answer after which it waits for `release()`; 0 waits before the first byte."""
    cut: float | None = Field(default=None, ge=0, lt=1)
    """The part of the answer after which the connection ends; 0 ends it before the first byte."""
    ends: float | None = Field(default=None, gt=0, lt=1)
    """The part of the answer that is sent as if it were the whole."""
    breaks: ErrorKind | None = None
    """The error that a stream sends in its midst, in place of the rest. A plain answer is that error."""


class HttpError(Answer):
    """The provider refuses the request, with its genuine error body."""

    kind: Literal["http_error"] = "http_error"
    error: ErrorKind
    status: int | None = None
    """None is the provider's own status for this error."""


class Body(Answer):
    """A body as given: no JSON, or nothing."""

    kind: Literal["body"] = "body"
    content: str = ""
    status: int = 200
    content_type: str = "application/json"


AnyAnswer = Annotated[Reply | HttpError | Body, Field(discriminator="kind")]


def says(text: str, **fields: Any) -> Reply:
    """Answer with a text."""
    return Reply(parts=(Text(text=text),), **fields)


def spoken(answer: Any) -> Any:
    """An answer, where a bare string is a text."""
    return says(answer) if isinstance(answer, str) else answer


SCRIPT = TypeAdapter(list[Annotated[AnyAnswer, BeforeValidator(spoken)]])
"""A list of answers, to and from JSON."""


def calls(*tool_calls: ToolCall, **fields: Any) -> Reply:
    """Answer with tool calls."""
    return Reply(parts=tool_calls, **fields)


def natural_finish(reply: Reply) -> str:
    """The finish that was scripted, or the one that follows from the parts."""
    kinds = {part.kind for part in reply.parts}
    if reply.finish is not None:
        return reply.finish
    return "tool_call" if "tool_call" in kinds else "stop"


def pieces(text: str, size: int) -> Sequence[str]:
    """Cut a text for a stream; what is joined again is the text."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def object_of(arguments: str) -> dict[str, Any]:
    """The object that arguments are, or one that holds a text that is none."""
    try:
        parsed = json.loads(arguments)
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"INVALID_JSON": arguments}
