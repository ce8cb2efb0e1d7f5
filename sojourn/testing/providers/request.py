"""A request to a model, in one form for every protocol.

A script and a test read `request.tools` or `request.tool_results` alike, whatever client sent them. The
body is there as it was sent, too.
"""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

__all__ = ["ChatMessage", "Item", "Protocol", "Request", "ToolCall", "ToolOffer", "ToolOutput"]

Protocol = Literal["openai-chat", "openai-responses", "anthropic", "google"]


class Item(BaseModel):
    """A part of a script, which can be sent to another process as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def _as_text(arguments: Any) -> Any:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


class ToolCall(Item):
    """A call of a tool, with its arguments as the model wrote them."""

    kind: Literal["tool_call"] = "tool_call"
    name: str
    arguments: Annotated[str, BeforeValidator(_as_text)] = "{}"
    """A text, JSON or not, sent unchanged; an object is written as JSON.

    Google, and an unstreamed answer of Anthropic, have an object: a text that is none is `{"INVALID_JSON":
    text}`.
    """
    id: str | None = None
    """The call's id; for None a new id of the protocol's form."""


@dataclass(frozen=True)
class ToolOffer:
    """A tool that the request defines."""

    name: str
    description: str
    schema: dict[str, Any]
    strict: bool | None = None


@dataclass(frozen=True)
class ToolOutput:
    """The answer to a tool call."""

    id: str
    text: str
    is_error: bool = False


@dataclass
class ChatMessage:
    """A message of the request."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    thinking: str = ""
    signature: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list[ToolCall])
    tool_results: list[ToolOutput] = field(default_factory=list[ToolOutput])


@dataclass(eq=False)
class Request:
    """A request, with the times and the outcome of its answer."""

    protocol: Protocol
    body: dict[str, Any]
    headers: dict[str, str]
    messages: list[ChatMessage]
    """The messages; instructions come first, with the role `system`."""
    tools: list[ToolOffer]
    tool_choice: Any
    number: int = 0
    arrived_at: float = field(default_factory=time.monotonic)
    ended_at: float | None = None
    end: Literal["answered", "cut", "left"] | None = None
    """`cut` if the script closed the connection, `left` if the client did before the end, or None."""
    left: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    model: str = ""
    stream: bool = False

    def __post_init__(self) -> None:
        self.model = self.model or self.body.get("model", "")
        self.stream = self.stream or bool(self.body.get("stream"))

    def finish(self, end: Literal["answered", "cut", "left"]) -> None:
        """Record how the answer ended, and when."""
        self.end, self.ended_at = end, time.monotonic()

    @property
    def instructions(self) -> str:
        """The text of all system messages."""
        return "\n\n".join(message.text for message in self.messages if message.role == "system")

    @property
    def text(self) -> str:
        """The text of the last user message that has one."""
        return next(
            (message.text for message in reversed(self.messages) if message.role == "user" and message.text),
            "",
        )

    @property
    def max_tokens(self) -> int | None:
        """Most tokens of the answer, or None if the request does not say."""
        sent = self.body | self.body.get("generationConfig", {})
        names = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
        return next((sent[name] for name in names if name in sent), None)

    @property
    def tool_calls(self) -> list[ToolCall]:
        """All calls of the conversation, in order."""
        return [call for message in self.messages for call in message.tool_calls]

    @property
    def tool_results(self) -> list[ToolOutput]:
        """All results of the conversation, in order."""
        return [result for message in self.messages for result in message.tool_results]
