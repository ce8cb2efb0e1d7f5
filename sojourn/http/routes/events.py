"""Send the events of a run, as an array or as a stream.

`/v1/runs` and `/v1/sessions` share this.
"""

from contextlib import aclosing
from typing import Annotated, Any, Union
from urllib.parse import quote

from fastapi import Query, Request, Response
from pydantic import Field

from sojourn.answers import EVENT_SHAPES, event_line
from sojourn.client.run import Run
from sojourn.contracts.ids import place_of
from sojourn.errors import InvalidInput
from sojourn.events import Cursor
from sojourn.http.event_streams import RunEventResponse, wants_stream
from sojourn.http.problems import redact
from sojourn.http.routes.parameters import STREAM, problems
from sojourn.http.security.byte_limits import reserve
from sojourn.http.security.limits import heavy_read
from sojourn.http.service import Service
from sojourn.serving.pace import Pace

__all__ = ["EVENTS", "After", "Children", "Deltas", "Most", "events_answer"]

MAX_BYTES = 4_000_000
"""Bytes after which an array of events ends, whatever its limit. The next one continues from its cursor."""

FREE = 100
"""Events that a request may read before it must wait for its turn among the heavy reads."""

After = Annotated[
    str | None,
    Query(
        max_length=256_000,
        description="Where to continue: an `id:` of a stream, the `Sojourn-Cursor` of an array, or an event_id. "
        "The header `Last-Event-ID` takes precedence.",
    ),
]
Children = Annotated[bool, Query(description="Include the events of child runs.")]
Deltas = Annotated[bool, Query(description="In a stream: include the text that planners are writing.")]
Most = Annotated[
    int,
    Query(
        ge=1, le=10_000, description="In an array: the maximum number of events. It also ends at about 4 MB."
    ),
]

_ANY: Any = Union[EVENT_SHAPES]  # noqa: UP007 - of a tuple

Events = list[Annotated[_ANY, Field(discriminator="type")]]
"""Events as their JSON, for the OpenAPI document."""

_STREAM = {
    **STREAM,
    "example": 'id: 0-000001-00000;\ndata: {"type":"run_started","run_id":"clerk-3f1c","event_id":"0-000001-00000"}\n\n',
}

EVENTS: dict[str, Any] = {
    "response_model": Events,
    "responses": {
        200: {
            "description": "The events so far. If `Accept` is `text/event-stream`: the events to the run's end, with a "
            "comment after every 10 s without one. A stream that ends before the run ends with an event `problem`.",
            "content": {"text/event-stream": _STREAM},
            "headers": {
                "Sojourn-Cursor": {
                    "description": "In an array: the cursor of the next one.",
                    "schema": {"type": "string"},
                },
                "Link": {
                    "description": 'The same cursor as a link, `rel="next"`.',
                    "schema": {"type": "string"},
                },
            },
        },
        **problems(404, 502),
    },
}
"""OpenAPI documentation of a path of events."""


async def events_answer(
    service: Service,
    run: Run,
    request: Request,
    *,
    after: str | None,
    children: bool,
    deltas: bool,
    most: int,
) -> Response:
    """Return the events of a run that exists, as the request asks for them."""
    place = request.headers.get("last-event-id") or after or None  # the URL keeps its first `after`
    if wants_stream(request.headers.get("accept")):
        cursor = await _cursor_at(run, place)
        return RunEventResponse(
            service.feeds, service.metrics, run.id, cursor, children=children, deltas=deltas
        )
    read, pace = 0, Pace()
    async with heavy_read(begins_free=True) as take_turn:
        cursor = await _cursor_at(run, place) if children else _plain(run, place)
        lines, size = list[bytes](), 0
        async with aclosing(run.events(after=place, follow=False, children=children)) as events:
            async for event in events:
                read += 1
                if not read % FREE:
                    await take_turn()
                await pace.rest()
                with pace:
                    line = event_line(redact(event)).encode()
                size += len(line) + 1
                if lines and (size > MAX_BYTES or not reserve(request.scope, len(line) + 1)):
                    break
                lines.append(line)
                cursor.add(event)
                if len(lines) == most:
                    break
    return Response(
        b"[" + b",".join(lines) + b"]", headers=_next(request, str(cursor)), media_type="application/json"
    )


async def _cursor_at(run: Run, after: str | None) -> Cursor:
    """Parse a cursor, or find the one after an event_id.

    For an event_id, the child runs that were open then are read from the history.
    """
    try:
        cursor = Cursor(run.id, after)
    except ValueError as error:
        raise InvalidInput(f"after: {error}", run_id=run.id) from error
    if not after or ";" in after:
        return cursor
    read = Cursor(run.id)
    async with aclosing(run.events(follow=False)) as events:
        async for event in events:
            if place_of(event.event_id) > place_of(after):
                break
            read.add(event)
    return Cursor(run.id, f"{after};{str(read).partition(';')[2]}")


def _plain(run: Run, after: str | None) -> Cursor:
    """Return a cursor without child runs, for a client that does not read them."""
    run.events(after=after, follow=False)  # raises if the text is no cursor
    return Cursor(run.id, after)


def _next(request: Request, cursor: str) -> dict[str, str]:
    if not cursor:
        return {}
    url = request.url.include_query_params(after=cursor)
    return {"Sojourn-Cursor": cursor, "Link": f'<{quote(url.path)}?{url.query}>; rel="next"'}
