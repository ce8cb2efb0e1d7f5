"""Lists and counts of the runs that wait, as a principal sees them.

They are cached for all principals that see the same.
"""

import asyncio
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from sojourn.client.listing import Selection
from sojourn.contracts.awaits import Await
from sojourn.errors import SojournError
from sojourn.reader.cache import Cache
from sojourn.reader.reader import Reader
from sojourn.reader.waits import FoundWait, FoundWaits, WaitingRuns

__all__ = ["Sight", "WaitingLists"]

COUNTING = 1.0
"""Seconds for which a count waits for runs that are not cached. The next count includes the rest."""

CALL = "confirm-"
"""Prefix of the ids of waits for an approval."""

COUNT_FRESH = 3.0
"""Seconds for which the count beside the inbox is cached, for all principals with the same view."""

COUNT_PATIENCE = 0.1
"""Seconds for which a page waits for the count."""

COUNT_OLD = 60.0
"""Seconds after which a page no longer shows a count that could not be read again."""

LIST_FRESH = 1.0
"""Seconds for which a page with `patience` uses the cached list of waiting runs."""

LIST_SHARE = 5
"""Factor of the time that reading the list took, after which it is read again if that is longer.

A store takes most of a second for a thousand runs.
"""

LIST_OLD = 30.0
"""Seconds after which the old list is no longer used while it is read again."""

FIRST = 1.0
"""Seconds for which a page waits for the first list, and then for the waits that it shows."""

LEAST = 0.05
"""Fewest seconds for which a page waits for the waits that it shows, even if the list took all its time."""

MAX_VIEWS = 1_000
"""Most lists and counts to cache."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a principal sees of the runs that wait. The caller has checked its access."""

    view: Hashable
    """Principals with equal views see the same."""
    own: Callable[[Selection], Selection]
    """Restricts a selection to the runs that it sees."""
    tenant: Callable[[Selection], Selection] | None
    """Restricts a selection to all runs of its tenant; None unless it decides on calls of runs that it does not see."""
    may_look_at: Callable[[Await], bool]
    """Check whether it sees a wait of another run."""


class WaitingLists:
    """Reads the runs that wait.

    A principal that decides on calls gets further runs, with those calls only.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._listed: Cache[tuple[Hashable, Selection], WaitingRuns] = Cache(MAX_VIEWS, LIST_OLD)
        self._totals: Cache[tuple[Hashable, Selection], int] = Cache(MAX_VIEWS)
        self._counts: Cache[Hashable, int] = Cache(MAX_VIEWS, COUNT_OLD)

    async def runs(self, sight: Sight, selection: Selection) -> WaitingRuns:
        """Return the waiting runs of a selection."""
        seen = await self._reader.waiting_runs(sight.own(selection))
        if sight.tenant is None:
            return seen
        every = await self._reader.waiting_runs(sight.tenant(selection))
        others = frozenset(every.runs) - frozenset(seen.runs)
        return replace(every, others=others, may_look_at=sight.may_look_at)

    async def page(
        self,
        sight: Sight,
        selection: Selection,
        *,
        fits: Callable[[FoundWait], bool],
        newest: bool,
        most: int,
        cursor: str | None,
        patience: float | None = None,
    ) -> FoundWaits:
        """Return a page of the open waits.

        With `patience`, a cached list of the waiting runs is used while a new one is read.
        """
        began = time.monotonic()
        if patience is None:
            listed = await self.runs(sight, selection)
        else:
            key = sight.view, selection
            is_first = self._listed.peek(key) is None
            listed = await self._listed.get_soon(
                key,
                lambda: self.runs(sight, selection),
                fresh=LIST_FRESH,
                patience=patience,
                first=max(FIRST, patience),
                share=LIST_SHARE,
            )
            if listed is None:
                unread = await self._reader.count(sight.own(replace(selection, status="waiting")))
                return FoundWaits([], None, is_whole=True, count=0, unread=unread)
            patience = FIRST if is_first else max(patience - (time.monotonic() - began), LEAST)
        return await self._reader.waits.page(
            listed, fits=fits, newest=newest, most=most, cursor=cursor, patience=patience
        )

    async def count(self, sight: Sight, selection: Selection, *, fresh: float = 0.0) -> int:
        """Return the number of runs that wait for an answer, including child runs.

        The store counts paused runs as waiting too, so these are subtracted.
        """

        async def read() -> int:
            among = replace(selection, children=True)
            waiting, paused = await asyncio.gather(
                *(
                    self._reader.count(sight.own(replace(among, status=status)), fresh=fresh)
                    for status in ("waiting", "paused")
                )
            )
            calls = await self._count_calls(sight, among) if sight.tenant else 0
            return max(0, waiting - paused) + calls

        return await (self._totals.get((sight.view, selection), read, seconds=fresh) if fresh else read())

    async def _count_calls(self, sight: Sight, selection: Selection) -> int:
        """Count further runs of the tenant that wait for a decision by the principal.

        These are runs whose oldest wait is for an approval. The store tells whether there are such runs, but
        it knows no roles. So their waits decide which of them the principal sees.
        """
        assert sight.tenant is not None
        calls = replace(selection, status="waiting", awaits=CALL)
        both = await asyncio.gather(
            self._reader.count(sight.tenant(calls)), self._reader.count(sight.own(calls))
        )
        if both[0] <= both[1]:
            return 0
        runs = await self.runs(sight, calls)
        others = {run_id: awaiting for run_id, awaiting in runs.runs.items() if run_id in runs.others}
        return await self._reader.waits.count_runs(replace(runs, runs=others), COUNTING)

    async def recent_count(self, sight: Sight) -> int | None:
        """Return the count of the last minute that is available at once, or None."""
        try:
            return await self._counts.get_soon(
                sight.view,
                lambda: self.count(sight, Selection()),
                fresh=COUNT_FRESH,
                patience=COUNT_PATIENCE,
            )
        except SojournError:
            return self._counts.peek(sight.view)  # the page itself says that the server does not answer

    def note_answered(self, sight: Sight) -> None:
        """Count one waiting run less, before the store reflects the answer."""
        if count := self._counts.peek(sight.view):
            self._counts.put(sight.view, count - 1)
