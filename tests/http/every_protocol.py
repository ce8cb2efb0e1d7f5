"""One message by every protocol: its route, headers and body. A new protocol is a row of `PROTOCOLS`, and gets the tests of all of them."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["MODERN", "PROTOCOLS", "READING", "RPC", "Protocol", "Request", "say"]

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


class Words(NamedTuple):
    """What a user says to an agent in a conversation."""

    agent_id: str
    session_id: str
    text: str
    message_id: str
    """The id by which it is delivered once; empty if the client gives none."""

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
    messages = [{"role": "user", "content": said.text}]
    return _keyed(said), {
        "model": said.agent_id,
        "messages": messages,
        "metadata": {"session_id": said.session_id},
    }


def _streamed_chat(said: Words) -> tuple[dict[str, str], Any]:
    headers, body = _chat(said)
    return headers, {**body, "stream": True}


def _response(said: Words) -> tuple[dict[str, str], Any]:
    return _keyed(said), {"model": said.agent_id, "input": said.text, "conversation": said.session_id}


def _a2a(said: Words, method: str = "SendMessage") -> tuple[dict[str, str], Any]:
    message = {"role": "ROLE_USER", "parts": [{"text": said.text}], "messageId": said.id}
    params = {"message": {**message, "contextId": said.session_id}}
    return {**RPC, "A2A-Version": "1.0"}, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def _mcp(said: Words) -> tuple[dict[str, str], Any]:
    given = {"message": said.text, "session_id": said.session_id}
    given |= {"request_id": said.message_id} if said.message_id else {}
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
    messages = [{"id": said.id, "role": "user", "content": said.text}]
    return {}, {"threadId": said.session_id, "runId": "run-1", "messages": messages, **nothing}


def _vercel(said: Words) -> tuple[dict[str, str], Any]:
    message = {"id": said.id, "role": "user", "parts": [{"type": "text", "text": said.text}]}
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
    name: str, text: str, *, session_id: str = "", message_id: str = "", agent_id: str = "shop.clerk"
) -> Request:
    """Return the request that says a text by a protocol, in a new conversation unless one is named."""
    protocol = PROTOCOLS[name]
    said = Words(agent_id, session_id or uuid.uuid4().hex, text, message_id)
    method, _, path = protocol.route.partition(" ")
    path = path.format(agent_id=said.agent_id, session_id=said.session_id, rest="")
    return Request(method, path + protocol.query, *protocol.write(said))
