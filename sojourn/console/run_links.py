"""Links of a run's page: its forks, and its execution in Temporal's UI."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from sojourn.client.listing import Selection
from sojourn.console.watched import WatchedRun
from sojourn.contracts.principal import Principal
from sojourn.errors import SojournError
from sojourn.http.service import Service

__all__ = ["RunLinks", "links_of"]

FRESH = 5.0
"""Seconds for which the forks of a run are cached."""

PATIENCE = 0.5
"""Seconds that a page waits for the forks. The read continues for the next page."""

SHOWN = 3
"""Number of the newest forks that are named. The list of runs has all of them."""


@dataclass(frozen=True, slots=True)
class RunLinks:
    """Links on the page of a run."""

    forks: tuple[str, ...] = ()
    """The newest runs that were forked from it."""
    more_forks: bool = False
    """Whether there are more forks."""
    temporal: str = ""
    """URL of its execution in Temporal's UI.

    Empty if no address of that UI is configured, or if the visitor may not see it.
    """


async def links_of(service: Service, asking: Principal, watched: WatchedRun) -> RunLinks:
    """Return the links of a run, without forks if the store is slow."""
    forks: list[str] = []
    with suppress(SojournError, TimeoutError):
        async with asyncio.timeout(PATIENCE):
            wanted = Selection(fork_of=watched.run_id)
            page = await service.runs(asking, wanted, most=SHOWN + 1, fresh=FRESH)
            forks = [run.run_id for run in page.runs]
    return RunLinks(tuple(forks[:SHOWN]), len(forks) > SHOWN, _in_temporal(service, asking, watched))


def _in_temporal(service: Service, asking: Principal, watched: WatchedRun) -> str:
    if not service.sees_deployment(asking):
        return ""
    return service.execution_url(watched.run_id, watched.snapshot.execution)
