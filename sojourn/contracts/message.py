"""One entry of a transcript, and the reply to a message that was sent."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Tag

from sojourn.contracts.attachment import AttachmentRecord
from sojourn.contracts.record import Record
from sojourn.contracts.tool_call import ArgumentReading, ToolRequest
from sojourn.contracts.tool_result import ToolResult

__all__ = [
    "USER_PARTS",
    "Accepted",
    "CompactionPart",
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


_READ = ("payload", "raw", "readings", "written")
"""Fields that a call shares with its part of a message, besides name and id."""


class _BasePart(Record):
    provider_metadata: dict[str, Any] | None = None
    """Data that the model provider needs back unchanged."""


class TextPart(_BasePart):
    """Plain text."""

    type: Literal["text"]
    text: str
    """The text."""


class ToolCallPart(_BasePart):
    """A call that the assistant requested; exactly one tool_result answers it."""

    type: Literal["tool_call"]
    tool_call_id: str
    """Unique in the run."""
    name: str
    """The tool's id."""
    payload: dict[str, Any] = {}
    """The arguments."""
    raw: str | None = None
    """The arguments as the model wrote them, when the boundary parses them."""
    readings: list[ArgumentReading] = []
    """How the arguments were read, if they had another form."""
    written: str | None = None
    """The arguments before they were read, as `ToolRequest.written`."""

    @property
    def request(self) -> ToolRequest:
        """The call as a `ToolRequest`."""
        return ToolRequest(
            name=self.name,
            payload=self.payload,
            raw=self.raw,
            tool_call_id=self.tool_call_id,
            readings=self.readings,
            written=self.written,
        )

    def as_read(self, call: ToolRequest) -> "ToolCallPart":
        """This part with the arguments of its call as they were read."""
        return self.model_copy(update={name: getattr(call, name) for name in _READ})


class ToolResultPart(_BasePart):
    """The result of one tool_call."""

    type: Literal["tool_result"]
    result: ToolResult
    """The result, with the id of its call."""


class ThinkingPart(_BasePart):
    """A model's reasoning, kept because providers require it back."""

    type: Literal["thinking"]
    text: str = ""
    """The reasoning."""
    signature: str | None = None
    """The provider's proof that the reasoning is unchanged."""


class ImagePart(_BasePart):
    """A picture: `data` (base64), `url` or `attachment`; a URL is never fetched by Sojourn."""

    type: Literal["image"]
    media_type: str
    """MIME type, such as `image/png`."""
    data: str | None = None
    """Base64."""
    url: str | None = None
    """A URL that the provider may fetch."""
    attachment: AttachmentRecord | None = None
    """The file in external storage."""


class DocumentPart(_BasePart):
    """A document: `data` (base64), `url` or `attachment`; a URL is never fetched by Sojourn."""

    type: Literal["document"]
    media_type: str
    """MIME type, such as `application/pdf`."""
    data: str | None = None
    """Base64."""
    url: str | None = None
    """A URL that the provider may fetch."""
    attachment: AttachmentRecord | None = None
    """The file in external storage."""
    title: str | None = None
    """A name to show."""


class CompactionPart(_BasePart):
    """A compaction of the transcript: what models read from this message on in place of earlier messages.

    It is the first part of the message by the model that read the compacted transcript for the first time. Indices are those of the whole
    transcript, which stays as it is.
    """

    type: Literal["compaction"]
    summary: str = ""
    """What models read in place of the first `until` messages."""
    until: int = 0
    """Number of messages that the summary stands for."""
    kept: list[int] = []
    """Indices of messages, of those, that models still read as they are."""
    cleared: int = 0
    """Results in messages before this index are read as a line that says so."""
    at: int = 0
    """Number of messages of the transcript when it was compacted."""
    max_result: int | None = None
    """Most characters that are read of each result in the first `at` messages; None for no limit."""


class OtherPart(_BasePart):
    """A part whose kind a newer version defined; carried unchanged."""

    model_config = ConfigDict(extra="allow")

    type: str
    """The kind, as the newer version names it."""


_KNOWN = frozenset({"text", "tool_call", "tool_result", "thinking", "image", "document", "compaction"})


def _kind(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return kind if isinstance(kind, str) and kind in _KNOWN else "other"


Part = Annotated[
    Annotated[TextPart, Tag("text")]
    | Annotated[ToolCallPart, Tag("tool_call")]
    | Annotated[ToolResultPart, Tag("tool_result")]
    | Annotated[ThinkingPart, Tag("thinking")]
    | Annotated[ImagePart, Tag("image")]
    | Annotated[DocumentPart, Tag("document")]
    | Annotated[CompactionPart, Tag("compaction")]
    | Annotated[OtherPart, Tag("other")],
    Discriminator(_kind),
]
"""One part of a message. `type` tells the kinds apart."""


USER_PARTS = (TextPart, ImagePart, DocumentPart)
"""Parts that a message from outside may have.

Calls, results, reasoning and summaries are the run's own.
"""


class Message(Record):
    """One entry of a transcript: a role, and its parts."""

    role: str
    """`system`, `user`, `assistant` or `tool`."""
    parts: list[Part]
    """The parts, in order."""

    @classmethod
    def system(cls, text: str) -> "Message":
        """Return a message with instructions or a notice."""
        return cls(role="system", parts=[TextPart(type="text", text=text)])

    @classmethod
    def user(cls, text: str) -> "Message":
        """Return a message from a person."""
        return cls(role="user", parts=[TextPart(type="text", text=text)])

    @classmethod
    def assistant(cls, text: str) -> "Message":
        """Return a message from the agent."""
        return cls(role="assistant", parts=[TextPart(type="text", text=text)])

    @classmethod
    def calls(cls, requests: list[ToolRequest]) -> "Message":
        """Return an assistant message that requests these calls."""
        parts: list[Any] = [
            ToolCallPart(
                type="tool_call",
                tool_call_id=r.tool_call_id,
                name=r.name,
                **{name: getattr(r, name) for name in _READ},
            )
            for r in requests
        ]
        return cls(role="assistant", parts=parts)

    @classmethod
    def results(cls, results: list[ToolResult]) -> "Message":
        """Return a tool message with the results of one step, in call order."""
        parts: list[Any] = [ToolResultPart(type="tool_result", result=r) for r in results]
        return cls(role="tool", parts=parts)

    @property
    def text(self) -> str:
        """The text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def attachments(self) -> list[AttachmentRecord]:
        """The files of the message, and of its results, in external storage."""
        sent = [part.attachment for part in self.parts if isinstance(part, (ImagePart, DocumentPart))]
        made = [artifact.attachment for result in self.tool_results for artifact in result.artifacts]
        return [file for file in (*sent, *made) if file is not None]

    @property
    def tool_calls(self) -> list[ToolCallPart]:
        """The calls that the message requests."""
        return [part for part in self.parts if isinstance(part, ToolCallPart)]

    @property
    def tool_results(self) -> list[ToolResult]:
        """The results that the message holds."""
        return [part.result for part in self.parts if isinstance(part, ToolResultPart)]


class Accepted(Record):
    """The acknowledgement of a message."""

    message_id: str
    """The id of the message."""
    after: str
    """The event id of the run after which the events of the message come."""
    repeated: bool = False
    """Whether the conversation had accepted a message of this id before."""
    is_answer: bool = False
    """With `repeated`: whether it was the answer to a question or to a call to approve, and no message."""
