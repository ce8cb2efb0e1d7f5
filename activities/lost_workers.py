"""How many workers an activity has lost, determined and recorded before the activity does anything.

The first attempt sends no request. A later one asks the server how the attempt before ended, and records
the new count before the tool runs: so a tool that kills its worker at once is counted too.
"""

import asyncio

import structlog
from temporalio import activity
from temporalio.api.enums.v1 import TimeoutType
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from sojourn.core.run import retry
from sojourn.core.run.retry import MAX_LOST

from .loop_watch import watch_of
from .own_task import OwnTask

__all__ = ["MAX_LOST", "lost_before"]

_log = structlog.get_logger("sojourn.activity")


async def lost_before() -> int:
    """The number of workers lost under this activity before this attempt.

    Raises:
        ApplicationError: The server timed this attempt out before it began.
    """
    info, task = activity.info(), OwnTask.current()
    if info.is_local or task is None:
        return 0
    if info.attempt == 1:
        await _still_wanted(task)
        return 0
    before = retry.read_lost(info.heartbeat_details)
    try:
        failure = await task.last_failure()
        kind = TimeoutType.Name(failure.timeout_failure_info.timeout_type) if failure else ""
        lost = retry.count_lost(before, kind.removeprefix("TIMEOUT_TYPE_").lower())
        if lost and not await task.beat(await task.encoded([retry.lost_details(lost)])):
            raise _given_up()
    except RPCError as error:
        _log.warning("lost_workers_unknown", reason=str(error), attempt=info.attempt)
        return before
    if not lost:
        await _still_wanted(task)
    return lost


async def _still_wanted(task: OwnTask) -> None:
    """Raise if the server gave this attempt, which waited behind a blocked loop, to another worker: it must not run twice."""
    if not watch_of(asyncio.get_running_loop()).was_blocked():
        return
    try:
        wanted = await task.beat([])
    except RPCError:
        return
    if not wanted:
        raise _given_up()


def _given_up() -> ApplicationError:
    return ApplicationError("the server has given this attempt up", type="GivenUp", non_retryable=True)
