"""What came: a request of any protocol, in one shape."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.models.standin.reply import ToolCall

Protocol = Literal["openai-chat", "openai-responses", "anthropic"]


@dataclass(frozen=True)
class ToolOffer:
    """A tool that the model may call."""

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
    """Only Anthropic's wire tells."""


@dataclass
class Message:
    """A message as the model reads it."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    thinking: str = ""
    signature: str = ""
    """The signature, or the encrypted content, that came back with the thinking."""
    tool_calls: list[ToolCall] = field(default_factory=list)
    tool_results: list[ToolResult] = field(default_factory=list)


@dataclass(eq=False)
class Request:
    """A request, with the times of its answer."""

    protocol: Protocol
    body: dict[str, Any]
    """As it came."""
    headers: dict[str, str]
    """By lowercase name."""
    messages: list[Message]
    """Instructions come first, in messages of the role `system`."""
    tools: list[ToolOffer]
    tool_choice: Any
    """In the protocol's own words; None when the request has none."""
    number: int = 0
    """The first that came is 0."""
    arrived_at: float = field(default_factory=time.monotonic)
    """Seconds of the monotonic clock of the stand-in's process."""
    ended_at: float | None = None
    end: Literal["answered", "cut", "left"] | None = None
    """`cut` by the script, `left` by the client before the answer was through; None while it is answered."""
    left: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """The client has gone."""

    def finish(self, end: Literal["answered", "cut", "left"]) -> None:
        """Note how the answer ended, and when."""
        self.end, self.ended_at = end, time.monotonic()

    @property
    def model(self) -> str:
        """The model that was asked for."""
        return self.body["model"]

    @property
    def stream(self) -> bool:
        """Whether the answer is to be streamed."""
        return bool(self.body.get("stream"))

    @property
    def instructions(self) -> str:
        """The text of all system messages."""
        return "\n\n".join(message.text for message in self.messages if message.role == "system")

    @property
    def text(self) -> str:
        """The last text of the user."""
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
