"""Step: carry out one call, as an activity, a child run, or answered already.

Whatever happens, the call is answered: nothing here raises but a cancellation of the run,
and that only after the call is answered too.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy, TypedSearchAttributes
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    TimeoutError,  # noqa: A004 - Temporal's name for it
    TimeoutType,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)

from sojourn.contracts.dispatch import HEARTBEAT, NET, Dispatch
from sojourn.contracts.run import CallStatus, RunInput, RunOutput
from sojourn.contracts.run_link import RunLink
from sojourn.contracts.tasks import ToolTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core import outcomes
from sojourn.core.call_ids import child_run_id
from sojourn.core.standing import status_of
from sojourn.search_attributes import AGENT, attributes_of


class Step:
    """The calls of one plan, with the run they belong to."""

    def __init__(
        self, run: RunInput, turn_id: str, parallel: int, show: Callable[[CallStatus], None]
    ) -> None:
        self._run = run
        self._turn_id = turn_id
        self._slots = asyncio.Semaphore(parallel)
        self._show = show

    async def carry_out(self, call: ToolRequest, dispatch: Dispatch) -> ToolResult:
        """The call's one answer."""
        try:
            async with self._slots:
                result = await self._by_kind(call, dispatch)
        except asyncio.CancelledError:
            result = outcomes.canceled(call, workflow.cancellation_reason())
        self._show(status_of(result))
        return result

    async def _by_kind(self, call: ToolRequest, dispatch: Dispatch) -> ToolResult:
        if dispatch.kind in ("activity", "local"):
            return await self._executed(call, dispatch)
        if dispatch.kind == "child":
            return await self._child(call, dispatch)
        if dispatch.result is not None:
            return dispatch.result
        return outcomes.failed(call, ToolError.new(f"this worker does not know dispatch {dispatch.kind!r}"))

    async def _executed(self, call: ToolRequest, dispatch: Dispatch) -> ToolResult:
        run, link = self._run, self._run.parent
        task = ToolTask(
            name=call.name,
            payload=call.payload,
            raw=call.raw,
            agent_id=run.agent_id,
            session_id=run.session_id,
            turn_id=self._turn_id,
            parent_tool_call_id=link.parent_tool_call_id if link else None,
            labels=run.labels,
        )
        try:
            result = await (_local if dispatch.kind == "local" else _activity)(call, dispatch, task)
        except ActivityError as error:
            return _answer_to(call, dispatch, error)
        return outcomes.by_reference(outcomes.of_call(call, result, workflow.info().workflow_id))

    async def _child(self, call: ToolRequest, dispatch: Dispatch) -> ToolResult:
        parent = workflow.info().workflow_id
        agent_id = dispatch.agent_id or ""
        link = RunLink(
            run_id=child_run_id(parent, call.tool_call_id),
            agent_id=agent_id,
            parent_run_id=parent,
            parent_tool_call_id=call.tool_call_id,
        )
        self._show(CallStatus(tool_call_id=call.tool_call_id, name=call.name, state="running", run_link=link))
        try:
            output = await workflow.execute_child_workflow(
                "AgentRun",
                RunInput(
                    agent_id=agent_id,
                    messages=dispatch.messages,
                    session_id=self._run.session_id,
                    turn_id=self._turn_id,
                    parent=link,
                    labels=self._run.labels,
                    depth=self._run.depth + 1,
                    callers=[*self._run.callers, self._run.agent_id],
                    answer=dispatch.answer,
                ),
                id=link.run_id,
                result_type=RunOutput,
                task_queue=dispatch.task_queue,
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                search_attributes=self._search_attributes(agent_id),
                static_summary=f"{agent_id}: {call.name}",
            )
        except ChildWorkflowError as error:
            if is_cancelled_exception(error):
                return outcomes.canceled(call, workflow.cancellation_reason()).model_copy(
                    update={"run_link": link}
                )
            return outcomes.child_failed(call, failure_of(error), link)
        except WorkflowAlreadyStartedError:
            taken = ToolError.new("a run with this id exists already", code="run_already_exists")
            return outcomes.child_failed(call, taken, link)
        return outcomes.child_finished(call, output, link, typed=dispatch.answer is not None)

    def _search_attributes(self, agent_id: str) -> TypedSearchAttributes | None:
        """The child's own, where this server knows them: a child inherits nothing."""
        if workflow.info().typed_search_attributes.get(AGENT) is None:
            return None
        return attributes_of(agent_id, self._run.session_id)


async def _activity(call: ToolRequest, dispatch: Dispatch, task: ToolTask) -> ToolResult:
    result: ToolResult = await workflow.execute_activity(
        "ExecuteToolActivity",
        task,
        activity_id=call.tool_call_id,
        result_type=ToolResult,
        task_queue=dispatch.task_queue,
        schedule_to_start_timeout=dispatch.schedule_to_start,
        start_to_close_timeout=dispatch.timeout + NET,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=_retry(dispatch),
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=call.name,
    )
    return result


async def _local(call: ToolRequest, dispatch: Dispatch, task: ToolTask) -> ToolResult:
    """Beside the workflow, on its own worker: a third more runs a second, and four events less a call."""
    result: ToolResult = await workflow.execute_local_activity(
        "ExecuteToolActivity",
        task,
        activity_id=call.tool_call_id,
        result_type=ToolResult,
        start_to_close_timeout=dispatch.timeout + NET,
        retry_policy=_retry(dispatch),
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=call.name,
    )
    return result


def _retry(dispatch: Dispatch) -> RetryPolicy:
    return RetryPolicy(maximum_interval=timedelta(seconds=30), maximum_attempts=dispatch.max_attempts)


def failure_of(error: FailureError) -> ToolError:
    """The chain of causes below an activity's or child's failure; the wrappers say nothing of their own."""
    cause = error.cause
    while isinstance(cause, (ActivityError, ChildWorkflowError)) and cause.cause is not None:
        cause = cause.cause
    if isinstance(cause, ApplicationError):
        nested = failure_of(cause) if isinstance(cause.cause, FailureError) else None
        return ToolError(message=cause.message, code=cause.type, cause=nested)
    if isinstance(cause, TimeoutError):
        return ToolError.new(f"timed out ({(cause.type or TimeoutType.START_TO_CLOSE).name.lower()})")
    return ToolError.new(str(cause or error))


def _answer_to(call: ToolRequest, dispatch: Dispatch, error: ActivityError) -> ToolResult:
    cause = error.cause
    if is_cancelled_exception(error):
        return outcomes.canceled(call, workflow.cancellation_reason())
    if isinstance(cause, TimeoutError):
        kind = cause.type.name.lower().replace("_", "-") if cause.type else "time-out"
        queue = dispatch.task_queue or workflow.info().task_queue
        return outcomes.timed_out(call, kind, queue, str(dispatch.schedule_to_start))
    return outcomes.failed(call, failure_of(error))
