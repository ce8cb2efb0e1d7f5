"""Request bodies of AG-UI, and how to read the requested turn from them."""

import base64
from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

from pydantic import ConfigDict, Field

from sojourn.contracts.message import DocumentPart, ImagePart, Part
from sojourn.errors import InvalidInput
from sojourn.http.bodies import Id
from sojourn.http.protocols.bodies import (
    CamelBody,
    WaitId,
    file_part,
    read_message,
    read_result,
    text_part,
)
from sojourn.http.protocols.messages import IncomingMessage
from sojourn.http.protocols.turn_request import ClientAnswer, Result, TurnRequest
from sojourn.http.security.file_bodies import FileMark

EDITED = "editedArgs"
"""The field of an approval with edited arguments, as AG-UI calls it."""

__all__ = [
    "EDITED",
    "FILE_PATHS",
    "AguiBody",
    "AguiContext",
    "AguiMessage",
    "AguiResume",
    "AguiTool",
    "file_content",
    "read",
    "with_addresses",
]

_PART = ("messages", "*", "content", "*")
FILE_PATHS = ((*_PART, "source", "value"), (*_PART, "data"))
"""Where the data of files stands in a body."""


class AguiMessage(CamelBody):
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


class AguiResume(CamelBody):
    """The answer to an interrupt."""

    interrupt_id: WaitId
    """The interrupt."""
    status: Literal["resolved", "cancelled"]
    """`cancelled` declines a question, or denies a call."""
    payload: Any = None
    """The value that the `responseSchema` of the interrupt describes."""


class AguiContext(CamelBody):
    """A page's context beside the messages, such as its user's present view."""

    description: Annotated[str, Field(max_length=1_000)] = ""
    """The name of the context."""
    value: str
    """A text, or JSON as text."""


class AguiTool(CamelBody):
    """A tool that a page carries out."""

    name: Annotated[str, Field(max_length=200)]
    """The id of a tool of the agent whose results come from outside."""


class AguiBody(CamelBody):
    """`RunAgentInput` of AG-UI. Other fields are ignored."""

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
    """Tools that the page carries out. They are only tools of the agent with results from outside."""
    forwarded_props: Any = None
    """`{"regenerate": true}` asks for another answer to the last message, in another branch of the thread."""

    @property
    def regenerates(self) -> bool:
        given: Any = self.forwarded_props
        return isinstance(given, dict) and cast("dict[str, Any]", given).get("regenerate") is True


def read(body: AguiBody) -> TurnRequest:
    """Parse AG-UI: the user's last messages, answers, results of calls."""
    return TurnRequest(
        sent=_last_user_messages(body.messages, body.context),
        answers=[
            ClientAnswer(
                each.interrupt_id,
                payload=each.payload,
                is_declined=each.status == "cancelled",
                edited_as=EDITED,
                more=each.model_extra or {},
            )
            for each in body.resume or ()
        ],
        results=() if body.resume else _results(body.messages),
        edits="again" if body.regenerates else "words",
    )


def _last_user_messages(messages: list[AguiMessage], context: list[AguiContext]) -> list[IncomingMessage]:
    """Return the last consecutive messages of the user.

    The newest one carries the page's context.
    """
    found: list[IncomingMessage] = []
    for message in reversed(messages):
        if message.role == "user":
            beside = [] if found else [_document(each) for each in context]
            content = read_message(_parts(message.content), _part)
            found.insert(0, IncomingMessage(content, message.id, context=beside))
        elif found:
            break
    return found


def _document(context: AguiContext) -> DocumentPart:
    """Return a page's context as a document, and not as the user's words."""
    data = base64.b64encode(context.value.encode(errors="replace")).decode()
    return DocumentPart(
        type="document", media_type="text/plain", data=data, title=context.description or None
    )


def _parts(content: Any) -> list[Any]:
    return cast("list[Any]", content) if isinstance(content, list) else [{"type": "text", "text": content}]


def _part(part: Any) -> Part:
    match part:
        case {"type": "text", "text": str(text)}:
            return text_part(text)
        case {
            "type": "image" | "document" | "audio" | "video",
            "source": {"type": "data", "value": str(data), "mimeType": str(kind)},
        }:
            return file_part(kind, data=data)
        case {
            "type": "image" | "document" | "audio" | "video" as what,
            "source": {"type": "url", "value": str(url), **rest},
        }:
            kind = rest.get("mimeType") or ("image/*" if what == "image" else "application/octet-stream")
            return file_part(str(kind), url=url)
        case {"type": "binary", "mimeType": str(kind), **rest}:
            url, data = rest.get("url"), rest.get("data")
            if isinstance(url, str) or isinstance(data, str):
                return file_part(kind, url=url, data=data, title=rest.get("filename"))
        case _:
            pass
    raise InvalidInput("a message of the user has texts, images and documents, each with its data or its URL")


def with_addresses(message: dict[str, Any], address: Callable[[ImagePart | DocumentPart], str]) -> Any:
    """Return a client's message with addresses in place of the marks of files."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": [_with_address(part, address) for part in cast("list[Any]", content)]}


def _with_address(part: Any, address: Callable[[ImagePart | DocumentPart], str]) -> Any:
    match part:
        case {"source": {"value": str(text)}} | {"data": str(text)} if FileMark.parse(text):
            try:
                return file_content(_part(part), address)
            except InvalidInput:  # of an earlier message, which nothing reads
                return part
        case _:
            return part


def file_content(part: Any, address: Callable[[ImagePart | DocumentPart], str]) -> dict[str, Any]:
    """Return a file of a message in the form of AG-UI: its data, or else its address."""
    kind, value = ("data", part.data) if part.data else ("url", address(part))
    return {"type": part.type, "source": {"type": kind, "value": value, "mimeType": part.media_type}}


def _results(messages: list[AguiMessage]) -> list[Result]:
    """Return the tool results after the last message of the assistant or the user.

    The client made these results, or has seen them.
    """
    found: list[Result] = []
    for message in reversed(messages):
        if message.role in ("assistant", "user"):
            break
        if message.role == "tool" and message.tool_call_id:
            content = message.content
            if "sojourn-file:" in str(content):
                raise InvalidInput("the result of a call has too much data: pass files by their address")
            payload = read_result(content) if isinstance(content, str) else content
            found.append(Result(message.tool_call_id, payload, message.error or ""))
    return found
