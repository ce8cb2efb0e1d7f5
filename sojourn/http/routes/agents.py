"""`/v1/agents`: the catalogue."""

from fastapi import APIRouter, Response

from sojourn.authoring.app import App
from sojourn.http.replies import AgentCard, Agents, WholeAgent
from sojourn.http.routes.answering import AgentId, Serving, json_of, problems
from sojourn.http.routes.known_query import KnownQueryRoute
from sojourn.http.security.principals import Asking, require

__all__ = ["routes"]

routes = APIRouter(prefix="/v1/agents", tags=["agents"], route_class=KnownQueryRoute)


@routes.get("", response_model=Agents, responses=problems(), summary="List the agents")
async def list_agents(asking: Asking, service: Serving) -> Response:
    """The agents of the app, in its order."""
    require(asking, "viewer")
    return json_of(Agents(agents=[_card(service.app, each) for each in service.app.list_agents()]))


@routes.get("/{agent_id}", response_model=WholeAgent, responses=problems(404), summary="Look at an agent")
async def get_agent(agent_id: AgentId, asking: Asking, service: Serving) -> Response:
    """An agent with its limits, and its tools with the schemas of their payloads and results."""
    require(asking, "viewer")
    policy = service.agent(agent_id).policy.model_dump(mode="json")
    card = _card(service.app, agent_id).model_dump()
    left_out = {toolset_id: dict(reasons) for toolset_id, reasons in service.app.left_out(agent_id).items()}
    return json_of(
        WholeAgent(
            **card,
            policy=policy,
            catalog=service.app.catalog(agent_id),
            left_out=left_out,
            unknown_toolsets=service.app.unknown_toolsets(agent_id),
        )
    )


def _card(app: App, agent_id: str) -> AgentCard:
    agent = app.agent(agent_id)
    return AgentCard(
        agent_id=agent_id,
        description=agent.description if agent else "",
        tools=sorted(app.tools_of(agent_id)),
        may_ask=agent is not None and agent.policy.interrupts_allowed,
    )
