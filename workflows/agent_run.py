"""AgentRun: the durable story of one run: plan, call tools, wait, repeat.

No user code runs here and nothing is read from the app: the policy, and a `Dispatch` for
every call, are in the recorded results of `PlanActivity`. What decides is in `sojourn.core`;
this file awaits, and keeps the transcript.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.dispatch import ACTIVITY_ATTEMPTS, HEARTBEAT
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize
from sojourn.contracts.run import CallStatus, RunInput, RunOutput, RunStatus
from sojourn.contracts.run_policy import Caps, RunPolicy
from sojourn.contracts.tasks import Limits, PlanOutcome, PlanTask
from sojourn.contracts.tool_result import ToolResult
from sojourn.core import call_ids, counts, outcomes
from sojourn.core.admit import not_executed
from sojourn.core.answers import Answer, Refused, read_answer
from sojourn.core.limits import MAX_INLINE_BYTES
from sojourn.core.run_input import read_run_input
from sojourn.core.standing import MAX_CALLS_SHOWN, MAX_NOTES
from sojourn.core.transcript import for_planner, slice_of
from sojourn.core.waiting import details_of
from sojourn.core.wire import size_of
from sojourn.search_attributes import AGENT, AWAITING

from .step import Step, failure_of

PLAN_LIMIT = timedelta(hours=1)
"""Start-to-close of a plan: a net; `PlanActivity` enforces the policy's `plan_timeout` itself."""

RETRY = RetryPolicy(maximum_interval=timedelta(seconds=30), maximum_attempts=ACTIVITY_ATTEMPTS)
"""1 s, doubled, at most 30 s apart: three deploys during one activity use up three attempts."""

MAX_ARTIFACTS = 100
"""Artifacts that a run's output refers to, the last ones."""

MAX_FAULTS = 2
"""Planner faults in a row that are corrected; the next ends the run."""


@workflow.defn(name="AgentRun")
class AgentRun:
    """One run of an agent; its workflow id is the run id."""

    @workflow.init
    def __init__(self, *given: Any) -> None:
        """Start with the caller's messages; the policy comes with the first plan.

        The input is read here, by hand: anybody with a Temporal client may have written it, and
        what the SDK cannot decode or count would fail the workflow task for ever.
        """
        self._fault = ""
        self._run = RunInput(agent_id="", messages=[])
        run = read_run_input(given[0] if len(given) == 1 else given)
        if isinstance(run, str):
            self._fault = run
        else:
            self._run = run
        self._run_id = workflow.info().workflow_id
        self._policy = RunPolicy()
        self._transcript: list[Message] = []
        self._new: list[Message] = self._run.messages
        self._counts = counts.Counts()
        self._turn = 1
        self._plans = 0
        self._accepted_attempt = 1
        self._finalize: Finalize | None = None
        self._phase = "planning"
        self._question: AwaitClarification | None = None
        self._answer: Answer | None = None
        self._early: list[tuple[int, tuple[Any, ...], str]] = []
        self._await_ids: list[str] = []
        self._calls: dict[str, CallStatus] = {}
        self._notes: list[str] = []
        self._artifacts: list[Artifact] = []

    @workflow.run
    async def run(self, *_given: Any) -> RunOutput:
        """Plan, then call, ask, sleep or end, until the planner answers; the argument is a `RunInput`."""
        if self._fault:
            raise ApplicationError(self._fault, type="InvalidInput", non_retryable=True)
        while True:
            plan = await self._plan()
            if plan.calls:
                await self._step(plan)
            elif plan.await_:
                await self._ask(plan.await_)
            elif plan.wait_:
                await self._sleep(plan.wait_)
            else:
                return self._output(plan)

    # Plan.

    async def _plan(self) -> PlanOutcome:
        """The planner's next plan; a faulty one goes back with the reason, at most twice in a row."""
        self._phase = "finalizing" if self._finalize else "planning"
        plan = PlanOutcome()
        for _ in range(1 + MAX_FAULTS):
            plan = await self._plan_once()
            if plan.fault is None:
                return plan
            self._note([f"planner fault: {plan.fault}"])
            self._new = [Message.system(f"The last plan was refused: {plan.fault}.")]
        if self._finalize:
            return self._unanswered(plan.fault or "")
        raise ApplicationError(
            f"the planner of {self._run.agent_id} was refused {1 + MAX_FAULTS} times in a row: {plan.fault}",
            type=plan.fault_code or "PlannerError",
            non_retryable=True,
        )

    async def _plan_once(self) -> PlanOutcome:
        self._plans += 1
        task = self._plan_task()
        try:
            plan = await workflow.execute_activity(
                "PlanActivity",
                task,
                result_type=PlanOutcome,
                start_to_close_timeout=PLAN_LIMIT,
                heartbeat_timeout=HEARTBEAT,
                retry_policy=RETRY,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary=f"plan {self._plans}",
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            cause = failure_of(error)
            if self._finalize:
                return self._unanswered(str(cause))
            raise ApplicationError(
                str(cause), type=cause.code or "PlannerError", non_retryable=True
            ) from error
        self._accepted_attempt = plan.attempt
        self._policy = plan.policy or self._policy
        self._note(plan.notes)
        self._counts = replace(self._counts, usage=counts.add_usage(self._counts.usage, plan.usage))
        return plan

    def _plan_task(self) -> PlanTask:
        """What the planner is passed: only what is new, by reference when it is large."""
        run, new, after, first = self._run, self._new, len(self._transcript), self._plans == 1
        self._transcript += new
        self._new = []
        large = sum(size_of(message) for message in new) > MAX_INLINE_BYTES
        return PlanTask(
            agent_id=run.agent_id,
            session_id=run.session_id,
            turn_id=self._turn_id,
            parent=run.parent,
            labels=run.labels,
            depth=run.depth,
            callers=run.callers,
            answer=run.answer,
            plan=self._plans,
            after=after,
            new=[] if large else new,
            until=len(self._transcript) if large else None,
            accepted_attempt=self._accepted_attempt,
            override=run.policy if first else None,
            limits=Limits() if first else self._limits,
            caps=Caps() if first else self._caps,
            finalize=self._finalize,
        )

    # Call tools.

    async def _step(self, plan: PlanOutcome) -> None:
        """Carry out the admitted calls, at most `max_parallel_calls` at a time, and answer every call."""
        self._phase = "executing_tools"
        self._transcript.append(plan.message or Message.calls(plan.calls))
        for call in plan.calls[: len(plan.dispatches)]:
            self._show(CallStatus(tool_call_id=call.tool_call_id, name=call.name, state="running"))
        step = Step(self._run, self._turn_id, self._policy.max_parallel_calls, self._show)
        calls = list(zip(plan.calls, plan.dispatches, strict=False))
        if len(calls) == 1:
            # The usual step; a task of its own for the one call would only cost.
            self._settle(plan, [await step.carry_out(*calls[0])])
            if _is_being_canceled():
                raise asyncio.CancelledError
            return
        tasks = [asyncio.create_task(step.carry_out(call, dispatch)) for call, dispatch in calls]
        try:
            await asyncio.gather(*tasks)
        except asyncio.CancelledError:
            # A task that had not begun when the run was cancelled has no result of its own.
            reason = workflow.cancellation_reason()
            self._settle(
                plan,
                [
                    outcomes.canceled(call, reason) if task.cancelled() else task.result()
                    for (call, _), task in zip(calls, tasks, strict=True)
                ],
            )
            raise
        self._settle(plan, [task.result() for task in tasks])

    def _settle(self, plan: PlanOutcome, executed: list[ToolResult]) -> None:
        """Count, judge the limits and pass the results on, in call order."""
        refused = [not_executed(call, plan.refused, self._limits) for call in plan.calls[len(executed) :]]
        results = [*executed, *refused]
        self._counts = counts.settle(self._counts, executed)
        made = [artifact for result in executed for artifact in result.artifacts]
        self._artifacts = [*self._artifacts, *made][-MAX_ARTIFACTS:] if made else self._artifacts
        self._finalize = counts.exhausted(self._policy, self._counts, plan.refused)
        self._new = [Message.results([for_planner(result) for result in results])]
        if self._finalize:
            self._new = [*self._new, Message.system(self._finalize.message)]
            self._note([f"limit reached: {self._finalize.reason}"])

    # Wait.

    async def _sleep(self, duration: timedelta) -> None:
        """Sleep durably; the notice tells a planner that decides by the transcript that it has waited."""
        self._phase = "waiting"
        await workflow.sleep(duration, summary="the planner waits")
        self._new = [Message.system(f"Waited {duration.total_seconds():g} s.")]

    async def _ask(self, question: AwaitClarification) -> None:
        """Park until the question is answered; the answer begins a new user turn."""
        await_id = call_ids.await_id(question.id, tool=question.restrict_to_tool, taken=self._await_ids)
        self._question = question.model_copy(update={"id": await_id})
        self._await_ids.append(await_id)
        self._transcript.append(Message.assistant(question.question))
        self._phase = "waiting"
        self._show_awaiting(await_id)
        self._take_early_answer()
        try:
            await workflow.wait_condition(lambda: self._answer is not None)
        except asyncio.CancelledError:
            # Not `finally`: a run that is only dropped from a worker's memory still waits.
            self._stop_waiting()
            raise
        self._stop_waiting()
        assert self._answer is not None
        self._new = [Message.user(self._answer.text)]
        self._answer = None
        self._turn += 1
        self._counts = replace(self._counts, turn_rounds=0)

    def _stop_waiting(self) -> None:
        self._question = None
        self._show_awaiting(None)

    def _show_awaiting(self, await_id: str | None) -> None:
        """Say on Temporal's own screens what the run waits for, and how to answer."""
        details = details_of(self._run_id, self._question) if self._question else ""
        workflow.set_current_details(details)
        if workflow.info().typed_search_attributes.get(AGENT):
            change = AWAITING.value_set(await_id) if await_id else AWAITING.value_unset()
            workflow.upsert_search_attributes([change])  # pyright: ignore[reportUnknownMemberType]

    def _read(self, values: tuple[Any, ...]) -> Answer | Refused:
        question = None if self._answer else self._question
        return read_answer(values[0] if len(values) == 1 else values, question, self._await_ids)

    def _take_early_answer(self) -> None:
        """An answer signalled in the very workflow task in which the question was asked counts.

        The history, and so whoever follows the run, shows the question as soon as the plan is in;
        but Temporal hands a workflow task's signals over before its results, whichever came first.
        """
        now = workflow.info().get_current_history_length()
        for length, values, note in self._early:
            answer = self._read(values)
            if length == now and isinstance(answer, Answer):
                self._answer = answer
                self._notes = [said for said in self._notes if said is not note]
        self._early = []

    @workflow.update(name="provide_clarification", description="Answer the open question.")
    async def answer_by_update(self, *values: Any) -> str:
        """Take an answer that the validator has accepted; returns the await's id."""
        answer = self._read(values)
        if isinstance(answer, Refused):
            raise ApplicationError(answer.reason, type=answer.kind, non_retryable=True)
        self._answer = answer
        return answer.await_id

    @answer_by_update.validator
    def _check_answer(self, *values: Any) -> None:
        """Refuse what is no answer; a refused update leaves no trace in the history."""
        answer = self._read(values)
        if isinstance(answer, Refused):
            raise ApplicationError(answer.reason, type=answer.kind, non_retryable=True)

    @workflow.signal(name="provide_clarification", description="Answer the open question.")
    async def answer_by_signal(self, *values: Any) -> None:
        """Take an answer sent by Temporal's CLI or UI; a bad one becomes a note and harms nothing."""
        answer = self._read(values)
        if isinstance(answer, Answer):
            self._answer = answer
            return
        note = f"answer refused: {answer.reason}"
        self._note([note])
        if answer.kind == "AwaitNotOpen":
            now = workflow.info().get_current_history_length()
            early = [*(one for one in self._early if one[0] == now), (now, values, note)]
            self._early = early[:MAX_NOTES]

    # End.

    def _output(self, plan: PlanOutcome) -> RunOutput:
        assert plan.final is not None
        self._phase = ""
        self._transcript += [*self._new, plan.final]
        self._new = []
        return RunOutput(
            run_id=self._run_id,
            agent_id=self._run.agent_id,
            final=plan.final,
            result=plan.result,
            reason=self._finalize.reason if self._finalize else "answered",
            tool_calls=self._counts.tool_calls,
            rounds=self._counts.rounds,
            children_count=self._counts.children_count,
            telemetry=self._counts.telemetry,
            usage=self._counts.usage,
            notes=self._notes,
            artifacts=self._artifacts,
        )

    def _unanswered(self, why: str) -> PlanOutcome:
        """The end of a run whose final turn failed: clear, not an error."""
        assert self._finalize is not None
        return PlanOutcome(final=outcomes.unanswered(why, self._finalize.message))

    # Show.

    @workflow.query(name="status", description="How the run stands.")
    def status(self) -> RunStatus:
        """How the run stands, for callers and operators."""
        return RunStatus(
            run_id=self._run_id,
            agent_id=self._run.agent_id,
            session_id=self._run.session_id,
            turn_id=self._turn_id,
            status="waiting" if self._question else "running",
            phase=self._phase,
            awaits=[self._question] if self._question else [],
            caps=self._caps,
            calls=list(self._calls.values()),
            tool_calls=self._counts.tool_calls,
            rounds=self._counts.turn_rounds,
            notes=self._notes,
        )

    @workflow.query(name="transcript", description="The transcript as a JSON array, in slices of 1.5 MB.")
    def transcript(self, after: int = 0, until: int | None = None, offset: int = 0) -> RawValue:
        """Messages `after` to `until` as JSON from byte `offset`; a slice under 1.5 MB is the last.

        What no planner has seen yet is told too, such as the answers to the calls of a cancelled run.
        """
        data, whole = slice_of([*self._transcript, *self._new], after, until, offset)
        encoding = b"json/plain" if whole else b"binary/plain"
        return RawValue(Payload(metadata={"encoding": encoding}, data=data))

    @property
    def _turn_id(self) -> str:
        return call_ids.turn_after(self._run.turn_id, self._turn)

    @property
    def _limits(self) -> Limits:
        return counts.limits_of(self._policy)

    @property
    def _caps(self) -> Caps:
        return counts.caps_left(self._policy, self._counts)

    def _note(self, notes: Sequence[str]) -> None:
        self._notes = [*self._notes, *notes][-MAX_NOTES:] if notes else self._notes

    def _show(self, call: CallStatus) -> None:
        self._calls[call.tool_call_id] = call
        if len(self._calls) > MAX_CALLS_SHOWN:
            del self._calls[next(iter(self._calls))]


def _is_being_canceled() -> bool:
    """Whether a call that was answered as canceled was so because the whole run is."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
