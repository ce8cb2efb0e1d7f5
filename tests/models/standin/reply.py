"""The parts of a script: answers and faults, the same for every protocol.

Each part is a pydantic model, so that a script can be sent to another process as JSON.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, TypeAdapter

ErrorKind = Literal[
    "bad_request",
    "content_filter",
    "context_length",
    "forbidden",
    "image",
    "overloaded",
    "quota",
    "rate_limit",
    "server_error",
    "unauthorized",
    "unknown_model",
]
"""The errors of providers; each protocol has a status and a body for each."""


class Item(BaseModel):
    """A part of a script."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Text(Item):
    """A text of the answer."""

    kind: Literal["text"] = "text"
    text: str


class Thinking(Item):
    """Thinking of the model, which Chat Completions leaves out."""

    kind: Literal["thinking"] = "thinking"
    text: str
    signature: str = "c2lnbmVk"
    """Anthropic's signature, or the encrypted content of a reasoning item of Responses."""


class ToolCall(Item):
    """A call of a tool, with its arguments as the model wrote them."""

    kind: Literal["tool_call"] = "tool_call"
    name: str
    """The tool's name for providers."""
    arguments: str = "{}"
    """Sent unchanged, JSON or not; but an unstreamed answer of Anthropic has an object there, so that other text
    is sent as `{"INVALID_JSON": text}`."""
    id: str | None = None
    """The call's id; for None a new id of the protocol's form."""


class Refusal(Item):
    """A refusal of the model, with its text."""

    kind: Literal["refusal"] = "refusal"
    text: str


Part = Annotated[Text | Thinking | ToolCall | Refusal, Field(discriminator="kind")]


class Usage(Item):
    """Tokens of a request."""

    input: NonNegativeInt = 10
    """Input tokens, including those read from the cache, for every protocol."""
    output: NonNegativeInt = 5
    written: NonNegativeInt = 0
    """Input tokens written to the cache, which only Anthropic's format has; among the input tokens."""
    cached: NonNegativeInt = 0
    """The tokens of `input` that were read from the cache."""


class Answer(Item):
    """The fields of every answer."""

    delay: float = 0
    """Seconds until the first byte."""
    headers: dict[str, str] = {}
    """Additional response headers."""


class Reply(Answer):
    """The model's answer."""

    kind: Literal["reply"] = "reply"
    parts: tuple[Part, ...] = ()
    """The parts in order; an answer without parts is empty."""
    finish: str | None = None
    """The finish reason: `stop`, `tool_call`, `length` and `content_filter` are sent as the protocol's own value, any
    other unchanged. None is the one that follows from the parts."""
    usage: Usage = Usage()
    piece: int = Field(default=12, gt=0)
    """Most characters of a streamed delta."""
    pace: float = 0
    """Seconds between the events of a stream."""
    hold: float | None = Field(default=None, ge=0, lt=1)
    """The fraction of the answer after which it waits for `release()`; 0 waits before the first byte."""
    cut: float | None = Field(default=None, ge=0, lt=1)
    """The fraction of the answer after which the connection is closed; 0 closes it before the first byte."""
    ends: float | None = Field(default=None, gt=0, lt=1)
    """The fraction of the answer that is sent as if it were complete."""
    breaks: ErrorKind | None = None
    """The error that a stream sends halfway, in place of the rest. An unstreamed answer is this error."""


class HttpError(Answer):
    """A refusal of the request, with the provider's own error body."""

    kind: Literal["http_error"] = "http_error"
    error: ErrorKind
    status: int | None = None
    """The status; None is the provider's own status for this error."""


class Body(Answer):
    """A response with any body, such as one that is no JSON, or an empty one."""

    kind: Literal["body"] = "body"
    content: str = ""
    status: int = 200
    content_type: str = "application/json"


AnyAnswer = Annotated[Reply | HttpError | Body, Field(discriminator="kind")]


def says(text: str, **fields: Any) -> Reply:
    """Return an answer with a text."""
    return Reply(parts=(Text(text=text),), **fields)


def as_answer(answer: Any) -> Any:
    """Return an answer; a bare string becomes an answer with this text."""
    return says(answer) if isinstance(answer, str) else answer


SCRIPT = TypeAdapter(list[Annotated[AnyAnswer, BeforeValidator(as_answer)]])
"""Reads and writes a list of answers as JSON."""


def calls(*tool_calls: ToolCall, **fields: Any) -> Reply:
    """Return an answer with tool calls."""
    return Reply(parts=tool_calls, **fields)


def natural_finish(reply: Reply) -> str:
    """Return the finish reason of the script, or the one that follows from the parts."""
    kinds = {part.kind for part in reply.parts}
    if reply.finish is not None:
        return reply.finish
    return "tool_call" if "tool_call" in kinds else "stop"


def pieces(text: str, size: int) -> Sequence[str]:
    """Return a text in pieces for a stream."""
    return [text[start : start + size] for start in range(0, len(text), size)]


def object_of(arguments: str) -> dict[str, Any]:
    """Return the object of a JSON text; for any other text an object that holds the text."""
    try:
        parsed = json.loads(arguments)
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) else {"INVALID_JSON": arguments}
