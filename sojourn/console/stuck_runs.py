"""Stuck runs: which of the running ones do not go on, and why; looked for once for all who look at the same time."""

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from sojourn.client.listing import Selection
from sojourn.client.stuck import Stuck, stuck_runs
from sojourn.console.once import Once
from sojourn.console.views.states import OPEN
from sojourn.contracts.principal import Principal
from sojourn.http.replies import ListedRun
from sojourn.http.service import Service

__all__ = ["LOOKED_AT", "FoundStuck", "StuckRuns", "stuck_runs_of"]

LOOKED_AT = 200
"""Most running runs that are looked at, the newest."""

FRESH = 10.0
"""Seconds for which it is remembered which are stuck."""


@dataclass(frozen=True, slots=True)
class FoundStuck:
    """The running runs that were looked at, and why some do not go on."""

    runs: list[ListedRun]
    why: Mapping[str, Stuck]


class StuckRuns:
    """Looks for stuck runs.

    Args:
        service: What the visitors may see.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._once = Once()

    async def of(self, asking: Principal) -> FoundStuck:
        """Those of the principal's, as they were at most ten seconds ago; raises as `Service.runs`."""
        return await self._once.read(self._service.view(asking), FRESH, lambda: self._look(asking))

    async def _look(self, asking: Principal) -> FoundStuck:
        page = await self._service.runs(
            asking, Selection(status="running"), labels={}, most=LOOKED_AT, cursor=None
        )
        runs = [run for run in page.runs if run.status in OPEN and not run.awaiting]
        return FoundStuck(runs, await stuck_runs(self._service.client, [run.run_id for run in runs]))


_KNOWN: WeakKeyDictionary[Service, StuckRuns] = WeakKeyDictionary()


def stuck_runs_of(service: Service) -> StuckRuns:
    """What looks for them, one for a service."""
    return _KNOWN.setdefault(service, StuckRuns(service))
