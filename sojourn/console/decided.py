"""Decided: who has answered what, read from the histories of runs; those of an ended run once, and then remembered."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sojourn.client.access import Access
from sojourn.client.listing import Selection
from sojourn.console.views.decisions import DecisionRow, decision_row
from sojourn.contracts.principal import Principal
from sojourn.errors import RunNotFound, RunUnreadable
from sojourn.events.one_run import events_of
from sojourn.http.security.tenancy import may_look_at, view_of
from sojourn.http.service import Service
from sojourn.reader import Cache, ListedRun, Runs
from sojourn.timeline import Timeline

__all__ = ["Decided", "Reach"]

RUNS = 100
"""Runs whose decisions make a page."""

AT_ONCE = 8
"""Most histories that are read at the same time."""

MAX_EVENTS = 20_000
"""Most events of a run that are looked through."""

MAX_KNOWN = 5_000
"""Most runs whose decisions are remembered."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The decisions in some runs."""

    decisions: list[DecisionRow]
    """Newest first."""
    runs: int
    """How many runs were read."""
    oldest: datetime | None
    """When the oldest of them started."""
    whole_since: datetime | None
    """Runs that were not read have no decision after this; None where all were read."""
    unreadable: int
    """Runs whose records cannot be read here, or are too long to be read whole."""
    cursor: str | None
    """Where the runs before them begin."""
    others: frozenset[str] = frozenset()
    """The runs that whoever asks may not see, beside these decisions."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What the history of a run said."""

    decisions: tuple[DecisionRow, ...]
    is_whole: bool
    is_other: bool = False
    """Whether whoever asks may not see the run, but only these decisions."""


class Decided:
    """Reads decisions.

    Args:
        service: What the visitors may see.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: Cache[tuple[str, str, int], _Known] = Cache(MAX_KNOWN)
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def page(self, asking: Principal, selection: Selection, cursor: str | None) -> Reach:
        """The decisions in a page of runs.

        Raises:
            InvalidInput: The cursor is none of this list.
            ServerUnavailable: The server does not answer.
        """
        return await self._reach(asking, await self._listed(asking, selection, cursor))

    async def all(self, asking: Principal, selection: Selection) -> AsyncGenerator[Reach]:
        """The decisions in all runs, a page of runs after the other; raises as `page`, before a history is read."""
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
        # Of a run that whoever asks may not see, not even its number is told.
        shown = [
            (run, known)
            for run, known in zip(page.runs, read, strict=True)
            if known.decisions or not known.is_other
        ]
        decisions = [each for _, known in shown for each in known.decisions]
        return Reach(
            sorted(decisions, key=lambda each: each.at, reverse=True),
            len(shown),
            min((run.started_at for run, _ in shown if run.started_at), default=None),
            _ended_last(page.runs) if page.cursor else None,
            sum(not known.is_whole for _, known in shown),
            page.cursor,
            frozenset(run.run_id for run, known in shown if known.is_other),
        )

    async def _of(self, asking: Principal, run: ListedRun) -> _Known:
        """What a principal may look at of the decisions in a run."""
        is_other = bool(view_of(asking).deciding)
        async with self._gate:
            try:
                temporal = self._service.client.temporal
                described = await temporal.get_workflow_handle(run.run_id).describe()
                is_other = is_other and not await self._service.may_see(asking, described)
                version = run.run_id, described.run_id, described.history_length
                known = await self._known.get(version, lambda: _read(self._service.client, run))
            except (RunNotFound, RunUnreadable):
                return _Known((), is_whole=False, is_other=is_other)
        if not is_other:
            return known
        decisions = tuple(each for each in known.decisions if may_look_at(asking, each.call, each.answered))
        return replace(known, decisions=decisions, is_other=True)


def _ended_last(runs: list[ListedRun]) -> datetime | None:
    """When the last of these runs ended: the store lists open runs first, and then those that ended last, so all after it ended before."""
    ends = [run.closed_at for run in runs if run.closed_at]
    return min(ends, default=datetime.max.replace(tzinfo=UTC)) if runs else None


async def _read(client: Access, run: ListedRun) -> _Known:
    timeline, left = Timeline(run.run_id, most=1, most_records=MAX_EVENTS), MAX_EVENTS
    async for event in events_of(client.temporal, run.run_id, client.storage, follow=False):
        timeline.feed(event)
        if (left := left - 1) < 0:
            break
    rows = tuple(decision_row(each, run.agent_id, run.asked) for each in timeline.decisions)
    return _Known(rows, is_whole=left >= 0)
