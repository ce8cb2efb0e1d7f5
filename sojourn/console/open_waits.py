"""Open waits: a page of the inbox, quick however many runs wait: what is known is shown, and what is new is read meanwhile.

The store takes most of a second to list a thousand runs, and reading each takes longer. So the list of the waiting runs is read once for everybody who looks, not more
often than a fifth of the time, and a page waits for it, and for the runs that it shows, only so long.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from sojourn.client.listing import Selection
from sojourn.contracts.principal import Principal
from sojourn.http.inbox import FoundWait, FoundWaits, WaitingRuns
from sojourn.http.security.tenancy import View
from sojourn.http.service import Service

__all__ = ["HURRY", "LIVE", "OpenWaits"]

MOST = 50
"""Waits of a page."""

HURRY = 0.1
"""Seconds that a page waits for news of what it knows."""

FIRST = 1.0
"""Seconds that a page waits for the first list, and then for what it shows of it."""

LIVE = 2.0
"""Seconds that a live page waits: it is in no hurry."""

FRESH = 1.0
"""Seconds for which a list is taken as it is."""

SHARE = 5
"""A list is read again after so many times the time that reading it took, if that is longer."""

OLD = 30.0
"""Seconds after which a list is no longer shown while it is read anew: nobody has looked at it."""

MAX_LISTS = 500
"""Most lists that are remembered."""


@dataclass(slots=True)
class _List:
    """The waiting runs of a selection."""

    runs: WaitingRuns | None = None
    read_at: float = 0.0
    took: float = 0.0
    reading: asyncio.Task[None] | None = None


class OpenWaits:
    """Reads pages of the inbox.

    Args:
        service: What the visitors may see.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lists: OrderedDict[tuple[View, Selection], _List] = OrderedDict()

    async def page(
        self,
        asking: Principal,
        selection: Selection,
        fits: Callable[[FoundWait], bool],
        *,
        cursor: str = "",
        patience: float = HURRY,
    ) -> FoundWaits:
        """A page of the open waits, oldest first.

        Args:
            asking: Who looks.
            selection: The runs.
            fits: Whether a wait is asked for.
            cursor: The cursor of the page before.
            patience: Seconds that it may take to be newer than what is known.

        Raises:
            InvalidInput: The cursor is none of this list, or the search attributes are not registered.
            ServerUnavailable: The server does not answer.
        """
        begin = time.monotonic()
        is_first = await self._list(asking, selection, patience)
        listed = self._lists[self._service.view(asking), selection].runs
        if listed is None:
            unread = await self._service.count(asking, replace(selection, status="waiting"))
            return FoundWaits([], None, is_whole=True, count=0, unread=unread)
        left = FIRST if is_first else max(patience - (time.monotonic() - begin), HURRY / 2)
        return await self._service.inbox.page(
            listed, fits=fits, newest=False, most=MOST, cursor=cursor or None, patience=left
        )

    async def _list(self, asking: Principal, selection: Selection, patience: float) -> bool:
        """Have a list, the present one if that does not take longer; returns whether it is the first one."""
        key = self._service.view(asking), selection
        known = self._lists.setdefault(key, _List())
        self._lists.move_to_end(key)
        while len(self._lists) > MAX_LISTS:
            self._lists.popitem(last=False)
        age = time.monotonic() - known.read_at
        if age > OLD:
            known.runs = None
        is_first = known.runs is None
        if known.reading is None and (is_first or age > max(FRESH, SHARE * known.took)):
            known.reading = asyncio.create_task(self._read(known, asking, selection))
            known.reading.add_done_callback(_seen)
        if known.reading is not None:
            done, _ = await asyncio.wait(
                {known.reading}, timeout=max(FIRST, patience) if is_first else patience
            )
            for task in done:
                task.result()
        return is_first

    async def _read(self, known: _List, asking: Principal, selection: Selection) -> None:
        begin = time.monotonic()
        try:
            known.runs = await self._service.waiting_runs(asking, selection)
            known.read_at = time.monotonic()
            known.took = known.read_at - begin
        finally:
            known.reading = None


def _seen(done: asyncio.Task[None]) -> None:
    """Take note of a failure: whoever waits for the list gets it, and nobody may wait any more."""
    if not done.cancelled():
        done.exception()
