"""`POST /agui/{agent_id}`: talk by AG-UI."""

from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from sojourn.contracts.principal import Principal
from sojourn.errors import RunNotFound
from sojourn.http.protocols.agui.request import AguiBody, AguiTool, read, with_addresses
from sojourn.http.protocols.bodies import file_url
from sojourn.http.protocols.turn import Begin, TurnStream
from sojourn.http.protocols.turn_endpoint import TURN_RESPONSES, TurnRoute, load_stream
from sojourn.http.routes.parameters import AgentId
from sojourn.http.security.principals import require
from sojourn.http.service import Service
from sojourn.timeline import Timeline

__all__ = ["routes"]


routes = APIRouter(prefix="/agui", tags=["protocols"])


@routes.post("/{agent_id}", response_class=Response, responses=TURN_RESPONSES, summary="Talk by AG-UI")
async def run_agent(agent_id: AgentId, body: AguiBody, endpoint: TurnRoute) -> Response:
    """Send the last message of the thread, or answers to its interrupts, and read the turn; the same request again resumes it.

    A page without messages of the user gets those of the thread, and the turn that goes on.
    """
    service, asking = endpoint.service, endpoint.asking
    service.agent(agent_id)
    headers = _warning(service, agent_id, body.tools)
    wanted = read(body)
    stream = await load_stream("agui")
    if not (wanted.sent or body.resume or wanted.results):
        endpoint.count()
        turn, frames = await _reopen(stream, service, asking, agent_id, body)
    else:
        turn = await endpoint.begin(agent_id, body.thread_id, wanted)
        address = partial(file_url, run_id=turn.run.id, prefix=service.prefix)
        messages = [
            with_addresses(each.model_dump(by_alias=True, exclude_unset=True), address)
            for each in body.messages
        ]
        frames = stream.AguiEncoder(
            turn, service.app, body.thread_id, body.run_id, messages, service.prefix
        ).frames()
    return endpoint.respond(frames, turn, headers)


async def _reopen(
    stream: Any, service: Service, asking: Principal, agent_id: str, body: AguiBody
) -> tuple[TurnStream | None, Any]:
    require(asking, "viewer")
    try:
        run = await service.conversation(asking, agent_id, body.thread_id)
        address = partial(file_url, run_id=run.id, prefix=service.prefix)
        thread = await stream.read_thread(run, service.app, service.feeds, address)
    except RunNotFound:
        run = service.client.session(agent_id, body.thread_id, principal=asking).run
        thread = stream.Thread(Timeline(run.id))
    turn = TurnStream(service.feeds, run, thread.begin or Begin("", None))
    encoder = stream.AguiEncoder(turn, service.app, body.thread_id, body.run_id, [], service.prefix)
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
