"""Message: one entry of a transcript."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Tag

from sojourn.contracts.record import Record
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult

__all__ = [
    "DocumentPart",
    "ImagePart",
    "Message",
    "OtherPart",
    "Part",
    "TextPart",
    "ThinkingPart",
    "ToolCallPart",
    "ToolResultPart",
]


class _Part(Record):
    provider_metadata: dict[str, Any] | None = None
    """What a model provider needs back unchanged."""


class TextPart(_Part):
    """Plain text."""

    type: Literal["text"]
    """Which kind of part it is."""
    text: str
    """The text."""


class ToolCallPart(_Part):
    """A call that the assistant asked for; answered by exactly one tool_result."""

    type: Literal["tool_call"]
    """Which kind of part it is."""
    tool_call_id: str
    """Unique in the run."""
    name: str
    """The tool's id."""
    payload: dict[str, Any] = {}
    """The arguments."""
    raw: str | None = None
    """The arguments as a model wrote them, when the boundary parses them."""

    @property
    def request(self) -> ToolRequest:
        """The call itself."""
        return ToolRequest(name=self.name, payload=self.payload, raw=self.raw, tool_call_id=self.tool_call_id)


class ToolResultPart(_Part):
    """The answer to one tool_call."""

    type: Literal["tool_result"]
    """Which kind of part it is."""
    result: ToolResult
    """What the call gave; it names the call."""


class ThinkingPart(_Part):
    """A model's reasoning, kept because providers want it back."""

    type: Literal["thinking"]
    """Which kind of part it is."""
    text: str = ""
    """The reasoning."""
    signature: str | None = None
    """The provider's proof that it is unchanged."""


class ImagePart(_Part):
    """A picture: `data` (base64) or `url`; a URL is never fetched by Sojourn."""

    type: Literal["image"]
    """Which kind of part it is."""
    media_type: str
    """Such as `image/png`."""
    data: str | None = None
    """Base64."""
    url: str | None = None
    """Where a provider may find it."""


class DocumentPart(_Part):
    """A document: `data` (base64) or `url`; a URL is never fetched by Sojourn."""

    type: Literal["document"]
    """Which kind of part it is."""
    media_type: str
    """Such as `application/pdf`."""
    data: str | None = None
    """Base64."""
    url: str | None = None
    """Where a provider may find it."""
    title: str | None = None
    """A name to show."""


class OtherPart(_Part):
    """A part of a kind that a newer version wrote; carried unchanged."""

    model_config = ConfigDict(extra="allow")

    type: str
    """Its kind, in the newer version's word."""


_KNOWN = frozenset({"text", "tool_call", "tool_result", "thinking", "image", "document"})


def _kind(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return kind if kind in _KNOWN else "other"  # pyright: ignore[reportUnknownVariableType]


Part = Annotated[
    Annotated[TextPart, Tag("text")]
    | Annotated[ToolCallPart, Tag("tool_call")]
    | Annotated[ToolResultPart, Tag("tool_result")]
    | Annotated[ThinkingPart, Tag("thinking")]
    | Annotated[ImagePart, Tag("image")]
    | Annotated[DocumentPart, Tag("document")]
    | Annotated[OtherPart, Tag("other")],
    Discriminator(_kind),
]
"""One piece of a message, told apart by `type`."""


class Message(Record):
    """One entry of a transcript: who speaks, in parts."""

    role: str
    """`system` `user` `assistant` `tool`."""
    parts: list[Part]
    """What is said, in order."""

    @classmethod
    def system(cls, text: str) -> "Message":
        """Instructions or a notice."""
        return cls(role="system", parts=[TextPart(type="text", text=text)])

    @classmethod
    def user(cls, text: str) -> "Message":
        """What a person said."""
        return cls(role="user", parts=[TextPart(type="text", text=text)])

    @classmethod
    def assistant(cls, text: str) -> "Message":
        """What the agent said."""
        return cls(role="assistant", parts=[TextPart(type="text", text=text)])

    @classmethod
    def calls(cls, requests: list[ToolRequest]) -> "Message":
        """An assistant message that asks for these calls."""
        parts: list[Any] = [
            ToolCallPart(
                type="tool_call", tool_call_id=r.tool_call_id, name=r.name, payload=r.payload, raw=r.raw
            )
            for r in requests
        ]
        return cls(role="assistant", parts=parts)

    @classmethod
    def results(cls, results: list[ToolResult]) -> "Message":
        """A tool message with the results of one step, in call order."""
        parts: list[Any] = [ToolResultPart(type="tool_result", result=r) for r in results]
        return cls(role="tool", parts=parts)

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def tool_calls(self) -> list[ToolCallPart]:
        """The calls asked for."""
        return [part for part in self.parts if isinstance(part, ToolCallPart)]

    @property
    def tool_results(self) -> list[ToolResult]:
        """The results carried."""
        return [part.result for part in self.parts if isinstance(part, ToolResultPart)]
