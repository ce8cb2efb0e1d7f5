"""All security middleware of the service, in order.

No request reaches a route except through it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from sojourn.http.problems import ProblemRenderer, set_renderer
from sojourn.http.security.audit import AuditLog, AuditSink
from sojourn.http.security.authentication import AuthenticationMiddleware
from sojourn.http.security.byte_limits import BodyLimits, ByteBudget, ResponseLimits
from sojourn.http.security.disconnect import DisconnectMiddleware
from sojourn.http.security.file_bodies import FileBodies
from sojourn.http.security.headers import HeaderLimits, OriginCheck, SecurityHeaders
from sojourn.http.security.limits import RateLimitMiddleware, TokenBuckets, bind_address_buckets
from sojourn.http.security.principals import Auth
from sojourn.http.security.requests import Site, path_of

__all__ = ["OPEN_PATHS", "PAGES", "SecurityMiddleware", "SecuritySettings"]

OPEN_PATHS = ("/health", "/openapi.json", "/docs")
"""Paths that need no authentication. They reveal nothing about any run."""

PROBE = "/health"
"""Open path that a load balancer reads to learn whether the service is up."""

PAGES = ("/docs",)
"""Pages for a browser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecuritySettings:
    """Settings of the security middleware. Limits are per process."""

    hosts: Collection[str] | None = None
    """Accepted host names, without port; `*.example.org` for all subdomains. None for every name, but without authentication
    only those of this machine.
    """
    origins: Collection[str] = ()
    """Origins whose pages may use the service, such as `https://app.example.org`."""
    max_body_bytes: int = 2_000_000
    """Largest body of a request."""
    max_form_bytes: int = 64_000_000
    """Largest form with files, and most data of files in the JSON of a protocol; the app's `AttachmentLimits` bound each file."""
    form_seconds: float = 300.0
    """Seconds in which a form, or a body, with files must arrive."""
    max_depth: int = 100
    """Deepest nesting of a body's arrays and objects."""
    body_seconds: float = 30.0
    """Seconds in which a body must arrive."""
    requests: float = 50.0
    """Requests a second of one principal, on average."""
    burst: int = 200
    """Requests of one principal at once."""
    streams: int = 100
    """Open streams of events of one principal, and requests that wait."""
    address_requests: float = 50.0
    """Unauthenticated requests a second of one address, on average."""
    address_burst: int = 500
    """Unauthenticated requests of one address at once."""
    bytes_in_flight: int = 256_000_000
    """Bytes of request bodies that await a response, and as many of responses that clients have not read yet."""
    principal_bytes_in_flight: int = 64_000_000
    """The same for one principal. It may have one response with more."""
    audit: AuditSink | None = None
    """Takes a record of each request of a principal, reads included, and of each refusal: `AuditFile(path)`, or a function.

    It is called on the event loop, before the response is sent, so it must return quickly.
    """


class SecurityMiddleware:
    """Run all security middleware before an application.

    Use `web.add_middleware(SecurityMiddleware, auth=...)`, or `SecurityMiddleware(web, auth=...)`.

    Args:
        app: The application.
        auth: The authentication method. None accepts local requests only.
        settings: The settings.
        open_paths: Paths that need no authentication.
        pages: Paths of the service's own pages, which load scripts and styles.
        site: The console's pages.
        renderers: How protocols render problems, by the prefix of their paths. Elsewhere they are problem details.
        files: The bodies in JSON that may have the data of files.

    Raises:
        DefinitionError: A setting is invalid.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        auth: Auth | None = None,
        settings: SecuritySettings | None = None,
        open_paths: Collection[str] = OPEN_PATHS,
        pages: Collection[str] = PAGES,
        site: Site | None = None,
        renderers: Mapping[str, ProblemRenderer] | None = None,
        files: FileBodies | None = None,
    ) -> None:
        self._renderers = dict(renderers or {})
        settings = settings or SecuritySettings()
        bodies, responses = (
            ByteBudget(settings.bytes_in_flight, settings.principal_bytes_in_flight) for _ in range(2)
        )
        self._address_buckets = TokenBuckets(settings.address_requests, settings.address_burst)
        # From the innermost to the outermost. A request passes them in the opposite order.
        inner: ASGIApp = DisconnectMiddleware(app, auth=auth)
        inner = BodyLimits(
            inner,
            max_bytes=settings.max_body_bytes,
            max_depth=settings.max_depth,
            seconds=settings.body_seconds,
            budget=bodies,
            max_form_bytes=settings.max_form_bytes,
            form_seconds=settings.form_seconds,
            files=files,
        )
        inner = ResponseLimits(inner, budget=responses)
        inner = RateLimitMiddleware(
            inner, requests=settings.requests, burst=settings.burst, streams=settings.streams
        )
        probes = [path for path in open_paths if path.endswith(PROBE)]
        inner = AuthenticationMiddleware(inner, auth=auth, open_paths=open_paths, probes=probes)
        inner = OriginCheck(
            inner, hosts=settings.hosts, origins=settings.origins, is_authenticated=auth is not None
        )
        inner = AuditLog(HeaderLimits(inner), settings.audit)
        self._app = SecurityHeaders(inner, pages=pages, site=site)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it. Websockets are always refused."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "there are no websockets here"})
            return
        if scope["type"] == "http":
            bind_address_buckets(scope, self._address_buckets)
            path = path_of(scope)
            for begin, render in self._renderers.items():
                if path.startswith(begin):
                    set_renderer(scope, render)
        await self._app(scope, receive, send)
