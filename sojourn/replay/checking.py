"""Compare an app as it is now with what a recorded run has called and waits for.

A closed run stands for the open ones that are where it once was. So each of its calls counts as one that is
pending while the deploy happens. In an open run, only those that are pending do.
"""

import json
from collections.abc import Iterator, Sequence

from sojourn.authoring.agent import ExportedTool
from sojourn.authoring.app import AnyTool, App
from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.form import form_of
from sojourn.core.run.approval import list_changes
from sojourn.core.schema.annotations import without_wording
from sojourn.replay.finding import Finding, FindingKind
from sojourn.replay.recording import RecordedCall, Recording
from sojourn.values.text import closest_name

__all__ = ["check_against"]

MAX_SHOWN = 300
"""Longest arguments in a finding, in characters."""


def check_against(app: App, run: Recording) -> list[Finding]:
    """Return what a deploy of the app as it is now would break in a run."""
    if run.agent_id and app.agent(run.agent_id) is None:
        what = "fails with AgentNotFound at its next plan" if run.is_open else "would fail with AgentNotFound"
        text = (
            f"the app has no agent {run.agent_id}{_similar(run.agent_id, app.list_agents())}; the run {what}"
        )
        return [Finding("agent_gone", text)]
    found = [*_check_calls(app, run), *_check_waits(app, run), *_check_queues(app, run)]
    return _merged(found)


def _similar(name: str, names: Sequence[str]) -> str:
    close = closest_name(name, [str(each) for each in names])
    return f" any more; a similar one is {close}" if close else " any more"


def _check_calls(app: App, run: Recording) -> Iterator[Finding]:
    asked = {wait.tool_call_id for wait in run.waits if isinstance(wait, AwaitConfirmation)}
    for call in run.calls:
        if call.dispatch.kind == "answered":
            continue
        counts = call.is_pending or not run.is_open
        tool = app.tools_of(call.agent_id).get(call.call.name)
        if tool is None:
            yield from _without_tool(app, call, counts=counts)
            continue
        if why := _find_refusal(app, call):
            yield _refused(call, why, counts=counts)
        elif call.dispatch.confirm and call.call.tool_call_id not in asked:
            yield from _other_than_shown(call.dispatch.confirm, tool, is_open=call.is_pending)
        if why := _find_result_fault(tool, call):
            yield Finding("result_refused", f"the result of {_shown(call)} no longer fits: {why}", counts)


def _without_tool(app: App, call: RecordedCall, *, counts: bool) -> Iterator[Finding]:
    name = str(call.call.name)
    if why := app.why_unknown(call.agent_id, name):
        yield Finding("not_compared", f"{name} is not checked: {why}", is_problem=False)
        return
    if call.result and call.result.error and call.result.error.code == "tool_unavailable":
        return
    here = _similar(name, [*app.tools_of(call.agent_id)])
    what = "is answered as tool_unavailable" if counts else "has ended, and nothing of the run waits for it"
    yield Finding("tool_gone", f"{call.agent_id} has no tool {name}{here}; a call of it {what}", counts)


def _find_refusal(app: App, call: RecordedCall) -> str:
    """Return why a call that was accepted then is refused now, or an empty text.

    An interceptor may complete a payload before it is checked, so an app with one refuses none.
    """
    tool = app.tools_of(call.agent_id).get(call.call.name)
    if app.interceptors or tool is None or not (call.result or call.is_pending):
        return ""
    now = tool.check(call.call)
    if not isinstance(now, ToolResult) or now.error is None:
        return ""
    then = call.result.error if call.result else None
    return "" if then and then.code == now.error.code else now.error.message


def _refused(call: RecordedCall, why: str, *, counts: bool) -> Finding:
    # Unless a person approves a call, its worker checks the arguments, so those of a pending one may not have
    # fitted then either.
    was_checked = (
        not call.is_pending or bool(call.dispatch.confirm) or call.dispatch.kind in ("external", "child")
    )
    if was_checked:
        text = f"{_shown(call)} no longer fits the schema of its tool: {why}"
    else:
        text = f"{_shown(call)} does not fit the schema of its tool: {why}; if it did then, its next attempt is refused"
    return Finding("arguments_refused", text, counts and was_checked)


def _find_result_fault(tool: AnyTool, call: RecordedCall) -> str:
    """Return why a result from outside, or of an agent, is refused now."""
    result = call.result
    if result is None or not result.ok or result.input_required:
        return ""
    if isinstance(tool, ExportedTool):
        if call.dispatch.kind != "child":
            return ""
        try:
            tool.result_of(result)
        except (TypeError, ValueError) as error:
            return str(error)[:MAX_SHOWN]
        return ""
    if call.dispatch.kind != "external" or result.artifacts:
        return ""
    now = tool.accept(call.call, result.result)
    return now.error.message if now.error else ""


def _check_waits(app: App, run: Recording) -> Iterator[Finding]:
    for wait in run.waits:
        tools = app.tools_of(run.agent_id)
        for name in wait.tools:
            tool = tools.get(name)
            if tool is not None:
                yield from _changed_wait(wait, tool)
            elif not isinstance(wait, AwaitConfirmation) and not app.why_unknown(run.agent_id, name):
                yield Finding(
                    "wait_changed",
                    f"{wait.noun} is open about {name}, which {run.agent_id} does not have any more; what is answered has "
                    "no use",
                )


def _changed_wait(wait: Await, tool: AnyTool) -> Iterator[Finding]:
    if isinstance(wait, AwaitConfirmation):
        yield from _other_than_shown(wait, tool, is_open=True)
    elif isinstance(wait, AwaitClarification) and wait.form and wait.checks_in_full:
        now = form_of(tool.spec, wait.missing_fields)
        if now and "required" not in wait.form:
            now.pop("required", None)  # forms of earlier versions had no such list
        if now is None or without_wording(now) != without_wording(wait.form):
            yield Finding(
                "wait_changed",
                f"an open question asks for arguments of {tool.spec.id}, whose schema has changed; an answer that fits "
                "the question may be refused by the tool",
            )


def _other_than_shown(wait: AwaitConfirmation, tool: AnyTool, *, is_open: bool) -> Iterator[Finding]:
    changes = list_changes(wait.shown, wait.spec_digest or None, tool.spec)
    if not changes:
        return
    differs = f"{tool.spec.id} is not what a person was shown ({'; '.join(changes)})"
    if is_open:
        yield Finding(
            "wait_changed", f"{differs}; its open approval does not count, and the person is asked again"
        )
    else:
        yield Finding(
            "wait_changed",
            f"{differs}; approvals that are open at the deploy are asked again",
            is_problem=False,
        )


def _check_queues(app: App, run: Recording) -> Iterator[Finding]:
    polled = {tool.spec.task_queue for id in app.list_agents() for tool in app.tools_of(id).values()}
    for call in run.calls:
        queue = run.queues.get(call.call.tool_call_id, "")
        tool = app.tools_of(call.agent_id).get(call.call.name)
        if tool is None or queue in ("", run.own_queue) or queue in polled:
            continue
        yield Finding(
            "queue_gone",
            f"the call {call.call.tool_call_id} of {call.call.name} waits in the task queue {queue!r}, which no tool of the "
            "app names any more; keep a worker there until it has ended",
        )


def _shown(call: RecordedCall) -> str:
    arguments = json.dumps(call.call.payload, ensure_ascii=False) if call.call.raw is None else call.call.raw
    return f"the call {call.call.tool_call_id} of {call.call.name} {arguments[:MAX_SHOWN]}"


def _merged(found: Sequence[Finding]) -> list[Finding]:
    """Return each finding once, in order."""
    kept: dict[tuple[FindingKind, str], Finding] = {}
    for each in found:
        kept.setdefault((each.kind, each.text), each)
    return [*kept.values()]
