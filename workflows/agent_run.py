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
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.dispatch import ACTIVITY_ATTEMPTS, HEARTBEAT, Dispatch
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize
from sojourn.contracts.policy_decision import PolicyDecision
from sojourn.contracts.run import CallStatus, RunInput, RunOutput, RunStatus
from sojourn.contracts.run_policy import Caps, RunPolicy
from sojourn.contracts.tasks import Limits, PlanOutcome, PlanTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core import call_ids, counts, outcomes
from sojourn.core.admit import not_executed
from sojourn.core.answers import Clarified, Refused
from sojourn.core.asking_message import question_message, reply
from sojourn.core.guards import Guards
from sojourn.core.limits import MAX_INLINE_BYTES
from sojourn.core.run_input import labelled, opening_fault, read_run_input
from sojourn.core.steering import Paused, Resumed
from sojourn.core.timers import WAITS, bounded
from sojourn.core.transcript import for_planner
from sojourn.core.waits import Released
from sojourn.core.wire import size_of
from sojourn.telemetry.observer import Observer

from .children import Children
from .clock import Clock
from .doors import Doors
from .listed import Listed
from .shown import Shown
from .step import Step, failure_of
from .taking import taken
from .waiting import Waiting

PLAN_LIMIT = timedelta(hours=1)
"""Start-to-close of a plan: a net; `PlanActivity` enforces the policy's `plan_timeout` itself."""

RETRY = RetryPolicy(maximum_interval=timedelta(seconds=30), maximum_attempts=ACTIVITY_ATTEMPTS)
"""1 s, doubled, at most 30 s apart: three deploys during one activity use up three attempts."""

MAX_ARTIFACTS = 100
"""Artifacts that a run's output refers to, the last ones."""

MAX_FAULTS = 2
"""Planner faults in a row that are corrected; the next ends the run."""


@workflow.defn(name="AgentRun")
class AgentRun(Shown, Doors):
    """One run of an agent; its workflow id is the run id."""

    @workflow.init
    def __init__(self, *given: Any) -> None:
        """Start with the caller's messages; the policy comes with the first plan.

        The input is read here, by hand: anybody with a Temporal client may have written it, and
        what the SDK cannot decode or count would fail the workflow task for ever.
        """
        self._fault = ""
        self._run = RunInput(agent_id="", messages=[])
        self._lost: RuntimeError | None = None
        try:
            opening = taken("unread-start", given)
        except RuntimeError as error:  # raised by `run`: the SDK has begun that already
            self._lost, opening = error, Refused(str(error))
        if isinstance(opening, Refused):
            run = f"AgentRun takes one RunInput: {opening.reason}"
        else:
            run = read_run_input(opening[0] if len(opening) == 1 else opening)
        if isinstance(run, RunInput) and (fault := opening_fault(run)) and workflow.patched("opening-rules"):
            run = f"AgentRun takes one RunInput; {fault}"
        if isinstance(run, str):
            self._fault = run
        else:
            self._run = run
        self._run_id = workflow.info().workflow_id
        self._policy = RunPolicy()
        self._is_known = False
        self._transcript: list[Message] = []
        self._new: list[Message] = self._run.messages
        self._counts = counts.Counts()
        self._guards = Guards()
        self._clock = Clock()
        self._turn = 1
        self._plans = 0
        self._accepted_attempt = 1
        self._finalize: Finalize | None = None
        self._phase = "planning"
        listed = Listed(is_listed=self._run.listed)
        self.waiting = Waiting(self._run_id, lambda note: self._note([note]), self._unnote, listed)
        self._said: list[Message] = []
        self._planned_from = 0
        self._unseen: int | None = None
        self._children = Children()
        self._observer = Observer()
        super().__init__()
        self._artifacts: list[Artifact] = []

    @workflow.run
    async def run(self, *_given: Any) -> RunOutput:
        """Plan, then call, ask, sleep or end, until the planner answers; the argument is a `RunInput`."""
        if self._lost:
            raise self._lost
        if self._fault:
            raise ApplicationError(self._fault, type="InvalidInput", non_retryable=True)
        if self._run.policy and self._run.policy.time_budget:
            self._clock.limit(self._run.policy.time_budget)
        while True:
            plan = await self._plan()
            if plan.calls:
                await self._step(plan)
            elif plan.await_:
                await self._ask(plan)
            elif plan.wait_:
                await self._sleep(plan.wait_, is_active=plan.wait_counts)
            else:
                self._clock.stop()
                return self._output(plan)

    def observe(self, observer: Observer) -> None:
        """Let somebody on this worker watch; nothing they do may change the run."""
        self._observer = self.waiting.observer = observer
        observer.begins(self._run)

    # Plan.

    async def _plan(self) -> PlanOutcome:
        """The planner's next plan; a faulty one goes back with the reason, at most twice in a row."""
        await self.waiting.while_paused()
        if not self._finalize and self.waiting.room.is_full:
            self._end_with(counts.finalize(self._policy, "history"))
        self._phase = "finalizing" if self._finalize else "planning"
        plan = PlanOutcome()
        for _ in range(1 + MAX_FAULTS):
            plan = await self._timed_plan()
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

    async def _timed_plan(self) -> PlanOutcome:
        """A plan within the time budget; when that is used up meanwhile, the final one."""
        await self.waiting.while_paused()
        with self._clock.busy():
            plan = await self._clock.within(self._plan_once())
            in_time = plan and not (plan.overtime or self._clock.expired)
            if plan and (in_time or plan.final or self._finalize):
                return plan
            self._clock.expired = True
            self._phase, self._unseen = "finalizing", self._planned_from
            self._end_with(self._time_is_up())
            return await self._plan_once()

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
        if plan.policy:
            self._policy, self._is_known = plan.policy, True
        if plan.decision:
            self._obey(plan.decision)
        if self._is_known and self._policy.time_budget != self._clock.budget:
            self._clock.limit(self._policy.time_budget)
        self._unseen = None
        self._note(plan.notes)
        self._counts = replace(self._counts, usage=counts.add_usage(self._counts.usage, plan.usage))
        return plan

    def _plan_task(self) -> PlanTask:
        """What the planner is passed: only what is new, by reference when it is large."""
        run, after, first = self._run, len(self._transcript), self._plans == 1
        new = [*self._new, *self._said]
        self._transcript += new
        self._new, self._said = [], []
        self._planned_from = after
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
            override=None if self._is_known else run.policy,
            unlimited=not (first or self._is_known),
            limits=self._limits if self._is_known else Limits(),
            caps=self._caps if self._is_known else Caps(),
            finalize=self._finalize,
            unseen=self._unseen,
        )

    def _obey(self, decision: PolicyDecision) -> None:
        """Tighten the run's limits and add to its labels, as the policy engine decided."""
        if decision.caps:
            self._policy = counts.lowered(self._policy, decision.caps, self._counts, self._clock.spent)
        if decision.labels:
            self._run = self._run.model_copy(update={"labels": labelled(self._run.labels, decision.labels)})

    # Call tools.

    async def _step(self, plan: PlanOutcome) -> None:
        """Carry out the admitted calls, at most `max_parallel_calls` at a time, and answer every call."""
        self._phase = "executing_tools"
        self._transcript.append(plan.message or Message.calls(plan.calls))
        for call in plan.calls[: len(plan.dispatches)]:
            self._show(CallStatus(tool_call_id=call.tool_call_id, name=call.name, state="running"))
        step = Step(
            self._run,
            self._turn_id,
            self._policy,
            self.waiting,
            self._clock,
            self._children,
            self._show,
            self._observer,
        )
        calls = list(zip(plan.calls, plan.dispatches, strict=False))
        step.open_external(calls, plan.external)
        if len(calls) == 1 and self._clock.budget is None:
            # The usual step; a task of its own for the one call would only cost.
            self._settle(plan, [await step.carry_out(*calls[0])])
            if _is_being_canceled():
                raise asyncio.CancelledError
            return
        tasks = [asyncio.create_task(step.carry_out(call, dispatch)) for call, dispatch in calls]
        try:
            await self._clock.bound(tasks)
        except asyncio.CancelledError:
            self._settle(plan, self._results(calls, tasks))
            raise
        self._clock.add(step.spent_by_children())
        self._settle(plan, self._results(calls, tasks))

    def _results(
        self, calls: Sequence[tuple[ToolRequest, Dispatch]], tasks: Sequence[asyncio.Task[ToolResult]]
    ) -> list[ToolResult]:
        """The calls' answers, in their order; a task that was cancelled before it began has none of its own."""
        reason = workflow.cancellation_reason()
        return [
            task.result() if not task.cancelled() else outcomes.canceled(call, reason)
            for (call, _), task in zip(calls, tasks, strict=True)
        ]

    def _settle(self, plan: PlanOutcome, executed: list[ToolResult]) -> None:
        """Count, judge the limits and pass the results on, in call order."""
        refused = [not_executed(call, plan.refused, self._limits) for call in plan.calls[len(executed) :]]
        for call, result in zip(plan.calls[len(executed) :], refused, strict=True):
            self._observer.answered(
                call, None, result, turn_id=self._turn_id, since=workflow.now(), by_worker=False
            )
        results = [*executed, *refused]
        self._counts = counts.settle(self._counts, executed)
        self._guards = self._guards.settle(plan.calls, executed, workflow.now())
        made = [artifact for result in executed for artifact in result.artifacts]
        self._artifacts = [*self._artifacts, *made][-MAX_ARTIFACTS:] if made else self._artifacts
        self._new = [Message.results([for_planner(result) for result in results])]
        if self._clock.is_used_up:
            self._end_with(self._time_is_up())
            return
        self._end_with(
            self._guards.finalize() or counts.exhausted(self._policy, self._counts, plan.refused, executed)
        )

    def _time_is_up(self) -> Finalize:
        policy = self._policy.model_copy(update={"time_budget": self._clock.budget})
        return counts.finalize(policy, "time_budget")

    def _end_with(self, finalize: Finalize | None) -> None:
        """The next turn is the last, for this reason; None leaves it open."""
        self._finalize = finalize
        if finalize:
            self._new = [*self._new, Message.system(finalize.message)]
            self._note([f"limit reached: {finalize.reason}"])

    # Wait.

    async def _sleep(self, duration: timedelta, *, is_active: bool) -> None:
        """Sleep durably; the notice tells a planner that decides by the transcript that it has waited."""
        self._phase = "waiting"
        if is_active:
            with self._clock.busy():
                await self._clock.bound(
                    [asyncio.create_task(workflow.sleep(bounded(duration), summary=WAITS))]
                )
        else:
            await workflow.sleep(bounded(duration), summary=WAITS)
        self._new = [Message.system(f"Waited {duration.total_seconds():g} s.")]
        if self._clock.is_used_up:
            self._end_with(self._time_is_up())

    async def _ask(self, plan: PlanOutcome) -> None:
        """Park until the question is answered or expires; an answer begins a new user turn."""
        question = plan.await_
        assert question is not None
        self._transcript.append(question_message(plan))
        self._phase = "waiting"
        answer = await self.waiting.answer_to(question)
        self._unseen = self._planned_from if plan.asked_by_policy else None
        if not isinstance(answer, Clarified):
            nobody = Message.system(f"Nobody answered within {question.expires_after}.")
            self._new = [reply(plan, nobody)]
            return
        if answer.declined:
            why = f": {answer.text}" if answer.text else "."
            said = Message.system(f"The question was declined{why}")
        else:
            said = Message.user(answer.text)
        self._new = [reply(plan, said)]
        self._begin_turn()

    def _begin_turn(self) -> None:
        self._turn += 1
        self._counts = replace(self._counts, turn_rounds=0)
        self._guards = self._guards.new_turn()
        if self._finalize and self._finalize.reason == "max_tool_rounds":
            self._finalize = None

    def steer(self, given: Paused | Resumed | Released) -> None:
        """Pause, go on, or stop asking about tools."""
        if isinstance(given, Released):
            self.waiting.release(given)
            return
        self.waiting.paused = given if isinstance(given, Paused) else None
        self._clock.pause(paused=isinstance(given, Paused))
        self.waiting.show()
        if isinstance(given, Resumed) and given.messages:
            self._said += [Message.user(text) for text in given.messages]
            self._begin_turn()
        self._children.tell(given)

    def note_refused(self, refused: Refused, what: str) -> None:
        """Keep a note of what was refused."""
        self._note([f"{what} refused: {refused.reason}"])

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
            active_time=self._clock.spent if self._clock.budget else None,
        )

    def _unanswered(self, why: str) -> PlanOutcome:
        """The end of a run whose final turn failed: clear, not an error."""
        assert self._finalize is not None
        return PlanOutcome(final=outcomes.unanswered(why, self._finalize.message))

    # Stand.

    def _standing(self) -> RunStatus:
        paused, waits = self.waiting.paused, self.waiting.open
        return RunStatus(
            run_id=self._run_id,
            agent_id=self._run.agent_id,
            session_id=self._run.session_id,
            turn_id=self._turn_id,
            status="paused" if paused else "waiting" if waits else "running",
            phase=self._phase,
            awaits=waits,
            paused=paused.reason if paused else None,
            caps=self._caps,
            tool_calls=self._counts.tool_calls,
            rounds=self._counts.turn_rounds,
            safeguards=self._guards.shown(),
        )

    def _messages(self) -> list[Message]:
        return [*self._transcript, *self._new, *self._said]

    @property
    def _turn_id(self) -> str:
        return call_ids.turn_after(self._run.turn_id, self._turn)

    @property
    def _limits(self) -> Limits:
        return counts.limits_of(self._policy)

    @property
    def _caps(self) -> Caps:
        return counts.caps_left(self._policy, self._counts, self._clock.spent)


def _is_being_canceled() -> bool:
    """Whether a call that was answered as canceled was so because the whole run is."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
