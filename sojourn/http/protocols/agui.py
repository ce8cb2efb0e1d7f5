"""`POST /agui/{agent_id}`: AG-UI. A thread is a conversation, a run of the client is what it reads of a turn."""

import asyncio
import base64
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from fastapi import APIRouter, Request, Response

from sojourn.contracts.message import DocumentPart, ImagePart, TextPart
from sojourn.contracts.principal import Principal
from sojourn.errors import InvalidInput, RunNotFound
from sojourn.http.locks.audit import about
from sojourn.http.locks.limits import count
from sojourn.http.locks.principals import Asking, require
from sojourn.http.protocols.bodies import (
    AguiBody,
    AguiContext,
    AguiMessage,
    AguiTool,
    as_json,
    file_part,
    text_part,
    user_message,
)
from sojourn.http.protocols.leaving import OnDisconnect, interrupting
from sojourn.http.protocols.opening import Result, Sent, begin
from sojourn.http.protocols.settle import Answer
from sojourn.http.protocols.streamed import Streamed
from sojourn.http.protocols.turn import Begin, Turn
from sojourn.http.routes.answering import STREAM, AgentId, Serving, problems
from sojourn.http.service import Service

__all__ = ["routes"]


routes = APIRouter(prefix="/agui", tags=["protocols"])


@routes.post(
    "/{agent_id}",
    response_class=Response,
    responses={
        200: {
            "description": "The events of the turn.",
            "content": {"text/event-stream": STREAM},
        },
        **problems(400, 404, 409, 429),
    },
    summary="Talk by AG-UI",
)
async def run_agent(
    agent_id: AgentId,
    body: AguiBody,
    request: Request,
    asking: Asking,
    service: Serving,
    on_disconnect: OnDisconnect = None,
) -> Response:
    """Send the last message of the thread, or answers to its interrupts, and read the turn; the same request again resumes it.

    A page without messages of the user gets those of the thread, and the turn that goes on.
    """
    about(request, answers=[each.interrupt_id for each in body.resume or ()])
    service.agent(agent_id)
    headers = _warning(service, agent_id, body.tools)
    count(request.scope)
    sent = _sent(body.messages, body.context)
    results = () if body.resume else _results(body.messages)
    if not (sent or body.resume or results):
        return await _reopened(service, asking, agent_id, body, headers, interrupts=bool(on_disconnect))
    turn = await begin(
        service,
        asking,
        agent_id,
        body.thread_id,
        sent=sent,
        answers=[
            Answer(
                each.interrupt_id,
                payload=each.payload,
                is_declined=each.status == "cancelled",
                more=each.model_extra or {},
            )
            for each in body.resume or ()
        ],
        results=results,
    )
    encoder: Any = await asyncio.to_thread(import_module, "sojourn.http.protocols.agui_stream")
    messages = [each.model_dump(by_alias=True, exclude_unset=True) for each in body.messages]
    frames = encoder.frames(turn, service.app, body.thread_id, body.run_id, messages)
    return Streamed(frames, headers, left=interrupting(turn, asking) if on_disconnect else None)


async def _reopened(
    service: Service,
    asking: Principal,
    agent_id: str,
    body: AguiBody,
    headers: Mapping[str, str],
    *,
    interrupts: bool,
) -> Response:
    """The messages of a thread, for a page that was loaded again, and the turn that goes on; those of a new thread are none."""
    require(asking, "viewer")
    encoder: Any = await asyncio.to_thread(import_module, "sojourn.http.protocols.agui_thread")
    try:
        run = await service.conversation(asking, agent_id, body.thread_id)
        thread = await encoder.read(run, service.app, service.hub)
    except RunNotFound:
        run, thread = service.client.session(agent_id, body.thread_id, principal=asking).run, encoder.Thread()
    turn = Turn(service.hub, run, thread.begin or Begin("", None))
    left = interrupting(turn, asking) if interrupts and thread.begin else None
    frames = encoder.frames(thread, turn, service.app, body.thread_id, body.run_id)
    return Streamed(frames, headers, left=left)


def _warning(service: Service, agent_id: str, offered: list[AguiTool]) -> dict[str, str]:
    """The header that names tools of the page which no agent ever calls; pages send all their tools with each request."""
    known = service.app.tools_of(agent_id)
    unread = [
        each.name for each in offered if each.name not in known or known[each.name].spec.kind != "external"
    ]
    if not unread:
        return {}
    told = ", ".join(ascii(name[:60]) for name in unread[:10])
    return {
        "X-Sojourn-Warning": f"not read: {told}, which {agent_id} does not have as tools with results from outside"
    }


def _sent(messages: list[AguiMessage], context: list[AguiContext]) -> list[Sent]:
    """The last message of the user, with the context, and those of the user just before it."""
    found: list[Sent] = []
    for message in reversed(messages):
        if message.role == "user":
            parts = [_part(each) for each in _parts(message.content)]
            beside = [] if found else [_document(each) for each in context]
            found.insert(0, Sent(message.id, user_message(parts), beside))
        elif found:
            break
    return found


def _document(context: AguiContext) -> DocumentPart:
    """What a page says beside a message: not what the user says, so that no planner takes it for that."""
    data = base64.b64encode(context.value.encode(errors="replace")).decode()
    return DocumentPart(
        type="document", media_type="text/plain", data=data, title=context.description or None
    )


def _parts(content: Any) -> list[Any]:
    return cast("list[Any]", content) if isinstance(content, list) else [{"type": "text", "text": content}]


def _part(part: Any) -> TextPart | ImagePart | DocumentPart:
    match part:
        case {"type": "text", "text": str(text)}:
            return text_part(text)
        case {
            "type": "image" | "document",
            "source": {"type": "data", "value": str(data), "mimeType": str(kind)},
        }:
            return file_part(kind, None, data, None)
        case {"type": "image" | "document" as what, "source": {"type": "url", "value": str(url), **rest}}:
            kind = rest.get("mimeType") or ("image/*" if what == "image" else "application/octet-stream")
            return file_part(str(kind), url, None, None)
        case {"type": "binary", "mimeType": str(kind), **rest}:
            url, data = rest.get("url"), rest.get("data")
            if isinstance(url, str) or isinstance(data, str):
                return file_part(kind, url, data, rest.get("filename"))
        case _:
            pass
    raise InvalidInput("a message of the user has texts, images and documents, each with its data or its URL")


def _results(messages: list[AguiMessage]) -> list[Result]:
    """The results after the last message of the assistant, which a client made, or has seen."""
    found: list[Result] = []
    for message in reversed(messages):
        if message.role in ("assistant", "user"):
            break
        if message.role == "tool" and message.tool_call_id:
            payload = as_json(message.content) if isinstance(message.content, str) else message.content
            found.append(Result(message.tool_call_id, payload, message.error or ""))
    return found
