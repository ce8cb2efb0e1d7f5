"""JudgeApproverActivity: whether the author's own function lets a principal decide on a call.

It runs before the decision is taken, so that a call still waits after a refusal. What the function cannot say, because it
failed or does not exist here any more, is no.
"""

from collections.abc import Awaitable
from typing import Any, cast

import structlog
from temporalio import activity

from sojourn.authoring.app import App
from sojourn.authoring.options import is_async
from sojourn.contracts.tasks import ApproverTask, ApproverVerdict
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.wire_names import JUDGE_APPROVER
from sojourn.logs.exceptions import described

from .overtime import await_with_grace, is_cancellation
from .threads import SyncThreads
from .wrong_worker import pass_on

__all__ = ["JudgeApproverActivity"]

_log = structlog.get_logger("sojourn.tool")


class JudgeApproverActivity:
    """Asks the functions in the option `approvers` of an app's tools."""

    def __init__(self, app: App, threads: SyncThreads | None = None) -> None:
        self._app = app
        self._threads = threads or SyncThreads()

    @activity.defn(name=JUDGE_APPROVER)
    async def judge_approver(self, task: ApproverTask) -> ApproverVerdict:
        """Whether the principal may decide."""
        if self._app.agent(task.agent_id) is None:
            await pass_on(task.agent_id)
        wait = task.wait
        check = self._app.approver_check(task.agent_id, wait.tool)
        if check is None:
            return ApproverVerdict(why=f"{wait.tool} has no function any more that judges who may decide")
        call = ToolRequest(name=wait.tool, payload=wait.payload, tool_call_id=wait.tool_call_id)

        async def judged() -> Any:
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
            allowed: Any = await await_with_grace(wait.tool, judged())
        except BaseException as error:
            if is_cancellation(error):
                raise
            _log.error("approver_check_failed", tool=wait.tool, raised=described(error))
            return ApproverVerdict(
                why=f"the function {wait.approver_check} that judges who may decide failed"
            )
        if allowed is True:
            return ApproverVerdict(allowed=True)
        return ApproverVerdict(
            why=f"{task.principal.subject} may not decide on this call, says {wait.approver_check}"
        )
