"""Events or messages of a run that are newer than those on the page.

They are appended to the end of the page while a visitor reads it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from sojourn.console.live import part
from sojourn.console.page import Visit
from sojourn.console.views.entries import MOST_TEXT, EventRow, event_row, markdown_of_message
from sojourn.console.views.markdown import prepare
from sojourn.console.watched import MOST_ROWS, WatchedRun
from sojourn.contracts.ids import EVENT_ID, place_of
from sojourn.contracts.message import Message
from sojourn.reader import read_part
from sojourn.timeline import SetAsideRequest, requests_by_message

__all__ = ["newer_events", "newer_messages"]

MOST_MESSAGES = 120
"""Most messages that are added to an open page. After that, it must be reloaded."""


class Newer(NamedTuple):
    html: str
    added: int
    """How much came to the page since it was opened."""
    is_full: bool = False
    """Whether more has come than the page is to hold."""


async def newer_events(visit: Visit, watched: WatchedRun, seen: int, added: int) -> Newer:
    """Return newer events that pass the page's filter. Raises as `read_part`."""
    begin, kind = visit.query("after"), visit.query("type")
    after = begin if EVENT_ID.match(begin) else ""
    rows = watched.rows.since(seen) if seen >= 0 else await _rows_after(visit, watched, after)
    wanted = [
        row
        for row in rows or ()
        if (not kind or row.type == kind) and place_of(row.event_id) > place_of(after)
    ]
    if rows is None or added + len(wanted) > MOST_ROWS:
        return Newer("", MOST_ROWS, is_full=True)
    html = [_once(visit, watched, row) for row in wanted]
    return Newer(part("held", "".join(html), "beforeend") if html else "", added + len(html))


async def _rows_after(visit: Visit, watched: WatchedRun, after: str) -> Sequence[EventRow] | None:
    """Return the rows after an event, or None if a new execution has begun since."""
    if (rows := watched.rows.after(after)) is not None:
        return rows
    found = await read_part(visit.service.client, watched.run_id)
    place = place_of(after)
    if found.earlier and place < place_of(found.earlier):
        return None
    return [event_row(event) for event in found.events if place_of(event.event_id) > place]


def _once(visit: Visit, watched: WatchedRun, row: EventRow) -> str:
    def make() -> str:
        return visit.render("event_row.html", run_id=watched.run_id, row=row)

    return watched.once((visit.url.base, "row", row.event_id), 0, make).html


async def newer_messages(visit: Visit, watched: WatchedRun, seen: int, added: int) -> Newer:
    """Return newer messages.

    The page's last message is among them, since results may have been added to it.

    Raises:
        RunUnreadable: The run's records cannot be decoded here, or its beginning is in a storage that is not here.
        ServerUnavailable: The server does not answer.
    """
    if seen >= watched.spoke:
        return Newer("", added)
    begin = visit.query("after")
    known = int(begin) if begin.isdecimal() and len(begin) < 10 else 0
    last = await watched.transcript.at(watched.spoke)
    first = max(known + added - 1, 0)
    if first < last.first or last.total - known > MOST_MESSAGES:
        return Newer("", added, is_full=True)
    await prepare(
        text for message in last.messages[first - last.first :] for text in markdown_of_message(message)
    )
    set_aside = requests_by_message(last.messages)
    html = [
        _message(visit, watched, last.version, first + place, message, set_aside)
        for place, message in enumerate(last.messages[first - last.first :])
    ]
    return Newer(part("held", "".join(html), "beforeend") if html else "", max(last.total - known, added))


def _message(
    visit: Visit,
    watched: WatchedRun,
    version: int,
    index: int,
    message: Message,
    set_aside: dict[int, list[SetAsideRequest]],
) -> str:
    may = visit.may("operator")  # a page is live only while its run is open

    def make() -> str:
        values = {"index": index, "message": message, "only": None, "most": MOST_TEXT}
        values |= {"set_aside": set_aside, "may_set_aside": may}
        return visit.render("message.html", run_id=watched.run_id, **values)

    return watched.once((visit.url.base, "message", index, may), version, make).html
