"""Cursors of events: how far a client has read, from its `Last-Event-ID` or its `after`."""

from contextlib import aclosing

from fastapi import Request

from sojourn.client.run import Run
from sojourn.contracts.ids import place_of
from sojourn.errors import InvalidInput
from sojourn.events import Cursor

__all__ = ["after_of", "cursor_at"]


def after_of(request: Request, after: str | None) -> str | None:
    """How far a client says that it has read: a browser that connects again repeats `after`, and adds where it is now."""
    return request.headers.get("last-event-id") or after or None


async def cursor_at(run: Run, after: str | None) -> Cursor:
    """The cursor of a text: of a cursor, or of an event_id of the run, of which the history tells which child runs were open.

    Raises:
        InvalidInput: It is neither.
        RunNotFound: There is no such run.
        ServerUnavailable: The server does not answer.
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
