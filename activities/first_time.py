"""Whether a local call runs for the first time: a worker may have been lost under it before.

Temporal repeats a local activity as part of its workflow task, from its first attempt, on whichever
worker replays the run, and records nothing about the lost worker. So the worker that planned a
call knows, for its first execution, that it is new; any other worker asks the server.
"""

from collections import OrderedDict
from collections.abc import Iterable

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from sojourn.contracts.dispatch import REPEATED
from sojourn.contracts.tasks import PlanOutcome

from .own_task import OwnTask

__all__ = ["FirstTime"]

MAX_KNOWN = 10_000
"""Most calls known to be new; for a forgotten one the server is asked."""

Key = tuple[str, str]
"""Execution id and tool_call_id."""


class FirstTime:
    """The local calls that were planned on this worker and have not begun."""

    def __init__(self) -> None:
        self._new: OrderedDict[Key, None] = OrderedDict()

    def planned(self, run_id: str, outcome: PlanOutcome) -> None:
        """Remember the local calls of a plan that was made on this worker."""
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
        """Return if the current local activity is new, or if no worker was lost under it.

        Raises:
            ApplicationError: `REPEATED`, with the number of lost workers: the workflow starts an
                ordinary activity for the call, under which lost workers are counted.
        """
        info, task = activity.info(), OwnTask.current()
        key = (info.workflow_run_id or "", info.activity_id)
        if not info.is_local or info.attempt > 1 or task is None:
            return
        if key in self._new:
            del self._new[key]
            return
        try:
            lost = await task.lost_workflow_tasks()
        except RPCError:
            return
        if lost:
            message = "a worker was lost under this call"
            raise ApplicationError(message, lost, type=REPEATED, non_retryable=True)
