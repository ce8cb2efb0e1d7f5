"""Request bodies of OpenAI's API, and errors in its shape.

Parameters that steer a model belong to the agent, and are ignored. So are tools, and the calls of other
models in a chat, which clients send with each request. If the service ignores something that a client
may not expect it to, the response says so in the header `X-Sojourn-Warning`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Annotated, Any, Literal, cast

import structlog
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.exceptions import HTTPException

from sojourn.contracts.message import Message, Part
from sojourn.errors import SojournError
from sojourn.http.bodies import Id, JsonBody
from sojourn.http.problems import Problem, problem_of
from sojourn.http.protocols.bodies import file_part, read_message, text_part
from sojourn.http.protocols.reply_token import MAX_TOKEN

__all__ = [
    "FILE_PATHS",
    "ChatBody",
    "ChatItem",
    "Metadata",
    "OpenAIRoute",
    "ResponseBody",
    "StreamOptions",
    "answer_of",
    "bad_request",
    "error_of",
    "messages_of",
]

FILE_PATHS = tuple(
    (of, "*", "content", "*", *rest)
    for of in ("messages", "input")
    for rest in (("image_url",), ("image_url", "url"), ("file_data",), ("file", "file_data"))
)
"""Where the data of files stands in a body."""

_READ_ROLES = ("user", "assistant")

_UNREAD_ROLES = {"developer", "function", "system", "tool"}
"""Roles of OpenAI's API whose messages are ignored.

A role that only the client knows is not named in the warning header.
"""

_UNREAD_ITEMS = ("function_call", "function_call_output", "custom_tool_call", "custom_tool_call_output")

_UNREAD_FIELDS = ("tools", "tool_choice", "functions")

_NOTHING: tuple[Any, ...] = (None, [], "none", "auto")
_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,([A-Za-z0-9+/=\s]+|sojourn-file:[0-9a-f]{64}:[0-9]+)\Z")

Metadata = Annotated[dict[str, str], Field(max_length=64)]
ResponseId = Annotated[str, Field(min_length=1, max_length=MAX_TOKEN + 100)]
"""Id of a response: a token with a prefix."""


class _OpenAIBody(JsonBody):
    model_config = ConfigDict(extra="ignore")


class StreamOptions(BaseModel):
    """Options of a stream."""

    include_usage: bool = False
    """Whether its last chunk tells the usage."""


class ChatItem(BaseModel):
    """A message, in either of the two APIs."""

    type: str = "message"
    """The kind of an item; others than messages are not read."""
    role: str = "user"
    """Who says it. Only `user` and `assistant` are read: an agent has instructions and tools of its own."""
    content: str | list[dict[str, Any]] | None = None
    """A text, or parts."""

    @property
    def parts(self) -> list[dict[str, Any]]:
        if isinstance(self.content, str):
            return [{"type": "text", "text": self.content}] if self.content else []
        return self.content or []


class _Asking(_OpenAIBody, ABC):
    model: Annotated[str, Field(max_length=200)]
    """The agent."""
    stream: bool | None = False
    """Whether the answer is sent while it is made."""
    metadata: Metadata | None = None
    """`session_id` names a conversation; `message_id` is repeated by a request that is sent again."""
    tools: Any = None
    """Not read: an agent's tools are its own."""
    tool_choice: Any = None
    """Not read."""
    functions: Any = None
    """Not read; the older name of `tools`."""

    instructions: Any = None
    """Not read: an agent has instructions of its own."""

    @property
    @abstractmethod
    def turns(self) -> list[ChatItem]:
        """The messages and items of the request."""

    @property
    def warning(self) -> str:
        """Warning about ignored fields and messages, or empty if nothing was ignored."""
        unread = [name for name in _UNREAD_FIELDS if getattr(self, name) not in _NOTHING]
        roles = {turn.role for turn in self.turns if turn.type == "message"} - {*_READ_ROLES}
        others = [
            *(["instructions"] if self.instructions not in _NOTHING else []),
            *(f"messages of {role}" for role in sorted(roles & _UNREAD_ROLES)),
            *(["messages of other roles"] if roles - _UNREAD_ROLES else []),
            *(["items of tools"] if any(turn.type in _UNREAD_ITEMS for turn in self.turns) else []),
        ]
        warnings = [f"{', '.join(unread)} not read: an agent's tools are its own"] if unread else []
        if others:
            warnings.append(f"{', '.join(others)} not read: an agent's instructions and tools are its own")
        return "; ".join(warnings)

    def metadata_value(self, name: str) -> str:
        return (self.metadata or {}).get(name, "")


class ChatBody(_Asking):
    """A request for a chat completion."""

    messages: Annotated[list[ChatItem], Field(min_length=1, max_length=1_000)]
    """The chat. Its last message is the user's."""
    stream_options: StreamOptions | None = None
    """Options of a stream."""
    n: Literal[1] | None = None
    """One answer, and no more."""
    response_format: dict[str, Any] | None = None
    """Only text: the form of an agent's answer is its own."""

    @property
    def turns(self) -> list[ChatItem]:
        return self.messages

    @model_validator(mode="after")
    def _asks_for_text(self) -> "ChatBody":
        _check_format("response_format", self.response_format)
        return self


class _Conversation(BaseModel):
    id: Id


class ResponseBody(_Asking):
    """A request for a response."""

    input: str | Annotated[list[ChatItem], Field(min_length=1, max_length=1_000)]
    """A text, or messages."""
    previous_response_id: ResponseId | None = None
    """The response that this one follows, and whose question it answers."""
    conversation: Id | _Conversation | None = None
    """The conversation, by an id of your choice."""
    background: bool | None = False
    """Whether to answer at once, before the response is complete."""
    text: dict[str, Any] | None = None
    """Its `format` is text: the form of an agent's answer is its own."""

    @model_validator(mode="after")
    def _is_one(self) -> "ResponseBody":
        _check_format("text.format", _at(self.text, "format"))
        if self.previous_response_id and self.conversation:
            raise ValueError("give either previous_response_id or conversation")
        return self

    @property
    def session_id(self) -> str:
        """The conversation's id, or empty for a new one."""
        of = self.conversation
        return (of if isinstance(of, str) else of.id if of else "") or self.metadata_value("session_id")

    @property
    def turns(self) -> list[ChatItem]:
        return [ChatItem(content=self.input)] if isinstance(self.input, str) else self.input


def messages_of(turns: list[ChatItem], param: str) -> list[Message]:
    """Return the messages of the user and the agent."""
    items = [turn for turn in turns if turn.type == "message" and turn.role in _READ_ROLES]
    found = [read_message(turn.parts, partial(_part, param), turn.role) for turn in items]
    if not found or found[-1].role != "user" or not found[-1].parts:
        raise bad_request(f"{param}: the last message is the user's, and has content", param)
    return [message for message in found if message.parts]


def _check_format(param: str, given: Any) -> None:
    kind = _at(given, "type")
    if kind not in (None, "text"):
        raise ValueError(
            f"{param}: the form of an agent's answer is its own, and {str(kind)[:40]} is not honoured; leave this out, or ask for text"
        )


def _part(param: str, part: dict[str, Any]) -> Part:
    kind = part.get("type")
    text = part.get("refusal" if kind == "refusal" else "text")
    if kind in ("text", "input_text", "output_text", "refusal") and isinstance(text, str):
        return text_part(text)
    if kind in ("image_url", "input_image"):
        return _file(_at(part.get("image_url"), "url"), param)
    if kind in ("file", "input_file"):
        inner: Any = part.get("file") or part
        name = _at(inner, "filename")
        return _file(_at(inner, "file_data"), param, name if isinstance(name, str) else None)
    raise bad_request(
        f"{param}: a part of type {str(kind)[:40]!r} is not read", param, code="unsupported_value"
    )


def _at(value: Any, name: str) -> Any:
    """Return a member of an object, or the value itself if it is not an object."""
    return cast("dict[str, Any]", value).get(name) if isinstance(value, dict) else value


def _file(url: Any, param: str, title: str | None = None) -> Part:
    found = _DATA.match(url) if isinstance(url, str) else None
    if found is None:
        raise bad_request(f"{param}: a file is sent as a data: URL in base64; no URL is fetched", param)
    return file_part(found[1], data="".join(found[2].split()), title=title)


_log = structlog.get_logger("sojourn.http")


class OpenAIRoute(APIRoute):
    """A route whose errors have OpenAI's shape."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_request(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                return _of_validation(error)
            except (Problem, SojournError, HTTPException) as error:
                return _answer(error)
            except Exception as error:  # noqa: BLE001 - the application's own response would have another shape
                _log.error("request_failed", path=request.url.path, exc_info=error)
                return _answer(error)

        return handle_request


def _answer(error: Exception) -> JSONResponse:
    return answer_of(problem_of(error))


def answer_of(problem: Problem) -> JSONResponse:
    return JSONResponse(error_of(problem), problem.status, headers=problem.headers)


def bad_request(
    message: str, param: str | None = None, *, status: int = 400, code: str = "invalid_value"
) -> Problem:
    return Problem(status, code, message, then="Correct the request.", param=param)


_NO_PATH = "this service has only models, chat/completions and responses of OpenAI's API"


def error_of(problem: Problem) -> dict[str, Any]:
    kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
    usual = "server_error" if problem.status >= 500 else "invalid_request_error"
    fields = {
        "message": _NO_PATH if problem.code == "not_found" else problem.detail,
        "type": kinds.get(problem.status, usual),
        "param": problem.more.get("param"),
        "code": problem.code,
    }
    return {"error": fields}


def _of_validation(error: RequestValidationError) -> JSONResponse:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return JSONResponse(error_of(bad_request("the body is not JSON", code="malformed_json")), 400)
    place = ".".join(str(each)[:100] for each in first["loc"][1:])
    problem = bad_request(
        f"{place}: {first['msg']}"[:500] if place else str(first["msg"])[:500], place or None
    )
    return JSONResponse(error_of(problem), 400)
