"""`/v1/waits`: one inbox for the open waits of all runs."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from sojourn.client.listing import Selection
from sojourn.contracts.awaits import KindName
from sojourn.http.replies import Waits
from sojourn.http.routes.answering import Cursor, Limit, Serving, json_of, problems
from sojourn.http.routes.known_query import KnownQueryRoute
from sojourn.http.security.limits import heavy_read
from sojourn.http.security.principals import Asking, require
from sojourn.reader import FoundWait

__all__ = ["routes"]

routes = APIRouter(prefix="/v1/waits", tags=["answers"], route_class=KnownQueryRoute)


@routes.get("", response_model=Waits, responses=problems(), summary="List what runs wait for")
async def list_waits(
    asking: Asking,
    service: Serving,
    agent_id: Annotated[str | None, Query(max_length=200)] = None,
    session_id: Annotated[str | None, Query(max_length=200)] = None,
    kind: KindName | None = None,
    order: Annotated[Literal["newest", "oldest"], Query(description="Which come first.")] = "newest",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Every open wait of every run and child run, with what is needed to answer it; a new one appears within about a second."""
    require(asking, "viewer")

    def fits(found: FoundWait) -> bool:
        return kind in (None, found.view.kind)

    async with heavy_read():
        found = await service.waits(
            asking,
            Selection(agent_id, session_id),
            fits=fits,
            newest=order == "newest",
            most=limit,
            cursor=cursor,
        )
    return json_of(
        Waits(waits=[each.view for each in found.waits], cursor=found.cursor, is_whole=found.is_whole)
    )
