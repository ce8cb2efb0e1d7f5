"""Decisions that people made in a page of runs, as far as a principal may see."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from sojourn.client.listing import Selection
from sojourn.console.views.decisions import DecisionRow, decision_row
from sojourn.contracts.principal import Principal
from sojourn.errors import RunNotFound, RunUnreadable
from sojourn.http.security.tenancy import may_look_at, view_of
from sojourn.http.service import Service
from sojourn.reader import ListedRun, Runs

__all__ = ["DecisionLog", "Reach"]

RUNS = 100
"""Number of runs in a page."""

AT_ONCE = 8
"""Most histories that are read at the same time."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The decisions in some runs."""

    decisions: list[DecisionRow]
    """Newest first."""
    runs: int
    """Number of runs that were read."""
    oldest: datetime | None
    """Start time of the oldest of them."""
    whole_since: datetime | None
    """Runs that were not read have no decision after this. None if all were read."""
    unreadable: int
    """Runs whose records cannot be read here, or are too long to be read whole."""
    cursor: str | None
    """Cursor of the next page, with older runs. None on the last page."""
    others: frozenset[str] = frozenset()
    """Runs that the principal may not see, except for these decisions."""


class _Found(NamedTuple):
    """The decisions in a run."""

    run: ListedRun
    rows: list[DecisionRow]
    is_whole: bool
    is_other: bool
    """Whether whoever asks may not see the run, but only these decisions."""


class DecisionLog:
    """Reads decisions.

    Args:
        service: What the visitors may see.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def page(self, asking: Principal, selection: Selection, cursor: str | None) -> Reach:
        """Return the decisions in a page of runs.

        Raises:
            InvalidInput: The cursor is none of this list.
            ServerUnavailable: The server does not answer.
        """
        return await self._reach(asking, await self._listed(asking, selection, cursor))

    async def all(self, asking: Principal, selection: Selection) -> AsyncGenerator[Reach]:
        """Yield the decisions in all runs, one page of runs at a time.

        Raises as `page`, before a history is read.
        """
        first = await self._listed(asking, selection, None)

        async def reaches() -> AsyncGenerator[Reach]:
            page = first
            yield await self._reach(asking, page)
            while page.cursor:
                page = await self._listed(asking, selection, page.cursor)
                yield await self._reach(asking, page)

        return reaches()

    async def _listed(self, asking: Principal, selection: Selection, cursor: str | None) -> Runs:
        return await self._service.decided_runs(asking, selection, most=RUNS, cursor=cursor)

    async def _reach(self, asking: Principal, page: Runs) -> Reach:
        read = await asyncio.gather(*(self._of(asking, run) for run in page.runs))
        # Runs that the principal may not see are not even counted.
        shown = [each for each in read if each.rows or not each.is_other]
        return Reach(
            sorted((row for each in shown for row in each.rows), key=lambda each: each.at, reverse=True),
            len(shown),
            min((each.run.started_at for each in shown if each.run.started_at), default=None),
            _ended_last(page.runs) if page.cursor else None,
            sum(not each.is_whole for each in shown),
            page.cursor,
            frozenset(each.run.run_id for each in shown if each.is_other),
        )

    async def _of(self, asking: Principal, run: ListedRun) -> _Found:
        """Return the decisions in a run that a principal may see."""
        service, is_other = self._service, bool(view_of(asking).deciding)
        async with self._gate:
            try:
                described = await service.client.temporal.get_workflow_handle(run.run_id).describe()
                is_other = is_other and not await service.may_see(asking, described)
                found = await service.reader.decisions(described)
            except (RunNotFound, RunUnreadable):
                return _Found(run, [], is_whole=False, is_other=is_other)
        rows = [decision_row(each, run.agent_id, run.asked) for each in found.decisions]
        if is_other:
            rows = [each for each in rows if may_look_at(asking, each.call, each.answered)]
        return _Found(run, rows, found.is_whole, is_other)


def _ended_last(runs: list[ListedRun]) -> datetime | None:
    """Return when the last of these runs ended.

    The store lists open runs first, then closed ones, newest end first. So every run after this page
    ended before.
    """
    ends = [run.closed_at for run in runs if run.closed_at]
    return min(ends, default=datetime.max.replace(tzinfo=UTC)) if runs else None
