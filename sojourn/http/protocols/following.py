"""Following: the events of a reply as they come, or those that the history has, read into a `Reading`."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import NamedTuple

from sojourn.contracts.event import Event
from sojourn.errors import RunNotFound
from sojourn.events import Cursor
from sojourn.events.stream import stream
from sojourn.http.locks.limits import reading as turn_to_read
from sojourn.http.protocols.place import Place
from sojourn.http.protocols.reading import Reading
from sojourn.http.service import Service
from sojourn.http.shown import shown
from sojourn.http.stream import HEARTBEAT

__all__ = ["FREE", "Told", "cursor_of", "follow", "read", "read_to_end", "recorded"]


FREE = 200
"""Events that are read before a request needs a turn among those that read much."""


class Told(NamedTuple):
    """One step of a reply."""

    event: Event
    """The event."""
    text: str
    """What it adds to the text of the reply."""
    is_past: bool = False
    """Of a task: whether it was there before the task was followed."""


async def follow(
    service: Service, reading: Reading, *, deltas: bool = True, to_end: bool = False
) -> AsyncGenerator[Told]:
    """Read a reply to its end, as it is made, from where it was read; a task also to what it asks now.

    Args:
        service: The service.
        reading: The reply; takes every event in before it is told.
        deltas: Whether what planners are writing is read too.
        to_end: Whether a task is followed beyond its questions.

    Raises:
        Problem: This process stops, or the reading is too slow.
        SojournError: The events cannot be read, or the place is none of the run's.
    """
    place, lasts = reading.place, ("open", "asked") if to_end else ("open",)
    if reading.is_task:  # an event of the past may ask what was answered since
        async with aclosing(recorded(service, replace(place, after=reading.cursor or place.after))) as past:
            async for event, cursor in past:
                yield Told(event, reading.take(event, cursor), is_past=True)
        _check_is_there(reading)
        if reading.state not in lasts:
            return
    cursor = cursor_of(replace(place, after=reading.cursor or place.after))
    with service.hub.subscribe(place.run_id, cursor, children=True, deltas=deltas) as subscription:
        async with aclosing(subscription.batches(HEARTBEAT)) as batches:
            async for batch in batches:
                for delivery in batch:
                    yield Told(delivery.event, reading.take(delivery.event, delivery.cursor))
                    if reading.state not in lasts:
                        return


async def read_to_end(service: Service, reading: Reading) -> None:
    """Follow a reply to its end, and let the reading alone tell of it; raises as `follow`."""
    async with aclosing(follow(service, reading, deltas=False)) as told:
        async for _ in told:
            pass


async def read(service: Service, place: Place, *, is_task: bool = False) -> Reading:
    """What the histories have of a reply, or of a task; raises as `follow`."""
    reading = Reading(place, is_task=is_task)
    async with turn_to_read(begins_free=True) as take_turn, aclosing(recorded(service, place)) as events:
        count = 0
        async for event, cursor in events:
            if (count := count + 1) == FREE:
                await take_turn()
            reading.take(event, cursor)
            if reading.state not in ("open", "asked" if is_task else "open"):
                break
    _check_is_there(reading)
    return reading


def _check_is_there(reading: Reading) -> None:
    """Refuse a place that somebody has made up: nothing would ever follow it.

    Raises:
        RunNotFound: The events have nothing of it.
    """
    if not reading.is_there:
        run_id = reading.place.run_id
        raise RunNotFound(f"there is no such place in run {run_id!r}", run_id=run_id)


async def recorded(service: Service, place: Place) -> AsyncGenerator[tuple[Event, str]]:
    """The recorded events of a run and its child runs after a place, those of open child runs last, each with the cursor behind it.

    Raises:
        RunNotFound: There is no such run or place.
        SojournError: The events cannot be read.
    """
    client, cursor = service.client, cursor_of(place)
    events = stream(
        client.temporal,
        place.run_id,
        after=cursor.position,
        follow=False,
        children=True,
        storage=client.storage,
    )
    async with aclosing(events):
        async for event in events:
            yield shown(event), cursor.add(event)


def cursor_of(place: Place) -> Cursor:
    """The cursor of a place.

    Raises:
        RunNotFound: The place is none of a run: somebody has made it up.
    """
    try:
        return Cursor(place.run_id, place.after)
    except ValueError as error:
        raise RunNotFound(f"there is no such place in run {place.run_id!r}", run_id=place.run_id) from error
