"""Ask an authorization server for tokens (RFC 6749)."""

import time
import uuid
from base64 import b64encode
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from mcp.shared.auth import OAuthMetadata, OAuthToken
from pydantic import ValidationError

from sojourn.contracts.record import Record
from sojourn.oauth.endpoints import Endpoints, OAuthRefused

__all__ = ["OAuthClient", "Token", "authenticate", "request_token"]

_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_SECONDS = 300
_EARLY = 60.0
_SHARE = 0.2


class OAuthClient(Record):
    """The client that asks, as its issuer knows it."""

    client_id: str
    client_secret: str | None = None
    private_key: str | None = None
    """A private key as PEM, in place of a secret (RFC 7523)."""
    algorithm: str = "RS256"
    """The signature algorithm of the key."""
    auth_method: str | None = None
    """How it authenticates at the token endpoint; by default as the issuer's metadata says."""


class Token(Record):
    """An access token, and what renews it."""

    access_token: str
    refresh_token: str | None = None
    scope: str | None = None
    issued_at: float
    """Seconds since 1970, by the clock here."""
    expires_at: float | None = None
    """Seconds since 1970; None if the issuer did not say."""

    @property
    def is_due(self) -> bool:
        """Whether it ends within a minute, or has spent four fifths of a short time."""
        if self.expires_at is None:
            return False
        early = min(_EARLY, (self.expires_at - self.issued_at) * _SHARE)
        return time.time() >= self.expires_at - early

    @property
    def lifetime(self) -> timedelta | None:
        """How long it is good, or None if the issuer did not say."""
        if self.expires_at is None:
            return None
        return timedelta(seconds=max(self.expires_at - self.issued_at, 1.0))


async def request_token(
    endpoints: Endpoints, metadata: OAuthMetadata, client: OAuthClient, form: Mapping[str, str]
) -> Token:
    """Return the token for a grant.

    Args:
        endpoints: Sends the request.
        metadata: That of the issuer.
        client: Who asks.
        form: The grant, such as `{"grant_type": "client_credentials"}`; empty fields are left out.

    Raises:
        OAuthRefused: The issuer refuses the grant, such as with the code `invalid_grant`.
        ToolUnavailable: Nothing answers there now.
    """
    fields = {name: value for name, value in form.items() if value}
    headers = authenticate(client, metadata, fields)
    asked_at = time.time()
    reply = await endpoints.post(str(metadata.token_endpoint), form=fields, headers=headers)
    if reply.status != 200:
        why = reply.error_code or f"HTTP {reply.status}"
        raise OAuthRefused(f"its issuer of tokens refuses the request ({why})", reply.error_code)
    try:
        given = OAuthToken.model_validate(reply.body)
    except ValidationError:
        raise OAuthRefused("its issuer of tokens sends an answer that is no token") from None
    if not _is_sendable(given.access_token):
        raise OAuthRefused("its issuer of tokens sends a token that cannot be sent")
    return Token(
        access_token=given.access_token,
        refresh_token=given.refresh_token or form.get("refresh_token"),
        scope=given.scope if given.scope is not None else form.get("scope"),
        issued_at=asked_at,
        expires_at=None if given.expires_in is None else asked_at + given.expires_in,
    )


def _is_sendable(token: str) -> bool:
    return token.isascii() and token.isprintable() and " " not in token


def authenticate(client: OAuthClient, metadata: OAuthMetadata, fields: dict[str, str]) -> dict[str, str]:
    """Add the client's authentication to a form, and return its headers."""
    method = client.auth_method or _method(client, metadata)
    if method == "client_secret_basic":
        # Both parts are encoded as in a form (RFC 6749, section 2.3.1).
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret or '', safe='')}"
        return {"authorization": f"Basic {b64encode(pair.encode()).decode()}"}
    fields["client_id"] = client.client_id
    if method == "client_secret_post":
        fields["client_secret"] = client.client_secret or ""
    elif method == "private_key_jwt":
        fields |= {"client_assertion_type": _ASSERTION, "client_assertion": _assertion(client, metadata)}
    return {}


def _method(client: OAuthClient, metadata: OAuthMetadata) -> str:
    if client.private_key:
        return "private_key_jwt"
    if not client.client_secret:
        return "none"
    offered = metadata.token_endpoint_auth_methods_supported or ["client_secret_basic"]
    return "client_secret_post" if "client_secret_basic" not in offered else "client_secret_basic"


def _assertion(client: OAuthClient, metadata: OAuthMetadata) -> str:
    import jwt  # noqa: PLC0415 - comes with the MCP SDK, and few clients have keys

    now = int(time.time())
    claims: dict[str, Any] = {
        "iss": client.client_id,
        "sub": client.client_id,
        "aud": str(metadata.issuer),
        "iat": now,
        "exp": now + _ASSERTION_SECONDS,
        "jti": uuid.uuid4().hex,
    }
    try:
        return jwt.encode(claims, client.private_key or "", algorithm=client.algorithm)
    except (ValueError, TypeError, NotImplementedError, jwt.PyJWTError) as error:
        # No cause: some of these errors quote the key.
        raise OAuthRefused(
            f"the client's private key cannot sign with {client.algorithm} ({type(error).__name__})"
        ) from None
