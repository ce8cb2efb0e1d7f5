"""Check the Host and the Origin of a request, and answer CORS preflights.

A page of any site can make a browser send requests to a service on the same machine or network, under a name of its own that it lets
point there (DNS rebinding). So without authentication only names of this machine are answered, and no page is trusted but the service's
own and those of the configured origins.
"""

import re
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.cors import SAFELISTED_HEADERS, CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sojourn.errors import DefinitionError
from sojourn.http.problems import Problem
from sojourn.http.security.limits import count_anonymous
from sojourn.http.security.requests import check_form, header_values, refuse

__all__ = ["LOOPBACK", "Cors", "OriginCheck"]

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names of this machine."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::([0-9]{1,5}))?\Z")
_PORTS = {"http": "80", "https": "443"}


class OriginCheck:
    """Refuse requests for another host name, and from pages of another origin.

    Args:
        app: The application.
        hosts: Accepted host names, without port; `*.example.org` for all subdomains. None for every name, but without
            authentication only those of this machine.
        origins: Origins whose pages may use the service, such as `https://app.example.org`. Their browsers get CORS headers.
        is_authenticated: Whether the service has an authentication method.

    Raises:
        DefinitionError: An origin is invalid.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str] | None = None,
        origins: Collection[str] = (),
        is_authenticated: bool,
    ) -> None:
        named = None if hosts is None else {name.lower() for name in hosts}
        self._hosts = named if is_authenticated else {*LOOPBACK, *(named or ())}
        self._origins = {_checked_origin(origin) for origin in origins}
        self._app = app
        if self._origins:
            self._app = Cors(app, origins=self._origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it with 400, 403 or 421."""
        if scope["type"] == "http":
            try:
                self._check(scope)
            except Problem as problem:
                await refuse(problem, scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        try:
            host, port = _host_of(scope)
            self._check_host(host)
            self._check_origin(scope, host, port)
            check_form(scope, is_own=_is_own(scope, host, port))
        except Problem:
            count_anonymous(scope)
            raise
        if scope["method"] == "OPTIONS":  # a browser's preflight is answered without credentials
            count_anonymous(scope)

    def _check_host(self, host: str) -> None:
        if self._hosts is None or host in self._hosts:
            return
        parents = (f"*.{host[place + 1 :]}" for place, sign in enumerate(host) if sign == ".")
        if self._hosts.isdisjoint(parents):
            raise Problem(
                421,
                "unknown_host",
                f"this service is not called {host[:200]!r}",
                then="Use its own name; or let it have this one: `sojourn serve --allow-host NAME`, in a program SecuritySettings(hosts=...).",
            )

    def _check_origin(self, scope: Scope, host: str, port: str | None) -> None:
        given = header_values(scope, "origin")
        if not given:
            # A browser sends no origin if a page only embeds, as an image does. Following a link is not embedding.
            site, mode = header_values(scope, "sec-fetch-site"), header_values(scope, "sec-fetch-mode")
            if not {"cross-site", "same-site"}.isdisjoint(site) and mode != ["navigate"]:
                raise _foreign("another site")
            return
        (origin, *others) = given
        if others or not (origin in self._origins or _is_same(origin, host, port)):
            raise _foreign(origin)


def _host_of(scope: Scope) -> tuple[str, str | None]:
    given = header_values(scope, "host")
    found = _HOST.match(given[0].lower()) if len(given) == 1 else None
    if found is None:
        raise Problem(400, "bad_host", "the request needs one valid Host header", then="Send one.")
    return found[1].rstrip("."), found[2]


def _is_own(scope: Scope, host: str, port: str | None) -> bool:
    """Return whether the headers name a page of the service as the sender."""
    given = header_values(scope, "origin")
    return len(given) == 1 and _is_same(given[0], host, port)


def _is_same(origin: str, host: str, port: str | None) -> bool:
    """Return whether an origin is the service itself.

    The scheme is not compared: behind a proxy the service does not know whether the client used
    TLS.
    """
    scheme, separator, rest = origin.lower().partition("://")
    found = _HOST.match(rest) if separator and scheme in _PORTS else None
    usual = _PORTS.get(scheme)
    return found is not None and (found[1], found[2] or usual) == (host, port or usual)


def _foreign(origin: str) -> Problem:
    return Problem(
        403,
        "foreign_origin",
        f"pages of {origin[:200]} may not use this service",
        then="Name the origin if its pages are yours: `sojourn serve --allow-origin ORIGIN`, in a program SecuritySettings(origins=...).",
    )


def _checked_origin(origin: str) -> str:
    """Return an origin in the form that browsers send."""
    parts = urlsplit(origin.lower())
    plain = f"{parts.scheme}://{parts.netloc}"
    if parts.scheme not in _PORTS or not _HOST.match(parts.netloc) or origin.lower().rstrip("/") != plain:
        raise DefinitionError(f"{origin!r} is no origin; it has the form https://app.example.org")
    return plain.removesuffix(f":{_PORTS[parts.scheme]}")


_METHODS = ("GET", "POST", "DELETE")

_REQUEST_HEADERS = frozenset(
    name.lower()
    for name in (
        *SAFELISTED_HEADERS,
        "Authorization",
        "Cache-Control",
        "Idempotency-Key",
        "Last-Event-ID",
        "Sojourn-On-Disconnect",
        "User-Agent",
    )
)
_REQUEST_FAMILIES = ("a2a-", "mcp-", "openai-", "x-stainless-")
"""Prefixes of the header names that clients of A2A, MCP and OpenAI send."""

_ANSWER_HEADERS = (
    "Allow",
    "Link",
    "Location",
    "MCP-Session-Id",
    "Retry-After",
    "Sojourn-Cursor",
    "WWW-Authenticate",
    "X-Sojourn-Warning",
    "X-Vercel-AI-UI-Message-Stream",
)
_NAME = re.compile(r"[a-z0-9_-]{1,100}\Z")
_PREFLIGHT = 600


class Cors(CORSMiddleware):
    """Answer CORS preflights of the configured origins.

    A refusal is a problem. Clients of the protocols send families of headers, such as `x-stainless-lang`, which no list of names could hold.

    Args:
        app: The application.
        origins: The origins, as browsers send them.
    """

    def __init__(self, app: ASGIApp, *, origins: Collection[str]) -> None:
        super().__init__(
            app,
            allow_origins=sorted(origins),
            allow_methods=_METHODS,
            allow_headers=["*"],  # answers with the requested headers, which are checked here
            expose_headers=_ANSWER_HEADERS,
            max_age=_PREFLIGHT,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """Answer a preflight."""
        answer = super().preflight_response(request_headers)
        asked = request_headers.get("access-control-request-headers", "")
        names = [name.strip().lower() for name in asked.split(",") if name.strip()]
        unknown = [name for name in names if not _may_send(name)]
        if answer.status_code == 200 and not unknown:
            return answer
        about = f"the header {unknown[0][:100]!r}" if unknown else "this method, or a private network,"
        told = {"Vary": answer.headers["vary"]}
        if origin := answer.headers.get("access-control-allow-origin"):
            told["Access-Control-Allow-Origin"] = origin
        return Problem(
            400,
            "bad_request",
            f"{about} is not for pages of other origins",
            then="Ask for what docs/security.md lets such pages send.",
            headers=told,
        ).response()


def _may_send(name: str) -> bool:
    return name in _REQUEST_HEADERS or (name.startswith(_REQUEST_FAMILIES) and _NAME.match(name) is not None)
