"""Bodies of the protocols: what of a request is read; what else a client sends is left alone, since clients are newer than services."""

from typing import Annotated, Any, Literal, cast

from pydantic import ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from sojourn.contracts.message import DocumentPart, ImagePart, Message, TextPart
from sojourn.core.values.json_text import DuplicateNameError, loads
from sojourn.errors import InvalidInput
from sojourn.http.bodies import JsonBody

__all__ = [
    "AguiBody",
    "AguiContext",
    "AguiMessage",
    "AguiResume",
    "AguiTool",
    "VercelBody",
    "VercelMessage",
    "as_json",
    "file_part",
    "text_part",
    "user_message",
]

Id = Annotated[str, Field(min_length=1, max_length=200)]
WaitId = Annotated[str, Field(min_length=1, max_length=2_000)]


class _Body(JsonBody):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _has_each_name_once(cls, value: Any) -> Any:
        """Refuse `threadId` beside `thread_id`: one of them would be ignored."""
        for name in cls.model_fields if isinstance(value, dict) else ():
            if name in value and to_camel(name) != name and to_camel(name) in value:
                raise ValueError(f"{to_camel(name)} is given as {name} too")
        return cast("Any", value)


class AguiMessage(_Body):
    """A message of a thread."""

    id: Id
    """The id; of a message of the user, it is delivered once by it."""
    role: str
    """`user`, `assistant`, `tool` and others."""
    content: Any = None
    """A text, or a list of parts."""
    tool_call_id: str | None = None
    """Of a result: its call."""
    error: str | None = None
    """Of a result: why the call failed."""


class AguiResume(_Body):
    """The answer to an interrupt."""

    interrupt_id: WaitId
    """The interrupt."""
    status: Literal["resolved", "cancelled"]
    """`cancelled` declines a question, or denies a call."""
    payload: Any = None
    """What the `responseSchema` of the interrupt asks for."""


class AguiContext(_Body):
    """What a page says beside the messages, such as what its user looks at."""

    description: Annotated[str, Field(max_length=1_000)] = ""
    """What it is."""
    value: str
    """A text, or JSON as text."""


class AguiTool(_Body):
    """A tool that a page carries out."""

    name: Annotated[str, Field(max_length=200)]
    """The id of a tool of the agent whose results come from outside."""


class AguiBody(_Body):
    """`RunAgentInput` of AG-UI; what is not here is not read."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "threadId": "desk-1",
                    "runId": "run-1",
                    "messages": [{"id": "m-1", "role": "user", "content": "Where is order 7?"}],
                }
            ]
        }
    )

    thread_id: Id
    """The session."""
    run_id: Id
    """The id of the exchange, returned in its events."""
    messages: Annotated[list[AguiMessage], Field(max_length=10_000, default_factory=list[AguiMessage])]
    """The messages of the thread."""
    resume: Annotated[list[AguiResume], Field(max_length=1_000)] | None = None
    """The answers to the open interrupts."""
    context: Annotated[list[AguiContext], Field(max_length=100, default_factory=list[AguiContext])]
    """What goes with the last message of the user, each as a document."""
    tools: Annotated[list[AguiTool], Field(max_length=1_000, default_factory=list[AguiTool])]
    """What the page carries out: tools of the agent whose results come from outside, and no others."""


class VercelMessage(_Body):
    """A `UIMessage`."""

    id: Id
    """The id; of a message of the user, it is delivered once by it."""
    role: str
    """`user`, `assistant` or `system`."""
    parts: Annotated[list[dict[str, Any]], Field(max_length=10_000, default_factory=list[dict[str, Any]])]
    """Texts, files, calls, data and others."""


class VercelBody(_Body):
    """What `DefaultChatTransport` of the AI SDK sends; what is not here is not read."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "desk-1",
                    "trigger": "submit-message",
                    "messages": [
                        {
                            "id": "m-1",
                            "role": "user",
                            "parts": [{"type": "text", "text": "Where is order 7?"}],
                        }
                    ],
                }
            ]
        }
    )

    id: Id
    """The chat, which is the session."""
    messages: Annotated[list[VercelMessage], Field(min_length=1, max_length=10_000)]
    """The messages of the chat."""
    trigger: str = ""
    """`regenerate-message` asks for another answer to the last message of the user, which is refused once it has one."""


def as_json(text: str) -> Any:
    """A result that a client wrote as text: the value where it is JSON, or the text.

    Raises:
        InvalidInput: A name stands twice in one of its objects.
    """
    try:
        return loads(text)
    except DuplicateNameError as error:
        raise InvalidInput(f"a result: {error}") from error
    except ValueError:
        return text


def file_part(
    media_type: str, url: str | None, data: str | None, title: str | None
) -> ImagePart | DocumentPart:
    """A file of a message, of whose URL nothing is fetched here; one whose URL has its data is read as data."""
    if url and url.startswith("data:"):
        head, _, body = url.partition(",")
        if head.endswith(";base64"):
            media_type = media_type or head[5:].partition(";")[0]
            url, data = None, body
    if media_type.startswith("image/"):
        return ImagePart(type="image", media_type=media_type, url=url, data=data)
    return DocumentPart(type="document", media_type=media_type, url=url, data=data, title=title)


def user_message(parts: list[Any]) -> Message:
    """A message of the user."""
    return Message(role="user", parts=parts)


def text_part(text: str) -> TextPart:
    """A text of a message."""
    return TextPart(type="text", text=text)
