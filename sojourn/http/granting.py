"""Sign principals in at MCP servers, and answer the waits of their runs.

A link to a sign-in holds no secret. It completes only for the principal who began it, who is the one for whom the call acts, and only
with the ticket that the callback gives to the browser that was at the issuer: another person who opens it signs in for no run.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from fastapi import Request

from sojourn.answers import Answer, WaitRef, WaitView, open_waits
from sojourn.connection import settings
from sojourn.contracts.principal import Principal
from sojourn.contracts.tool_call import SignInRequest
from sojourn.errors import AwaitClosed, ToolUnavailable
from sojourn.http.answering import submit_answer
from sojourn.http.problems import Problem
from sojourn.http.security import audit
from sojourn.http.service import Service
from sojourn.network.client import is_local_url

if TYPE_CHECKING:
    from sojourn.oauth.grants import Begun, Grants, PendingSignIn

__all__ = [
    "CALLBACK",
    "WantedSignIn",
    "begin_sign_in",
    "check_return",
    "complete_sign_in",
    "find_sign_in",
    "grants_at",
    "return_address",
    "revoke_grant",
]

CALLBACK = "/oauth/callback"


@dataclass(frozen=True, slots=True)
class WantedSignIn:
    """A sign-in for a wait of a run, or for none."""

    toolset: str
    run_id: str = ""
    await_id: str = ""
    call_id: str = ""
    """In place of the wait: the call that waits."""

    def is_for(self, view: WaitView) -> bool:
        return view.tool_call_id == self.call_id if self.call_id else view.await_id == self.await_id


@asynccontextmanager
async def grants_at(service: Service, toolset: str) -> AsyncGenerator["Grants"]:
    """Yield the grants at the server of a toolset, whose errors become problems.

    Raises:
        Problem: The toolset has no sign-in, or this service has no vault.
    """
    from sojourn.oauth.endpoints import OAuthRefused  # noqa: PLC0415 - loads the SDK
    from sojourn.oauth.grants import Grants  # noqa: PLC0415

    server = service.app.sign_in_servers().get(toolset)
    if server is None:
        raise Problem(
            404,
            "no_sign_in",
            f"no toolset {toolset!r} has a sign-in here",
            then="GET /v1/grants lists the toolsets that have one.",
        )
    if service.app.vault is None:
        raise Problem(
            503,
            "no_vault",
            "this service has no vault for tokens",
            then="Set SOJOURN_VAULT as for the workers.",
        )
    try:
        yield Grants(service.app.vault, server)
    except OAuthRefused as error:
        status, then = _REFUSALS.get(error.code, _OTHER)
        code = error.code if error.code in _REFUSALS else "sign_in_failed"
        audit.bind(sign_in=toolset, refused=code)
        raise Problem(status, code, f"{server.title or server.host}: {error}", then=then) from None
    except ToolUnavailable as error:
        raise Problem(503, "sign_in_unavailable", str(error), then="Try again in a moment.") from None


_AGAIN = "Begin again: POST /v1/grants."
_REFUSALS = {
    "sign_in_expired": (410, _AGAIN),
    "sign_in_refused": (409, _AGAIN),
    "sign_in_pending": (409, "Complete it after the issuer has sent the browser back."),
    "wrong_issuer": (400, _AGAIN),
    "not_your_grant": (403, "Only the principal for whom the call acts can sign in."),
    "wrong_ticket": (403, "Send the `ticket` with which the browser came back, or begin again."),
}
_OTHER = (502, "Look at the declaration of the toolset, and at the metadata of its server.")


async def begin_sign_in(
    service: Service, request: Request, asking: Principal, wanted: WantedSignIn, return_to: str = ""
) -> "Begun | None":
    """Begin a sign-in, or return None if there is a good grant already.

    Then a run that waits for it goes on.

    Raises:
        AwaitClosed: The run waits for no such sign-in now.
        Problem: Another principal has to sign in, or no sign-in can begin.
    """
    from sojourn.oauth.discovery import Challenge  # noqa: PLC0415 - loads the SDK

    audit.bind(sign_in=wanted.toolset)
    if not return_to and not service.has_pages:
        raise Problem(
            422,
            "invalid_request",
            "this service has no page to which the browser could come back",
            then="Name one of yours as return_to.",
        )
    async with grants_at(service, wanted.toolset) as grants:
        challenge, await_id = None, ""
        if wanted.run_id:
            view, needed = await find_sign_in(service, asking, wanted)
            await_id = view.await_id
            challenge = Challenge(
                scope=" ".join(needed.scopes) or None, resource_metadata=needed.resource_metadata
            )
            grant = await grants.find(asking)
            if grant is not None and set(needed.scopes) <= set(grant.scope.split()):
                await answer_wait(service, asking, wanted.run_id, await_id)
                return None
        return await grants.begin(
            asking,
            callback_address(request, service.prefix, wanted.toolset),
            challenge=challenge,
            run_id=wanted.run_id,
            await_id=await_id,
            return_to=return_to,
        )


async def complete_sign_in(
    service: Service, asking: Principal, toolset: str, id: str, ticket: str
) -> tuple["PendingSignIn", bool]:
    """Complete a sign-in, and return it, and whether a run goes on.

    Raises:
        Problem: It is over, another principal's, another browser's, or refused by the issuer.
    """
    audit.bind(sign_in=toolset)
    async with grants_at(service, toolset) as grants:
        done = await grants.complete(id, asking, ticket)
    audit.bind(granted=toolset)
    return done, bool(done.run_id) and await answer_wait(service, asking, done.run_id, done.await_id)


async def revoke_grant(service: Service, asking: Principal, toolset: str) -> None:
    """Revoke the grant of a principal, and record whether the issuer took part."""
    async with grants_at(service, toolset) as grants:
        done = await grants.revoke(asking)
    audit.bind(sign_in=toolset, revoked=done.was_there, issuer_accepted=done.is_accepted)


async def find_sign_in(
    service: Service, asking: Principal, wanted: WantedSignIn
) -> tuple[WaitView, SignInRequest]:
    """Return the wait of a run that a principal can sign in for.

    Raises:
        AwaitClosed: The run waits for no such sign-in now.
        Problem: Another principal has to sign in.
    """
    run_id, await_id = wanted.run_id, wanted.await_id
    status = await (await service.run(asking, run_id)).status()
    for view in open_waits(status):
        needed = view.sign_in
        if needed and needed.toolset == wanted.toolset and view.run_id == run_id and wanted.is_for(view):
            if (needed.principal.subject, needed.principal.tenant) != (asking.subject, asking.tenant):
                status_code, then = _REFUSALS["not_your_grant"]
                why = "the call acts for another principal, who has to sign in"
                raise Problem(status_code, "not_your_grant", why, then=then, run_id=run_id, await_id=await_id)
            return view, needed
    raise AwaitClosed(f"the run {run_id} does not wait for this sign-in at {wanted.toolset}")


async def answer_wait(service: Service, asking: Principal, run_id: str, await_id: str) -> bool:
    """Let the call of a run go on after its principal has signed in.

    Returns whether the run still waited.
    """
    try:
        await submit_answer(service, asking, WaitRef(run_id, await_id), Answer({}))
    except AwaitClosed:
        return False
    return True


def callback_address(request: Request, prefix: str, toolset: str) -> str:
    """Return the address to which the issuer sends the browser back.

    Raises:
        Problem: The address of this service for browsers is unknown.
    """
    base = settings.public_url()
    if not base:
        base = f"{str(request.base_url).rstrip('/')}{prefix}"
        if not is_local_url(base):
            raise Problem(
                503,
                "no_public_url",
                "the address of this service for browsers is unknown",
                then="Set SOJOURN_PUBLIC_URL.",
            )
    return f"{base}{CALLBACK}/{toolset}"


def check_return(service: Service, address: str) -> None:
    """Refuse to send the browser to an address of another origin.

    Raises:
        Problem: The origin is none of `SecuritySettings.origins`.
    """
    parts = urlsplit(address)
    if f"{parts.scheme}://{parts.netloc}" not in service.origins:
        raise Problem(
            422,
            "invalid_request",
            "return_to is at none of the origins that may use this service",
            then="Add its origin to SecuritySettings(origins=...).",
        )


def return_address(pending: "PendingSignIn", ticket: str) -> str:
    status = "refused" if pending.error else "ready"
    sign = "&" if "?" in pending.return_to else "?"
    query = urlencode({"grant": pending.id, "ticket": ticket, "status": status})
    return f"{pending.return_to}{sign}{query}"
