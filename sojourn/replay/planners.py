"""Judge what the planners of an app decide now in the turns of a recorded run."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from sojourn.authoring.app import App
from sojourn.contracts.tasks import PlanOutcome
from sojourn.contracts.tool_call import ToolRequest
from sojourn.core.payload.unknown_outcome import changes_nothing
from sojourn.core.repair.calls import is_repair
from sojourn.core.run.effects import is_settled
from sojourn.flows.flow import Flow
from sojourn.replay.decisions import asks_model, difference, plan_again
from sojourn.replay.finding import Finding, RunReport
from sojourn.replay.recording import RecordedCall, RecordedPlan, Recording

__all__ = ["check_plans"]

_PASSES_BY = "was changed, and passes by what has run"
"""What a flow says in the question or failure about a call that it skips (`Flow`)."""


async def check_plans(app: App, run: Recording, report: RunReport) -> None:
    """Make the plans of a run again, up to the first problem, and report what differs.

    A planner in code that decides otherwise is a note, since the deploy may mean it. It is a problem if the
    run then fails, or has an effect twice or not at all.
    """
    judge, noted = _Judge(app, run), 0
    for plan in run.plans:
        try:
            present = await plan_again(app, run.run_id, run.execution, plan)
        except Exception as error:  # noqa: BLE001 - a planner may raise anything
            if asks_model(error):
                report.plans_by_model += 1
                continue
            text = f"plan {plan.task.plan} fails now, and did not then: {type(error).__name__}: {error}"
            report.findings.append(Finding("planner_fails", text, plan=plan.task.plan))
            return
        report.plans += 1
        found = judge.problem(plan, present)
        if found is None and (changed := difference(plan.outcome, present)):
            noted += 1
            if noted > 1:
                continue
            text = f"plan {plan.task.plan} is another one now"
            found = Finding("decides_otherwise", text, is_problem=False, plan=plan.task.plan, detail=changed)
        if found:
            report.findings.append(found)
            if found.is_problem:
                return


class _Judge:
    def __init__(self, app: App, run: Recording) -> None:
        self._app = app
        self._calls = {call.call.tool_call_id: call for call in run.calls}
        self._last = run.plans[-1] if run.plans else None

    def problem(self, plan: RecordedPlan, present: PlanOutcome) -> Finding | None:
        """Return why the present decision would harm the run, or None."""
        recorded, number = plan.outcome, plan.task.plan
        if told := _skipped_by_flow(present):
            if _skipped_by_flow(recorded):
                return None
            text = f"plan {number}: {told}"
            return Finding("passes_by", text, is_problem=present.failure is not None, plan=number)
        if present.failure and not recorded.failure:
            text = f"plan {number} fails the run now, and did not then: {present.failure}"
            return Finding("planner_fails", text, plan=number, detail=difference(recorded, present))
        if present.fault and not recorded.fault:
            text = f"plan {number} is refused now, and was not then: {present.fault}"
            return Finding("planner_fails", text, plan=number, detail=difference(recorded, present))
        if plan is self._last and (skipped := self._will_skip(plan, present)):
            text = (
                f"plan {number}: the flow no longer makes the step of {skipped.name} ({skipped.tool_call_id}), which has run or "
                "waits; once it has ended the flow passes it by, and the run fails with flow_changed"
            )
            return Finding("passes_by", text, plan=number, detail=difference(recorded, present))
        if again := next(self._repetitions(plan, present), None):
            return again
        return None

    def _acts(self, agent_id: str, name: str) -> bool:
        tool = self._app.tools_of(agent_id).get(name)
        return tool is None or not changes_nothing(tool.spec)

    def _will_skip(self, plan: RecordedPlan, present: PlanOutcome) -> ToolRequest | None:
        """Return a call of a flow's last plan that its steps will not find again."""
        agent = self._app.agent(plan.task.agent_id)
        if agent is None or not isinstance(agent.planner, Flow) or present.await_:
            return None
        if agent.planner.on_skipped_call != "fail":
            return None
        ids = {call.tool_call_id for call in present.calls}
        equal = {_key(call) for call in present.calls}
        for call in plan.outcome.calls:
            recorded = self._calls.get(call.tool_call_id)
            if (
                recorded is None
                or is_repair(call.tool_call_id)
                or not self._acts(plan.task.agent_id, call.name)
            ):
                continue
            if recorded.result and not _had_effect(recorded):
                continue
            if call.tool_call_id not in ids and _key(call) not in equal:
                return call
        return None

    def _repetitions(self, plan: RecordedPlan, present: PlanOutcome) -> Iterator[Finding]:
        known = {_key(call) for call in plan.outcome.calls}
        ended = [call for call in self._ended_before(plan) if _had_effect(call)]
        for call in present.calls[: len(present.dispatches)]:
            if (
                _key(call) in known
                or is_repair(call.tool_call_id)
                or not self._acts(plan.task.agent_id, call.name)
            ):
                continue
            for each in ended:
                is_gone = each.call.name not in self._app.tools_of(plan.task.agent_id)
                same = each.call.name == call.name or (is_gone and call.payload)
                if (
                    same
                    and _key(each.call)[1] == _key(call)[1]
                    and self._acts(plan.task.agent_id, each.call.name)
                ):
                    text = (
                        f"plan {plan.task.plan} calls {call.name} now with the arguments of {each.call.name} "
                        f"({each.call.tool_call_id}), which has run: the effect would be there twice"
                    )
                    yield Finding(
                        "repeats", text, plan=plan.task.plan, detail=difference(plan.outcome, present)
                    )

    def _ended_before(self, plan: RecordedPlan) -> Iterable[RecordedCall]:
        ids = [result.tool_call_id for message in plan.messages for result in message.tool_results]
        return [self._calls[id] for id in ids if id in self._calls]


def _skipped_by_flow(outcome: PlanOutcome) -> str:
    """Return what a flow says about calls that it does not find again."""
    if outcome.failure and outcome.failure.code == "flow_changed":
        return outcome.failure.message
    asked = outcome.await_.summary if outcome.await_ else ""
    return asked if _PASSES_BY in asked else ""


def _had_effect(call: RecordedCall) -> bool:
    return call.result is not None and (call.result.ok or is_settled(call.result) is False)


def _key(call: ToolRequest) -> tuple[str, Any]:
    given = call.payload if call.raw is None else call.raw
    return str(call.name), json.dumps(given, sort_keys=True, default=str)
