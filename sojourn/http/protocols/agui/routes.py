"""`POST /agui/{agent_id}`: talk by AG-UI."""

import asyncio
from importlib import import_module
from typing import Any

from fastapi import APIRouter, Request, Response

from sojourn.contracts.principal import Principal
from sojourn.errors import RunNotFound
from sojourn.http.event_streams import FrameResponse
from sojourn.http.protocols.agui.request import AguiBody, AguiTool, read
from sojourn.http.protocols.turn import Begin, TurnStream
from sojourn.http.protocols.turn_request import OnDisconnect, begin, disconnect_callback
from sojourn.http.routes.parameters import STREAM, AgentId, Serving, problems
from sojourn.http.security import audit
from sojourn.http.security.limits import count_stream
from sojourn.http.security.principals import Asking, require
from sojourn.http.service import Service
from sojourn.timeline import Timeline

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
    audit.bind(answers=[each.interrupt_id for each in body.resume or ()])
    service.agent(agent_id)
    headers = _warning(service, agent_id, body.tools)
    count_stream(request.scope)
    wanted = read(body)
    stream: Any = await asyncio.to_thread(import_module, "sojourn.http.protocols.agui.stream")
    if not (wanted.sent or body.resume or wanted.results):
        turn, frames = await _reopen(stream, service, asking, agent_id, body)
    else:
        turn = await begin(service, asking, agent_id, body.thread_id, wanted)
        messages = [each.model_dump(by_alias=True, exclude_unset=True) for each in body.messages]
        frames = stream.AguiEncoder(turn, service.app, body.thread_id, body.run_id, messages).frames()
    left = disconnect_callback(turn, asking) if on_disconnect and turn else None
    return FrameResponse(frames, headers, left=left)


async def _reopen(
    stream: Any, service: Service, asking: Principal, agent_id: str, body: AguiBody
) -> tuple[TurnStream | None, Any]:
    require(asking, "viewer")
    try:
        run = await service.conversation(asking, agent_id, body.thread_id)
        thread = await stream.read_thread(run, service.app, service.feeds)
    except RunNotFound:
        run = service.client.session(agent_id, body.thread_id, principal=asking).run
        thread = stream.Thread(Timeline(run.id))
    turn = TurnStream(service.feeds, run, thread.begin or Begin("", None))
    encoder = stream.AguiEncoder(turn, service.app, body.thread_id, body.run_id, [])
    return (turn if thread.begin else None), encoder.frames(stream.open_thread(thread, encoder))


def _warning(service: Service, agent_id: str, offered: list[AguiTool]) -> dict[str, str]:
    """Name the page's tools that the agent does not use.

    Pages send all their tools with each request.
    """
    known = service.app.tools_of(agent_id)
    unread = [
        each.name for each in offered if each.name not in known or known[each.name].spec.kind != "external"
    ]
    if not unread:
        return {}
    names = ", ".join(ascii(name[:60]) for name in unread[:10])
    return {
        "X-Sojourn-Warning": f"not read: {names}, which {agent_id} does not have as tools with results from outside"
    }
