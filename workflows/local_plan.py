"""Plan turns by local activities, in the same workflow task as the step before.

While local activities follow each other, their workflow task stays open: no message reaches the
run, nothing is recorded, and all results are sent together in the end. So after a while an ordinary
activity plans, which ends the workflow task.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from sojourn.contracts.dispatch import LOCAL_PLAN_LIMIT, TIMEOUT_MARGIN, Dispatch
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import PLAN
from sojourn.values.undecodable import OrUndecodable, Undecodable
from sojourn.values.wire import MAX_LOCAL_BYTES, size_of

from .cancellation import is_stopped
from .current_state import CurrentState
from .history_budget import HistoryBudget

__all__ = ["LocalPlans"]

LONGEST = timedelta(seconds=1)
"""Time of one task's local activities, after which no turn is planned locally."""

OVERHEAD = timedelta(milliseconds=3)
"""Approximate time of a local plan and its step, without the planner and the tools."""

MOST_BYTES = 250_000
"""Bytes of one task's plans and results, above which no turn is planned locally.

A step's 64 results come on top.
"""

_PLAN: Any = OrUndecodable(PlanOutcome)
_MOST_MS = 60_000


class LocalPlans:
    """Plans turns locally while the agent is local, and the workflow task is short.

    The time is that which the local activities report. A replay may deliver their results in an earlier workflow task, at an
    earlier time.
    """

    def __init__(self, current: CurrentState, room: HistoryBudget) -> None:
        self._current = current
        self._room = room
        self._is_local = False
        self._since = datetime.min.replace(tzinfo=UTC)
        self._spent = timedelta(0)
        self._bytes = 0

    def begin(self, plan: PlanOutcome | Undecodable | None = None) -> None:
        """Begin to count anew, because a workflow task has ended."""
        self._since, self._spent, self._bytes = workflow.now(), timedelta(0), 0
        if plan is not None:
            self._is_local = isinstance(plan, PlanOutcome) and plan.local

    def count_wait(self) -> None:
        """Have an ordinary activity plan next, because the run has waited.

        The client that has woken the run gets its reply once a workflow task ends.
        """
        self._spent = LONGEST

    def add(self, size: int) -> None:
        self._bytes += size

    def count_step(self, dispatches: Sequence[Dispatch], results: Sequence[ToolResult]) -> None:
        """Count the end of a step.

        A step with a call that is not local has ended the workflow task.
        """
        if any(dispatch.kind not in ("local", "answered") for dispatch in dispatches):
            self.begin()
        self._spent += max(map(_duration_of, results), default=timedelta(0))
        self.add(MAX_LOCAL_BYTES * sum(bool(result.artifacts) for result in results))

    def takes(self, task: PlanTask) -> bool:
        """Check whether a turn is planned locally.

        A run's last turn, and one with large new messages, are not. Nor is one that asks for a place in a quota.
        """
        return (
            self._is_local
            and not (task.quota_tenant and self._current.state.has_quota)
            and task.finalize is None
            and task.until is None
            and self._bytes < MOST_BYTES
            and (self._spent if self._current.version else workflow.now() - self._since) < LONGEST
        )

    async def plan(self, turn: PlanTask) -> PlanOutcome | Undecodable | None:
        """Return the plan of a local activity, or None if it failed for any reason.

        An ordinary activity then plans the turn again.
        """
        try:
            with self._room.local():
                plan: PlanOutcome | Undecodable = await workflow.execute_local_activity(
                    PLAN,
                    turn,
                    result_type=_PLAN,
                    start_to_close_timeout=LOCAL_PLAN_LIMIT + TIMEOUT_MARGIN,
                    retry_policy=RetryPolicy(maximum_attempts=1),
                    cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                    summary=f"plan {turn.plan}",
                )
        except (ActivityError, ApplicationError) as error:
            task = asyncio.current_task()
            if is_cancelled_exception(error) or is_stopped() or (task and task.cancelling()):
                raise asyncio.CancelledError from error
            return None
        if isinstance(plan, PlanOutcome):
            self._is_local = plan.local
            self._spent += timedelta(milliseconds=plan.spent_ms) + OVERHEAD
            self.add(size_of(plan))
        return plan


def _duration_of(result: ToolResult) -> timedelta:
    # Bounded, since a tool may report a duration of its own.
    measured = result.telemetry.duration_ms if result.telemetry else 0
    return timedelta(milliseconds=min(max(measured, 0), _MOST_MS))
