"""Stream changed parts of a page as Server-Sent Events.

htmx puts each part in its place. Events or messages of a run that are newer than those on the page are appended to
its end while a visitor reads it.
"""

import asyncio
import functools
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import NamedTuple

from markupsafe import escape

from sojourn.console.page import Visit
from sojourn.console.templating import render
from sojourn.console.views.entries import MOST_TEXT, EventRow, event_row, markdown_of_message
from sojourn.console.views.markdown import prepare
from sojourn.console.watched import MOST_ROWS, News, WatchedRun
from sojourn.contracts.ids import EVENT_ID, place_of
from sojourn.contracts.message import Message
from sojourn.errors import SojournError
from sojourn.http.event_streams import BEAT, HEARTBEAT, SseResponse, Write, frame
from sojourn.http.problems import Problem, problem_of
from sojourn.reader import read_part
from sojourn.timeline import SetAsideRequest, requests_by_message

__all__ = ["Live", "newer_events", "newer_messages", "part"]

RETRY = b"retry: 1000\n\n"
"""Delay before a page reconnects, in milliseconds."""

LONGEST = 300.0
"""Seconds after which a stream ends.

The page then reconnects, and the request is authenticated again.
"""

SLOW = HEARTBEAT / 2
"""Seconds without a part after which the server is checked, and a comment is sent if nothing else was."""

SOON = 2.0
"""The same, while the server does not answer."""

UNAVAILABLE = "Temporal does not respond"
"""Text that a page displays in place of "Live"."""

_COME_BACK = ("service_stops", "slow_subscriber")
"""Problems that end a stream whose page should reconnect, to any process."""


def part(target: str, html: str, swap: str = "outerMorph") -> str:
    """Return HTML for one place of a page."""
    return f'<hx-partial hx-target="#{escape(target)}" hx-swap="{swap}">{html}</hx-partial>'


class Live(SseResponse):
    def __init__(self, visit: Visit, parts: Callable[[], AsyncGenerator[News]]) -> None:
        super().__init__()
        self._visit = visit
        self._parts = lambda: _with_count(visit, lambda: _with_availability(visit, parts))

    async def stream(self, write: Write) -> bool:
        """Send the parts until they end, or the stream has lasted `LONGEST` seconds."""
        begin = beat = time.monotonic()
        try:
            await write(RETRY)
            async with aclosing(self._parts()) as found:
                async for news in found:
                    now = time.monotonic()
                    if news.html or news.events:
                        await write(_frames(news))
                        beat = now
                    elif now - beat >= HEARTBEAT / 2:  # the next chance comes within SLOW
                        await write(BEAT)
                        beat = now
                    if now - begin > LONGEST:
                        return True
        except (Problem, SojournError) as error:
            if (told := problem_of(error)).code in _COME_BACK:
                return True
            await write(_frames(News(self._visit.render("problem_notice.html", problem=told))))
        except TimeoutError:
            return False
        return True


async def _with_count(visit: Visit, parts: Callable[[], AsyncGenerator[News]]) -> AsyncGenerator[News]:
    shown: int | None = -1
    async with aclosing(parts()) as found:
        async for news in found:
            waiting = await visit.service.waiting_count(visit.asking)
            if waiting != shown:
                shown = waiting
                yield replace(news, html=news.html + _count(waiting))
            else:
                yield news


@functools.lru_cache(maxsize=100)
def _count(waiting: int | None) -> str:
    return part("waiting", render("waiting.html", waiting=waiting))


async def _with_availability(visit: Visit, parts: Callable[[], AsyncGenerator[News]]) -> AsyncGenerator[News]:
    service, told = visit.service, ""
    coming: asyncio.Task[News | None] | None = None
    async with aclosing(parts()) as found:
        try:
            while True:
                text = UNAVAILABLE if service.is_down else ""
                if text != told:
                    told = text
                    yield News(events={"unavailable": [text]})
                coming = coming or asyncio.ensure_future(anext(found, None))
                await asyncio.wait({coming}, timeout=SOON if service.is_down else SLOW)
                news: News | None = News()
                if coming.done():
                    news, coming = coming.result(), None
                if news is None:
                    return
                if service.is_down or not (news.html or news.events):
                    await service.is_available()
                yield news
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)


def _frames(news: News) -> bytes:
    events = [frame(text, event=name) for name, texts in news.events.items() for text in texts]
    return "".join([frame(news.html, id=news.mark), *events]).encode()


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
