"""`/health` and `/metrics`: for whoever runs the service."""

import asyncio
import time
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Request, Response

from sojourn import __version__
from sojourn.http.replies import Health
from sojourn.http.routes.answering import Serving, json_of, problems
from sojourn.http.security.principals import Asking, require
from sojourn.http.service import Service

__all__ = ["routes"]

PATIENCE = 2.0
"""Seconds that the Temporal server may take to answer."""

FRESH = 0.5
"""Seconds for which what was found is told again: everybody may ask, as often as he likes."""

routes = APIRouter(tags=["service"])


class _Look:
    """One look at the Temporal server, for all who ask meanwhile and shortly after."""

    def __init__(self, service: Service) -> None:
        self._task = asyncio.create_task(service.is_up(PATIENCE), name="health")
        self._ended: float | None = None
        self._task.add_done_callback(self._end)

    @property
    def is_over(self) -> bool:
        """Whether somebody has to look again."""
        return self._ended is not None and time.monotonic() > self._ended + FRESH

    async def is_up(self) -> bool:
        """Whether the server answers."""
        return await asyncio.shield(self._task)

    def _end(self, done: asyncio.Task[bool]) -> None:
        self._ended = time.monotonic()
        if not done.cancelled():
            done.exception()


_LOOKS: WeakKeyDictionary[Service, _Look] = WeakKeyDictionary()


@routes.get(
    "/health",
    response_model=Health,
    responses={503: {"model": Health, "description": "The Temporal server does not answer."}},
    summary="Look whether the service works",
)
async def health(request: Request) -> Response:
    """200 where the Temporal server answers, else 503. It needs no credentials, and tells nothing else."""
    service: Service = request.app.state.service
    look = _LOOKS.get(service)
    if look is None or look.is_over:
        look = _LOOKS[service] = _Look(service)
    is_up = await look.is_up()
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
