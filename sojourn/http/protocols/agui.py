"""`POST /agui/{agent_id}`: AG-UI. A thread is a conversation, a run of the client is what it reads of a turn."""

import asyncio
import base64
from importlib import import_module
from typing import Any, cast

from fastapi import APIRouter, Request, Response

from sojourn.contracts.message import DocumentPart, ImagePart, TextPart
from sojourn.errors import InvalidInput
from sojourn.http.locks.audit import about
from sojourn.http.locks.limits import count
from sojourn.http.locks.principals import Asking
from sojourn.http.problems import Problem
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
    """Send the last message of the thread, or answers to its interrupts, and read the turn; the same request again resumes it."""
    about(request, answers=[each.interrupt_id for each in body.resume or ()])
    _check_tools(service, agent_id, body.tools)
    count(request.scope)
    turn = await begin(
        service,
        asking,
        agent_id,
        body.thread_id,
        sent=_sent(body.messages, body.context),
        answers=[
            Answer(
                each.interrupt_id,
                payload=each.payload,
                is_declined=each.status == "cancelled",
                more=each.model_extra or {},
            )
            for each in body.resume or ()
        ],
        results=() if body.resume else _results(body.messages),
    )
    encoder: Any = await asyncio.to_thread(import_module, "sojourn.http.protocols.agui_stream")
    messages = [each.model_dump(by_alias=True, exclude_unset=True) for each in body.messages]
    frames = encoder.frames(turn, service.app, body.thread_id, body.run_id, messages)
    return Streamed(frames, left=interrupting(turn, asking) if on_disconnect else None)


def _check_tools(service: Service, agent_id: str, offered: list[AguiTool]) -> None:
    """Check that the page offers no tool that the agent would never call.

    Raises:
        Problem: It does.
    """
    known = service.app.tools_of(agent_id)
    for name in (each.name for each in offered):
        if name not in known or known[name].spec.kind != "external":
            raise Problem(
                422,
                "invalid_request",
                f"the page offers the tool {name!r}, which {agent_id} does not have as one with results from outside",
                then="Declare it in an external toolset of the agent, by this id; or send the request without it.",
            )


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
