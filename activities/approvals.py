"""Check an approval before its call runs: the tool as shown, and who may decide.

The tool is compared before the sender of the approval gets an answer. `ExecuteToolActivity`
compares again, since its worker may have another release. A call of an agent has no such activity:
its tool is compared here again if the call had to wait after its approval.

The author's function judges the approver before the run accepts the decision, so a refusal leaves
the call waiting. If the function fails, or does not exist any more, the decision is refused. Edited
arguments are checked at the same point, and then the function judges the edited call.
"""

from collections.abc import Awaitable, Sequence
from typing import Any, cast

import structlog
from temporalio import activity

from sojourn.authoring.agent import ExportedTool
from sojourn.authoring.app import AnyTool, App
from sojourn.authoring.options import is_async
from sojourn.authoring.runnable import Runnable
from sojourn.contracts.attachment import offering_attachments
from sojourn.contracts.awaits import AwaitConfirmation
from sojourn.contracts.principal import Principal
from sojourn.contracts.run_policy import ApprovalPolicy, ApprovalRule
from sojourn.contracts.tasks import (
    ApprovalTask,
    ApproverTask,
    ApproverVerdict,
    EditFault,
    EditTask,
    EditVerdict,
    ToolTask,
)
from sojourn.contracts.tool_call import CallEdit, ToolRequest
from sojourn.contracts.tool_error import FieldIssue
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ShownTool, ToolSpec
from sojourn.contracts.wire_names import CHECK_APPROVAL, CHECK_EDIT, JUDGE_APPROVER
from sojourn.core.awaits.confirmation import EDIT
from sojourn.core.awaits.deciding import NOT_APPROVER
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import refusal
from sojourn.core.payload.parse import has_digest
from sojourn.core.run.approval import (
    approvers_of,
    confirmation_of,
    payload_digest,
    prompt_of,
    takes_edits,
)
from sojourn.core.run.approval import list_changes as changes_since
from sojourn.core.schema.annotations import mask_secrets
from sojourn.core.schema.issues import phrase
from sojourn.logs.values import describe_error
from sojourn.serving.hardening.overtime import await_with_grace, is_cancellation
from sojourn.serving.hardening.threads import SyncThreads
from sojourn.serving.pace import run_in_thread
from sojourn.values.json_value import is_object, to_pointer, to_tokens
from sojourn.values.text import closest_name, field_name

from .heartbeat import check_worker

__all__ = ["CheckApprovalActivity", "CheckEditActivity", "JudgeApproverActivity", "check_shown"]

MAX_EDIT_FAULTS = 20
"""Most fields of an edit that a refusal names."""


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
        why = await _judge(self._app, self._threads, task.agent_id, task.wait, task.principal)
        return ApproverVerdict(why=why) if why else ApproverVerdict(allowed=True)


async def _judge(
    app: App, threads: SyncThreads, agent_id: str, wait: AwaitConfirmation, principal: Principal
) -> str:
    """Return why the tool's own function refuses a principal, or an empty text."""
    check = app.approver_check(agent_id, wait.tool)
    if check is None:
        return f"{wait.tool} has no function any more that judges who may decide"
    call = ToolRequest(name=wait.tool, payload=wait.payload, tool_call_id=wait.tool_call_id)

    async def judge_approval() -> Any:
        given = (principal, call, wait)
        found: Any = check(*given) if is_async(check) else await threads.run(wait.tool, lambda: check(*given))
        if isinstance(found, Awaitable):
            found = await cast("Awaitable[Any]", found)
        return found

    try:
        allowed: Any = await await_with_grace(wait.tool, judge_approval())
    except BaseException as error:
        if is_cancellation(error):
            raise
        _log.error("approver_check_failed", tool=wait.tool, raised=describe_error(error))
        return f"the function {wait.approver_check} that judges who may decide failed"
    if allowed is True:
        return ""
    return f"{principal.subject} may not decide on this call, says {wait.approver_check}"


class CheckEditActivity:
    """Checks edited arguments before the run accepts their approval."""

    def __init__(self, app: App, threads: SyncThreads | None = None) -> None:
        self._app = app
        self._threads = threads or SyncThreads()

    @activity.defn(name=CHECK_EDIT)
    async def check_edit(self, task: EditTask) -> EditVerdict:
        if self._app.agent(task.agent_id) is None:
            await check_worker(task.agent_id)
        wait = task.wait
        await self._app.act_for(task.agent_id, activity.info().workflow_id or "", wait.asked_by)
        tool = self._app.tools_of(task.agent_id).get(wait.tool)
        if tool is None or isinstance(tool, ExportedTool) or not takes_edits(tool.spec):
            what = "is gone" if tool is None else "takes no edited arguments any more"
            return EditVerdict(why=f"the tool {wait.tool} {what}")
        call = ToolRequest(name=wait.tool, payload=task.sent[EDIT], tool_call_id=wait.tool_call_id)
        checked = await run_in_thread(lambda: _check_edit(tool, call, wait), on=call.payload)
        if task.judges and task.principal and not checked.why:
            edited = wait.edited(checked.edit) if checked.edit else wait
            why = await _judge(self._app, self._threads, task.agent_id, edited, task.principal)
            return EditVerdict(why=why, kind=NOT_APPROVER) if why else checked
        return checked


def _check_edit(tool: Runnable, call: ToolRequest, wait: AwaitConfirmation) -> EditVerdict:
    if hidden := [name for name in tool.spec.injected if name in call.payload]:
        message = "is filled in when the call runs, and cannot be given"
        faults = [EditFault(field=to_pointer([name]), message=message) for name in hidden]
        return _refuse_edit(faults)
    with offering_attachments(wait.attachments):
        payload = tool.check(call)
    if isinstance(payload, ToolResult):
        issues = payload.retry_hint.issues if payload.retry_hint else []
        faults = [EditFault(field=each.field, message=_phrase(each, tool.spec)) for each in issues]
        return _refuse_edit(faults or [EditFault(field="", message=str(payload.error))])
    if tool.spec.injected and not tool.takes(payload) and tool.takes(wait.payload):
        # Its validators judge all fields at once, here with samples of the injected ones.
        return _refuse_edit([EditFault(field="", message="does not pass the tool's own validators")])
    if tool.is_same(payload, wait.payload):
        return EditVerdict()
    if any(has_digest(tool.validator, payload, digest) for digest in wait.in_doubt):
        message = (
            "is that of another call, which may have taken effect: deny this one, and say so in the reason"
        )
        return _refuse_edit([EditFault(field="", message=message)])
    validator = tool.validator
    masked = mask_secrets(validator.schema, payload) if validator.has_secrets else None
    return EditVerdict(
        edit=CallEdit(
            arguments=payload,
            digest=payload_digest(payload),
            prompt=prompt_of(tool.spec, payload, wait.attachments),
            masked=masked,
        )
    )


def _phrase(issue: FieldIssue, spec: ToolSpec) -> str:
    """Return an issue without its field, with the name that a misspelt argument means."""
    names: Any = spec.payload.json_schema.get("properties", {})
    tokens = to_tokens(issue.field) or []
    is_argument = issue.constraint == "unknown_field" and len(tokens) == 1 and is_object(names)
    close = closest_name(tokens[0], [*names]) if is_argument else None
    return f"{phrase(issue)}; did you mean {field_name(close)}?" if close else phrase(issue)


def _refuse_edit(faults: list[EditFault]) -> EditVerdict:
    shown = "; ".join(f"{field_name(each.field)} {each.message}" for each in faults[:MAX_EDIT_FAULTS])
    return EditVerdict(why=f"the arguments cannot be used: {shown}", faults=faults[:MAX_EDIT_FAULTS])
