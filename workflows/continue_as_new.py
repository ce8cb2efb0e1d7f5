"""Continue a run as new, and archive the events of the last execution."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from sojourn.contracts.dispatch import HEARTBEAT
from sojourn.contracts.tasks import Archived, ArchiveTask
from sojourn.contracts.wire_names import ARCHIVE_EVENTS
from sojourn.core.run.retry import LONGEST_INTERVAL
from sojourn.core.run.state import RunState
from sojourn.values.frozen import copy_with
from sojourn.values.undecodable import OrUndecodable

from .current_state import CurrentState

__all__ = ["STORE_LIMIT", "Archive", "store_retry", "versioning_behavior"]


def versioning_behavior() -> workflow.ContinueAsNewVersioningBehavior | None:
    """Return the behavior that moves a pinned run to the current version.

    Without it, a conversation would keep the workers of its first version for ever. None if the run has no version.
    """
    if workflow.info().get_current_deployment_version() is None:
        return None
    return workflow.ContinueAsNewVersioningBehavior.AUTO_UPGRADE


class ContinueAsNew(Protocol):
    """Continues the run as new, if nothing is in flight."""

    def may(self) -> bool: ...

    async def go(self, is_over: Callable[[], bool]) -> None:
        """Continue as new, unless the given wait is over meanwhile.

        Return if the run cannot.
        """
        ...


class ContinueWhileIdle:
    """Continues as new while the whole run waits for one thing."""

    def __init__(self, go_on: Callable[[Callable[[], bool]], Awaitable[None]]) -> None:
        self._go_on = go_on

    def may(self) -> bool:
        return True

    async def go(self, is_over: Callable[[], bool]) -> None:
        await self._go_on(is_over)


class LeavingExecution(Exception):  # noqa: N818 - no error: it ends a wait of the run's own coroutine, which alone can go on
    """Ends the wait for a step's tasks, because the run is to continue as new."""


class ContinueWhileCallsWait:
    """Continues as new while all open calls of a step wait."""

    def __init__(self, may: Callable[[], bool], go: Callable[[], Awaitable[None]] | None) -> None:
        self._may = may
        self._go = go
        self.tasks: asyncio.Future[list[Any]] | None = None

    def may(self) -> bool:
        return self._may() and (self._go is not None or (self.tasks is not None and not self.tasks.done()))

    async def go(self, is_over: Callable[[], bool]) -> None:
        """Continue as new, or let the run's own coroutine do so."""
        del is_over  # the step knows
        if self._go is not None:
            await self._go()
        elif self.tasks is not None and not self.tasks.done():
            self.tasks.set_exception(LeavingExecution())


STORE_LIMIT = timedelta(minutes=2)
"""Start-to-close time-out of storing a part of the transcript, or of the archive."""

STORE_ATTEMPTS = 8
"""Largest number of attempts to store, which take two minutes.

Then the run carries its messages itself, or stays in its execution for now. The next execution archives the events.
"""

_ARCHIVED: Any = OrUndecodable(Archived)


def store_retry(state: RunState) -> RetryPolicy:
    """Return the retry policy of activities that write to storage.

    While the storage fails there are no retries, so that a run waits for it once, and not in each
    execution.
    """
    return RetryPolicy(
        maximum_interval=LONGEST_INTERVAL, maximum_attempts=1 if state.storage_fails else STORE_ATTEMPTS
    )


class Archive:
    """Archives earlier executions, if the run's workers have an archive."""

    def __init__(self, current: CurrentState) -> None:
        self._current = current
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to archive, without making the run wait for it."""
        state = self._current.state
        if state.archives and state.archived < state.executions:
            self._task = asyncio.create_task(self._archive())

    async def wait(self) -> None:
        if self._task is not None:
            await workflow.wait([self._task])

    async def _archive(self) -> None:
        state = self._current.state
        task = ArchiveTask(
            agent_id=state.opening.agent_id, after=state.archived, until=state.executions, claim=state.archive
        )
        try:
            archived = await workflow.execute_activity(
                ARCHIVE_EVENTS,
                task,
                result_type=_ARCHIVED,
                start_to_close_timeout=STORE_LIMIT,
                heartbeat_timeout=HEARTBEAT,
                retry_policy=store_retry(state),
                summary="archive events",
            )
        except ActivityError:
            return
        if isinstance(archived, Archived) and archived.claim:
            self._current.state = copy_with(
                self._current.state, archive=archived.claim, archived=archived.until
            )
