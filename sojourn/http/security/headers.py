"""Bound request headers, hide cookies from routes, and add security headers.

Python's `http.cookies` takes time in the square of a quoted cookie's length before 3.11.10 and
3.12.6 (CVE-2024-7592), and FastAPI parses the cookies of every request. So routes get none: only
the authentication method does, and the console reads the one that it has set.
"""

from collections.abc import Collection, Sequence

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.http.problems import Problem
from sojourn.http.security.requests import Site, bind_site, header_values, path_of, refuse

__all__ = [
    "MAX_COOKIES",
    "MAX_CURSOR",
    "MAX_HEAD",
    "HeaderLimits",
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
"""Scope key of the request's cookies, as the client sent them."""


class HeaderLimits:
    """Refuse requests with too large headers, and set their cookies apart.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on without its cookies, or answer it with 431."""
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
    """Return whether a request may have a cursor beyond the usual limit on a head.

    Only requests for the events of a run may.
    """
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
    """Return the request with its cookies, for the authentication method."""
    cookies: Sequence[bytes] = scope.get(_KEY, ())
    if not cookies:
        return scope
    return {**scope, "headers": [*scope["headers"], *((b"cookie", value) for value in cookies)]}


def cookie_of(scope: Scope, name: str) -> str:
    """Return the value of a cookie as sent, without unquoting.

    It is empty unless there is exactly one cookie of this name.
    """
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
    """Add security headers to every response.

    Args:
        app: The application.
        pages: Paths of the service's own pages, which load scripts and styles.
        site: The console's pages, which have a policy of their own.
    """

    def __init__(self, app: ASGIApp, *, pages: Collection[str] = (), site: Site | None = None) -> None:
        self._app = app
        self._pages = frozenset(pages)
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request with the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        site = bind_site(self._site, scope, path_of(scope))

        async def guarded(message: Message) -> None:
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

        await self._app(scope, receive, guarded)
