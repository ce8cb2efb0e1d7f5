"""A call whose tool is not the one that a person was shown: it does not run, and the run asks again."""

from collections.abc import Sequence

from sojourn.authoring.app import AnyTool, App
from sojourn.contracts.run_policy import ApprovalPolicy, ApprovalRule
from sojourn.contracts.tasks import ApprovalTask, ToolTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ShownTool, ToolSpec
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import refusal
from sojourn.core.run.approval import approvers_of, confirmation_of
from sojourn.core.run.approval import changes as changes_since
from sojourn.serving.off_loop import run_in_thread

__all__ = ["voided"]


async def voided(app: App, call: ToolRequest, task: ToolTask | ApprovalTask) -> ToolResult | None:
    """The result of a call whose approval is void; None where it holds, or where the tool's server is unavailable.

    Args:
        app: The app, with the tools as they are now.
        call: The call.
        task: What was shown of the tool, if anything, and the rules of the run's policy.
    """
    agent_id, shown, spec_digest = task.agent_id, task.shown, task.spec_digest
    tools = app.tools_of(agent_id)
    tool = tools.get(call.name)
    if tool is None:
        if not spec_digest or app.why_unknown(agent_id, call.name):
            return None
        return _gone(call, refusal(call, hints.unknown_tool(call.name, list(tools))))
    changes = changes_since(shown, spec_digest, tool.spec)
    if not changes:
        return None
    if not _is_carried_out_alike(shown, tool.spec):
        return refusal(call, hints.changed_since_shown(call.name, changes))
    return await _asked_again(tool, call, changes, task.rules)


def _is_carried_out_alike(shown: ShownTool | None, spec: ToolSpec) -> bool:
    """Whether the call, as it was planned, would be carried out by what implements the tool now: by a worker, or by this agent."""
    if spec.kind == "agent" or (shown is not None and shown.kind == "agent"):
        return shown is not None and (shown.kind, shown.agent_id) == (spec.kind, spec.agent_id)
    return True


async def _asked_again(
    tool: AnyTool, call: ToolRequest, changes: Sequence[str], rules: list[ApprovalRule]
) -> ToolResult:
    """A result with the confirmation to open, or without one where the arguments do not fit the tool any more, or nobody may approve it.

    It has an error too, for a run that asks no more.

    Args:
        tool: The tool as it is now.
        call: The call.
        changes: How the tool differs from what was shown.
        rules: The rules of the run's policy.
    """
    changed = refusal(call, hints.changed_since_shown(call.name, changes))
    payload = await run_in_thread(lambda: tool.check(call), on=[call.payload, call.raw])
    if isinstance(payload, ToolResult):
        return changed.model_copy(update={"retry_hint": payload.retry_hint or changed.retry_hint})
    approval = ApprovalPolicy(rules=rules)
    if approvers_of(tool.spec, approval, payload) is None:
        return changed
    confirm = confirmation_of(tool.spec, call, payload, approval, changes=list(changes))
    return changed.model_copy(update={"confirm": confirm.model_copy(update={"by_rules": True})})


def _gone(call: ToolRequest, unknown: ToolResult) -> ToolResult:
    """The result of a shown call whose tool is gone, with the hint for an unknown tool."""
    changed = refusal(call, hints.changed_since_shown(call.name, ["the tool is gone"]))
    return changed.model_copy(update={"retry_hint": unknown.retry_hint})
