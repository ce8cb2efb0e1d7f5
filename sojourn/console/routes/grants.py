"""Sign in at MCP servers, and list what was granted, at `/grants`.

The link of a wait leads here. A button begins the sign-in, so that a link alone begins nothing. The issuer's page is a link of its own,
since the policy of the pages lets no form leave the site. The issuer sends the browser back to the last page, which completes it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from starlette.responses import Response

from sojourn.console.page import Pages, Visit
from sojourn.http.granting import (
    WantedSignIn,
    begin_sign_in,
    complete_sign_in,
    find_sign_in,
    grants_at,
    revoke_grant,
)

__all__ = ["pages"]

pages = Pages()

_MAX_ID = 1_000


@dataclass(frozen=True, slots=True)
class GrantRow:
    toolset: str
    title: str
    host: str
    given_at: datetime | None
    scopes: tuple[str, ...] = ()


@pages.get("/grants")
async def listed(visit: Visit) -> Response:
    """List the servers at which the visitor can sign in, and where they have."""
    rows = [await _row(visit, toolset) for toolset in visit.service.app.sign_in_servers()]
    return visit.page("grants.html", rows=rows)


@pages.get("/grants/{toolset}")
async def about(visit: Visit, toolset: str) -> Response:
    """Say where the visitor is to sign in, and what for."""
    wanted = _wanted(toolset, visit.query)
    scopes: list[str] = []
    if wanted.run_id:
        _, needed = await find_sign_in(visit.service, visit.asking, wanted)
        scopes = needed.scopes
    return visit.page("grant.html", row=await _row(visit, toolset), wanted=wanted, scopes=scopes, address="")


@pages.post("/grants/{toolset}", role="user")
async def begin(visit: Visit, toolset: str) -> Response:
    """Begin the sign-in, and link to the page of the issuer."""
    form = await visit.form()
    wanted = _wanted(toolset, form.text)
    begun = await begin_sign_in(visit.service, visit.request, visit.asking, wanted)
    if begun is None:
        return visit.go(f"/runs/{wanted.run_id}")
    return visit.page(
        "grant.html",
        row=await _row(visit, toolset),
        wanted=wanted,
        scopes=[],
        address=begun.authorization_url,
        issuer=urlsplit(begun.authorization_url).netloc,
    )


@pages.get("/grants/{toolset}/done", role="user")
async def done(visit: Visit, toolset: str) -> Response:
    """Complete the sign-in of the visitor who began it, and whose browser was at the issuer."""
    id, ticket = visit.query("id"), visit.query("ticket")
    pending, answered = await complete_sign_in(visit.service, visit.asking, toolset, id, ticket)
    return visit.page(
        "grant_done.html", row=await _row(visit, toolset), run_id=pending.run_id, answered=answered
    )


@pages.post("/grants/{toolset}/revoke", role="user")
async def revoke(visit: Visit, toolset: str) -> Response:
    """Revoke what the visitor has granted."""
    await revoke_grant(visit.service, visit.asking, toolset)
    return visit.go("/grants")


def _wanted(toolset: str, text: Callable[[str], str]) -> WantedSignIn:
    return WantedSignIn(toolset, run_id=text("run_id")[:_MAX_ID], call_id=text("call")[:_MAX_ID])


async def _row(visit: Visit, toolset: str) -> GrantRow:
    async with grants_at(visit.service, toolset) as grants:
        grant = await grants.find(visit.asking)
    server = visit.service.app.sign_in_servers()[toolset]
    return GrantRow(
        toolset,
        server.title or server.host,
        server.host,
        datetime.fromtimestamp(grant.given_at, UTC) if grant else None,
        tuple(grant.scope.split()) if grant else (),
    )
