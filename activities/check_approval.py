"""CheckApprovalActivity: whether the tool of a call that was just approved is still the one that was shown.

It runs before the sender of the approval gets an answer. `ExecuteToolActivity` compares again, since its worker may have
another release. A call of an agent has no such activity: for it this one runs again if the call had to wait after its approval.
"""

from temporalio import activity

from sojourn.authoring.app import App
from sojourn.contracts.tasks import ApprovalTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import CHECK_APPROVAL

from .asked_again import voided
from .wrong_worker import pass_on

__all__ = ["CheckApprovalActivity"]


class CheckApprovalActivity:
    """Compares the tools of an app with what was shown of them."""

    def __init__(self, app: App) -> None:
        self._app = app

    @activity.defn(name=CHECK_APPROVAL)
    async def check_approval(self, task: ApprovalTask) -> ToolResult:
        """An empty result where the approval holds, else the result of the call, perhaps with the confirmation to open.

        Empty too if no worker of the task queue has the run's agent, and so knows its tools.

        Raises:
            ApplicationError: `WRONG_WORKER`: another worker of the task queue has the agent.
        """
        if self._app.agent(task.agent_id) is None:
            await pass_on(task.agent_id)
            return ToolResult()
        call = ToolRequest(name=task.name, payload=task.payload, raw=task.raw)
        void = await voided(self._app, call, task)
        return (void or ToolResult()).model_copy(update={"name": "", "tool_call_id": ""})
