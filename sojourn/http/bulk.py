"""Cancel or retry many runs for a principal.

A repeated request changes nothing more.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sojourn.client.forking import MISSING, RETRYABLE
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import OPEN_STATUSES
from sojourn.errors import RunNotFound, SojournError
from sojourn.http.bodies import ForkBody
from sojourn.http.problems import problem_of
from sojourn.http.security import audit
from sojourn.http.security.principals import require
from sojourn.http.service import Service
from sojourn.reader import ListedRun

__all__ = ["ACTIONS", "MAX_BULK", "BulkAction", "BulkOutcome", "act_on_runs", "can_act", "statuses_for"]

BulkAction = Literal["cancel", "retry"]

ACTIONS: tuple[BulkAction, ...] = ("cancel", "retry")

MAX_BULK = 500
"""Most runs of one action."""

AT_ONCE = 8
"""Most runs that are changed at the same time."""

_STATUSES = {"cancel": OPEN_STATUSES, "retry": RETRYABLE}


@dataclass(frozen=True, slots=True)
class BulkOutcome:
    run_id: str
    new_run_id: str = ""
    """The run that continues it, after a retry."""
    fault: str = ""
    """Why nothing was done; empty if it was."""
    is_found: bool = True
    """Whether there is a run of this id that the principal may see."""


def can_act(action: BulkAction, run: ListedRun) -> bool:
    """Return whether a run has a status in which the action does something."""
    return run.status in _STATUSES[action]


def statuses_for(action: BulkAction) -> Sequence[str]:
    """Return the statuses in which runs are listed for an action, by default."""
    return ("running",) if action == "cancel" else RETRYABLE


async def act_on_runs(
    service: Service, asking: Principal, action: BulkAction, run_ids: Sequence[str], *, made: str, reason: str
) -> list[BulkOutcome]:
    """Cancel or retry runs, and return the outcome of each in their order.

    A run that the principal may not see is as one that does not exist. One that is not in the right status is left
    as it is.

    Args:
        service: The service.
        asking: The principal.
        action: What to do.
        run_ids: The runs.
        made: The idempotency token of the request. Repeated, it makes no second run.
        reason: The reason of a cancellation.

    Raises:
        MissingRole: The principal is no operator.
    """
    require(asking, "operator")
    audit.bind(bulk=action, runs=list(run_ids))
    gate = asyncio.Semaphore(AT_ONCE)

    async def act(run_id: str) -> BulkOutcome:
        async with gate:
            try:
                return await _act(service, asking, action, run_id, made, reason)
            except RunNotFound:
                return BulkOutcome(run_id, fault="not found", is_found=False)
            except SojournError as error:
                return BulkOutcome(run_id, fault=problem_of(error).detail)

    return list(await asyncio.gather(*map(act, run_ids)))


async def _act(
    service: Service, asking: Principal, action: BulkAction, run_id: str, made: str, reason: str
) -> BulkOutcome:
    found, run = await service.listed_run(asking, run_id), service.client.get_run(run_id)
    if not can_act(action, found):
        return BulkOutcome(run.id, fault="it has ended" if found.closed_at else f"it is {found.status}")
    if action == "retry":
        fork = await service.fork_once(asking, run, ForkBody(), result=MISSING, made=made)
        return BulkOutcome(run.id, fork.id)
    await run.cancel(reason, by=asking.subject)
    return BulkOutcome(run.id)
