"""Requests to the addresses that a server's metadata names.

A hostile server names what it likes: an address inside the network, which answers only the deployment, or one in clear text. So
an address is HTTPS, or this machine's; it is in a private network only if the MCP server is; no redirect is followed; and an answer
has a bounded size.
"""

import asyncio
import ipaddress
import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2

from sojourn.errors import SojournError, ToolUnavailable
from sojourn.network import http_client, retry_after_of
from sojourn.network.client import is_local_url
from sojourn.private import is_this_machine

__all__ = ["Endpoints", "OAuthRefused", "Reply"]

MAX_BYTES = 256_000
_SECONDS = 10.0
_CODE = re.compile(r"[a-z][a-z_]{0,60}\Z")
_BUSY = (408, 425, 429)
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""A gateway sends these to the IPv4 address in their last 32 bits (RFC 6052)."""


class OAuthRefused(SojournError):  # noqa: N818 - named for what happened
    """There is no token, says this clause, and another attempt changes nothing.

    Attributes:
        code: The error code of RFC 6749 if the authorization server gave one, such as `invalid_grant`.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: Any
    """The answer as JSON, or None if it is none."""

    @property
    def error_code(self) -> str:
        code: Any = self.body.get("error") if isinstance(self.body, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return code if isinstance(code, str) and _CODE.match(code) else ""


class Endpoints:
    """Sends the requests for one MCP server.

    Args:
        server_url: The address of the MCP server, which the deployment has chosen.
    """

    def __init__(self, server_url: str) -> None:
        self.server_url = server_url

    async def get(self, url: str) -> Reply:
        return await self._send("GET", url)

    async def post(
        self,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a form or a body of JSON.

        Raises:
            OAuthRefused: The address is not allowed, or it sends no answer that can be read.
            ToolUnavailable: Nothing answers there now.
        """
        content = {"json": body} if form is None else {"data": dict(form)}
        return await self._send("POST", url, headers=dict(headers or {}), **content)

    async def check(self, url: str) -> None:
        """Check that an address may be asked.

        Raises:
            OAuthRefused: It may not.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
            host.encode("idna")
            httpx2.URL(url)
        except (ValueError, httpx2.InvalidURL):
            host, port, parts = "", None, urlsplit("")
        if not host or parts.username or parts.password or parts.scheme not in ("http", "https"):
            raise OAuthRefused("its metadata names something that is no web address")
        is_near = is_local_url(url) or await _is_local_name(host, port or 443)
        if is_near and not is_local_url(self.server_url):
            raise OAuthRefused("its metadata names an address in a private network, and it is in none")
        if parts.scheme == "http" and not is_this_machine(host):
            raise OAuthRefused("its metadata names an address without HTTPS")

    async def _send(self, method: str, url: str, **options: Any) -> Reply:
        # The size of an answer is counted as received, so compression would evade the limit.
        options["headers"] = {
            "accept": "application/json",
            "accept-encoding": "identity",
            **options.get("headers", {}),
        }
        host = _host_of(url)
        try:
            async with asyncio.timeout(_SECONDS):
                await self.check(url)
                async with (
                    http_client(timeout=_SECONDS) as client,
                    client.stream(method, url, **options) as response,
                ):
                    data = await _read(response, host)
        except (httpx2.HTTPError, TimeoutError, OSError) as error:
            raise ToolUnavailable(
                f"{host}, where its tokens come from, cannot be reached ({type(error).__name__})"
            ) from None
        if response.status_code in _BUSY or response.status_code >= 500:
            raise ToolUnavailable(
                f"{host}, where its tokens come from, answers HTTP {response.status_code}",
                retry_after=retry_after_of(response.headers.get("retry-after")),
            )
        return Reply(response.status_code, _json_of(data))


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


async def _read(response: httpx2.Response, host: str) -> bytes:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise OAuthRefused(f"the answer of {host} is compressed, which was not asked for")
    data = b""
    async for part in response.aiter_raw():
        data += part
        if len(data) > MAX_BYTES:
            raise OAuthRefused(f"the answer of {host} is too large")
    return data


def _json_of(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


async def _is_local_name(host: str, port: int) -> bool:
    """Return whether a name resolves to an address of a private network."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return False  # the request says so, or a proxy resolves it
    return any(not _is_public(str(each[4][0]).partition("%")[0]) for each in found)


def _is_public(text: str) -> bool:
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return _is_public(str(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)))
        if address.ipv4_mapped is not None:
            return _is_public(str(address.ipv4_mapped))
        if address.sixtofour is not None:
            return _is_public(str(address.sixtofour))
    return address.is_global
