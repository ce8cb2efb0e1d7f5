"""`/health` and `/metrics`, for the operator of the service."""

from fastapi import APIRouter, Request, Response

from sojourn import __version__
from sojourn.http.replies import Health
from sojourn.http.routes.answering import Serving, json_of, problems
from sojourn.http.security.principals import Asking, require
from sojourn.http.service import Service

__all__ = ["routes"]

PATIENCE = 2.0
"""Seconds in which the Temporal server must answer."""

FRESH = 0.5
"""Seconds for which the result is cached, since any client may ask without credentials and without limit."""

routes = APIRouter(tags=["service"])


@routes.get(
    "/health",
    response_model=Health,
    responses={503: {"model": Health, "description": "The Temporal server does not answer."}},
    summary="Look whether the service works",
)
async def health(request: Request) -> Response:
    """200 where the Temporal server answers, else 503. It needs no credentials, and tells nothing else."""
    service: Service = request.app.state.service
    is_up = await service.is_reachable(PATIENCE, fresh=FRESH)
    status = "ok" if is_up else "unavailable"
    return json_of(Health(status=status, version=__version__), 200 if is_up else 503)


@routes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems()},
    summary="Count what this process has done",
)
async def metrics(asking: Asking, service: Serving) -> Response:
    """Requests, streams, and followed runs of this process, as text for Prometheus."""
    require(asking, "viewer")
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
