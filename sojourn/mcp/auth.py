"""Declare how requests to an MCP server get OAuth tokens.

A declaration holds no token, and sends nothing. What it makes for a server gets a token before the first request, renews it before it
ends, and once more when the server refuses it. No lock is held over a request: callers wait for each other only while one gets the
token for all.
"""

import asyncio
import hashlib
import importlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import structlog

from sojourn.authoring.options import TEXT, TEXTS, Kind, declares
from sojourn.errors import DefinitionError, ToolUnavailable
from sojourn.mcp.caller import Caller, Credentials
from sojourn.mcp.errors import ServerUnusable

if TYPE_CHECKING:
    from sojourn.oauth import Token
    from sojourn.oauth.discovery import Challenge
    from sojourn.vault.sealed import TokenVault

__all__ = ["Auth", "ClientCredentials"]

_log = structlog.get_logger("sojourn.mcp")
_SECRET = Kind("a text", TEXT.fits, is_secret=True)


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
        return _ClientTokens(self, url)

    async def request(self, url: str, challenge: "Challenge | None") -> "Token | None":
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


Auth = ClientCredentials


class _ClientTokens:
    differs_by_caller = False

    def __init__(self, declared: ClientCredentials, url: str) -> None:
        self.vault: TokenVault | None = None
        self._declared = declared
        self._url = url
        names = "\0".join((url, declared.issuer, declared.client_id, *declared.scopes))
        self._key = f"client/{hashlib.sha256(names.encode()).hexdigest()[:32]}"
        self._token: Token | None = None
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()

    async def headers(self, caller: Caller) -> Mapping[str, str]:
        token = self._token
        if token is None or token.is_due:
            token = await self._renew(token, None)
        if token is None:
            return {}
        caller.note((token.access_token,))
        return {"authorization": f"Bearer {token.access_token}"}

    async def renew(self, caller: Caller, sent: Mapping[str, str], challenge: Mapping[str, str]) -> bool:  # noqa: ARG002
        refused = self._token
        if refused is not None and sent.get("authorization") != f"Bearer {refused.access_token}":
            return True  # another request has renewed it meanwhile
        from sojourn.oauth.discovery import Challenge  # noqa: PLC0415 - loads the SDK

        await self._renew(refused, Challenge.of(challenge))
        return True

    async def _renew(self, old: "Token | None", challenge: "Challenge | None") -> "Token | None":
        """Return a newer token than an old one, which one caller gets for all.

        Raises:
            ServerUnusable: The client cannot get one.
            ToolUnavailable: The issuer does not answer now.
        """
        lock = self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        async with lock:
            if self._token is not old:
                return self._token
            # In a thread: loading the SDK takes about a second.
            oauth: Any = await asyncio.to_thread(importlib.import_module, "sojourn.oauth")
            try:
                self._token = await self._shared(old, challenge)
            except oauth.OAuthRefused as error:
                self._report(error)
                raise ServerUnusable(f"its MCP server gives no access: {error}") from None
            except ToolUnavailable as error:
                self._report(error)
                if old is not None and challenge is None:
                    return old  # it was only due, and is good until it ends
                raise
            if old is not None:
                _log.info("oauth_token_renewed", host=urlsplit(self._url).hostname)
            return self._token

    async def _shared(self, old: "Token | None", challenge: "Challenge | None") -> "Token | None":
        """Return the token that another process has got, or a new one."""
        if self.vault is None:
            return await self._declared.request(self._url, challenge)
        from sojourn.oauth import Token  # noqa: PLC0415 - loads the SDK

        async with self.vault.lock(self._key):
            stored = await self.vault.get(self._key)
            known = None if stored is None else Token.model_validate_json(stored)
            if known and not known.is_due and (old is None or known.access_token != old.access_token):
                return known
            token = await self._declared.request(self._url, challenge)
            if token is not None:
                await self.vault.put(self._key, token.model_dump_json().encode(), expires_in=token.lifetime)
            return token

    def _report(self, error: Exception) -> None:
        _log.warning("oauth_renewal_failed", host=urlsplit(self._url).hostname, reason=str(error))


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
