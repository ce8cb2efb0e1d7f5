"""Check the headers of requests, and set those of responses.

Python's `http.cookies` takes time in the square of a quoted cookie's length before 3.11.10 and
3.12.6 (CVE-2024-7592), and FastAPI parses the cookies of every request. So routes get none: only
the authentication method does, and the console reads the one that it has set.

A page of any site can make a browser send requests to a service on the same machine or network, under
a name that it points there (DNS rebinding). So without authentication the service answers only to names
of this machine, and trusts only its own pages and those of the configured origins.
"""

import re
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import SAFELISTED_HEADERS, CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.errors import DefinitionError
from sojourn.http.problems import Problem
from sojourn.http.security.limits import count_anonymous
from sojourn.http.security.requests import Site, bind_site, check_form, header_values, path_of, refuse

__all__ = [
    "LOOPBACK",
    "MAX_COOKIES",
    "MAX_CURSOR",
    "MAX_HEAD",
    "Cors",
    "HeaderLimits",
    "OriginCheck",
    "SecurityHeaders",
    "cookie_of",
    "has_long_cursor",
    "with_cookies",
]

MAX_HEAD = 64 * 1024
"""Largest head of a request without its cursor, in bytes. The limit of h11 is the same."""

MAX_CURSOR = 256_000
"""Longest cursor of a request for events, in `after` and in `Last-Event-ID`.

A cursor names every open child run.
"""

MAX_COOKIES = 16 * 1024
"""Most bytes of cookies.

A browser keeps 4,096 bytes of one cookie. It sends the cookies of all services of a machine to each of them.
"""

_KEY = "sojourn.cookies"


class HeaderLimits:
    """Refuse requests with too large headers, and set their cookies apart."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        cookies = [value for name, value in headers if name == b"cookie"]
        scope["headers"] = [each for each in headers if each[0] != b"cookie"] if cookies else headers
        try:
            _check(scope, cookies)
        except Problem as problem:
            await refuse(problem, scope, receive, send)
            return
        scope[_KEY] = cookies
        try:
            await self._app(scope, receive, send)
        finally:
            scope["headers"] = headers  # restore them for the application that this one may be mounted in


def has_long_cursor(method: str, path: str) -> bool:
    """Return whether a request is for events, whose cursor may be long."""
    return method == "GET" and path.endswith("/events")


def _check(scope: Scope, cookies: Sequence[bytes]) -> None:
    if sum(map(len, cookies)) > MAX_COOKIES:
        raise _too_large("the cookies of the request have", MAX_COOKIES, "Clear this site's cookies.")
    size = len(scope.get("raw_path") or b"") + sum(
        len(name) + len(value) for name, value in scope["headers"] if name != b"last-event-id"
    )
    query, last = len(scope["query_string"]), sum(map(len, header_values(scope, "last-event-id")))
    if size > MAX_HEAD or (size + query + last > MAX_HEAD and not _is_of_events(scope)):
        raise _too_large("the head of the request has", MAX_HEAD, "Send a shorter URL, and fewer headers.")


def _is_of_events(scope: Scope) -> bool:
    return has_long_cursor(scope["method"], path_of(scope))


def _too_large(what: str, most: int, then: str) -> Problem:
    return Problem(
        431, "head_too_large", f"{what} more than {most:,} bytes", then=then, headers={"Connection": "close"}
    )


def with_cookies(scope: Scope) -> Scope:
    cookies: Sequence[bytes] = scope.get(_KEY, ())
    if not cookies:
        return scope
    return {**scope, "headers": [*scope["headers"], *((b"cookie", value) for value in cookies)]}


def cookie_of(scope: Scope, name: str) -> str:
    """Return the value of a cookie as sent, or "" unless there is exactly one."""
    cookies: Sequence[bytes] = scope.get(_KEY, ())
    pairs = (pair.partition("=") for each in cookies for pair in each.decode("latin-1").split(";"))
    found = [value.strip() for key, _, value in pairs if key.strip() == name]
    return found[0] if len(found) == 1 else ""


_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
_UNLESS_SET = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
}
_OF_A_PAGE = "frame-ancestors 'none'"
_OF_A_SITE = _ALWAYS | {"Referrer-Policy": "same-origin"}
"""Under `no-referrer` a browser sends the forms of a page with `Origin: null`, like those of unknown pages."""


class SecurityHeaders:
    """Add security headers to every response, for pages those of the console."""

    def __init__(self, app: ASGIApp, *, pages: Collection[str] = (), site: Site | None = None) -> None:
        self._app = app
        self._pages = frozenset(pages)
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        site = bind_site(self._site, scope, path_of(scope))

        async def forward(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_OF_A_SITE if site else _ALWAYS)
                for name, value in site.headers.items() if site else ():
                    headers.setdefault(name, value)
                if path_of(scope) in self._pages:
                    headers.setdefault("Content-Security-Policy", _OF_A_PAGE)
                for name, value in _UNLESS_SET.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, forward)


LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names of this machine."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::([0-9]{1,5}))?\Z")
_PORTS = {"http": "80", "https": "443"}


class OriginCheck:
    """Refuse requests for another host name, and from pages of another origin.

    Hosts and origins are as in `SecuritySettings`.
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
        self._origins = {_check_origin(origin) for origin in origins}
        self._app = app
        if self._origins:
            self._app = Cors(app, origins=self._origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
    given = header_values(scope, "origin")
    return len(given) == 1 and _is_same(given[0], host, port)


def _is_same(origin: str, host: str, port: str | None) -> bool:
    """Return whether an origin is the service. A proxy may have taken TLS off."""
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


def _check_origin(origin: str) -> str:
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
        "X-Namespace",
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
    """Answer CORS preflights of the configured origins. A refusal is a problem.

    Clients of the protocols send families of headers, such as `x-stainless-lang`, which no list of names could hold.
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
        answer = super().preflight_response(request_headers)
        wanted = request_headers.get("access-control-request-headers", "")
        names = [name.strip().lower() for name in wanted.split(",") if name.strip()]
        unknown = [name for name in names if not _may_send(name)]
        if answer.status_code == 200 and not unknown:
            return answer
        about = f"the header {unknown[0][:100]!r}" if unknown else "this method, or a private network,"
        headers = {"Vary": answer.headers["vary"]}
        if origin := answer.headers.get("access-control-allow-origin"):
            headers["Access-Control-Allow-Origin"] = origin
        return Problem(
            400,
            "bad_request",
            f"{about} is not for pages of other origins",
            then="Ask for what docs/security.md lets such pages send.",
            headers=headers,
        ).response()


def _may_send(name: str) -> bool:
    return name in _REQUEST_HEADERS or (name.startswith(_REQUEST_FAMILIES) and _NAME.match(name) is not None)
