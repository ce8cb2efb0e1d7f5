"""PlanActivity: one planner turn, judged, with a Dispatch for every call.

All that the workflow needs is in the result, and so recorded: users may deploy renamed tools,
new planners and changed policies under running runs.
"""

import asyncio
import difflib
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from sojourn.agent import Agent
from sojourn.app import App
from sojourn.contracts.message import Message
from sojourn.contracts.plan import PlanInput, PlanResult, PlanResumeInput, RunContext, Turn
from sojourn.contracts.run_policy import Caps
from sojourn.contracts.tasks import Limits, PlanOutcome, PlanTask
from sojourn.contracts.tool_error import ToolError
from sojourn.core import counts
from sojourn.core.admit import admit
from sojourn.core.answer import MALFORMED_ANSWER, typed
from sojourn.core.call_ids import restamped, stamp
from sojourn.core.plan_shape import fault_of
from sojourn.core.plan_size import trimmed, unfit, without_payload, without_payloads
from sojourn.core.transcript import call_ids

from .dispatch import dispatch
from .heartbeat import beating
from .transcripts import Transcripts

__all__ = ["PlanActivity"]

AGENT_ATTEMPTS = 3
"""Attempts before an unknown agent fails the run: during a deploy another worker may know it."""

PLANNER_ATTEMPTS = 5
"""Attempts of a planner that raises or exceeds `plan_timeout`, before the run fails with its reason."""


class PlanActivity:
    """Plans turns for the agents of an app."""

    def __init__(self, app: App, transcripts: Transcripts | None = None) -> None:
        self._app = app
        self.transcripts = transcripts or Transcripts()

    @activity.defn(name="PlanActivity")
    async def plan(self, task: PlanTask) -> PlanOutcome:
        """Run the planner on what is new and judge its plan.

        Raises:
            ApplicationError: `AgentNotFound` or `InvalidInput` at once or soon; the planner's own
                exception, with its type, after 5 attempts.
        """
        info = activity.info()
        agent = self._agent(task, info.attempt)
        key = (info.workflow_id or "", info.workflow_run_id or "")
        with beating():
            messages = await self.transcripts.read(key, task)
            policy = agent.policy.tightened(task.override) if task.plan == 1 else None
            limits = counts.limits_of(policy) if policy else task.limits
            caps = counts.caps_left(policy, counts.Counts()) if policy else task.caps
            turn = self._turn(task, key[0], messages, caps, limits)
            plan = await self._decide(agent, turn, limits, info.attempt)
        outcome = self._judge(plan, task, turn, limits, caps)
        if outcome.final:
            self.transcripts.drop(key)
        else:
            self.transcripts.keep(key, [*messages, *_said(outcome)], plan=task.plan, attempt=info.attempt)
        if policy is None and info.attempt == 1:
            return outcome
        return outcome.model_copy(update={"policy": policy, "attempt": info.attempt})

    def _agent(self, task: PlanTask, attempt: int) -> Agent:
        agent = self._app.agent(task.agent_id)
        if agent is None:
            known = self._app.list_agents()
            close = difflib.get_close_matches(task.agent_id, known, n=3)
            raise ApplicationError(
                f"no agent {task.agent_id!r} on this worker; "
                + (f"did you mean {' or '.join(close)}?" if close else f"it serves {', '.join(known[:10])}"),
                type="AgentNotFound",
                non_retryable=attempt >= AGENT_ATTEMPTS,
            )
        if task.plan == 1 and not task.new and task.until is None:
            raise ApplicationError(
                "a run starts with at least one message", type="InvalidInput", non_retryable=True
            )
        return agent

    def _turn(self, task: PlanTask, run_id: str, messages: list[Message], caps: Caps, limits: Limits) -> Turn:
        run = RunContext(
            run_id=run_id,
            agent_id=task.agent_id,
            session_id=task.session_id,
            turn_id=task.turn_id,
            parent=task.parent,
            labels=task.labels,
            depth=task.depth,
            callers=task.callers,
            answer=task.answer,
            interrupts_allowed=limits.interrupts_allowed,
        )
        tools = [] if task.finalize else self._app.tool_specs_for_agent(task.agent_id) or []
        fresh = messages[task.after :]
        reminders = [m.text for m in fresh if m.role == "system"] if task.plan > 1 else []
        if task.plan == 1:
            return PlanInput(run=run, messages=messages, tools=tools, caps=caps)
        results = [result for message in fresh for result in message.tool_results]
        return PlanResumeInput(
            run=run,
            messages=messages,
            tools=tools,
            caps=caps,
            reminders=reminders,
            tool_results=results,
            hints=[result.retry_hint for result in results if result.retry_hint],
            finalize=task.finalize,
        )

    @staticmethod
    async def _decide(agent: Agent, turn: Turn, limits: Limits, attempt: int) -> Any:
        clock = asyncio.timeout(limits.plan_timeout.total_seconds())
        try:
            async with clock:
                if isinstance(turn, PlanResumeInput):
                    return await agent.planner.plan_resume(turn)
                return await agent.planner.plan_start(turn)
        except (Exception, SystemExit) as error:
            timed_out = isinstance(error, TimeoutError) and clock.expired()
            message = (
                f"no plan within {limits.plan_timeout}" if timed_out else str(ToolError.from_error(error))
            )
            said = error if isinstance(error, ApplicationError) else None
            raise ApplicationError(
                f"the planner of {agent.id} failed: {message}",
                type=(said and said.type) or type(error).__name__,
                non_retryable=attempt >= PLANNER_ATTEMPTS or (said is not None and said.non_retryable),
                next_retry_delay=said.next_retry_delay if said else None,
            ) from error

    def _judge(self, plan: Any, task: PlanTask, turn: Turn, limits: Limits, caps: Caps) -> PlanOutcome:
        fault = fault_of(
            plan, interrupts_allowed=limits.interrupts_allowed, final_turn=task.finalize is not None
        )
        if fault is not None:
            return PlanOutcome(fault=fault)
        assert isinstance(plan, PlanResult)
        if task.answer and plan.final_response:
            plan = typed(plan, task.answer)
            if isinstance(plan, str):
                return PlanOutcome(fault=plan, fault_code=MALFORMED_ANSWER)
        try:
            return trimmed(self._outcome(plan, task, turn, limits, caps))
        except (ValueError, TypeError) as error:
            return PlanOutcome(fault=f"the plan cannot be written as JSON: {str(error)[:300]}")

    def _outcome(
        self, plan: PlanResult, task: PlanTask, turn: Turn, limits: Limits, caps: Caps
    ) -> PlanOutcome:
        # Ids we make cannot meet others; the whole transcript is read only where the planner made some.
        named = any(call.tool_call_id for call in plan.tool_calls)
        taken = call_ids(turn.messages) if named else ()
        asked = stamp(
            plan.tool_calls, run_id=turn.run.run_id, turn_id=task.turn_id, plan=task.plan, taken=taken
        )
        omitted = {call.tool_call_id: fault for call in asked if (fault := unfit(call))}
        calls = [without_payload(call) if call.tool_call_id in omitted else call for call in asked]
        admission = admit(calls, caps, limits)
        return PlanOutcome(
            dispatches=[
                dispatch(call, omitted.get(call.tool_call_id), self._app, turn.run, limits)
                for call in asked[: admission.count]
            ],
            calls=calls,
            refused=admission.refused,
            final=plan.final_response,
            result=plan.result,
            await_=plan.await_,
            wait_=plan.wait_,
            message=without_payloads(restamped(plan, calls), omitted),
            notes=plan.notes,
            usage=plan.usage,
        )


def _said(outcome: PlanOutcome) -> list[Message]:
    """The assistant message by which the workflow will extend the transcript, if any."""
    if outcome.calls:
        return [outcome.message or Message.calls(outcome.calls)]
    return [Message.assistant(outcome.await_.question)] if outcome.await_ else []
