"""Read the parts of a request that security checks need, and refuse requests.

The console's pages (`Site`) are behind the same middleware as the API. A browser sends no
`Authorization` header, so on these paths a cookie takes its place. Since a browser sends cookies
with requests from any page, a request that changes something has to come from one of the console's
pages.
"""

import asyncio
import ipaddress
import re
from collections.abc import Callable
from typing import Protocol

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from sojourn.http.problems import Problem, render_problem, set_renderer

__all__ = [
    "Site",
    "address_of",
    "bind_site",
    "check_form",
    "content_length",
    "draining",
    "has_files",
    "header_values",
    "is_aborted",
    "is_multipart",
    "is_stream",
    "mark_aborted",
    "media_type",
    "network_of",
    "path_of",
    "refuse",
    "site_of",
]

_SITE = "sojourn.site"

_ABORTED = "sojourn.aborted"

DRAIN_BYTES = 128_000_000
"""Most bytes of a request to read and drop after its refusal."""

DRAIN_SECONDS = 10.0
"""Most seconds in which to drop them."""

DRAIN_PAUSE = 1.0
"""Most seconds between two of their bytes."""


def header_values(scope: Scope, name: str) -> list[str]:
    """Return the values of a header, whose name is in lower case."""
    wanted = name.encode()
    return [value.decode("latin-1") for key, value in scope["headers"] if key == wanted]


def path_of(scope: Scope) -> str:
    """Return the path of a request within the application, without the mount path."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(root + "/") else path


async def refuse(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request with a problem, and with nothing else.

    A connection that is closed while its client still sends is reset, and the client loses the response. So the rest of the body
    is read and dropped after it, within bounds.
    """
    answer = render_problem(problem, scope)
    closes = "close" in answer.headers.get("connection", "") or any(
        value.strip().lower() == "close" for value in header_values(scope, "connection")
    )
    if not closes or not _has_body(scope):
        await answer(scope, receive, send)  # the server drops the body if it reuses the connection
        return

    await answer(scope, receive, draining(receive, send))


def draining(receive: Receive, send: Send, is_read: Callable[[], bool] = lambda: False) -> Send:
    """Return a `send` that drops the rest of a request's body at the end.

    It drops nothing if the body `is_read`.
    """

    async def send_then_drain(message: Message) -> None:
        if message["type"] != "http.response.body" or message.get("more_body", False) or is_read():
            await send(message)
            return
        await send({**message, "more_body": True})
        await _drain(receive)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return send_then_drain


def _has_body(scope: Scope) -> bool:
    return bool(header_values(scope, "content-length") or header_values(scope, "transfer-encoding"))


async def _drain(receive: Receive) -> None:
    size = 0
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while size < DRAIN_BYTES:
                async with asyncio.timeout(DRAIN_PAUSE):
                    message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
                size += len(message.get("body", b""))
    except TimeoutError:
        return


_PREFIX = 64
"""Prefix length of an IPv6 network that counts as one client, which commonly has all addresses in it."""


def address_of(scope: Scope) -> str:
    """Return the address or IPv6 network of a client, or "" for a Unix socket."""
    client = scope.get("client")
    return network_of(str(client[0])) if client else ""


def network_of(host: str) -> str:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host[:100]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), _PREFIX), strict=False).network_address)
    return str(address)


def media_type(start: Message) -> str:
    """Return the media type in lower case, without parameters, or ""."""
    for key, value in start.get("headers", ()):
        if key.lower() == b"content-type":
            return value.decode("latin-1").partition(";")[0].strip().lower()
    return ""


def content_length(start: Message) -> int | None:
    """Return the `Content-Length` of a response in bytes, or None for a stream."""
    for key, value in start.get("headers", ()):
        if key.lower() == b"content-length" and value.isdigit():
            return int(value)
    return None


def is_stream(start: Message) -> bool:
    """Return whether a response is a stream, also one without a `Content-Length`."""
    if media_type(start) == "text/event-stream":
        return True
    return start.get("status") == 200 and content_length(start) is None


def mark_aborted(scope: Scope) -> None:
    scope[_ABORTED] = True


def is_aborted(scope: Scope) -> bool:
    """Return whether the response to a request was aborted on purpose."""
    return scope.get(_ABORTED, False)


_READS = ("GET", "HEAD")


class Site(Protocol):
    """The pages of a service."""

    headers: dict[str, str]
    """Headers of every response, in place of those of the API."""

    def covers(self, path: str) -> bool:
        """Return whether a path is that of a page, or of a resource that a page loads."""
        ...

    def is_open(self, path: str) -> bool:
        """Return whether a path is public, since it reveals nothing about any run."""
        ...

    def with_credentials(self, scope: Scope) -> Scope:
        """Return the request with its cookie as `Authorization`, unless it has one."""
        ...

    def refusal_page(self, problem: Problem, scope: Scope) -> Response:
        """Return the page for a refused request, with the reason and what to do next."""
        ...


def bind_site(site: Site | None, scope: Scope, path: str) -> Site | None:
    """Mark a request as one for a page and return the site, or None for the API."""
    if site is None or scope["type"] != "http" or not site.covers(path):
        return None
    scope[_SITE] = site
    set_renderer(scope, lambda problem: site.refusal_page(problem, scope))
    return site


def site_of(scope: Scope) -> Site | None:
    return scope.get(_SITE)


def is_multipart(scope: Scope) -> bool:
    """Return whether a request is a form that may have files."""
    (given, *_) = [*header_values(scope, "content-type"), ""]
    return given.partition(";")[0].strip().lower() == "multipart/form-data"


UPLOADS = re.compile(r"/v1/(?:attachments|runs|sessions/.+)\Z")
"""Ends of the API's paths that take forms with files."""


def has_files(scope: Scope) -> bool:
    """Return whether a request is a form with files.

    The form is that of a page, or its path takes one.
    """
    if scope["method"] != "POST" or not is_multipart(scope):
        return False
    return site_of(scope) is not None or UPLOADS.search(path_of(scope)) is not None


def check_form(scope: Scope, *, is_own: bool) -> None:
    """Refuse a form unless a page of the service sent it (403).

    Browsers name the page in `Origin`. Even pages that may use the API may not send forms here.
    """
    if site_of(scope) is None or scope["method"] in _READS or is_own:
        return
    (origin, *_) = [*header_values(scope, "origin"), "a page that does not say which"]
    raise Problem(
        403,
        "foreign_origin",
        f"a form of {origin[:200]} may not be sent here",
        then="Open the page here, and send its form; a program uses the API, /v1, with a key.",
    )
