"""Parameters that routes share, and responses with their possible problems."""

from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request, Response
from pydantic import BaseModel

from sojourn.http.problems import MEDIA_TYPE
from sojourn.http.redaction import redact
from sojourn.http.request_scope import RequestScope
from sojourn.http.service import Service

__all__ = ["STREAM", "AgentId", "Attending", "Cursor", "Limit", "RunId", "Serving", "json_of", "problems"]

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
    404: "It does not exist, or is not for whoever asks.",
    408: "The body did not come in time.",
    409: "It does not fit what is so now.",
    413: "The body, or what it holds, is too large.",
    415: "The body was not sent as JSON.",
    421: "The host is none of this service.",
    422: "A value breaks a rule.",
    429: "Too much at once; `Retry-After` says when.",
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


async def _attendance(request: Request, service: Serving) -> RequestScope:
    return RequestScope(service, request.scope)


Attending = Annotated[RequestScope, Depends(_attendance)]
"""The parameter of a route that may wait."""

AgentId = Annotated[str, Path(examples=["shop.clerk"], max_length=200)]
RunId = Annotated[
    str,
    Path(
        description="The run; of a child run the whole id, such as `clerk-3f1c/call_1`.",
        examples=["clerk-3f1c"],
        max_length=1_000,
    ),
]
Limit = Annotated[int, Query(ge=1, le=1_000, description="Most entries of a page.")]
Cursor = Annotated[str | None, Query(max_length=4_000, description="The `cursor` of the page before.")]


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the problems of a path for the OpenAPI document.

    These are the given statuses and those that every path has. With 400, there is also the one for
    a body that is not JSON.
    """
    schema = {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}
    return {
        status: {"description": _TITLES[status], "content": {MEDIA_TYPE: schema}}
        for status in sorted({*statuses, *_USUAL, *((415,) if 400 in statuses else ())})
    }


def json_of(record: BaseModel, status: int = 200) -> Response:
    """Return a redacted record as the answer."""
    return Response(redact(record).model_dump_json(), status, media_type="application/json")
