"""Cors: the pages of named origins are told by their browsers what they may send and read; a refusal is a problem.

Browsers ask before a request that has other headers than a form's, name by name: clients of the protocols have families of them, such as
`x-stainless-lang`, which no list ends.
"""

import re
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.middleware.cors import SAFELISTED_HEADERS, CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from sojourn.http.problems import Problem

__all__ = ["Cors"]

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
"""How the names begin that the clients of A2A, MCP and OpenAI send."""

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
    """Tells the browsers of named origins that their pages may use the service.

    Args:
        app: What is behind the lock.
        origins: The origins, as browsers send them.
    """

    def __init__(self, app: ASGIApp, *, origins: Collection[str]) -> None:
        super().__init__(
            app,
            allow_origins=sorted(origins),
            allow_methods=_METHODS,
            allow_headers=["*"],  # which answers with those that were asked for; they are checked here
            expose_headers=_ANSWER_HEADERS,
            max_age=_PREFLIGHT,
        )

    def preflight_response(self, request_headers: Headers) -> Response:
        """The answer to a browser that asks before a request."""
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
