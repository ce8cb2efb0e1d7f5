"""Serve the files that pages load, at `/static/{name}`.

They contain no data of runs, so they need no authentication.
"""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sojourn.console.assets import asset

__all__ = ["routes"]

_FOR_GOOD = {"Cache-Control": "public, max-age=31536000, immutable"}


def routes(prefix: str) -> list[Route]:
    """Return the route at `{prefix}/static/{name}`."""
    return [Route(f"{prefix}/static/{{name}}", _file, methods=["GET"])]


async def _file(request: Request) -> Response:
    found = asset(request.path_params["name"])
    if found is None:
        return Response("there is no such file\n", 404, media_type="text/plain")
    kept = _FOR_GOOD if request.query_params.get("v") == found.digest else {}
    return Response(found.body, headers={"Content-Type": found.media_type, **kept})
