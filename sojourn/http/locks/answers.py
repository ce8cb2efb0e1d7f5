"""Answers: headers by which a browser treats what the service answers as data, and keeps none of it."""

from collections.abc import Collection

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.http.locks.requests import path_of
from sojourn.http.locks.site import Site, visit

__all__ = ["Guarded"]

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
"""Under `no-referrer` a browser sends the forms of a page with `Origin: null`, as those of anybody."""


class Guarded:
    """Adds the headers to every answer.

    Args:
        app: What is behind it.
        pages: Paths of the service's own pages, which load scripts and styles.
        site: Pages for people, which say themselves what they load.
    """

    def __init__(self, app: ASGIApp, *, pages: Collection[str] = (), site: Site | None = None) -> None:
        self._app = app
        self._pages = frozenset(pages)
        self._site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, with the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        site = visit(self._site, scope, path_of(scope))

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
