"""Parts of a run's history: its executions one by one, so that of a long run nobody reads more than what a page shows."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_of
from sojourn.events.cursor import Position
from sojourn.events.stream import stream
from sojourn.http.service import Service
from sojourn.timeline import Timeline

__all__ = ["HistoryPart", "event_at", "part_of", "timeline_of"]

ALL = 100_000
"""More entries than a part has."""

_PRESENT = "999999999-000000-00000"
"""A place in the present execution of a run, whichever it is."""


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """Events of one execution, or of the present one and those that continue it meanwhile."""

    events: list[Event]
    earlier: str
    """Where the part before it ends, as `before`; empty where there is none."""


async def part_of(service: Service, run_id: str, before: str = "") -> HistoryPart:
    """The present execution of a run; or what is before a place in the execution of that place.

    Args:
        service: The service.
        run_id: The run.
        before: An event_id; the beginning of an execution means the whole execution before.

    Raises:
        RunNotFound: There is no such run.
        RunUnreadable: The run's records cannot be decoded here.
        ServerUnavailable: The server does not answer.
    """
    until = place_of(before) if before else None
    since = _PRESENT
    if until is not None:
        chain = until[0] if any(until[1:]) else until[0] - 1
        since = f"{max(chain, 0)}-000000-00000"
    found: list[Event] = []
    async with aclosing(_from(service, run_id, since)) as events:
        async for event in events:
            if until is not None and place_of(event.event_id) >= until:
                break
            found.append(event)
    began = place_of(found[0].event_id)[0] if found else 0
    return HistoryPart(found, f"{began}-000000-00000" if began else "")


async def event_at(service: Service, run_id: str, event_id: str) -> Event | None:
    """An event by its id; raises as `part_of`."""
    wanted = place_of(event_id)
    async with aclosing(_from(service, run_id, f"{wanted[0]}-000000-00000")) as events:
        async for event in events:
            if (place := place_of(event.event_id)) >= wanted:
                return event if place == wanted else None
    return None


async def timeline_of(
    service: Service, run_id: str, before: str = "", *, most: int = ALL
) -> tuple[Timeline, str]:
    """The timeline of a part, with at most so many entries, and where the part before it ends; raises as `part_of`."""
    found, timeline = await part_of(service, run_id, before), Timeline(run_id, most)
    for event in found.events:
        timeline.feed(event)
    return timeline, found.earlier


def _from(service: Service, run_id: str, since: str) -> AsyncGenerator[Event]:
    client = service.client
    return stream(
        client.temporal,
        run_id,
        after=Position({}),
        follow=False,
        children=False,
        storage=client.storage,
        since=since,
    )
