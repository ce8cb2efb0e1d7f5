"""Sign in at MCP servers, list what was granted, and revoke it."""

from datetime import UTC, datetime
from typing import Annotated, Literal
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, ConfigDict, Field

from sojourn.http.bodies import JsonBody
from sojourn.http.granting import (
    WantedSignIn,
    begin_sign_in,
    check_return,
    complete_sign_in,
    grants_at,
    return_address,
    revoke_grant,
)
from sojourn.http.routes.parameters import KnownQueryRoute, Serving, json_of, problems
from sojourn.http.security.principals import Asking, require

__all__ = ["callbacks", "routes"]

routes = APIRouter(tags=["grants"], route_class=KnownQueryRoute)
callbacks = APIRouter(tags=["grants"], include_in_schema=False)

ToolsetId = Annotated[str, Path(examples=["ops.github"], max_length=200)]
SignInId = Annotated[str, Path(examples=["9f2c"], max_length=100)]


class GrantBody(JsonBody):
    """A sign-in to begin."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"toolset": "ops.github", "run_id": "clerk-3f1c", "await_id": "input-c1"}]
        },
    )

    toolset: str = Field(max_length=200)
    """The toolset of the server."""
    run_id: str = Field("", max_length=1_000)
    """The run that waits for it; empty to sign in before any call."""
    await_id: str = Field("", max_length=1_000)
    """The wait of the run."""
    return_to: str = Field("", max_length=2_000)
    """Where the browser goes after it; its origin is one of `SecuritySettings.origins`. By default a page of this service."""


class CompletionBody(JsonBody):
    """What completes a sign-in."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"ticket": "mF_9-B5f"}]})

    ticket: str = Field(max_length=200)
    """The `ticket` with which the browser came back to `return_to`."""


class SignInView(BaseModel):
    """A sign-in that has begun, or is needed no more."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    status: Literal["begun", "granted"]
    """`granted` if there was a good grant already: then the run goes on, and there is nothing to do."""
    id: str = ""
    """The sign-in, to complete it by."""
    authorization_url: str = ""
    """Where to send the principal's browser."""
    expires_in: float = 0.0
    """Seconds in which the sign-in has to be completed."""


class CompletedView(BaseModel):
    """A sign-in that is done."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    toolset: str
    """The toolset."""
    run_id: str = ""
    """The run that waited for it."""
    await_id: str = ""
    """Its wait."""
    answered: bool = False
    """Whether the run waited still, and goes on now."""


class GrantView(BaseModel):
    """A server at which the principal can sign in."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    toolset: str
    """The toolset."""
    title: str
    """The server's name for people."""
    host: str
    """The server's host."""
    granted_at: datetime | None = None
    """When the principal signed in; null without a grant."""
    scopes: list[str] = []
    """The scopes that were requested."""


class GrantList(BaseModel):
    """The servers at which the principal can sign in."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    grants: list[GrantView]
    """In the order of the toolsets."""


@routes.post(
    "/v1/grants",
    response_model=SignInView,
    responses=problems(400, 404, 409, 502),
    summary="Begin a sign-in at an MCP server",
)
async def begin(body: GrantBody, asking: Asking, service: Serving, request: Request) -> Response:
    """Begin a sign-in of the principal, for a call that waits for it or beforehand.

    Send the principal's browser to `authorization_url`. The issuer sends it back to this service, which sends it to `return_to` with a
    ticket. Then complete the sign-in as the same principal, with the ticket.
    """
    require(asking, "user")
    if body.return_to:
        check_return(service, body.return_to)
    wanted = WantedSignIn(body.toolset, body.run_id, body.await_id)
    begun = await begin_sign_in(service, request, asking, wanted, body.return_to)
    if begun is None:
        return json_of(SignInView(status="granted"))
    return json_of(
        SignInView(
            status="begun",
            id=begun.id,
            authorization_url=begun.authorization_url,
            expires_in=begun.expires_in.total_seconds(),
        )
    )


@routes.post(
    "/v1/grants/{toolset}/{id}/complete",
    response_model=CompletedView,
    responses=problems(403, 404, 409, 410, 502),
    summary="Complete a sign-in",
)
async def complete(
    toolset: ToolsetId, id: SignInId, body: CompletionBody, asking: Asking, service: Serving
) -> Response:
    """Complete a sign-in after the issuer has sent the browser back. The run that waits for it goes on.

    The ticket proves that the browser of this principal was at the issuer, and not that of another person who got the link.
    """
    require(asking, "user")
    done, answered = await complete_sign_in(service, asking, toolset, id, body.ticket)
    return json_of(
        CompletedView(toolset=toolset, run_id=done.run_id, await_id=done.await_id, answered=answered)
    )


@routes.get("/v1/grants", response_model=GrantList, responses=problems(), summary="List grants")
async def list_grants(asking: Asking, service: Serving) -> Response:
    """List the servers at which the principal can sign in, and where it has."""
    require(asking, "viewer")
    found: list[GrantView] = []
    for toolset, server in service.app.sign_in_servers().items():
        async with grants_at(service, toolset) as grants:
            grant = await grants.find(asking)
        found.append(
            GrantView(
                toolset=toolset,
                title=server.title or server.host,
                host=server.host,
                granted_at=datetime.fromtimestamp(grant.given_at, UTC) if grant else None,
                scopes=grant.scope.split() if grant else [],
            )
        )
    return json_of(GrantList(grants=found))


@routes.delete(
    "/v1/grants/{toolset}", status_code=204, responses=problems(404, 502), summary="Revoke a grant"
)
async def revoke(toolset: ToolsetId, asking: Asking, service: Serving) -> Response:
    """Revoke the principal's grant at its issuer, and delete it. Calls then wait for a sign-in again."""
    require(asking, "user")
    await revoke_grant(service, asking, toolset)
    return Response(status_code=204)


@callbacks.get("/oauth/callback/{toolset}")
async def callback(
    toolset: ToolsetId,
    service: Serving,
    request: Request,
    state: Annotated[str, Query(max_length=1_000)] = "",
    code: Annotated[str, Query(max_length=4_000)] = "",
    iss: Annotated[str | None, Query(max_length=2_000)] = None,
    error: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Keep what the issuer sends by a browser, which has no key of this service, and give that browser the ticket."""
    async with grants_at(service, toolset) as grants:
        pending, ticket = await grants.take_code(state, code=code, iss=iss, error=error)
    if pending.return_to:
        return RedirectResponse(return_address(pending, ticket), status_code=303)
    base = request.scope.get("root_path", "") + service.prefix
    query = urlencode({"id": pending.id, "ticket": ticket})
    return RedirectResponse(f"{base}/grants/{quote(toolset)}/done?{query}", status_code=303)
