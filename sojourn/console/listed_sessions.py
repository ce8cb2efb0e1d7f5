"""Listed sessions: a page of the conversations with the last words of each, read once for everybody who looks at the same page."""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from sojourn.client.listing import Selection
from sojourn.console.last_words import LastWords, Words
from sojourn.console.views.states import word_of
from sojourn.contracts.principal import Principal
from sojourn.http.replies import ListedRun
from sojourn.http.service import Service

__all__ = ["ListedSessions", "SessionRow", "Sessions"]

MOST = 50
"""Conversations of a page."""

SEARCHED = 200
"""Conversations that a page of a search looks at."""

AT_ONCE = 16
"""Most conversations whose last words are read at the same time."""

PATIENCE = 2.0
"""Seconds for the last words of a conversation; where they take longer, it is shown without."""

UNREAD = Words()
"""The last words of a conversation that did not say them in time."""

FRESH = 1.0
"""Seconds for which a page is shown to others as it was read."""

MAX_KNOWN = 1_000
"""Most pages that are remembered."""


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A row of the list."""

    run_id: str
    agent_id: str
    session_id: str
    status: str
    word: str
    last: Words
    started_at: datetime | None
    active_at: datetime | None
    """When something happened in it last."""


@dataclass(frozen=True, slots=True)
class Sessions:
    """A page of the list."""

    rows: list[SessionRow]
    cursor: str | None
    unread: int = 0
    """Conversations whose last words were not read in time, so that nobody knows whether they have what is looked for."""


class ListedSessions:
    """Reads pages.

    Args:
        service: What the visitors may see.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._words = LastWords()
        self._pages: OrderedDict[object, tuple[float, asyncio.Task[Sessions]]] = OrderedDict()

    async def page(
        self, asking: Principal, selection: Selection, cursor: str = "", text: str = ""
    ) -> Sessions:
        """A page, as it was at most a second ago, with what was active last first.

        Args:
            asking: Who looks.
            selection: Which conversations.
            cursor: Where the page begins.
            text: What is looked for in their ids and last words.

        Raises:
            InvalidInput: The cursor is none of this list, or the search attributes are not registered.
            ServerUnavailable: The server does not answer.
        """
        now, key = time.monotonic(), (self._service.view(asking), selection, cursor, text)
        known = self._pages.pop(key, None)
        if known is None or (known[1].done() and (now - known[0] > FRESH or known[1].exception())):
            known = now, asyncio.ensure_future(self._read(asking, selection, cursor, text))
        self._pages[key] = known
        while len(self._pages) > MAX_KNOWN:
            self._pages.popitem(last=False)
        return await asyncio.shield(known[1])

    async def _read(self, asking: Principal, selection: Selection, cursor: str, text: str) -> Sessions:
        most = SEARCHED if text else MOST
        page = await self._service.runs(asking, selection, labels={}, most=most, cursor=cursor or None)
        gate = asyncio.Semaphore(AT_ONCE)
        read = await asyncio.gather(*(self._row(run, gate) for run in page.runs))
        rows = sorted((row for row in read if _has(row, text)), key=_activity, reverse=True)
        return Sessions(rows, page.cursor, sum(row.last is UNREAD for row in read) if text else 0)

    async def _row(self, run: ListedRun, gate: asyncio.Semaphore) -> SessionRow:
        words = UNREAD
        try:
            async with gate, asyncio.timeout(PATIENCE):
                words = await self._words.of(self._service.client, run.run_id)
        except TimeoutError:
            pass  # shown without
        return SessionRow(
            run_id=run.run_id,
            agent_id=run.agent_id,
            session_id=run.session_id,
            status=run.status,
            word=word_of(run.status),
            last=words,
            started_at=run.started_at,
            active_at=run.closed_at or words.at or run.started_at,
        )


def _has(row: SessionRow, text: str) -> bool:
    """Whether a row has a text, in whichever case."""
    wanted = text.casefold()
    return not wanted or wanted in row.last.text.casefold() or wanted in row.session_id.casefold()


def _activity(row: SessionRow) -> float:
    return row.active_at.timestamp() if row.active_at else 0.0
