"""Sign visitors in and out at `/sign-in` and `/sign-out`.

The key or token is stored in a cookie. Every request checks that it is still valid.
"""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from sojourn.console.cookie import forget, is_key, keep
from sojourn.console.form import form_of
from sojourn.console.page import Links, problem_page
from sojourn.console.templating import render
from sojourn.http.problems import problem_of
from sojourn.http.security.principals import Auth

__all__ = ["routes"]

Answer = Callable[[Request], Awaitable[Response]]


def routes(auth: Auth | None, prefix: str) -> list[Route]:
    """Return the routes for signing in and out.

    Without authentication they redirect to the runs.
    """

    def links(request: Request) -> Links:
        return Links(request.scope.get("root_path", "") + prefix)

    async def show(request: Request) -> Response:
        url = links(request)
        if auth is None:
            return RedirectResponse(url("/"), 303)
        return _page(url, _next(request.query_params.get("next", "")))

    async def sign_in(request: Request) -> Response:
        url = links(request)
        try:
            form = await form_of(request)
            key, after = form.text("key").strip(), _next(form.text("next"))
            if auth is None or (is_key(key) and await auth(Request(_with(request.scope, key)))):
                answer = RedirectResponse(url.base + after, 303)
                keep(answer, request, url.base, key)
                return answer
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything, and an error signs no visitor in
            return problem_page(problem_of(error), url, None)
        return _page(url, after, fault="This key or token is not valid here.", status=401)

    async def sign_out(request: Request) -> Response:
        url = links(request)
        answer = RedirectResponse(url("/sign-in"), 303)
        forget(answer, request, url.base)
        return answer

    return [
        Route(f"{prefix}/sign-in", show, methods=["GET"]),
        Route(f"{prefix}/sign-in", sign_in, methods=["POST"]),
        Route(f"{prefix}/sign-out", sign_out, methods=["POST"]),
    ]


def _page(url: Links, after: str, *, fault: str = "", status: int = 200) -> Response:
    return HTMLResponse(
        render("sign_in.html", url=url, after=after, fault=fault, visit=None, rooms=()), status
    )


def _next(path: str) -> str:
    is_ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_ours else "/"


def _with(scope: Scope, key: str) -> Scope:
    kept = [each for each in scope["headers"] if each[0] != b"authorization"]
    return {**scope, "headers": [*kept, (b"authorization", f"Bearer {key}".encode("ascii"))]}
