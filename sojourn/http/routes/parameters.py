"""Parameters that routes share, their possible problems, and waiting."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Query, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.types import Scope

from sojourn.contracts.record import suggestion
from sojourn.http.problems import MEDIA_TYPE, Problem, redact
from sojourn.http.security.authentication import unauthenticated_problem
from sojourn.http.security.disconnect import disconnect_of
from sojourn.http.security.limits import count_stream
from sojourn.http.service import Service

__all__ = [
    "STREAM",
    "AgentId",
    "CurrentScope",
    "KnownQueryRoute",
    "Limit",
    "PageCursor",
    "RequestScope",
    "RunId",
    "ServerStopping",
    "Serving",
    "SessionId",
    "json_of",
    "problems",
]

Result = TypeVar("Result")


class ServerStopping(TimeoutError):  # noqa: N818 - it says why the time is over
    """The wait ended early because this process of the service is shutting down."""


class RequestScope:
    """Wait until the client disconnects, loses access, or the server shuts down.

    The run that a request waits for continues without it. The request sends and changes nothing while it waits, so nothing is
    lost if the wait ends early.
    """

    def __init__(self, service: Service, scope: Scope) -> None:
        self.service = service
        self._scope = scope

    def count(self) -> None:
        """Count the request as a stream before it has any effect, or raise a 429."""
        count_stream(self._scope)

    def add_stop_header(self, name: str, value: str) -> None:
        disconnect_of(self._scope).if_stopped[name] = value

    def hold(self) -> None:
        """Hold back a disconnect from a library until the request waits, or `release`."""
        disconnect_of(self._scope).hold()

    def release(self) -> None:
        disconnect_of(self._scope).release()

    async def wait(self, awaited: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Wait for something, and end the request if the client disconnects.

        The coroutine is cancelled if the wait ends first, so it must not have side effects.

        Raises:
            ServerStopping: This process is shutting down.
            TimeoutError: The time is over.
            Problem: The principal has too many streams (429), or has lost access (401).
        """
        disconnect, stopping, metrics = (
            disconnect_of(self._scope),
            self.service.stopping,
            self.service.metrics,
        )
        disconnect.release()
        waiting, leaving = (
            asyncio.ensure_future(awaited),
            asyncio.ensure_future(disconnect.wait_for_disconnect()),
        )
        metrics.waiting += 1
        try:
            self.count()
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait({waiting, leaving, stopping}, timeout=seconds, return_when=first)
            if waiting.done() and not (stopping.done() and waiting.exception()):
                return waiting.result()
            if stopping.done():
                raise ServerStopping
            if disconnect.is_refused:
                raise unauthenticated_problem("the API key or token is no longer valid")
            if leaving.done():
                await disconnect.end()
            raise TimeoutError
        finally:
            metrics.waiting -= 1
            waiting.cancel()
            leaving.cancel()
            await asyncio.gather(waiting, leaving, return_exceptions=True)


STREAM: dict[str, Any] = {
    "itemSchema": {
        "type": "object",
        "properties": {
            "data": {"type": "string"},
            "event": {"type": "string"},
            "id": {"type": "string"},
            "retry": {"type": "integer"},
        },
        "required": ["data"],
    },
}
"""Response with Server-Sent Events for the OpenAPI document.

It describes each event, as OpenAPI 3.2 and FastAPI do.
"""

_TITLES = {
    400: "The request is not JSON in UTF-8.",
    401: "There are no valid credentials.",
    403: "The role is missing.",
    404: "It does not exist, or the principal may not see it.",
    408: "The body did not come in time.",
    409: "It conflicts with the present state.",
    410: "It was there, and is over.",
    413: "The body, or a value in it, is too large.",
    415: "The body was not sent as JSON.",
    421: "The request names another host.",
    422: "A value breaks a rule.",
    429: "Too many requests. `Retry-After` says when to try again.",
    502: "The records cannot be decoded here.",
    503: "The Temporal server, or a worker, does not answer.",
}

_USUAL = (401, 403, 408, 413, 421, 422, 503)


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    await service.open()
    return service


Serving = Annotated[Service, Depends(_service)]
"""The parameter of a route that takes the connected service."""


async def _request_scope(request: Request, service: Serving) -> RequestScope:
    return RequestScope(service, request.scope)


CurrentScope = Annotated[RequestScope, Depends(_request_scope)]
"""The parameter of a route that may wait."""

AgentId = Annotated[str, Path(examples=["shop.clerk"], max_length=200)]
RunId = Annotated[
    str,
    Path(
        description="The run's id. A child run's id is whole, such as `clerk-3f1c/call_1`.",
        examples=["clerk-3f1c"],
        max_length=1_000,
    ),
]
Limit = Annotated[int, Query(ge=1, le=1_000, description="The maximum number of entries of a page.")]
PageCursor = Annotated[str | None, Query(max_length=4_000, description="The `cursor` of the previous page.")]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems of a path for OpenAPI: these, the usual ones, 415 with 400."""
    schema = {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}
    return {
        status: {"description": _TITLES[status], "content": {MEDIA_TYPE: schema}}
        for status in sorted({*statuses, *_USUAL, *((415,) if 400 in statuses else ())})
    }


def json_of(record: BaseModel, status: int = 200) -> Response:
    """Return a redacted record as the response."""
    return Response(redact(record).model_dump_json(), status, media_type="application/json")


class KnownQueryRoute(APIRoute):
    """Refuse unknown query parameters: a misspelt filter would select everything."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = sorted(set(_names(self.dependant)))

        async def check_names(request: Request) -> Response:
            if unknown := [name for name in request.query_params if name not in known]:
                faults = [
                    {"type": "extra_forbidden", "loc": ("query", name), "msg": _fault(name, known)}
                    for name in unknown
                ]
                raise RequestValidationError(faults)
            return await handle(request)

        return check_names


def _names(dependant: Dependant) -> Iterator[str]:
    yield from (each.alias for each in dependant.query_params)
    for below in dependant.dependencies:
        yield from _names(below)


def _fault(name: str, known: list[str]) -> str:
    there = f"this path has {', '.join(known)}" if known else "this path has none"
    return f"there is no such parameter{suggestion(name[:200], known) or ';'} {there}"


PREFIX = "/v1/sessions/"
"""Prefix of the paths of sessions, perhaps after the prefix of a mounted application."""


def _in_one_segment(
    request: Request, session_id: Annotated[str, Path(examples=["desk-1"], max_length=200)]
) -> str:
    """Return the id of a session if it is a single segment of the path as sent.

    Otherwise a misspelt path below a session would be the id of another one. In the decoded path, a `%2F` is a `/` too.
    """
    sent = bytes(request.scope.get("raw_path") or request.scope["path"].encode()).partition(b"?")[0]
    route = str(request.scope["route"].path)
    if sent.partition(PREFIX.encode())[2].count(b"/") != route.partition(PREFIX)[2].count("/"):
        raise Problem(
            404,
            "not_found",
            "there is no such path below a session",
            then="The paths are in the OpenAPI document, at /openapi.json. A / of a session's id is written %2F.",
        )
    return session_id


SessionId = Annotated[str, Depends(_in_one_segment)]
"""The parameter of a route that takes a session's id."""
