"""Cursors at the door: how far a client has read, from its `Last-Event-ID` or its `after`, and places in lists as opaque texts."""

import base64
import binascii
import hashlib
from contextlib import aclosing

from fastapi import Request

from sojourn.client.run import Run
from sojourn.contracts.ids import place_of
from sojourn.errors import InvalidInput
from sojourn.events import Cursor

__all__ = ["NO_CURSOR", "after_of", "cursor_at", "opaque", "opened"]

SUM = 6
"""Bytes of a cursor's check."""

NO_CURSOR = "cursor: it is not the `cursor` of an answer to the same request without it"
"""Why a text is no place in a list."""


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


def opaque(place: bytes, of: str) -> str:
    """A place in a list as text for a URL.

    Args:
        place: The place.
        of: What the list is of; the place is one of this list alone.
    """
    return base64.urlsafe_b64encode(_sum(place, of) + place).decode().rstrip("=")


def opened(cursor: str | None, of: str) -> bytes | None:
    """The place of such a text.

    Raises:
        InvalidInput: It is none of this list.
    """
    if not cursor:
        return None
    try:
        read = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        read = b""
    place = read[SUM:]
    if not place or _sum(place, of) != read[:SUM]:
        raise InvalidInput(NO_CURSOR)
    return place


def _sum(place: bytes, of: str) -> bytes:
    """A check against mistakes, and no secret: Temporal takes 6 s to refuse a token that it has not made."""
    return hashlib.sha256(of.encode() + b"\0" + place).digest()[:SUM]
