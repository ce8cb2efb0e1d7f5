"""Locked: all locks of a service, in their order; nothing reaches a route but through them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from sojourn.http.locks.answers import Guarded
from sojourn.http.locks.audit import Audited
from sojourn.http.locks.authenticated import Authenticated
from sojourn.http.locks.bodies import Bodies
from sojourn.http.locks.heads import Heads
from sojourn.http.locks.hosts import Hosts
from sojourn.http.locks.limits import Buckets, Limited, remember_strangers
from sojourn.http.locks.outflow import Outflow
from sojourn.http.locks.presence import Present
from sojourn.http.locks.principals import Auth
from sojourn.http.locks.requests import path_of
from sojourn.http.locks.rooms import Room
from sojourn.http.locks.site import Site
from sojourn.http.problems import Shape, shape

__all__ = ["OPEN_PATHS", "PAGES", "Locked", "Locks"]

OPEN_PATHS = ("/health", "/openapi.json", "/docs")
"""Paths that need no authentication: they say nothing of any run."""

PROBE = "/health"
"""The one of them by which a balancer learns whether the service is up."""

PAGES = ("/docs",)
"""Pages for a browser."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Locks:
    """The settings of the locks. Limits are those of one process."""

    hosts: Collection[str] | None = None
    """Names that are answered, without port; `*.example.org` for all below one. None for every name, but without authentication only
    those of this machine.
    """
    origins: Collection[str] = ()
    """Origins whose pages may use the service, such as `https://app.example.org`."""
    max_body_bytes: int = 2_000_000
    """Largest body of a request."""
    max_depth: int = 100
    """Deepest nesting of a body's arrays and objects."""
    body_seconds: float = 30.0
    """Longest time for a body to arrive."""
    requests: float = 50.0
    """Requests a second of one principal, on average."""
    burst: int = 200
    """Requests of one principal at once."""
    streams: int = 100
    """Open streams of events of one principal, and requests that wait."""
    address_requests: float = 50.0
    """Requests a second of one address whose sender is not known, on average."""
    address_burst: int = 500
    """Such requests of one address at once."""
    bytes_in_flight: int = 256_000_000
    """Bytes of bodies that are received and not yet answered, and as many of answers that are made and not yet taken."""
    principal_bytes_in_flight: int = 64_000_000
    """The same of one principal; it may have one answer with more."""


class Locked:
    """An application behind all locks: `web.add_middleware(Locked, auth=...)`, or `Locked(web, auth=...)`.

    Args:
        app: What is behind the locks.
        auth: Finds out who sent a request; None lets in what comes from this machine, and nothing else.
        locks: The settings.
        open_paths: Paths that everybody may read.
        pages: Paths of the service's own pages, which load scripts and styles.
        site: Pages for people, on paths of their own.
        shapes: How problems are told, by what paths begin with; elsewhere as problem details.

    Raises:
        DefinitionError: A setting is invalid.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        auth: Auth | None = None,
        locks: Locks | None = None,
        open_paths: Collection[str] = OPEN_PATHS,
        pages: Collection[str] = PAGES,
        site: Site | None = None,
        shapes: Mapping[str, Shape] | None = None,
    ) -> None:
        self._shapes = dict(shapes or {})
        locks = locks or Locks()
        present = Present(app, auth=auth)
        rooms = [Room(locks.bytes_in_flight, locks.principal_bytes_in_flight) for _ in range(2)]
        bounded = Bodies(
            present,
            max_bytes=locks.max_body_bytes,
            max_depth=locks.max_depth,
            seconds=locks.body_seconds,
            room=rooms[0],
        )
        taken = Outflow(bounded, room=rooms[1])
        self._strangers = Buckets(locks.address_requests, locks.address_burst)
        limited = Limited(taken, requests=locks.requests, burst=locks.burst, streams=locks.streams)
        probes = [path for path in open_paths if path.endswith(PROBE)]
        known = Authenticated(limited, auth=auth, open_paths=open_paths, probes=probes)
        named = Hosts(known, hosts=locks.hosts, origins=locks.origins, is_authenticated=auth is not None)
        self._app = Guarded(Audited(Heads(named)), pages=pages, site=site)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request in, or refuse it; no websocket is let in."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "there are no websockets here"})
            return
        if scope["type"] == "http":
            remember_strangers(scope, self._strangers)
            path = path_of(scope)
            for begin, told in self._shapes.items():
                if path.startswith(begin):
                    shape(scope, told)
        await self._app(scope, receive, send)
