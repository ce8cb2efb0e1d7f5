"""Begin, complete, renew and revoke what principals grant at MCP servers.

A sign-in is two calls with a browser between them, so that nothing waits in memory: `begin` returns where to send the browser, the
callback keeps the code, and `complete` redeems it for the principal that began. It takes a ticket, which only the browser that was
at the issuer gets: who sends the issuer's link to another person gets no grant of that person. All secrets are in the vault, sealed:
the verifier, the code, the tokens, and those of a registered client.
"""

import hashlib
import hmac
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

import structlog
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.client.auth.utils import (
    is_valid_client_metadata_url,
    should_use_client_metadata_url,
    union_scopes,
    validate_authorization_response_iss,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata
from pydantic import ValidationError

from sojourn.contracts.principal import Principal, mark_of
from sojourn.contracts.record import Record
from sojourn.errors import ToolUnavailable
from sojourn.network.client import is_local_url
from sojourn.oauth.discovery import Authorization, Challenge, discover
from sojourn.oauth.endpoints import Endpoints, OAuthRefused
from sojourn.oauth.tokens import OAuthClient, Token, authenticate, request_token
from sojourn.vault.sealed import TokenVault

__all__ = ["Begun", "Grant", "Grants", "PendingSignIn", "Revocation", "SignInServer"]

_log = structlog.get_logger("sojourn.oauth")

PENDING = timedelta(minutes=10)
"""How long a sign-in may take from the click on."""

_MAX_TEXT = 4_000


@dataclass(frozen=True, slots=True)
class SignInServer:
    """A server at which principals sign in, as its toolset declares it."""

    toolset: str
    url: str
    title: str = ""
    scopes: tuple[str, ...] = ()
    issuer: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    client_metadata_url: str | None = None

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def origin(self) -> tuple[str, str]:
        parts = urlsplit(self.url)
        return parts.scheme.lower(), self.host.lower()


class Grant(Record):
    """Access to a server that a principal has given."""

    toolset: str
    server_url: str
    subject: str
    tenant: str
    client: OAuthClient
    issuer: str
    metadata: dict[str, Any]
    """The issuer's metadata, as it was at the sign-in."""
    resource: str
    scope: str
    """All scopes that were ever requested for it."""
    token: Token
    given_at: float


class PendingSignIn(Record):
    """A sign-in between the click and the answer of the issuer."""

    id: str
    toolset: str
    subject: str
    tenant: str
    run_id: str = ""
    await_id: str = ""
    """The wait of the run that it answers; empty for none."""
    return_to: str = ""
    client: OAuthClient
    metadata: dict[str, Any]
    resource: str
    scope: str
    redirect_uri: str
    verifier: str
    code: str | None = None
    ticket_hash: str = ""
    """The hash of what the browser got that brought the code."""
    error: str | None = None
    """The issuer's refusal, such as `access_denied`."""


@dataclass(frozen=True, slots=True)
class Begun:
    id: str
    authorization_url: str
    expires_in: timedelta


@dataclass(frozen=True, slots=True)
class Revocation:
    was_there: bool
    """Whether there was a grant to delete."""
    is_accepted: bool | None = None
    """Whether the issuer revoked it too; None if it has no endpoint for that."""


class Grants:
    """The grants of principals at one server.

    Args:
        vault: Keeps them.
        server: The server.
        now: The clock, in seconds since 1970.
    """

    def __init__(self, vault: TokenVault, server: SignInServer, now: Callable[[], float] = time.time) -> None:
        self._vault = vault
        self._server = server
        self._now = now
        self._endpoints = Endpoints(server.url)

    def key(self, principal: Principal) -> str:
        return f"grant/{self._server.toolset}/{mark_of(principal)}"

    async def find(self, principal: Principal) -> Grant | None:
        """Return the grant of a principal, or None.

        A grant for another origin than that of the server as it is declared now does not count.

        Raises:
            ToolUnavailable: The vault does not answer.
        """
        stored = await self._vault.get(self.key(principal))
        if stored is None:
            return None
        grant = Grant.model_validate_json(stored)
        is_for_server = SignInServer(grant.toolset, grant.server_url).origin == self._server.origin
        is_own = (grant.subject, grant.tenant) == (principal.subject, principal.tenant)
        return grant if is_for_server and is_own else None

    async def begin(
        self,
        principal: Principal,
        callback: str,
        *,
        challenge: Challenge | None = None,
        run_id: str = "",
        await_id: str = "",
        return_to: str = "",
    ) -> Begun:
        """Begin a sign-in of a principal, which has ten minutes for it.

        Args:
            principal: Who signs in.
            callback: The address to which the issuer sends the browser back.
            challenge: What the server said, with the scopes to request.
            run_id: The run that waits for it.
            await_id: Its wait.
            return_to: Where the browser goes after that.

        Raises:
            OAuthRefused: The server's or the issuer's metadata lets no one sign in.
            ToolUnavailable: The vault or the issuer does not answer.
        """
        challenge = challenge or Challenge(scope=" ".join(self._server.scopes) or None)
        found = await discover(self._endpoints, challenge, self._server.issuer, renews=True)
        offered = found.metadata.code_challenge_methods_supported
        if offered is not None and "S256" not in offered:
            raise OAuthRefused("its issuer of tokens does not protect codes (PKCE with S256)")
        client = await self._client(found, callback)
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        pending = PendingSignIn(
            id=_id_of(state),
            toolset=self._server.toolset,
            subject=principal.subject,
            tenant=principal.tenant,
            run_id=run_id,
            await_id=await_id,
            return_to=return_to,
            client=client,
            metadata=_dump(found.metadata),
            resource=found.resource,
            scope=found.scope or "",
            redirect_uri=callback,
            verifier=verifier,
        )
        await self._keep(pending)
        digest = hashlib.sha256(verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": callback,
            "state": state,
            "code_challenge": urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
            "resource": found.resource,
            **({"scope": found.scope} if found.scope else {}),
            **({"prompt": "consent"} if "offline_access" in (found.scope or "").split() else {}),
        }
        endpoint = str(found.metadata.authorization_endpoint)
        return Begun(pending.id, f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}", PENDING)

    async def take_code(
        self, state: str, *, code: str = "", iss: str | None = None, error: str = ""
    ) -> tuple[PendingSignIn, str]:
        """Keep the code of a callback until the principal completes the sign-in.

        Returns the sign-in, and the ticket that completes it. It is for the browser of this request only.

        Raises:
            OAuthRefused: The state is unknown, used or older than ten minutes (`sign_in_expired`), or another issuer answers.
            ToolUnavailable: The vault does not answer.
        """
        pending = await self.pending(_id_of(state))
        if pending.code or pending.error:
            raise _expired()
        try:
            validate_authorization_response_iss(iss, OAuthMetadata.model_validate(pending.metadata))
        except OAuthFlowError:
            await self._vault.delete(_pending_key(pending.id))
            raise OAuthRefused("another issuer has answered the sign-in", "wrong_issuer") from None
        ticket = secrets.token_urlsafe(32)
        if error or not code or len(code) > _MAX_TEXT:
            taken = pending.model_copy(update={"error": error[:60] or "no_code"})
        else:
            taken = pending.model_copy(update={"code": code, "ticket_hash": _hash(ticket)})
        await self._keep(taken)
        return taken, ticket

    async def pending(self, id: str) -> PendingSignIn:
        """Return a sign-in under way.

        Raises:
            OAuthRefused: There is none with this id any more (`sign_in_expired`).
        """
        stored = await self._vault.get(_pending_key(id))
        found = None if stored is None else PendingSignIn.model_validate_json(stored)
        if found is None or found.toolset != self._server.toolset:
            raise _expired()
        return found

    async def complete(self, id: str, principal: Principal, ticket: str) -> PendingSignIn:
        """Redeem the code of a sign-in, and keep the grant.

        Raises:
            OAuthRefused: It is another principal's (`not_your_grant`), another browser's (`wrong_ticket`), over
                (`sign_in_expired`), or the issuer refuses it.
            ToolUnavailable: The vault or the issuer does not answer.
        """
        async with self._vault.lock(_pending_key(id)):
            pending = await self.pending(id)
            if (pending.subject, pending.tenant) != (principal.subject, principal.tenant):
                raise OAuthRefused("another principal has begun this sign-in", "not_your_grant")
            if pending.error:
                await self._vault.delete(_pending_key(id))
                raise OAuthRefused(f"the issuer has refused the sign-in ({pending.error})", "sign_in_refused")
            if pending.code is None:
                raise OAuthRefused("the issuer has not answered yet", "sign_in_pending")
            if not hmac.compare_digest(_hash(ticket), pending.ticket_hash):
                raise OAuthRefused("another browser has signed in at the issuer", "wrong_ticket")
            metadata = OAuthMetadata.model_validate(pending.metadata)
            form = {
                "grant_type": "authorization_code",
                "code": pending.code,
                "redirect_uri": pending.redirect_uri,
                "code_verifier": pending.verifier,
                "resource": pending.resource,
            }
            # A code is good once: it goes first, so that a repetition finds none.
            await self._vault.delete(_pending_key(id))
            token = await request_token(self._endpoints, metadata, pending.client, form)
            grant = Grant(
                toolset=self._server.toolset,
                server_url=self._server.url,
                subject=principal.subject,
                tenant=principal.tenant,
                client=pending.client,
                issuer=str(metadata.issuer),
                metadata=pending.metadata,
                resource=pending.resource,
                scope=pending.scope,
                token=token,
                given_at=self._now(),
            )
            async with self._vault.lock(self.key(principal)):
                before = await self.find(principal)
                scope = union_scopes(before.scope if before else None, pending.scope) or ""
                await self.keep(grant.model_copy(update={"scope": scope}))
        return pending

    async def renew(self, principal: Principal, refused: Token) -> Grant | None:
        """Return a grant with another token, or None if only a sign-in gives one.

        One process renews at a time: of two that send one refresh token, the issuer may take the second for a thief.

        Raises:
            ToolUnavailable: The vault or the issuer does not answer, or the issuer refuses for a reason that is not the grant.
        """
        async with self._vault.lock(self.key(principal)):
            grant = await self.find(principal)
            if grant is None or grant.token.access_token != refused.access_token:
                return grant
            token = grant.token.refresh_token
            if token is None:
                return None
            form = {"grant_type": "refresh_token", "refresh_token": token, "resource": grant.resource}
            try:
                renewed = await request_token(
                    self._endpoints, OAuthMetadata.model_validate(grant.metadata), grant.client, form
                )
            except OAuthRefused as error:
                if error.code == "invalid_grant":
                    return None
                raise ToolUnavailable(f"a grant cannot be renewed: {error}") from None
            renewed = renewed.model_copy(update={"scope": renewed.scope or grant.token.scope})
            grant = grant.model_copy(update={"token": renewed})
            await self.keep(grant)
            return grant

    async def keep(self, grant: Grant) -> None:
        owner = Principal(subject=grant.subject, tenant=grant.tenant)
        await self._vault.put(self.key(owner), grant.model_dump_json().encode(), tenant=grant.tenant)

    async def drop(self, principal: Principal, refused: Token) -> None:
        """Delete a grant whose token is good no more, unless it has another one by now."""
        async with self._vault.lock(self.key(principal)):
            grant = await self.find(principal)
            if grant is not None and grant.token.access_token == refused.access_token:
                await self._vault.delete(self.key(principal))

    async def revoke(self, principal: Principal) -> Revocation:
        """Revoke a grant at its issuer (RFC 7009), and delete it in any case.

        A renewal in flight ends first, so that it does not restore the grant.

        Raises:
            ToolUnavailable: The vault does not answer.
        """
        async with self._vault.lock(self.key(principal)):
            grant = await self.find(principal)
            if grant is None:
                return Revocation(was_there=False)
            try:
                is_accepted = await self._revoke_at_issuer(grant)
            finally:
                await self._vault.delete(self.key(principal))
        return Revocation(was_there=True, is_accepted=is_accepted)

    async def _revoke_at_issuer(self, grant: Grant) -> bool | None:
        metadata = OAuthMetadata.model_validate(grant.metadata)
        if not metadata.revocation_endpoint:
            return None
        form = {"token": grant.token.refresh_token or grant.token.access_token}
        try:
            headers = authenticate(grant.client, metadata, form)
            reply = await self._endpoints.post(str(metadata.revocation_endpoint), form=form, headers=headers)
        except (OAuthRefused, ToolUnavailable) as error:
            reason = str(error)
        else:
            if reply.status == 200:
                return True
            reason = reply.error_code or f"HTTP {reply.status}"
        _log.warning("oauth_revocation_failed", toolset=grant.toolset, reason=reason)
        return False

    async def _client(self, found: Authorization, callback: str) -> OAuthClient:
        """Return the client that the issuer knows, or register one."""
        server = self._server
        if server.client_id is not None:
            return OAuthClient(client_id=server.client_id, client_secret=server.client_secret)
        url = server.client_metadata_url
        if is_valid_client_metadata_url(url) and should_use_client_metadata_url(found.metadata, url):
            return OAuthClient(client_id=url or "", auth_method="none")
        names = hashlib.sha256(f"{found.issuer}\0{callback}".encode()).hexdigest()[:32]
        key = f"client/{server.toolset}/{names}"
        stored = await self._vault.get(key)
        if stored is not None:
            return OAuthClient.model_validate_json(stored)
        client = await self._register(found.metadata, callback)
        await self._vault.put(key, client.model_dump_json().encode())
        return client

    async def _register(self, metadata: OAuthMetadata, callback: str) -> OAuthClient:
        if metadata.registration_endpoint is None:
            raise OAuthRefused("its issuer registers no clients, so its toolset needs a client_id")
        body = {
            "client_name": "Sojourn",
            "redirect_uris": [callback],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": _registered_method(metadata),
            "application_type": "native" if is_local_url(callback) else "web",
        }
        reply = await self._endpoints.post(str(metadata.registration_endpoint), body=body)
        if reply.status not in (200, 201):
            raise OAuthRefused(
                f"its issuer refuses to register a client ({reply.error_code or reply.status})"
            )
        try:
            made = OAuthClientInformationFull.model_validate(reply.body)
            check_registration_usable(made)
        except (ValidationError, OAuthRegistrationError):
            raise OAuthRefused("its issuer registers a client that cannot be used") from None
        return OAuthClient(
            client_id=made.client_id,
            client_secret=made.client_secret,
            auth_method=made.token_endpoint_auth_method,
        )

    async def _keep(self, pending: PendingSignIn) -> None:
        await self._vault.put(
            _pending_key(pending.id),
            pending.model_dump_json().encode(),
            tenant=pending.tenant,
            expires_in=PENDING,
        )


def _registered_method(metadata: OAuthMetadata) -> str:
    offered = metadata.token_endpoint_auth_methods_supported or ["client_secret_basic"]
    known = ("none", "client_secret_basic", "client_secret_post")
    return next((each for each in known if each in offered), "none")


def _dump(metadata: OAuthMetadata) -> dict[str, Any]:
    return metadata.model_dump(mode="json", exclude_none=True)


def _id_of(state: str) -> str:
    return _hash(state)[:32]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _pending_key(id: str) -> str:
    return f"pending/{id}"


def _expired() -> OAuthRefused:
    return OAuthRefused("the sign-in is over, or took more than ten minutes", "sign_in_expired")
