"""Archive: the events of a run's earlier executions go to external storage while the present one does its work."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

from sojourn.contracts.dispatch import HEARTBEAT
from sojourn.contracts.tasks import Archived, ArchiveTask
from sojourn.contracts.wire_names import ARCHIVE_EVENTS
from sojourn.core.run.retry import LONGEST_INTERVAL
from sojourn.core.run.state import RunState
from sojourn.core.values.frozen import changed
from sojourn.core.values.undecodable import OrUndecodable

from .current_state import CurrentState

__all__ = ["STORE_LIMIT", "Archive", "store_retry"]

STORE_LIMIT = timedelta(minutes=2)
"""Start-to-close time-out of storing a part of the transcript, or of the archive."""

STORE_ATTEMPTS = 8
"""Two minutes of attempts. Then the run carries its messages itself, or stays for now in its execution; events are archived by the next execution."""

_ARCHIVED: Any = OrUndecodable(Archived)


def store_retry(state: RunState) -> RetryPolicy:
    """The retries of what writes to storage; none while the storage fails, so that a run waits for it once, and not in each execution."""
    return RetryPolicy(
        maximum_interval=LONGEST_INTERVAL, maximum_attempts=1 if state.storage_fails else STORE_ATTEMPTS
    )


class Archive:
    """Archives the executions before the present one, where the run's workers have an archive.

    Args:
        current: The run state.
    """

    def __init__(self, current: CurrentState) -> None:
        self._current = current
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin to archive; the run does not wait for it."""
        state = self._current.state
        if state.archives and state.archived < state.executions:
            self._task = asyncio.create_task(self._archive())

    async def done(self) -> None:
        """Wait until the events are archived, or cannot be for now."""
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
            self._current.state = changed(
                self._current.state, archive=archived.claim, archived=archived.until
            )
