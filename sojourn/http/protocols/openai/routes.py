"""`/openai/v1`: models, chat completions and responses."""

import uuid
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from fastapi.responses import JSONResponse

from sojourn.contracts.principal import Principal
from sojourn.errors import AwaitClosed, InvalidInput, SessionBusy, SojournError
from sojourn.http.event_streams import FrameResponse
from sojourn.http.problems import Problem, problem_of
from sojourn.http.protocols.messages import (
    IncomingMessage,
    answer_reply,
    deliver,
    deliver_to_session,
    digest_of,
    start_once,
    stop,
)
from sojourn.http.protocols.openai.branching import (
    OTHER_MESSAGES,
    place_of_chat,
    point_of_response,
    said_before,
    under_way,
)
from sojourn.http.protocols.openai.chat import chunks, completion, last_reply, strip_marks
from sojourn.http.protocols.openai.request import (
    ChatBody,
    OpenAIRoute,
    ResponseBody,
    bad_request,
    messages_of,
)
from sojourn.http.protocols.openai.responses import response, response_events, token_of_response
from sojourn.http.protocols.reply import AgentReply, failure_of, read, wait_to_end
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.routes.parameters import CurrentScope, RequestScope, Serving
from sojourn.http.security import audit
from sojourn.http.security.file_bodies import release_files
from sojourn.http.security.principals import Asking, require
from sojourn.http.service import Service

__all__ = ["routes"]

LONGEST = 600.0
"""Seconds in which a reply without streaming must end. OpenAI's client gives up after the same time."""

Key = Annotated[
    str | None,
    Header(alias="Idempotency-Key", max_length=200, description="Repeated by a request that is sent again."),
]

routes = APIRouter(prefix="/openai/v1", include_in_schema=False, route_class=OpenAIRoute)
"""Routes of OpenAI's API. OpenAI documents them, so our OpenAPI document leaves them out."""


@routes.get("/models", summary="List the agents as models")
async def list_models(asking: Asking, service: Serving) -> Response:
    """The agents of the app, each as a model."""
    require(asking, "viewer")
    return JSONResponse({"object": "list", "data": [_model(each) for each in service.app.list_agents()]})


@routes.get("/models/{model}", summary="Look at an agent as a model")
async def get_model(model: str, asking: Asking, service: Serving) -> Response:
    """One agent as a model."""
    require(asking, "viewer")
    _require_model(service, model)
    return JSONResponse(_model(model))


@routes.post("/chat/completions", summary="Complete a chat")
async def complete_chat(
    body: ChatBody, asking: Asking, service: Serving, attending: CurrentScope, key: Key = None
) -> Response:
    """Ask an agent: with `metadata.session_id` the next message of a conversation, else a run for this request."""
    require(asking, "user")
    _require_model(service, body.model)
    attending.count()
    key = key or body.metadata_value("message_id")
    is_once = _is_once(attending, key or body.metadata_value("session_id"))
    token, warnings = await _deliver_chat(service, asking, body, key)
    reply = AgentReply(token)
    release_files()
    audit.bind(run_id=reply.token.run_id)
    warned = _warning_header(body, *warnings)
    if body.stream:
        usage = bool(body.stream_options and body.stream_options.include_usage)
        return FrameResponse(chunks(service, reply, body.model, usage=usage), warned)
    await _wait_for_end(attending, reply, is_once=is_once)
    if reply.state == "failed":
        raise failure_of(reply)
    return JSONResponse(completion(reply, body.model), headers=warned)


async def _deliver_chat(
    service: Service, asking: Principal, body: ChatBody, key: str
) -> tuple[ReplyToken, list[str]]:
    """Deliver the last message of a chat, and return its reply with warnings."""
    messages = messages_of(body.messages, "messages")
    said = messages[-1]
    session_id = body.metadata_value("session_id")
    of = (await service.session(asking, body.model, session_id)).run.id if session_id else ""
    if seen := await last_reply(service, asking, messages, of):
        previous, shown = seen
        token = await answer_reply(service, asking, previous, IncomingMessage(said, key), shown)
        if token is not None:
            return token, []
    earlier = said_before(messages[:-1])
    messages = strip_marks(messages)
    if not session_id:
        return await start_once(service, asking, body.model, messages, key), []
    digest = digest_of(body.model, *(message.model_dump_json() for message in messages))
    named = IncomingMessage(said, key or f"chat-{digest}", is_named=bool(key))
    place = await place_of_chat(service, asking, body.model, session_id, earlier, named.message_id)
    if place.point:
        with suppress(SessionBusy):  # at work by now, so that the message waits
            return await deliver(service, asking, of, named, place.point), []
    warnings = [] if place.is_known else [OTHER_MESSAGES]
    return await deliver_to_session(service, asking, body.model, session_id, named), warnings


@routes.post("/responses", summary="Create a response")
async def create_response(
    body: ResponseBody, asking: Asking, service: Serving, attending: CurrentScope, key: Key = None
) -> Response:
    """Ask an agent in a conversation: a new one, that of `previous_response_id`, or the one that `conversation` names."""
    require(asking, "user")
    _require_model(service, body.model)
    if body.stream or not body.background:
        attending.count()
    key = key or body.metadata_value("message_id")
    is_once = _is_once(attending, key or body.previous_response_id)
    reply = AgentReply(await _deliver_response(service, asking, body, key))
    release_files()
    audit.bind(run_id=reply.token.run_id)
    more: dict[str, Any] = {
        "metadata": body.metadata or {},
        "previous_response_id": body.previous_response_id,
        "background": bool(body.background),
        "conversation": {"id": body.session_id} if body.session_id else None,
    }
    warned = _warning_header(body)
    if body.stream:
        return FrameResponse(response_events(service, reply, body.model, **more), warned)
    if not body.background:
        await _wait_for_end(attending, reply, is_once=is_once)
    return JSONResponse(response(reply, body.model, **more), headers=warned)


async def _deliver_response(service: Service, asking: Principal, body: ResponseBody, key: str) -> ReplyToken:
    messages = messages_of(body.turns, "input")
    said = messages[-1]
    if body.previous_response_id:
        previous = token_of_response(body.previous_response_id)
        if previous is None:
            raise _no_response(body.previous_response_id)
        token = await answer_reply(service, asking, previous, IncomingMessage(said, key))
        if token is not None:
            return token
        digest = digest_of(asking.subject, previous.text, said.model_dump_json())
        message = IncomingMessage(said, key or f"resp-{digest}")
        point = await point_of_response(service, previous, message.message_id)
        try:
            return await deliver(service, asking, previous.run_id, message, point)
        except SessionBusy as error:
            if point is None:
                raise
            raise under_way(previous.run_id) from error
        except (AwaitClosed, InvalidInput) as error:
            raise bad_request(f"previous_response_id: {error}", "previous_response_id") from error
    if body.session_id:
        return await deliver_to_session(
            service, asking, body.model, body.session_id, IncomingMessage(said, key)
        )
    if len(messages) > 1:
        return await start_once(service, asking, body.model, messages, key)
    session_id = f"resp-{digest_of(asking.subject, key) if key else uuid.uuid4().hex}"
    return await deliver_to_session(service, asking, body.model, session_id, IncomingMessage(said, key))


@routes.get("/responses/{response_id}", summary="Look at a response")
async def get_response(response_id: str, asking: Asking, service: Serving, stream: bool = False) -> Response:
    """A response, at any process; with `stream` from its beginning, also while it is made."""
    require(asking, "viewer")
    token = token_of_response(response_id)
    if token is None:
        raise _no_response(response_id)
    await service.run(asking, token.run_id)
    reply = await read(service, token)
    if stream:
        return FrameResponse(response_events(service, AgentReply(token), reply.agent_id))
    return JSONResponse(response(reply, reply.agent_id))


@routes.post("/responses/{response_id}/cancel", summary="Cancel a response")
async def cancel_response(
    response_id: str, asking: Asking, service: Serving, attending: CurrentScope
) -> Response:
    """End the turn of a response; the conversation goes on."""
    require(asking, "user")
    token = token_of_response(response_id)
    if token is None:
        raise _no_response(response_id)
    await service.run(asking, token.run_id)
    reply = await read(service, token)
    if reply.state != "open" and not reply.is_canceled:
        raise bad_request("the response has ended; there is nothing to cancel")
    if reply.state == "open":
        attending.count()
        await stop(service, asking, token)
        await _wait_for_end(attending, reply := AgentReply(token), is_once=True)
    return JSONResponse(response(reply, reply.agent_id))


_LATER = "Ask for a stream, or for a response in the background."

_NOT_AGAIN = {"X-Should-Retry": "false"}
"""Header that stops OpenAI's own clients from retrying a request automatically."""


def _warning_header(body: ChatBody | ResponseBody, *more: str) -> dict[str, str]:
    warning = "; ".join(filter(None, (body.warning, *more)))
    return {"X-Sojourn-Warning": warning} if warning else {}


def _is_once(attending: RequestScope, name: str | None) -> bool:
    """Return whether a retry of this request is delivered only once, by its name.

    Otherwise, if the server ends the request, a header asks clients not to retry it.
    """
    if not name:
        for header in _NOT_AGAIN.items():
            attending.add_stop_header(*header)
    return bool(name)


async def _wait_for_end(attending: RequestScope, reply: AgentReply, *, is_once: bool) -> None:
    """Read a reply to its end, for at most ten minutes.

    Unless a retry is delivered only once, a header asks clients not to retry.
    """
    try:
        await wait_to_end(attending, reply, LONGEST, then=_LATER)
    except (Problem, SojournError) as error:
        problem = problem_of(error)
        if not is_once:
            problem.headers |= _NOT_AGAIN
        raise problem from error


def _require_model(service: Service, model: str) -> None:
    if service.app.agent(model) is None:
        detail = f"The model `{model[:200]}` does not exist: the models are the agents of the app"
        raise bad_request(detail, "model", status=404, code="model_not_found")


def _no_response(id: str) -> Problem:
    return bad_request(f"Response with id '{id[:200]}' not found.", status=404, code="response_not_found")


def _model(agent_id: str) -> dict[str, Any]:
    return {"id": agent_id, "object": "model", "created": 0, "owned_by": "sojourn"}
