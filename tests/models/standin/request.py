"""A request of any protocol, in one form."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.models.standin.reply import ToolCall

Protocol = Literal["openai-chat", "openai-responses", "anthropic", "google"]


@dataclass(frozen=True)
class ToolOffer:
    """A tool that the request defines."""

    name: str
    description: str
    schema: dict[str, Any]
    strict: bool | None = None


@dataclass(frozen=True)
class ToolResult:
    """The answer to a tool call."""

    id: str
    text: str
    is_error: bool = False
    """Whether the call failed; only Anthropic's format has it."""


@dataclass
class Message:
    """A message of the request."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    thinking: str = ""
    signature: str = ""
    """The signature, or the encrypted content, that was sent back with the thinking."""
    tool_calls: list[ToolCall] = field(default_factory=list)
    tool_results: list[ToolResult] = field(default_factory=list)


@dataclass(eq=False)
class Request:
    """A request, with the times and the outcome of its answer."""

    protocol: Protocol
    body: dict[str, Any]
    """The body, as the client sent it."""
    headers: dict[str, str]
    """The headers, by lowercase name."""
    messages: list[Message]
    """The messages; instructions come first, with the role `system`."""
    tools: list[ToolOffer]
    tool_choice: Any
    """The tool choice, as the protocol has it; None when the request has none."""
    number: int = 0
    """The number of the request, from 0."""
    arrived_at: float = field(default_factory=time.monotonic)
    """Seconds of the monotonic clock of the stand-in's process."""
    ended_at: float | None = None
    end: Literal["answered", "cut", "left"] | None = None
    """`cut` when the script closed the connection, `left` when the client did before the end; None until then."""
    left: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set when the client has disconnected."""
    model: str = ""
    """The model that the request names."""
    stream: bool = False
    """Whether the request asks for a streamed response."""

    def __post_init__(self) -> None:
        """Take model and stream from the body, where the protocol has them there."""
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
    def tool_calls(self) -> list[ToolCall]:
        """All calls of the conversation, in order."""
        return [call for message in self.messages for call in message.tool_calls]

    @property
    def tool_results(self) -> list[ToolResult]:
        """All results of the conversation, in order."""
        return [result for message in self.messages for result in message.tool_results]
