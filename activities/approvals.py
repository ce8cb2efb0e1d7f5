"""Check an approval before its call runs: the tool as shown, and who may decide.

The tool is compared before the sender of the approval gets an answer. `ExecuteToolActivity`
compares again, since its worker may have another release. A call of an agent has no such activity:
its tool is compared here again if the call had to wait after its approval.

The author's function judges the approver before the run accepts the decision, so a refusal leaves
the call waiting. If the function fails, or does not exist any more, the decision is refused.
"""

from collections.abc import Awaitable, Sequence
from typing import Any, cast

import structlog
from temporalio import activity

from sojourn.authoring.app import AnyTool, App
from sojourn.authoring.options import is_async
from sojourn.contracts.run_policy import ApprovalPolicy, ApprovalRule
from sojourn.contracts.tasks import ApprovalTask, ApproverTask, ApproverVerdict, ToolTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ShownTool, ToolSpec
from sojourn.contracts.wire_names import CHECK_APPROVAL, JUDGE_APPROVER
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import refusal
from sojourn.core.run.approval import approvers_of, confirmation_of
from sojourn.core.run.approval import list_changes as changes_since
from sojourn.logs.values import describe_error
from sojourn.serving.hardening.overtime import await_with_grace, is_cancellation
from sojourn.serving.hardening.threads import SyncThreads
from sojourn.serving.pace import run_in_thread

from .heartbeat import check_worker

__all__ = ["CheckApprovalActivity", "JudgeApproverActivity", "check_shown"]


async def check_shown(app: App, call: ToolRequest, task: ToolTask | ApprovalTask) -> ToolResult | None:
    """Return the result of a call whose approval is void."""
    agent_id, shown, spec_digest = task.agent_id, task.shown, task.spec_digest
    tools = app.tools_of(agent_id)
    tool = tools.get(call.name)
    if tool is None:
        if not spec_digest or app.why_unknown(agent_id, call.name):
            return None
        return _answer_unknown(call, refusal(call, hints.unknown_tool(call.name, list(tools))))
    changes = changes_since(shown, spec_digest, tool.spec)
    if not changes:
        return None
    if not _is_carried_out_alike(shown, tool.spec):
        return refusal(call, hints.changed_since_shown(call.name, changes))
    return await _ask_again(tool, call, changes, task.rules)


def _is_carried_out_alike(shown: ShownTool | None, spec: ToolSpec) -> bool:
    if spec.kind == "agent" or (shown is not None and shown.kind == "agent"):
        return shown is not None and (shown.kind, shown.agent_id) == (spec.kind, spec.agent_id)
    return True


async def _ask_again(
    tool: AnyTool, call: ToolRequest, changes: Sequence[str], rules: list[ApprovalRule]
) -> ToolResult:
    # The result has no confirmation if the arguments do not fit the tool any more, or if no role may approve
    # the call. It also has an error, for a run that asks for no more approvals.
    changed = refusal(call, hints.changed_since_shown(call.name, changes))
    payload = await run_in_thread(lambda: tool.check(call), on=[call.payload, call.raw])
    if isinstance(payload, ToolResult):
        return changed.model_copy(update={"retry_hint": payload.retry_hint or changed.retry_hint})
    approval = ApprovalPolicy(rules=rules)
    if approvers_of(tool.spec, approval, payload) is None:
        return changed
    confirm = confirmation_of(tool.spec, call, payload, approval, changes=list(changes))
    return changed.model_copy(update={"confirm": confirm.model_copy(update={"by_rules": True})})


def _answer_unknown(call: ToolRequest, unknown: ToolResult) -> ToolResult:
    changed = refusal(call, hints.changed_since_shown(call.name, ["the tool is gone"]))
    return changed.model_copy(update={"retry_hint": unknown.retry_hint})


class CheckApprovalActivity:
    def __init__(self, app: App) -> None:
        self._app = app

    @activity.defn(name=CHECK_APPROVAL)
    async def check_approval(self, task: ApprovalTask) -> ToolResult:
        """Return an empty result if the approval holds, else the result of the call."""
        if self._app.agent(task.agent_id) is None:
            await check_worker(task.agent_id)
            return ToolResult()
        call = ToolRequest(name=task.name, payload=task.payload, raw=task.raw)
        void = await check_shown(self._app, call, task)
        return (void or ToolResult()).model_copy(update={"name": "", "tool_call_id": ""})


_log = structlog.get_logger("sojourn.tool")


class JudgeApproverActivity:
    def __init__(self, app: App, threads: SyncThreads | None = None) -> None:
        self._app = app
        self._threads = threads or SyncThreads()

    @activity.defn(name=JUDGE_APPROVER)
    async def judge_approver(self, task: ApproverTask) -> ApproverVerdict:
        if self._app.agent(task.agent_id) is None:
            await check_worker(task.agent_id)
        wait = task.wait
        check = self._app.approver_check(task.agent_id, wait.tool)
        if check is None:
            return ApproverVerdict(why=f"{wait.tool} has no function any more that judges who may decide")
        call = ToolRequest(name=wait.tool, payload=wait.payload, tool_call_id=wait.tool_call_id)

        async def judge_approval() -> Any:
            given = (task.principal, call, wait)
            found: Any = (
                check(*given)
                if is_async(check)
                else await self._threads.run(wait.tool, lambda: check(*given))
            )
            if isinstance(found, Awaitable):
                found = await cast("Awaitable[Any]", found)
            return found

        try:
            allowed: Any = await await_with_grace(wait.tool, judge_approval())
        except BaseException as error:
            if is_cancellation(error):
                raise
            _log.error("approver_check_failed", tool=wait.tool, raised=describe_error(error))
            return ApproverVerdict(
                why=f"the function {wait.approver_check} that judges who may decide failed"
            )
        if allowed is True:
            return ApproverVerdict(allowed=True)
        return ApproverVerdict(
            why=f"{task.principal.subject} may not decide on this call, says {wait.approver_check}"
        )
