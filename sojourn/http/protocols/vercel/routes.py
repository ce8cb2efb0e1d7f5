"""Routes for the AI SDK's `useChat`: `POST /vercel/{agent_id}`.

A chat is a conversation. A message of the assistant is the reply to a message or an answer.
"""

import asyncio
from dataclasses import replace
from importlib import import_module
from typing import Annotated

from fastapi import APIRouter, Path, Response
from starlette.responses import JSONResponse

from sojourn.answers import wait_view
from sojourn.client.run import Run
from sojourn.errors import RunNotFound
from sojourn.http.event_streams import FrameResponse
from sojourn.http.protocols.reply import read_timeline
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.protocols.turn import Begin, TurnStream
from sojourn.http.protocols.turn_endpoint import TURN_RESPONSES, TurnRoute, load_stream
from sojourn.http.protocols.turn_request import find_closed
from sojourn.http.protocols.vercel.request import ANSWER, ChatRequest, VercelBody, VercelMessage, read
from sojourn.http.protocols.waits import waits_of_status
from sojourn.http.routes.parameters import AgentId, Serving, problems
from sojourn.http.security.principals import Asking, require
from sojourn.http.service import Service
from sojourn.timeline import Plan

__all__ = ["routes"]

HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}

ChatId = Annotated[str, Path(examples=["desk-1"], max_length=200)]

routes = APIRouter(prefix="/vercel", tags=["protocols"])


@routes.post("/{agent_id}", response_class=Response, responses=TURN_RESPONSES, summary="Talk by the AI SDK")
async def send_messages(agent_id: AgentId, body: VercelBody, endpoint: TurnRoute) -> Response:
    """Send the last message of the chat, decisions on its calls or an answer to its question, and read what follows."""
    service, asking, chat = endpoint.service, endpoint.asking, read(body.messages)
    if body.trigger == "regenerate-message":
        chat = replace(chat, edits="again")
    elif body.message_id == body.messages[-1].id:
        chat = replace(chat, edits="words")
    if chat.replies:
        run = await service.conversation(asking, agent_id, body.id)
        if not await _is_reply(service, run, chat):
            chat = chat.as_message()
    turn = await endpoint.begin(agent_id, body.id, chat)
    encoder = (await load_stream("vercel")).VercelEncoder(turn, chat.message_id, chat.calls, service.prefix)
    return endpoint.respond(encoder.frames(), turn, HEADERS)


@routes.get(
    "/{agent_id}/{chat_id}/stream",
    response_class=Response,
    responses={**TURN_RESPONSES, 204: {"description": "The chat has no turn yet."}},
    summary="Come back by the AI SDK",
)
async def resume_stream(agent_id: AgentId, chat_id: ChatId, asking: Asking, service: Serving) -> Response:
    """The newest message of the assistant from its beginning, as `reconnectToStream` of the AI SDK asks for it."""
    require(asking, "viewer")
    try:
        run = await service.conversation(asking, agent_id, chat_id)
    except RunNotFound:
        return Response(status_code=204)
    newest = await _newest(service, run)
    if newest is None:
        return Response(status_code=204)
    begins, message_id = newest
    turn = TurnStream(service.feeds, run, begins)
    encoder = (await load_stream("vercel")).VercelEncoder(turn, message_id, frozenset[str](), service.prefix)
    return FrameResponse(encoder.frames(), HEADERS)


@routes.get(
    "/{agent_id}/{chat_id}/messages",
    response_model=list[VercelMessage],
    responses=problems(400, 404, 502),
    summary="Read a chat by the AI SDK",
)
async def read_messages(agent_id: AgentId, chat_id: ChatId, asking: Asking, service: Serving) -> Response:
    """Return the chat as `useChat({ messages })` takes it, without queued messages. A chat that does not exist is empty."""
    require(asking, "viewer")
    service.agent(agent_id)
    try:
        run = await service.conversation(asking, agent_id, chat_id)
    except RunNotFound:
        return JSONResponse([])
    history = await asyncio.to_thread(import_module, "sojourn.http.protocols.vercel.history")
    return JSONResponse(await history.read_history(run, service.feeds, service.prefix))


async def _is_reply(service: Service, run: Run, chat: ChatRequest) -> bool:
    """Return whether a text answers a question, which is open or has this answer."""
    (reply,) = chat.replies
    if any(each.id == reply.id for each in waits_of_status(await run.status())):
        return True
    found = await find_closed(service, run, reply.id)
    return found is not None and found[0].event.text == reply.payload


async def _newest(service: Service, run: Run) -> tuple[Begin, str] | None:
    tree = await read_timeline(service, ReplyToken(run.id))
    turns = [(turn, [*(each.message_id for each in turn.messages), *turn.missing]) for turn in tree.top.path]
    turn, (message_id, *_) = next(((turn, ids) for turn, ids in reversed(turns) if ids), (None, ("",)))
    if turn is None:
        return None
    interim = [each.interim_for for each in turn.entries if isinstance(each, Plan) and each.interim_for]
    message_id = interim[-1] if interim else message_id
    delivery = tree.delivered.get(message_id)
    begin = Begin(delivery.before if delivery else "", message_id)
    answered = [
        (each.at, view.ref.token(run.id))
        for each in tree.decisions
        if each.wait and each.at >= turn.at
        if (view := wait_view(each.wait, each.event.run_id)).takes_words
    ]
    if not answered:
        return begin, f"{ANSWER}{message_id}"
    _, last = max(answered)
    return replace(begin, answers=frozenset({last})), f"{ANSWER}{last}"
