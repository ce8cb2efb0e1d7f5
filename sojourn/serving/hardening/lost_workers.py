"""Find out how earlier attempts ended, whose workers may have been lost.

A later attempt asks the server how the previous one ended. Before the tool runs, it records the number of
lost workers, and whether an attempt may have taken effect, so that a tool that kills its worker at once is
counted, too.

Temporal repeats a local activity as part of its workflow task, from its first attempt, on any worker that
replays the run, and records nothing about the lost worker. The worker that planned a call therefore
remembers that its first execution is new. Any other worker asks the server.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import structlog
from temporalio import activity
from temporalio.api.enums.v1 import TimeoutType
from temporalio.api.failure.v1 import Failure
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from sojourn.contracts.dispatch import REPEATED, WRONG_WORKER
from sojourn.contracts.tasks import PlanOutcome
from sojourn.core.run import retry
from sojourn.core.run.retry import MAX_LOST
from sojourn.values.json_value import is_object

from .attempt import OwnTask, not_wanted

__all__ = ["MAX_LOST", "Earlier", "FirstTime", "earlier_attempts"]

_log = structlog.get_logger("sojourn.activity")


@dataclass(frozen=True, slots=True)
class Earlier:
    lost: int = 0
    unknown: bool = False
    """Whether one of the attempts may have taken effect."""

    @property
    def details(self) -> dict[str, Any]:
        return retry.lost_details(self.lost, unknown=self.unknown)


async def earlier_attempts() -> Earlier:
    """Return the outcome of the attempts before this one.

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
        if found.details and await task.beat(await task.encode([found.details])) == "given up":
            raise not_wanted()
    except RPCError as error:
        _log.warning("lost_workers_unknown", reason=str(error), attempt=info.attempt)
        return Earlier(before.lost, unknown=True)
    return found


async def _may_have_acted(task: OwnTask, failure: Failure | None) -> bool:
    """Check whether the attempt that ended with this failure may have taken effect.

    Only a failure that says so excludes it: a lost worker, a worker that was shut down and a failure that
    the server has cut do not.
    """
    if failure is None:
        return False
    error = await task.decode(failure)
    if not isinstance(error, ApplicationError):
        return True
    if error.type == WRONG_WORKER:
        return False
    said = error.details[0] if error.details else None
    return not is_object(said) or said.get(retry.OUTCOME_UNKNOWN) is not False


MAX_KNOWN = 10_000
"""Most calls that are remembered as new. For any other, the server decides."""

Key = tuple[str, str]
"""Execution id and tool_call_id."""


class FirstTime:
    """The local calls that were planned on this worker and have not begun."""

    def __init__(self) -> None:
        self._new: OrderedDict[Key, None] = OrderedDict()

    def mark_planned(self, run_id: str, outcome: PlanOutcome) -> None:
        self._add(
            (run_id, call.tool_call_id)
            for call, dispatch in zip(outcome.calls, outcome.dispatches, strict=False)
            if dispatch.kind == "local"
        )

    def _add(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._new[key] = None
        while len(self._new) > MAX_KNOWN:
            self._new.popitem(last=False)

    async def check(self) -> None:
        """Return if the local activity is new, or no worker was lost under it.

        Raises:
            ApplicationError: `REPEATED`, with the number of lost workers: the workflow starts an ordinary activity for the
                call, under which lost workers are counted.
        """
        info, task = activity.info(), OwnTask.current()
        key = (info.workflow_run_id or "", info.activity_id)
        if not info.is_local or info.attempt > 1 or task is None:
            return
        if key in self._new:
            del self._new[key]
            return
        try:
            lost = await task.count_lost_workflow_tasks()
        except RPCError:
            return
        if lost:
            message = "a worker was lost under this call"
            raise ApplicationError(message, lost, type=REPEATED, non_retryable=True)
