"""Execute a call as an activity or a local one, and check its approval before."""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    TimeoutError,  # noqa: A004 - Temporal's name for it
)

from sojourn.contracts.dispatch import HEARTBEAT, REPEATED, TIMEOUT_MARGIN, WRONG_WORKER, Dispatch
from sojourn.contracts.tasks import (
    ApprovalTask,
    ApproverTask,
    ApproverVerdict,
    EditTask,
    EditVerdict,
    ToolTask,
)
from sojourn.contracts.tool_call import CallEdit, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import CHECK_APPROVAL, CHECK_EDIT, EXECUTE_TOOL, JUDGE_APPROVER
from sojourn.converter.failures import chain_of, failure_of
from sojourn.core.awaits.confirmation import UNCHECKED, refusal_of_edit
from sojourn.core.awaits.deciding import UNASKED
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.run import outcomes
from sojourn.core.run.retry import LONGEST_INTERVAL
from sojourn.values.timers import limit_duration
from sojourn.values.undecodable import OrUndecodable, Undecodable
from sojourn.values.visible import format_duration

from .cancellation import is_stopped, stop_if_canceled
from .current_state import patched
from .history_budget import HistoryBudget

_RESULT: Any = OrUndecodable(ToolResult)

CHECK_LIMIT = timedelta(seconds=5)
"""Time limit of the check of an approval, whose sender waits for it."""

JUDGE_LIMIT = timedelta(seconds=10)
"""Time limit of one attempt to ask an author's function who may decide."""

JUDGE_DEADLINE = timedelta(seconds=25)
"""Time limit of all attempts. The sender of the decision waits 30 s."""


async def execute(call: ToolRequest, dispatch: Dispatch, task: ToolTask) -> ToolResult | Undecodable:
    """Execute a call as an ordinary activity."""
    while True:
        try:
            return await _execute(call, dispatch, task)
        except ActivityError as error:
            if not may_move(error):
                raise


async def _execute(call: ToolRequest, dispatch: Dispatch, task: ToolTask) -> ToolResult | Undecodable:
    result: ToolResult | Undecodable = await workflow.execute_activity(
        EXECUTE_TOOL,
        task,
        activity_id=call.tool_call_id,
        result_type=_RESULT,
        task_queue=dispatch.task_queue,
        schedule_to_start_timeout=dispatch.schedule_to_start and limit_duration(dispatch.schedule_to_start),
        start_to_close_timeout=limit_duration(dispatch.timeout) + TIMEOUT_MARGIN,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=_retry(dispatch),
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=call.name,
    )
    return result


async def execute_locally(call: ToolRequest, dispatch: Dispatch, task: ToolTask) -> ToolResult | Undecodable:
    """Execute a call as a local activity, on the workflow's worker.

    This gives a third more runs per second, and four events less per call. A local activity cannot
    be completed by hand.
    """
    try:
        result: ToolResult = await workflow.execute_local_activity(
            EXECUTE_TOOL,
            task,
            activity_id=call.tool_call_id,
            result_type=ToolResult,
            start_to_close_timeout=limit_duration(dispatch.timeout) + TIMEOUT_MARGIN,
            retry_policy=_retry(dispatch),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=call.name,
        )
    except ApplicationError as error:
        if may_move(error):
            return await execute(call, dispatch, task)
        lost = _count_lost_workers(error)
        if not lost or is_stopped():
            raise
        # As an ordinary activity, which counts lost workers: one has been lost already.
        return await execute(call, dispatch, task.model_copy(update={"lost": lost}))
    return result


def is_at_wrong_worker(error: BaseException) -> bool:
    """Check whether all attempts of an activity went to workers without the agent."""
    cause = error.cause if isinstance(error, ActivityError) else error
    return isinstance(cause, ApplicationError) and cause.type == WRONG_WORKER


def is_not_answered(error: BaseException) -> bool:
    """Check whether an activity ended without an answer.

    It is not repeated only because the call is cut off.
    """
    repeats = isinstance(error, ApplicationError) and error.type == REPEATED
    return repeats or is_at_wrong_worker(error)


def is_unscheduled(error: BaseException) -> bool:
    """Check whether an activity or a child run was cancelled before the server had it."""
    if isinstance(error, ChildWorkflowError):
        return not error.initiated_event_id
    return isinstance(error, ActivityError) and not error.scheduled_event_id


def may_move(error: BaseException) -> bool:
    """Check whether to reschedule an activity, for a worker with the run's agent.

    A cancelled activity is not rescheduled.
    """
    task = asyncio.current_task()
    return is_at_wrong_worker(error) and not (is_stopped() or (task and task.cancelling()))


async def check_approval(
    await_id: str, task: ToolTask, room: HistoryBudget, *, is_last: bool = False
) -> ToolResult | None:
    """Return the result of an approved call whose tool has changed since its approval.

    None if the approval holds. A check that fails decides nothing: `ExecuteToolActivity` compares
    too.
    """
    shown = ApprovalTask(
        name=task.name,
        payload=task.payload,
        raw=task.raw,
        agent_id=task.agent_id,
        spec_digest=task.spec_digest,
        shown=task.shown,
        rules=task.rules,
    )
    try:
        result = await _check(await_id, shown, room, attempts=0 if is_last else 1)
    except (ActivityError, ApplicationError):
        stop_if_canceled()
        return None
    return result if result.error else None


async def judge_approver(task: ApproverTask) -> str | None:
    """Return why the author's function does not let a principal decide, or None.

    If the function cannot be called, the principal may not decide.
    """
    try:
        verdict: ApproverVerdict = await workflow.execute_activity(
            JUDGE_APPROVER,
            task,
            result_type=ApproverVerdict,
            start_to_close_timeout=JUDGE_LIMIT,
            schedule_to_close_timeout=JUDGE_DEADLINE,
            summary=task.wait.tool,
        )
    except ActivityError:
        return UNASKED.format(task.wait.approver_check)
    return None if verdict.allowed else verdict.why


async def check_edit(task: EditTask) -> CallEdit | Rejection | None:
    """Return edited arguments as they take effect, or why they are refused.

    None if they change nothing. Without a worker that checks them, they are refused.
    """
    try:
        verdict: EditVerdict = await workflow.execute_activity(
            CHECK_EDIT,
            task,
            result_type=EditVerdict,
            start_to_close_timeout=JUDGE_LIMIT,
            schedule_to_close_timeout=JUDGE_DEADLINE,
            summary=task.wait.tool,
        )
    except ActivityError:
        return Rejection(UNCHECKED)
    return refusal_of_edit(verdict) or verdict.edit


async def _check(await_id: str, shown: ApprovalTask, room: HistoryBudget, *, attempts: int) -> ToolResult:
    # An update waits for it, and a workflow task with a waiting update cannot begin anew, as a split local
    # result may need.
    options: dict[str, Any] = {
        "result_type": ToolResult,
        "start_to_close_timeout": CHECK_LIMIT,
        "retry_policy": RetryPolicy(maximum_attempts=attempts, maximum_interval=CHECK_LIMIT),
        "summary": shown.name,
    }
    if patched("approvals-checked-by-activity"):
        shown = shown.model_copy(update={"await_id": await_id})
        return await workflow.execute_activity(CHECK_APPROVAL, shown, **options)
    with room.local():
        return await workflow.execute_local_activity(CHECK_APPROVAL, shown, activity_id=await_id, **options)


def _count_lost_workers(error: ApplicationError) -> int:
    # It is repeated as an ordinary activity. 0 for any other failure.
    if error.type != REPEATED:
        return 0
    count = error.details[0] if error.details else 1
    return count if isinstance(count, int) else 1


def _retry(dispatch: Dispatch) -> RetryPolicy:
    return RetryPolicy(maximum_interval=LONGEST_INTERVAL, maximum_attempts=dispatch.max_attempts)


def answer_to(call: ToolRequest, dispatch: Dispatch, error: ActivityError | ApplicationError) -> ToolResult:
    """Return the result of a call whose activity failed or timed out."""
    if isinstance(error, ApplicationError):
        told = chain_of(error).without_repeats()
        return outcomes.attempt_failure_result(call, told, _detail_of(error), may_act=dispatch.may_act)
    cause = error.cause
    if isinstance(cause, TimeoutError):
        kind = cause.type.name.lower().replace("_", "-") if cause.type else "time-out"
        queue = dispatch.task_queue or workflow.info().task_queue
        return outcomes.timeout_result(call, kind, queue, format_duration(dispatch.schedule_to_start))
    return outcomes.attempt_failure_result(
        call, failure_of(error), _detail_of(cause), may_act=dispatch.may_act
    )


def _detail_of(error: BaseException | None) -> Any:
    return error.details[0] if isinstance(error, ApplicationError) and error.details else None
