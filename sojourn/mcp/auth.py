"""Declare how requests to an MCP server get OAuth tokens.

A declaration holds no token, and sends nothing. What it makes for a server gets a token before the first request, renews it before it
ends, and once more when the server refuses it. No lock is held over a request: callers wait for each other only while one gets the
token for all.
"""

import asyncio
import hashlib
import importlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import structlog
from cachetools import LRUCache, TTLCache

from sojourn.authoring.options import TEXT, TEXTS, Kind, declares, is_async
from sojourn.contracts.principal import Principal, mark_of
from sojourn.errors import DefinitionError, ToolUnavailable
from sojourn.mcp.caller import Caller, Credentials
from sojourn.mcp.errors import UNAUTHORIZED, ServerUnusable, SignInRequired

if TYPE_CHECKING:
    from sojourn.oauth import Token
    from sojourn.oauth.discovery import Challenge
    from sojourn.oauth.grants import Grant, Grants, SignInServer
    from sojourn.vault.sealed import TokenVault

__all__ = ["Auth", "ClientCredentials", "GrantedTokens", "IdentityAssertion", "IssuedTokens", "SignIn"]

_log = structlog.get_logger("sojourn.mcp")
_SECRET = Kind("a text", TEXT.fits, is_secret=True)
_ASSERTION_SECONDS = 30.0
_REFUSAL_SECONDS = 5
_CACHE_SECONDS = 60
_CACHED = 1_024


@declares(
    "mcp.ClientCredentials",
    client_id=TEXT,
    issuer=TEXT,
    client_secret=_SECRET,
    private_key=_SECRET,
    algorithm=TEXT,
    scopes=TEXTS,
)
class ClientCredentials:
    """The deployment acts for itself, as a client with a secret or a key.

    All principals and the listing share its token (RFC 6749, section 4.4).

    Args:
        client_id: The id of the client at the issuer.
        issuer: The issuer that knows the client: the secret is sent nowhere else, whatever the server's metadata says.
        client_secret: The client's secret.
        private_key: A private key as PEM, in place of a secret.
        algorithm: The key's signature algorithm, such as `ES256`.
        scopes: The scopes to ask for; by default those that the server names.

    Raises:
        DefinitionError: The issuer is no web address, or there are both a secret and a key, or neither.
    """

    differs_by_caller = False

    def __init__(
        self,
        client_id: str,
        *,
        issuer: str,
        client_secret: str | None = None,
        private_key: str | None = None,
        algorithm: str = "RS256",
        scopes: Sequence[str] = (),
    ) -> None:
        if (client_secret is None) == (private_key is None):
            raise DefinitionError("mcp.ClientCredentials takes a client_secret or a private_key")
        check_issuer("mcp.ClientCredentials", issuer)
        self.client_id = client_id
        self.issuer = issuer
        self.scopes = tuple(scopes)
        self._secret = client_secret
        self._key = private_key
        self._algorithm = algorithm

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values to mask in the server's texts."""
        return tuple(each for each in (self._secret, self._key) if each)

    def credentials(self, url: str) -> Credentials:
        """Return what gets the tokens for a server."""
        return IssuedTokens(self, url)

    @property
    def names(self) -> tuple[str, ...]:
        """What tells its tokens apart from those of another client."""
        return (self.client_id, *self.scopes)

    async def request(
        self,
        url: str,
        challenge: "Challenge | None",
        principal: Principal | None,  # noqa: ARG002 - all share the token
    ) -> "Token | None":
        """Return a new token for a server.

        Without a challenge this is None if the server has no metadata at the usual address: then it has to say first where that is.

        Raises:
            OAuthRefused: The metadata or the issuer lets it have none.
            ToolUnavailable: The issuer does not answer now.
        """
        from sojourn.oauth import Endpoints, OAuthClient, discover, request_token  # noqa: PLC0415 - loads the SDK
        from sojourn.oauth.discovery import Challenge  # noqa: PLC0415

        endpoints = Endpoints(url)
        found = await discover(endpoints, challenge or Challenge(), self.issuer)
        if challenge is None and not found.is_named:
            return None
        client = OAuthClient(
            client_id=self.client_id,
            client_secret=self._secret,
            private_key=self._key,
            algorithm=self._algorithm,
        )
        form = {
            "grant_type": "client_credentials",
            "resource": found.resource,
            "scope": " ".join(self.scopes) or found.scope or "",
        }
        return await request_token(endpoints, found.metadata, client, form)

    def __repr__(self) -> str:
        return f"ClientCredentials({self.client_id!r}, issuer={self.issuer!r})"


@declares(
    "mcp.SignIn",
    scopes=TEXTS,
    issuer=TEXT,
    client_id=TEXT,
    client_secret=_SECRET,
    client_metadata_url=TEXT,
    title=TEXT,
)
class SignIn:
    """Each person signs in at the server, and calls act for the one who asked.

    A call without a grant of its principal waits, as for the answer to a question, until the principal has signed in.

    Args:
        scopes: The scopes to ask for; by default those that the server names.
        issuer: The only issuer to accept; by default the one that the server names.
        client_id: The client's id at the issuer, which has to be named then; by default Sojourn registers a client there.
        client_secret: Its secret, if it has one.
        client_metadata_url: The address of a client metadata document, for issuers that take one in place of a registration.
        title: The server's name for people; by default its host.

    Raises:
        DefinitionError: There is a client without its issuer, a secret without its client, or the issuer is no web address.
    """

    def __init__(
        self,
        *,
        scopes: Sequence[str] = (),
        issuer: str | None = None,
        client_id: str | None = None,
        client_secret: str | None = None,
        client_metadata_url: str | None = None,
        title: str = "",
    ) -> None:
        if (client_id is not None and issuer is None) or (client_secret is not None and client_id is None):
            raise DefinitionError(
                "mcp.SignIn: a client_id needs its issuer, and a client_secret both, so that a server leads the client nowhere else"
            )
        if issuer is not None:
            check_issuer("mcp.SignIn", issuer)
        self.scopes = tuple(scopes)
        self.issuer = issuer
        self.title = title
        self._client_id = client_id
        self._secret = client_secret
        self._metadata_url = client_metadata_url

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values to mask in the server's texts."""
        return (self._secret,) if self._secret else ()

    def credentials(self, url: str) -> Credentials:
        """Return what gets the tokens for a server."""
        return GrantedTokens(self, url)

    def server(self, toolset_id: str, url: str) -> "SignInServer":
        """Return the server at which principals sign in."""
        from sojourn.oauth.grants import SignInServer  # noqa: PLC0415 - loads the SDK

        return SignInServer(
            toolset=toolset_id,
            url=url,
            title=self.title,
            scopes=self.scopes,
            issuer=self.issuer,
            client_id=self._client_id,
            client_secret=self._secret,
            client_metadata_url=self._metadata_url,
        )

    def __repr__(self) -> str:
        return f"SignIn({self.title!r})"


GetAssertion = Callable[[Principal | None, str, str], Awaitable[str | None]]
"""Returns an assertion for a principal, the issuer's id as its audience, and the server's resource; None stands for listing."""


@declares(
    "mcp.IdentityAssertion",
    client_id=TEXT,
    issuer=TEXT,
    assertion=Kind("an async function of principal, audience and resource", is_async),
    client_secret=_SECRET,
    scopes=TEXTS,
)
class IdentityAssertion:
    """Each principal acts by an assertion of an identity provider.

    The issuer takes it for a token (RFC 7523): an ID-JAG of the enterprise's provider, so that people need not sign in at the server, or the JWT
    of a workload. A refused assertion is not repeated.

    Args:
        client_id: The id of the client at the issuer.
        issuer: The issuer that takes the assertion: it is sent nowhere else, whatever the server's metadata says.
        assertion: Async function of the principal (None for listing), the audience and the resource. It returns the assertion, or
            None for a principal that has none.
        client_secret: The client's secret, if it has one.
        scopes: The scopes to ask for; by default those that the server names.

    Raises:
        DefinitionError: The issuer is no web address.
    """

    differs_by_caller = True

    def __init__(
        self,
        client_id: str,
        *,
        issuer: str,
        assertion: GetAssertion,
        client_secret: str | None = None,
        scopes: Sequence[str] = (),
    ) -> None:
        check_issuer("mcp.IdentityAssertion", issuer)
        self.client_id = client_id
        self.issuer = issuer
        self.scopes = tuple(scopes)
        self._assertion = assertion
        self._secret = client_secret

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values to mask in the server's texts."""
        return (self._secret,) if self._secret else ()

    @property
    def names(self) -> tuple[str, ...]:
        """What tells its tokens apart from those of another client."""
        return (self.client_id, *self.scopes)

    def credentials(self, url: str) -> Credentials:
        """Return what gets the tokens for a server."""
        return IssuedTokens(self, url)

    async def request(
        self, url: str, challenge: "Challenge | None", principal: Principal | None
    ) -> "Token | None":
        """Return a new token for a principal, or None if it has no assertion.

        Raises:
            OAuthRefused: The issuer refuses the assertion.
            ToolUnavailable: The function fails, or the issuer does not answer now.
        """
        from sojourn.oauth import Endpoints, OAuthClient, discover, request_token  # noqa: PLC0415 - loads the SDK
        from sojourn.oauth.discovery import Challenge  # noqa: PLC0415

        endpoints = Endpoints(url)
        found = await discover(endpoints, challenge or Challenge(), self.issuer)
        try:
            async with asyncio.timeout(_ASSERTION_SECONDS):
                assertion = await self._assertion(principal, found.issuer, found.resource)
        except ToolUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - becomes an error of the call
            # Only its class, and no cause: the text may quote the assertion, and causes are recorded too.
            raise ToolUnavailable(f"the function of assertions fails with {type(error).__name__}") from None
        if assertion is None:
            return None
        client = OAuthClient(client_id=self.client_id, client_secret=self._secret)
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": assertion,
            "resource": found.resource,
            "scope": " ".join(self.scopes) or found.scope or "",
        }
        return await request_token(endpoints, found.metadata, client, form)

    def __repr__(self) -> str:
        return f"IdentityAssertion({self.client_id!r}, issuer={self.issuer!r})"


Auth = ClientCredentials | IdentityAssertion | SignIn


class IssuedTokens:
    """Tokens that the deployment gets by itself, for all principals or for each."""

    def __init__(self, declared: "ClientCredentials | IdentityAssertion", url: str) -> None:
        self.differs_by_caller = declared.differs_by_caller
        self._vault: TokenVault | None = None
        self._declared = declared
        self._url = url
        self._tokens = LRUCache[str, "Token"](maxsize=_CACHED)
        """By owner: a principal, or none."""
        self._refusals = TTLCache[str, str](maxsize=_CACHED, ttl=_REFUSAL_SECONDS)
        """What the issuer refused is not sent again at once: one call alone makes several requests."""
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, LRUCache[str, asyncio.Lock]] = (
            WeakKeyDictionary()
        )

    def bind(self, toolset_id: str, vault: "TokenVault | None") -> None:  # noqa: ARG002 - its toolsets share the token
        self._vault = vault

    async def refuse(
        self,
        caller: Caller,  # noqa: ARG002
        sent: Mapping[str, str],  # noqa: ARG002
        status: int,  # noqa: ARG002
        challenge: Mapping[str, str],  # noqa: ARG002
    ) -> bool:
        return False

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        token = self._tokens.get(self._owner(caller))
        if token is None or token.is_due:
            token = await self._renew(caller, token, None)
        if token is None:
            return {}
        caller.note((token.access_token,))
        return {"authorization": f"Bearer {token.access_token}"}

    async def renew(self, caller: Caller, sent: Mapping[str, str], challenge: Mapping[str, str]) -> bool:
        refused = self._tokens.get(self._owner(caller))
        if refused is not None and sent.get("authorization") != f"Bearer {refused.access_token}":
            return True  # another request has renewed it meanwhile
        from sojourn.oauth.discovery import Challenge  # noqa: PLC0415 - loads the SDK

        return await self._renew(caller, refused, Challenge.of(challenge)) is not None

    def _owner(self, caller: Caller) -> str:
        principal = _principal_of(caller) if self.differs_by_caller else None
        return mark_of(principal) if principal else ""

    async def _renew(
        self, caller: Caller, old: "Token | None", challenge: "Challenge | None"
    ) -> "Token | None":
        """Return a newer token than an old one, which one caller gets for all.

        Raises:
            ServerUnusable: The client cannot get one.
            ToolUnavailable: The issuer does not answer now.
        """
        owner = self._owner(caller)
        locks = self._locks.setdefault(asyncio.get_running_loop(), LRUCache(maxsize=_CACHED))
        async with locks.setdefault(owner, asyncio.Lock()):
            if (known := self._tokens.get(owner)) is not old:
                return known
            if why := self._refusals.get(owner):
                raise ServerUnusable(why)
            # In a thread: loading the SDK takes about a second.
            oauth: Any = await asyncio.to_thread(importlib.import_module, "sojourn.oauth")
            try:
                token = await self._shared(owner, caller, old, challenge)
            except oauth.OAuthRefused as error:
                self._report(error)
                self._refusals[owner] = f"its MCP server gives no access: {error}"
                raise ServerUnusable(self._refusals[owner]) from None
            except ToolUnavailable as error:
                self._report(error)
                if old is not None and challenge is None:
                    return old  # it was only due, and is good until it ends
                raise
            if old is not None:
                _log.info("oauth_token_renewed", host=urlsplit(self._url).hostname)
            if token is not None:
                self._tokens[owner] = token
            return token

    async def _shared(
        self, owner: str, caller: Caller, old: "Token | None", challenge: "Challenge | None"
    ) -> "Token | None":
        """Return the token that another process has got, or a new one."""
        principal = _principal_of(caller) if owner else None
        if self._vault is None:
            return await self._declared.request(self._url, challenge, principal)
        from sojourn.oauth import Token  # noqa: PLC0415 - loads the SDK

        names = "\0".join((self._url, self._declared.issuer, *self._declared.names, owner))
        key = f"client/{hashlib.sha256(names.encode()).hexdigest()[:32]}"
        async with self._vault.lock(key):
            stored = await self._vault.get(key)
            known = None if stored is None else Token.model_validate_json(stored)
            if known and not known.is_due and (old is None or known.access_token != old.access_token):
                return known
            token = await self._declared.request(self._url, challenge, principal)
            if token is not None:
                await self._vault.put(
                    key,
                    token.model_dump_json().encode(),
                    tenant=principal.tenant if principal else "",
                    expires_in=token.lifetime,
                )
            return token

    def _report(self, error: Exception) -> None:
        _log.warning("oauth_renewal_failed", host=urlsplit(self._url).hostname, reason=str(error))


class GrantedTokens:
    """The tokens that principals have granted."""

    differs_by_caller = True

    def __init__(self, declared: SignIn, url: str) -> None:
        self.declared = declared
        self.url = url
        self._grants: Grants | None = None
        self._vault: TokenVault | None = None
        self._toolset_id = ""
        self._known = TTLCache[str, "Grant"](maxsize=_CACHED, ttl=_CACHE_SECONDS)
        """By principal. A grant that was revoked is used for a minute at most."""
        self._renewals: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[tuple[str, str], asyncio.Task[Grant | None]]
        ] = WeakKeyDictionary()
        """By principal and token to renew."""

    @property
    def server(self) -> "SignInServer":
        return self.declared.server(self._toolset_id, self.url)

    def bind(self, toolset_id: str, vault: "TokenVault | None") -> None:
        if vault is None:
            raise DefinitionError(
                f"toolset {toolset_id}: what people grant by mcp.SignIn is kept in a vault, and there is none; set SOJOURN_VAULT"
            )
        self._toolset_id = toolset_id
        self._vault = vault

    async def grants(self) -> "Grants":
        if self._grants is None:
            if self._vault is None:
                raise ServerUnusable("its worker has no vault for what people grant")
            # In a thread: loading the SDK takes about a second.
            module: Any = await asyncio.to_thread(importlib.import_module, "sojourn.oauth.grants")
            self._grants = module.Grants(self._vault, self.server)
        assert self._grants is not None
        return self._grants

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        principal = _principal_of(caller)
        grant = await self.find(principal) if principal else None
        if principal is None or grant is None:
            return {}
        if grant.token.is_due and grant.token.refresh_token:
            grant = await self._renew(principal, grant) or await self._find_again(principal)
        if grant is None:
            return {}
        caller.note((grant.token.access_token,))
        return {"authorization": f"Bearer {grant.token.access_token}"}

    async def find(self, principal: Principal) -> "Grant | None":
        """Return the grant of a principal, as it was a minute ago at most."""
        grants = await self.grants()
        key = grants.key(principal)
        grant = self._known.get(key)
        if grant is None and (grant := await grants.find(principal)) is not None:
            self._known[key] = grant
        return grant

    async def _find_again(self, principal: Principal) -> "Grant | None":
        """Return the grant of a principal, as it is in the vault now."""
        grants = await self.grants()
        self._known.pop(grants.key(principal), None)
        return await self.find(principal)

    async def renew(self, caller: Caller, sent: Mapping[str, str], challenge: Mapping[str, str]) -> bool:
        principal = _principal_of(caller)
        if principal is None:
            await self.refuse(caller, sent, UNAUTHORIZED, challenge)
            return False
        grant = await self._find_again(principal)
        if grant is None:
            raise self._needed(None, challenge)
        if sent.get("authorization") != f"Bearer {grant.token.access_token}":
            return True  # the principal has signed in, or another request has renewed it
        if await self._renew(principal, grant) is None:
            await self._drop(principal, grant)
            raise self._needed(grant, challenge)
        return True

    async def refuse(
        self, caller: Caller, sent: Mapping[str, str], status: int, challenge: Mapping[str, str]
    ) -> bool:
        principal = _principal_of(caller)
        if principal is None:
            if caller.meta is not None:
                raise ServerUnusable("its MCP server wants a person to sign in, and the run acts for none")
            if status == UNAUTHORIZED:
                raise self._needed(None, challenge)
            return False
        from sojourn.oauth.discovery import Challenge  # noqa: PLC0415 - loads the SDK

        said = Challenge.of(challenge)
        if status != UNAUTHORIZED and said.error != "insufficient_scope":
            return False
        grant = await self._find_again(principal)
        if grant is None:
            raise self._needed(None, challenge)
        if sent.get("authorization") != f"Bearer {grant.token.access_token}":
            return True  # the principal has signed in once more, or another process has renewed it
        if status == UNAUTHORIZED:
            await self._drop(principal, grant)
            raise self._needed(grant, challenge)
        # Asking again gives no scope that was requested before.
        if set((said.scope or "").split()) - set(grant.scope.split()):
            raise self._needed(grant, challenge)
        return False

    async def _renew(self, principal: Principal, grant: "Grant") -> "Grant | None":
        """Return a grant with another token, or None if only a sign-in gives one.

        Calls wait for one task, which goes on if they are canceled: the issuer gives a rotated token once.
        """
        renewals = self._renewals.setdefault(asyncio.get_running_loop(), {})
        key = (mark_of(principal), grant.token.access_token)
        if (task := renewals.get(key)) is None:
            task = renewals[key] = asyncio.create_task(self._request_renewal(principal, grant))

            def end(done: "asyncio.Task[Grant | None]") -> None:
                del renewals[key]
                if not done.cancelled():
                    done.exception()  # retrieved: all who waited may have been canceled

            task.add_done_callback(end)
        return await asyncio.shield(task)

    async def _request_renewal(self, principal: Principal, grant: "Grant") -> "Grant | None":
        grants = await self.grants()
        try:
            renewed = await grants.renew(principal, grant.token)
        except ToolUnavailable as error:
            _log.warning("oauth_renewal_failed", toolset=self._toolset_id, reason=str(error))
            if (grant.token.expires_at or 0) > time.time():
                return grant  # it was only due, and is good until it ends
            raise
        if renewed is None:
            _log.warning("oauth_renewal_failed", toolset=self._toolset_id, reason="refused")
        else:
            _log.info("oauth_token_renewed", toolset=self._toolset_id)
            self._known[grants.key(principal)] = renewed
        return renewed

    async def _drop(self, principal: Principal, grant: "Grant") -> None:
        grants = await self.grants()
        self._known.pop(grants.key(principal), None)
        await grants.drop(principal, grant.token)

    def _needed(self, grant: "Grant | None", challenge: Mapping[str, str]) -> SignInRequired:
        from mcp.client.auth.utils import union_scopes  # noqa: PLC0415 - loads the SDK

        from sojourn.oauth.discovery import Challenge  # noqa: PLC0415

        said = Challenge.of(challenge)
        scopes = union_scopes(" ".join(self.declared.scopes), grant.scope if grant else None)
        return SignInRequired((union_scopes(scopes, said.scope) or "").split(), said.resource_metadata)


def _principal_of(caller: Caller) -> Principal | None:
    return caller.meta.principal if caller.meta else None


def check_issuer(place: str, issuer: str) -> None:
    try:
        parts = urlsplit(issuer)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
    except ValueError:
        is_valid = False
    if not is_valid:
        raise DefinitionError(
            f"{place}: the issuer is an address such as https://login.example.com, as its metadata names it"
        )
