"""Agents, the caller, health and metrics."""

from fastapi import APIRouter, Request, Response

from sojourn import __version__
from sojourn.authoring.app import App
from sojourn.http.replies import Agents, AgentSummary, Me, ServiceHealth, TenantUse, WholeAgent
from sojourn.http.routes.parameters import AgentId, KnownQueryRoute, Serving, json_of, problems
from sojourn.http.security.principals import Asking, has_role, require
from sojourn.http.service import Service

__all__ = ["agents", "caller", "routes", "tenant"]

PATIENCE = 2.0
"""Timeout of a health check of the Temporal server, in seconds."""

FRESH = 0.5
"""Seconds to cache its result. Any client may ask, without credentials and without limit."""

agents = APIRouter(prefix="/v1/agents", tags=["agents"], route_class=KnownQueryRoute)
caller = APIRouter(prefix="/v1/me", tags=["service"], route_class=KnownQueryRoute)
tenant = APIRouter(prefix="/v1/tenant", tags=["service"], route_class=KnownQueryRoute)
routes = APIRouter(tags=["service"])


@agents.get("", response_model=Agents, responses=problems(), summary="List the agents")
async def list_agents(asking: Asking, service: Serving) -> Response:
    """List the agents of the app, in its order."""
    require(asking, "viewer")
    return json_of(Agents(agents=[_card(service.app, each) for each in service.app.list_agents()]))


@agents.get("/{agent_id}", response_model=WholeAgent, responses=problems(404), summary="Read an agent")
async def get_agent(agent_id: AgentId, asking: Asking, service: Serving) -> Response:
    """Return an agent with its limits, and its tools with the schemas of their payloads and results."""
    require(asking, "viewer")
    policy = service.agent(agent_id).policy.model_dump(mode="json")
    card = _card(service.app, agent_id).model_dump()
    left_out = {
        toolset_id: dict(reasons) for toolset_id, reasons in service.app.unusable_tools(agent_id).items()
    }
    return json_of(
        WholeAgent(
            **card,
            policy=policy,
            catalog=service.app.catalog(agent_id),
            left_out=left_out,
            unknown_toolsets=service.app.unknown_toolsets(agent_id),
        )
    )


def _card(app: App, agent_id: str) -> AgentSummary:
    agent = app.agent(agent_id)
    return AgentSummary(
        agent_id=agent_id,
        description=agent.description if agent else "",
        tools=sorted(app.tools_of(agent_id)),
        may_ask=agent is not None and agent.policy.interrupts_allowed,
    )


@caller.get("", response_model=Me, responses=problems(), summary="Look who you are")
async def me(asking: Asking) -> Response:
    """The principal of the key or token, and what its roles allow, so that a page can hide what would be refused."""
    return json_of(
        Me(
            subject=asking.subject,
            tenant=asking.tenant,
            roles=asking.roles,
            may_read=has_role(asking, "viewer"),
            may_write=has_role(asking, "user"),
            may_decide=has_role(asking, "approver"),
            may_operate=has_role(asking, "operator"),
        )
    )


@tenant.get(
    "", response_model=TenantUse, responses=problems(), summary="Look how much of its quota a tenant uses"
)
async def tenant_use(asking: Asking, service: Serving) -> Response:
    """Return the quota of the caller's own tenant, and how much of it is used now."""
    require(asking, "operator")
    use = await service.quota_use(asking)
    counts = use.model_dump(exclude={"quota"})
    return json_of(TenantUse(tenant=asking.tenant, limited=use.quota.is_limited, quota=use.quota, **counts))


@routes.get(
    "/health",
    response_model=ServiceHealth,
    responses={503: {"model": ServiceHealth, "description": "The Temporal server does not answer."}},
    summary="Check the service's health",
)
async def health(request: Request) -> Response:
    """Return 200 if the Temporal server answers, else 503. Needs no credentials, and reveals nothing else."""
    service: Service = request.app.state.service
    is_up = await service.is_reachable(PATIENCE, fresh=FRESH)
    status = "ok" if is_up else "unavailable"
    return json_of(ServiceHealth(status=status, version=__version__), 200 if is_up else 503)


@routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems()},
    summary="Read this process's metrics",
)
async def metrics(asking: Asking, service: Serving) -> Response:
    """Return this process's counts of requests, streams and followed runs, as text for Prometheus."""
    require(asking, "viewer")
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
