"""Find out who issues tokens for an MCP server (RFC 9728, RFC 8414).

A server may name any issuer. So its metadata has to name the server itself as the resource, the issuer's metadata has to name the
issuer, and a client with a secret names its issuer in its declaration, so that the server cannot lead it elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
    extract_field_from_www_auth,
    get_client_metadata_scopes,
    issuers_match,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import ValidationError

from sojourn.oauth.endpoints import Endpoints, OAuthRefused
from sojourn.values.json_value import is_object

__all__ = ["Authorization", "Challenge", "discover"]


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a server says beside HTTP 401 or 403 (RFC 6750, section 3)."""

    scope: str | None = None
    error: str | None = None
    resource_metadata: str | None = None

    @classmethod
    def of(cls, headers: Mapping[str, str]) -> "Challenge":
        response = httpx2.Response(401, headers=dict(headers))
        names = ("scope", "error", "resource_metadata")
        return cls(**{name: extract_field_from_www_auth(response, name) for name in names})


@dataclass(frozen=True, slots=True)
class Authorization:
    """Who issues tokens for a server."""

    resource: str
    """What tokens are for (RFC 8707)."""
    issuer: str
    metadata: OAuthMetadata
    scope: str | None
    """The scopes to ask for, separated by spaces, by the challenge or the metadata."""
    is_named: bool
    """Whether the server has metadata that names the issuer."""


async def discover(
    endpoints: Endpoints, challenge: Challenge, issuer: str | None = None, *, renews: bool = False
) -> Authorization:
    """Read the metadata of a server and of its issuer.

    Args:
        endpoints: Sends the requests.
        challenge: What the server said to a request without a good token.
        issuer: The only issuer to accept; by default the first that the server names.
        renews: Whether the client can use refresh tokens.

    Raises:
        OAuthRefused: The metadata is missing or contradicts itself, or names another issuer.
        ToolUnavailable: Nothing answers there now.
    """
    resource = resource_url_from_server_url(endpoints.server_url)
    named = await _resource_metadata(endpoints, challenge)
    if named is not None:
        if not check_resource_allowed(requested_resource=resource, configured_resource=str(named.resource)):
            raise OAuthRefused("its metadata is for another server, so its tokens cannot be trusted")
        resource = str(named.resource)
    offered = [str(each) for each in named.authorization_servers] if named else []
    wanted = next((each for each in offered if issuer and issuers_match(each, issuer)), None)
    if issuer and offered and wanted is None:
        raise OAuthRefused("it names another issuer of tokens than the one that is declared")
    expected = wanted or issuer or next(iter(offered), None)
    metadata = await _issuer_metadata(endpoints, expected)
    scope = get_client_metadata_scopes(
        challenge.scope, named, metadata, ["refresh_token"] if renews else None
    )
    return Authorization(resource, str(metadata.issuer), metadata, scope, named is not None)


async def _resource_metadata(endpoints: Endpoints, challenge: Challenge) -> ProtectedResourceMetadata | None:
    for url in build_protected_resource_metadata_discovery_urls(
        challenge.resource_metadata, endpoints.server_url
    ):
        reply = await endpoints.get(url)
        if reply.status == 200:
            try:
                return ProtectedResourceMetadata.model_validate(reply.body)
            except ValidationError:
                continue
    return None


async def _issuer_metadata(endpoints: Endpoints, expected: str | None) -> OAuthMetadata:
    for url in build_oauth_authorization_server_metadata_discovery_urls(expected, endpoints.server_url):
        reply = await endpoints.get(url)
        if reply.status != 200:
            continue
        metadata = _parse(reply.body)
        if metadata is None:
            continue
        if (
            expected
            and str(metadata.issuer) != expected
            and not issuers_match(str(metadata.issuer), expected)
        ):
            raise OAuthRefused("the metadata of its issuer of tokens names another issuer")
        return metadata
    if expected:
        raise OAuthRefused("its issuer of tokens has no metadata")
    return _older(endpoints.server_url)


def _parse(body: Any) -> OAuthMetadata | None:
    if not is_object(body):
        return None
    # RFC 8414 wants no authorization endpoint of an issuer whose clients are programs only.
    fields = {"authorization_endpoint": f"{body.get('issuer')}/authorize", **body}
    try:
        return OAuthMetadata.model_validate(fields)
    except ValidationError:
        return None


def _older(server_url: str) -> OAuthMetadata:
    """Return the endpoints of a server of 2025-03-26 without metadata."""
    origin = str(httpx2.URL(server_url).copy_with(path="/", query=None, fragment=None)).rstrip("/")
    return OAuthMetadata.model_validate(
        {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
        }
    )
