"""Stream changed parts of a page as Server-Sent Events.

htmx puts each part in its place.
"""

import asyncio
import functools
import re
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

from markupsafe import escape

from sojourn.console.page import Visit
from sojourn.console.templating import render
from sojourn.console.watched import News
from sojourn.errors import SojournError
from sojourn.http.event_streams import BEAT, HEARTBEAT, SseResponse, Write
from sojourn.http.problems import Problem, problem_of

__all__ = ["Live", "part"]

RETRY = b"retry: 1000\n\n"
"""Delay before a page reconnects, in milliseconds."""

LONGEST = 300.0
"""Seconds after which a stream ends.

The page then reconnects, and the request is authenticated again.
"""

SLOW = 10.0
"""Seconds without a part after which the server is checked."""

SOON = 2.0
"""The same, while the server does not answer."""

UNAVAILABLE = "Temporal does not answer"
"""Text that a page displays in place of "Live"."""

_COME_BACK = ("service_stops", "slow_subscriber")
"""Problems that end a stream whose page should reconnect, to any process."""

_LINE = re.compile(r"\r\n|\r|\n")


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
                        await write(_frame(news))
                        beat = now
                    elif now - beat >= HEARTBEAT:
                        await write(BEAT)
                        beat = now
                    if now - begin > LONGEST:
                        return True
        except (Problem, SojournError) as error:
            if (told := problem_of(error)).code in _COME_BACK:
                return True
            await write(_frame(News(self._visit.render("problem_notice.html", problem=told))))
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


def _frame(news: News) -> bytes:
    lines = [f"data: {line}\n" for line in _LINE.split(news.html)]
    events = [f"event: {name}\ndata: {text}\n\n" for name, texts in news.events.items() for text in texts]
    return "".join([f"id: {news.mark}\n" if news.mark else "", *lines, "\n", *events]).encode()
