"""One message by every protocol: its route, headers and body. A new protocol is a row of `PROTOCOLS`, and gets the tests of all of them."""

import base64
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["MODERN", "PROTOCOLS", "READING", "RPC", "File", "Protocol", "Request", "say"]

RPC = {"Accept": "application/json, text/event-stream"}
"""Headers of JSON-RPC whose answer may be a stream."""

MODERN = "2026-07-28"
"""A version of MCP without sessions."""


class Request(NamedTuple):
    """A request."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class File(NamedTuple):
    """A file of a message."""

    name: str
    media_type: str
    content: bytes

    @property
    def data(self) -> str:
        """The content in base64."""
        return base64.b64encode(self.content).decode()

    @property
    def url(self) -> str:
        """The content as a URL."""
        return f"data:{self.media_type};base64,{self.data}"


class Words(NamedTuple):
    """What a user says to an agent in a conversation."""

    agent_id: str
    session_id: str
    text: str
    message_id: str
    """The id by which it is delivered once; empty if the client gives none."""
    files: Sequence[File] = ()
    """The files that go with it."""

    @property
    def id(self) -> str:
        """The id, for a protocol that has no message without one."""
        return self.message_id or uuid.uuid4().hex


@dataclass(frozen=True)
class Protocol:
    """A way to send a message."""

    route: str
    """The method and path, as the application has them."""
    write: Callable[[Words], tuple[dict[str, str], Any]]
    """Makes the headers and the body."""
    query: str = ""
    is_stream: bool = False
    """Whether the answer is a stream, which counts as one; another request waits for the end of the turn."""
    is_documented: bool = True
    """Whether our OpenAPI document has it; others have a specification of their own."""
    has_answers: bool = False
    """Whether a text answers an open question, without its id."""

    @property
    def is_jsonrpc(self) -> bool:
        """Whether errors are told in an answer with the status 200."""
        return self.route.startswith(("POST /a2a", "POST /mcp"))


def _message(said: Words) -> tuple[dict[str, str], Any]:
    return {}, {"text": said.text, **({"message_id": said.message_id} if said.message_id else {})}


def _keyed(said: Words) -> dict[str, str]:
    return {"Idempotency-Key": said.message_id} if said.message_id else {}


def _chat(said: Words) -> tuple[dict[str, str], Any]:
    files = [{"type": "file", "file": {"filename": each.name, "file_data": each.url}} for each in said.files]
    content = [{"type": "text", "text": said.text}, *files] if files else said.text
    messages = [{"role": "user", "content": content}]
    return _keyed(said), {
        "model": said.agent_id,
        "messages": messages,
        "metadata": {"session_id": said.session_id},
    }


def _streamed_chat(said: Words) -> tuple[dict[str, str], Any]:
    headers, body = _chat(said)
    return headers, {**body, "stream": True}


def _response(said: Words) -> tuple[dict[str, str], Any]:
    files = [{"type": "input_file", "filename": each.name, "file_data": each.url} for each in said.files]
    content = [{"type": "input_text", "text": said.text}, *files]
    given = [{"role": "user", "content": content}] if files else said.text
    return _keyed(said), {"model": said.agent_id, "input": given, "conversation": said.session_id}


def _a2a(said: Words, method: str = "SendMessage") -> tuple[dict[str, str], Any]:
    files = [{"raw": each.data, "filename": each.name, "mediaType": each.media_type} for each in said.files]
    message = {"role": "ROLE_USER", "parts": [{"text": said.text}, *files], "messageId": said.id}
    params = {"message": {**message, "contextId": said.session_id}}
    return {**RPC, "A2A-Version": "1.0"}, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def _mcp(said: Words) -> tuple[dict[str, str], Any]:
    given: dict[str, Any] = {"message": said.text, "session_id": said.session_id}
    given |= {"request_id": said.message_id} if said.message_id else {}
    files = [{"name": each.name, "mimeType": each.media_type, "data": each.data} for each in said.files]
    given |= {"files": files} if files else {}
    call: dict[str, Any] = {"name": said.agent_id.replace(".", "_"), "arguments": given}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    return {**RPC, "MCP-Protocol-Version": "2025-06-18"}, body


def _modern_mcp(said: Words) -> tuple[dict[str, str], Any]:
    _, body = _mcp(said)
    about = "io.modelcontextprotocol"
    body["params"]["_meta"] = {
        f"{about}/protocolVersion": MODERN,
        f"{about}/clientInfo": {"name": "test", "version": "1"},
        f"{about}/clientCapabilities": {},
    }
    named = {
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": body["params"]["name"],
    }
    return {**RPC, **named}, body


def _agui(said: Words) -> tuple[dict[str, str], Any]:
    nothing = {"tools": [], "context": [], "state": {}, "forwardedProps": {}}
    files = [
        {"type": "binary", "mimeType": each.media_type, "data": each.data, "filename": each.name}
        for each in said.files
    ]
    content = [{"type": "text", "text": said.text}, *files] if files else said.text
    messages = [{"id": said.id, "role": "user", "content": content}]
    return {}, {"threadId": said.session_id, "runId": "run-1", "messages": messages, **nothing}


def _vercel(said: Words) -> tuple[dict[str, str], Any]:
    files = [
        {"type": "file", "mediaType": each.media_type, "url": each.url, "filename": each.name}
        for each in said.files
    ]
    message = {"id": said.id, "role": "user", "parts": [{"type": "text", "text": said.text}, *files]}
    return {}, {"id": said.session_id, "messages": [message], "trigger": "submit-message"}


_CHAT = "POST /openai/v1/chat/completions"
_A2A = "POST /a2a/{agent_id}{rest}"

PROTOCOLS = {
    "message": Protocol("POST /v1/sessions/{agent_id}/{session_id}/messages", _message, query="?wait=60"),
    "chat": Protocol(_CHAT, _chat, is_documented=False, has_answers=True),
    "response": Protocol("POST /openai/v1/responses", _response, is_documented=False, has_answers=True),
    "a2a": Protocol(_A2A, _a2a, is_documented=False, has_answers=True),
    "mcp": Protocol("POST /mcp", _mcp, is_documented=False, has_answers=True),
    "mcp of 2026": Protocol("POST /mcp", _modern_mcp, is_documented=False, has_answers=True),
    "agui": Protocol("POST /agui/{agent_id}", _agui, is_stream=True),
    "vercel": Protocol("POST /vercel/{agent_id}", _vercel, is_stream=True),
    "chat as a stream": Protocol(_CHAT, _streamed_chat, is_stream=True, is_documented=False),
    "a2a as a stream": Protocol(
        _A2A, lambda said: _a2a(said, "SendStreamingMessage"), is_stream=True, is_documented=False
    ),
}
"""The protocols by name; those that answer in two ways have two rows."""

READING = {
    "GET /vercel/{agent_id}/{chat_id}/messages",
    "GET /vercel/{agent_id}/{chat_id}/stream",
    "GET /openai/v1/models",
    "GET /openai/v1/models/{model}",
    "GET /openai/v1/responses/{response_id}",
    "POST /openai/v1/responses/{response_id}/cancel",
    "GET /a2a/{agent_id}{rest}",
}
"""Routes of protocols that take no message."""


def say(
    name: str,
    text: str,
    *,
    session_id: str = "",
    message_id: str = "",
    agent_id: str = "shop.clerk",
    files: Sequence[File] = (),
) -> Request:
    """Return the request that says a text by a protocol, in a new conversation unless one is named.

    The API's own message takes files as a form, which is no row here.
    """
    protocol = PROTOCOLS[name]
    said = Words(agent_id, session_id or uuid.uuid4().hex, text, message_id, files)
    method, _, path = protocol.route.partition(" ")
    path = path.format(agent_id=said.agent_id, session_id=said.session_id, rest="")
    return Request(method, path + protocol.query, *protocol.write(said))
