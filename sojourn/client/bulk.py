"""Cancel or retry many runs, each by itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sojourn.client.client import Client
from sojourn.client.forking import RETRYABLE, fork_id
from sojourn.client.listing import describe_run, run_of
from sojourn.client.run import Run
from sojourn.client.sending import run_ended
from sojourn.contracts.run import OPEN_STATUSES
from sojourn.errors import InvalidInput, RunAlreadyExists, RunNotFound, SojournError

__all__ = [
    "ACTIONS",
    "MOST_FORKS",
    "BulkAction",
    "BulkResult",
    "Retried",
    "act_on_each",
    "can_act",
    "each_status",
    "retry_once",
    "status_of",
]

BulkAction = Literal["cancel", "retry", "retry_now"]

ACTIONS: Mapping[BulkAction, str] = {
    "cancel": "cancel_requested",
    "retry": "retried",
    "retry_now": "retried_now",
}
"""What each action has done."""

AT_ONCE = 8
"""Most runs that are changed at the same time."""

MOST_FORKS = 20
"""Most forks of a run, the newest ones, among which a retry of it is looked for."""


@dataclass(frozen=True, slots=True)
class Retried:
    """The run that continues another one."""

    run_id: str
    already: bool = False
    """Whether it was there before."""


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What came of an action on one run."""

    run_id: str
    retried: Retried | None = None
    """The run that continues it, after `retry`."""
    attempts: int | None = None
    """Attempts that began, after `retry_now`."""
    error: SojournError | None = None
    """Why nothing was done."""

    @property
    def is_found(self) -> bool:
        """Whether there is a run of this id, which the sender may see."""
        return not isinstance(self.error, RunNotFound)


def can_act(action: BulkAction, status: str) -> bool:
    """Return whether an action does something with runs of a status."""
    return status in (RETRYABLE if action == "retry" else OPEN_STATUSES)


async def status_of(client: Client, run_id: str) -> str:
    """Return the status of a run as lists have it.

    Raises:
        RunNotFound: There is no such run.
    """
    return (await run_of(await describe_run(client.temporal, run_id))).status


async def each_status(client: Client, run_ids: Sequence[str]) -> dict[str, str]:
    """Return the status of each run, empty if there is no such run."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def read(run_id: str) -> str:
        async with gate:
            try:
                return await status_of(client, run_id)
            except (RunNotFound, InvalidInput):
                return ""

    return dict(zip(run_ids, await asyncio.gather(*map(read, run_ids)), strict=True))


async def retry_once(
    run: Run,
    *,
    find: Callable[[datetime | None], Awaitable[Sequence[str]]],
    fork: Callable[[str], Awaitable[Run]],
) -> Retried:
    """Continue a run in a new one, or return the retry that continues it.

    Any fork from the run's end that changes nothing is a retry of it, as `Client.retry` starts one. A fork from an earlier
    event, or with a change, is none.

    The id of the new run is derived from the run and its end, so that two operators never start two, even before a list
    has the first.

    Args:
        run: The run.
        find: Returns the ids of forks that started at a moment or later, at most `MOST_FORKS`.
        fork: Forks the run under an id. Raises RunAlreadyExists.

    Raises:
        RunAlreadyExists: Another run has the id.
    """
    origin = await run.status()
    new_id = fork_id(origin, "retry", run.id, str(origin.closed_at))
    forks = await find(origin.closed_at)
    if new_id in forks:
        return Retried(new_id, already=True)
    for found in forks:
        if await _is_retry(Run(run.client, found)):
            return Retried(found, already=True)
    try:
        return Retried((await fork(new_id)).id)
    except RunAlreadyExists:
        there = await run_of(await describe_run(run.client.temporal, new_id))
        if there.forked_from is None or there.forked_from.run_id != run.id:
            raise
        return Retried(new_id, already=True)


async def _is_retry(fork: Run) -> bool:
    origin = (await fork.status()).forked_from
    return origin is not None and not (origin.at or origin.changes)


async def act_on_each(
    client: Client,
    action: BulkAction,
    run_ids: Sequence[str],
    *,
    status_of: Callable[[str], Awaitable[str]],
    retry: Callable[[Run], Awaitable[Retried]],
    by: str | None,
    reason: str = "",
) -> list[BulkResult]:
    """Act on runs, and return the result of each in their order.

    A run with another status is left as it is, and a failure stops no other run.

    Args:
        client: The client.
        action: What to do.
        run_ids: The runs.
        status_of: Returns the status of a run. Raises RunNotFound.
        retry: Continues a run in a new one, or returns the one that continues it already.
        by: Name to record, unchecked.
        reason: The reason of a cancellation.
    """
    gate = asyncio.Semaphore(AT_ONCE)

    async def act(run_id: str) -> BulkResult:
        async with gate:
            try:
                run = client.get_run(run_id)
                _require_status(action, run.id, await status_of(run.id))
                if action == "retry":
                    return BulkResult(run.id, retried=await retry(run))
                if action == "retry_now":
                    return BulkResult(run.id, attempts=len(await run.retry_now()))
                await run.cancel(reason, by=by)
                return BulkResult(run.id)
            except SojournError as error:
                return BulkResult(run_id, error=error)

    return list(await asyncio.gather(*map(act, run_ids)))


def _require_status(action: BulkAction, run_id: str, status: str) -> None:
    if can_act(action, status):
        return
    if action == "retry":
        raise InvalidInput(f"run {run_id} did not fail, it is {status}", run_id=run_id)
    raise run_ended(run_id, status, action.replace("_", " "))
