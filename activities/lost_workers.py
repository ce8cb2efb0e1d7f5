"""What became of an activity's earlier attempts, determined and recorded before the activity does anything.

The first attempt sends no request. A later one asks the server how the attempt before ended, and records the number
of lost workers, and whether an attempt may have taken effect, before the tool runs: so a tool that kills its worker at
once is counted too.
"""

from dataclasses import dataclass
from typing import Any

import structlog
from temporalio import activity
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from sojourn.contracts.dispatch import WRONG_WORKER
from sojourn.core.run import retry
from sojourn.core.run.retry import MAX_LOST
from sojourn.core.values.json_value import is_object

from .own_task import OwnTask
from .start_check import given_up

__all__ = ["MAX_LOST", "Earlier", "earlier_attempts"]

_log = structlog.get_logger("sojourn.activity")


@dataclass(frozen=True, slots=True)
class Earlier:
    """What the attempts of an activity before this one have come to."""

    lost: int = 0
    """Number of workers lost under the activity."""
    unknown: bool = False
    """Whether one of the attempts may have taken effect."""

    @property
    def details(self) -> dict[str, Any]:
        """The same as details of a heartbeat; empty for nothing."""
        return retry.lost_details(self.lost, unknown=self.unknown)


async def earlier_attempts() -> Earlier:
    """How the attempts before this one ended.

    Raises:
        NotWantedError: The server timed this attempt out before it began.
    """
    info, task = activity.info(), OwnTask.current()
    if info.is_local or task is None:
        return Earlier()
    if info.attempt == 1:
        return Earlier()
    before = Earlier(retry.read_lost(info.heartbeat_details), retry.read_unknown(info.heartbeat_details))
    try:
        failure = await task.last_failure()
        kind = TimeoutType.Name(failure.timeout_failure_info.timeout_type) if failure else ""
        lost = retry.count_lost(before.lost, kind.removeprefix("TIMEOUT_TYPE_").lower())
        unknown = before.unknown or await _may_have_acted(task, failure)
        found = Earlier(lost, unknown)
        if found.details and await task.beat(await task.encoded([found.details])) == "given up":
            raise given_up()
    except RPCError as error:
        _log.warning("lost_workers_unknown", reason=str(error), attempt=info.attempt)
        return Earlier(before.lost, unknown=True)
    return found


async def _may_have_acted(task: OwnTask, failure: Failure | None) -> bool:
    """Whether the attempt that ended with this failure may have taken effect.

    Only a failure that says so excludes it: a lost worker, a worker that was shut down and a failure that the server
    has cut do not.
    """
    if failure is None:
        return False
    error = await task.decoded(failure)
    if not isinstance(error, ApplicationError):
        return True
    if error.type == WRONG_WORKER:
        return False
    said = error.details[0] if error.details else None
    return not is_object(said) or said.get(retry.OUTCOME_UNKNOWN) is not False
