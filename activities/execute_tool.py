"""The activity that answers one tool call, however the call ends."""

from dataclasses import replace

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from sojourn.authoring.agent import ExportedTool
from sojourn.authoring.app import App
from sojourn.authoring.runnable import Runnable
from sojourn.contracts import safe_exceptions
from sojourn.contracts.tasks import ToolTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import EXECUTE_TOOL
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import refusal
from sojourn.core.payload.masking import mask_result
from sojourn.core.payload.unknown_outcome import mark_unknown, never_repeats
from sojourn.core.run import outcomes
from sojourn.logs.values import current_mask, describe_error
from sojourn.serving.fair_slots import bind_tenant
from sojourn.serving.hardening.lost_workers import MAX_LOST, Earlier, FirstTime, earlier_attempts
from sojourn.serving.hardening.overtime import is_cancellation
from sojourn.serving.hardening.threads import SyncThreads

from .approvals import check_shown
from .heartbeat import check_worker
from .results import check_external_result, drop_unfit_example
from .tool_execution import ToolExecution
from .transcripts import PICTURES

__all__ = ["ExecuteToolActivity"]

_log = structlog.get_logger("sojourn.tool")


class ExecuteToolActivity:
    def __init__(
        self, app: App, threads: SyncThreads | None = None, first_time: FirstTime | None = None
    ) -> None:
        self._app = app
        self._first_time = first_time or FirstTime()
        self._threads = threads or SyncThreads()

    @activity.defn(name=EXECUTE_TOOL)
    async def execute_tool(self, task: ToolTask) -> ToolResult:
        """Answer one call.

        Raises:
            ApplicationError: A transient failure that Temporal retries, within the tool's `Retry`; or
                `REPEATED`, for a local call that must be repeated as an ordinary activity; or `WRONG_WORKER`,
                while another worker has the agent.
        """
        info = activity.info()
        bind_tenant(task.principal, info.workflow_id or "")
        call = ToolRequest(name=task.name, payload=task.payload, raw=task.raw, tool_call_id=info.activity_id)
        if self._app.agent(task.agent_id) is None:
            await check_worker(task.agent_id)
        await self._first_time.check()
        earlier = await earlier_attempts()
        is_attempted = earlier.unknown or bool(task.lost) or (task.unknown and task.approval is None)
        if task.lost or task.unknown or (task.effect and not task.effect.unexecuted):
            earlier = replace(earlier, unknown=True)
        try:
            result = await self._across(task, call, info, earlier, is_attempted=is_attempted)
        except BaseException as error:
            if safe_exceptions.is_a(error, ApplicationError) or is_cancellation(error):
                raise
            # A fault of the boundary itself, which another attempt would meet again: the run continues, the
            # log has the fault.
            _log.error(
                "tool_boundary_failed", tool=call.name, run_id=info.workflow_id, raised=describe_error(error)
            )
            result, mask = refusal(call, (ToolError.from_error(error, current_mask()), None)), current_mask()
            result = mask_result(result, mask) if mask else result
            result = mark_unknown(result)  # the tool may have run
        PICTURES.keep(info.workflow_id or "", call.tool_call_id, result)
        # The history holds the call too, so its name and id are not repeated.
        return result.model_copy(update={"name": "", "tool_call_id": ""})

    async def _across(
        self,
        task: ToolTask,
        call: ToolRequest,
        info: activity.Info,
        earlier: Earlier,
        *,
        is_attempted: bool,
    ) -> ToolResult:
        lost = task.lost + earlier.lost
        if lost >= MAX_LOST:
            return outcomes.lost_result(call, f"{lost} times")
        await self._app.act_for(task.agent_id, info.workflow_id or "", task.principal)
        tool = await self._runnable(task, call)
        if isinstance(tool, ToolResult):
            return mark_unknown(tool) if earlier.unknown else tool
        if is_attempted and never_repeats(tool.spec):
            # A deploy has declared the tool so since the attempt, after which no approval was requested.
            return outcomes.not_repeated(call)
        if task.given is not None:
            return await drop_unfit_example(tool, check_external_result(tool, call, task.given))
        return await ToolExecution(self._app, self._threads, tool, call, task, info, earlier).answer()

    async def _runnable(self, task: ToolTask, call: ToolRequest) -> ToolResult | Runnable:
        if void := await check_shown(self._app, call, task):
            return void
        tools = self._app.tools_of(task.agent_id)
        tool = tools.get(task.name)
        if tool is None or isinstance(tool, ExportedTool):
            why = self._app.why_unknown(task.agent_id, task.name)
            if why:
                return refusal(call, hints.unavailable(call.name, why))
            return refusal(call, hints.unknown_tool(call.name, list(tools)))
        return tool
