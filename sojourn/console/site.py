"""Install the console in an application, behind its security middleware.

It adds the console's routes, headers and cookie.
"""

from collections.abc import Awaitable, Callable, Sequence
from types import ModuleType
from typing import cast

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from sojourn.console.cookie import key_of
from sojourn.console.form import kept_form
from sojourn.console.page import ConsoleState, Links, problem_page
from sojourn.console.routes import (
    agents,
    bulk,
    conversation,
    decisions,
    grants,
    health,
    home,
    inbox,
    review,
    run,
    run_actions,
    run_views,
    runs,
    sign_in,
    start,
    talk,
)
from sojourn.console.templating import asset_routes, render
from sojourn.http.problems import Problem
from sojourn.http.security.principals import Auth, principal_of
from sojourn.http.security.requests import Site, header_values, path_of
from sojourn.http.service import Service

__all__ = ["ConsoleSite", "install"]

ROUTES: Sequence[ModuleType] = (
    home,
    runs,
    bulk,
    run_views,
    run_actions,
    run,
    inbox,
    review,
    decisions,
    talk,
    conversation,
    start,
    agents,
    health,
    grants,
)
"""Modules with pages behind the security middleware.

A new one is a name here, and a line in `ROOMS` of `page.py` if it is in the navigation.
"""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


def install(web: FastAPI, service: Service, auth: Auth | None, prefix: str) -> Site:
    open_pages = [*asset_routes(prefix), *sign_in.routes(auth, prefix)]
    console = ConsoleState(service)
    behind = [route for module in ROUTES for route in module.pages.routes(console, prefix)]
    web.router.routes.extend([*open_pages, *behind])
    rooms = {path.split("/")[1] for module in ROUTES for path in module.pages.paths()}
    site = ConsoleSite(prefix, rooms)
    otherwise = cast("_Answer", web.exception_handlers[HTTPException])
    for status in (404, 405):
        web.add_exception_handler(status, _nothing_there(site, otherwise))
    return site


class ConsoleSite:
    def __init__(self, prefix: str, rooms: set[str]) -> None:
        self._prefix = prefix
        self._rooms = rooms
        self.headers = {
            "Content-Security-Policy": POLICY,
            "Cross-Origin-Opener-Policy": "same-origin",
        }

    def covers(self, path: str) -> bool:
        return (word := self._word(path)) in self._rooms or word in _OPEN

    def is_open(self, path: str) -> bool:
        """Check whether a path is the sign-in page, or an asset that every page loads."""
        return self._word(path) in _OPEN

    def _word(self, path: str) -> str | None:
        if not path.startswith(self._prefix):
            return None
        rest = path[len(self._prefix) :]
        return rest.split("/")[1] if rest.startswith("/") else ("" if not rest else None)

    def with_credentials(self, scope: Scope) -> Scope:
        """Return the request with its cookie's key as the `Authorization` header.

        A request that has the header already is returned unchanged.
        """
        key = key_of(scope, scope.get("root_path", "") + self._prefix)
        if not key or header_values(scope, "authorization"):
            return scope
        return {
            **scope,
            "headers": [*scope["headers"], (b"authorization", f"Bearer {key}".encode("latin-1"))],
        }

    def refusal_page(self, problem: Problem, scope: Scope) -> Response:
        """Return the page that explains a refusal.

        A visitor who has not signed in gets the sign-in page.
        """
        request, links = Request(scope), Links(scope.get("root_path", "") + self._prefix)
        if problem.status == 401 and scope["method"] == "GET" and "hx-request" not in request.headers:
            if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
                # A request from another site has no cookie. This page repeats the request, and then it has.
                return HTMLResponse(render("again.html", url=links), 401)
            here = path_of(scope)[len(self._prefix) :] + (
                f"?{request.url.query}" if request.url.query else ""
            )
            return RedirectResponse(links("/sign-in", next=here if here not in ("", "/") else ""), 303)
        asking = principal_of(scope)
        form = kept_form(request) if problem.code == "service_stops" else None
        return problem_page(problem, links, asking, is_part="hx-request" in request.headers, form=form)


_OPEN = ("static", "sign-in", "sign-out")


_Answer = Callable[[Request, Exception], Awaitable[Response]]


def _nothing_there(site: ConsoleSite, otherwise: _Answer) -> _Answer:
    async def answer(request: Request, error: Exception) -> Response:
        path = path_of(request.scope)
        if not (site.covers(path) or "text/html" in request.headers.get("accept", "")):
            return await otherwise(request, error)
        problem = Problem(
            404,
            "not_found",
            f"there is no page at {path[:200]}",
            then="Check the address, or start at the list of runs.",
        )
        answer = site.refusal_page(problem, request.scope)
        answer.headers.update(site.headers)
        return answer

    return answer
