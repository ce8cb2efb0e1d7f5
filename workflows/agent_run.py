"""AgentRun: the durable story of one run: plan, call tools, wait, repeat.

No user code runs here and nothing is read from the app: the policy, and a `Dispatch` for
every call, are in the recorded results of `PlanActivity`. What decides is in `sojourn.core`;
this file awaits, and keeps the transcript.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.dispatch import ACTIVITY_ATTEMPTS, HEARTBEAT, Dispatch
from sojourn.contracts.message import Message
from sojourn.contracts.plan import Finalize
from sojourn.contracts.policy_decision import PolicyDecision
from sojourn.contracts.run import CallStatus, RunInput, RunOutput, RunStatus
from sojourn.contracts.run_policy import Caps, RunPolicy
from sojourn.contracts.spent import Spent
from sojourn.contracts.tasks import Limits, PlanOutcome, PlanTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.converter.failures import closing, failure_of
from sojourn.core.awaits.answers import Clarified, Refused
from sojourn.core.awaits.steering import Paused, Resumed, is_overtaken
from sojourn.core.awaits.waits import Released
from sojourn.core.history.status import status_of
from sojourn.core.run import ids, outcomes
from sojourn.core.run.admission import not_executed
from sojourn.core.run.by_hand import no_plan, plan_fault, right_usage
from sojourn.core.run.limits import caps_left, exhausted, finalize, gave_up, limits_of, lowered, used_up
from sojourn.core.run.opening import labelled, opening_fault, read_run_input
from sojourn.core.run.retry import LONGEST_INTERVAL
from sojourn.core.run.spent import MAX_ARTIFACTS, spent_by
from sojourn.core.run.totals import RunTotals, add_usage, settle
from sojourn.core.run.transcript import Packed, for_planner, question_message, reply
from sojourn.core.safeguards.judge import SECOND_RULES, SafeguardState
from sojourn.core.values.sizes import MAX_INLINE_BYTES
from sojourn.core.values.unread import OrUnread, Unread
from sojourn.core.values.wire import encode
from sojourn.telemetry.observer import Observer

from .accounts import Accounts, tell_parent
from .cancellation import is_canceled, stop_if_canceled
from .children import Children
from .clock import Clock
from .doors import Doors
from .listed import Listed
from .shown import Shown
from .step import Step
from .taking import WRONG_FIGURES, refused_by_hand, taken
from .waiting import Waiting

PLAN_LIMIT = timedelta(hours=1)
"""Start-to-close of a plan: a net; `PlanActivity` enforces the policy's `plan_timeout` itself."""

RETRY = RetryPolicy(maximum_interval=LONGEST_INTERVAL, maximum_attempts=ACTIVITY_ATTEMPTS)
"""1 s, doubled, at most 30 s apart: three deploys during one activity use up three attempts."""

OPENING_COPIES = 5
"""What a run was started with is in memory beside its transcript: here, and four times in Temporal's core (measured)."""

_PLAN: Any = OrUnread(PlanOutcome)

MAX_FAULTS = 2
"""Planner faults in a row that are corrected; the next ends the run."""


@workflow.defn(name="AgentRun")
class AgentRun(Shown, Doors, Accounts):
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
        self._transcript = Packed()
        self._opening_bytes = 0
        self._new: list[Message] = self._run.messages
        self._counts = RunTotals()
        self._guards = SafeguardState()
        self._clock = Clock()
        self._turn = 1
        self._plans = 0
        self._accepted_attempt = 1
        self._finalize: Finalize | None = None
        self._unanswered_for: ToolError | None = None
        self._phase = "planning"
        listed = Listed(is_listed=self._run.listed)
        self.waiting = Waiting(self._run_id, lambda note: self._note([note]), self._unnote, listed)
        self._said: list[Message] = []
        self._planned_from = 0
        self._unseen: int | None = None
        self._children = Children()
        self._heeded = 0
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
        try:
            return await self._go()
        except (asyncio.CancelledError, FailureError) as error:
            was_asked = is_canceled()
            if was_asked or is_cancelled_exception(error):
                await tell_parent(self._run.parent, self._spent())
            if was_asked:
                raise asyncio.CancelledError from error
            raise

    async def _go(self) -> RunOutput:
        """Turn after turn; what begins looks for a cancellation first."""
        while True:
            plan = await self._plan()
            if plan.failure:
                raise self._failed(plan.failure)
            if plan.calls:
                await self._step(plan)
            elif plan.await_:
                await self._ask(plan)
            elif plan.wait_:
                await self._sleep(plan.wait_, is_active=plan.wait_counts)
            else:
                self._clock.stop()
                output = self._output(plan)
                stop_if_canceled()
                return output

    def observe(self, observer: Observer) -> None:
        """Let somebody on this worker watch; nothing they do may change the run."""
        self._observer = self.waiting.observer = observer
        observer.begins(self._run)

    # Plan.

    async def _plan(self) -> PlanOutcome:
        """The planner's next plan; a faulty one goes back with the reason, at most twice in a row."""
        await self.waiting.while_paused()
        if not self._finalize and self.waiting.room.is_full:
            self._end_with(finalize(self._policy, "history"))
        plan = PlanOutcome()
        for _ in range(1 + MAX_FAULTS):
            if not self._finalize:  # tokens and money may be used up by plans that call nothing too
                self._end_with(used_up(self._policy, self._counts))
            self._phase = "finalizing" if self._finalize else "planning"
            plan = await self._timed_plan()
            if plan.fault is None:
                return plan
            self._note([f"planner fault: {plan.fault}"])
            self._new = [Message.system(f"The last plan was refused: {plan.fault}.")]
        if self._finalize:
            return self._unanswered(ToolError.new(plan.fault or "", code=plan.fault_code or "PlannerError"))
        refused = f"the planner of {self._run.agent_id} was refused {1 + MAX_FAULTS} times in a row"
        raise self._failed(ToolError.new(f"{refused}: {plan.fault}", code=plan.fault_code or "PlannerError"))

    async def _timed_plan(self) -> PlanOutcome:
        """A plan within the time budget; when that is used up meanwhile, the final one."""
        await self.waiting.while_paused()
        with self._clock.busy():
            plan = await self._clock.within(self._plan_once())
            in_time = plan and not (plan.overtime or self._clock.expired)
            if plan and (in_time or plan.final or plan.failure or self._finalize):
                return plan
            self._clock.expired = True
            self._phase, self._unseen = "finalizing", self._planned_from
            self._end_with(self._time_is_up())
            return await self._plan_once()

    async def _plan_once(self) -> PlanOutcome:
        stop_if_canceled()
        self._plans += 1
        task = self._plan_task()
        try:
            given: PlanOutcome | Unread = await workflow.execute_activity(
                "PlanActivity",
                task,
                result_type=_PLAN,
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
                return self._unanswered(cause)
            failed = self._failed(cause)
            raise failed from failed.__cause__
        plan = self._taken(given)
        self._accepted_attempt = plan.attempt
        if plan.policy:
            self._policy, self._is_known = plan.policy, True
        if plan.decision:
            self._obey(plan.decision)
        if self._is_known and self._policy.time_budget != self._clock.budget:
            self._clock.limit(self._policy.time_budget)
        self._unseen = None
        self._note(plan.notes)
        self._counts = replace(self._counts, usage=add_usage(self._counts.usage, plan.usage))
        return plan

    def _taken(self, plan: PlanOutcome | Unread) -> PlanOutcome:
        """What the activity gave; anybody may have completed it with anything."""
        fault = plan_fault(plan, final_turn=self._finalize is not None)
        why = refused_by_hand(f"by-hand-plan-{self._plans}", plan, fault)
        if why is not None or isinstance(plan, Unread):
            return no_plan(why or "")
        usage = plan.usage and right_usage(plan.usage)
        if usage is plan.usage or not workflow.patched(WRONG_FIGURES):
            return plan
        return plan.model_copy(update={"usage": usage})

    def _plan_task(self) -> PlanTask:
        """What the planner is passed: only what is new, by reference when it is large."""
        run, after, first = self._run, len(self._transcript), self._plans == 1
        new = [*self._new, *self._said]
        size = self._transcript.extend(new)
        self._opening_bytes = size if first else self._opening_bytes
        self._new, self._said = [], []
        self._planned_from = after
        large = size > MAX_INLINE_BYTES
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
            self._policy = lowered(self._policy, decision.caps, self._counts, self._clock.spent)
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
        if not is_canceled():
            step.open_external(calls, plan.external)
        if len(calls) == 1 and self._clock.budget is None:
            # The usual step; a task of its own for the one call would only cost.
            self._settle(plan, [await step.carry_out(*calls[0])])
            return
        tasks = [asyncio.create_task(step.carry_out(call, dispatch)) for call, dispatch in calls]
        try:
            await self._clock.bound(tasks)
        except asyncio.CancelledError:
            self._clock.add(step.spent_by_children())
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
            self._show(status_of(result))
            self._observer.answered(
                call, None, result, turn_id=self._turn_id, since=workflow.now(), by_worker=False
            )
        results = [*executed, *refused]
        self._counts = settle(self._counts, executed)
        self._guards = self._judged(self._guards.settle(plan.calls, executed, workflow.now()))
        made = [artifact for result in executed for artifact in result.artifacts]
        self._artifacts = [*self._artifacts, *made][-MAX_ARTIFACTS:] if made else self._artifacts
        self._new = [Message.results([for_planner(result) for result in results])]
        if self._clock.is_used_up:
            self._end_with(self._time_is_up())
            return
        self._end_with(
            self._guards.finalize() or exhausted(self._policy, self._counts, plan.refused, executed)
        )

    def _judged(self, guards: SafeguardState) -> SafeguardState:
        """By today's rules; where the first ones say otherwise, by those that the history was made with."""
        if guards.is_judged_otherwise and not workflow.patched(SECOND_RULES):
            return guards.by_first_rules()
        return guards

    def _time_is_up(self) -> Finalize:
        policy = self._policy.model_copy(update={"time_budget": self._clock.budget})
        return finalize(policy, "time_budget")

    def _end_with(self, finalize: Finalize | None) -> None:
        """The next turn is the last, for this reason; None leaves it open."""
        self._finalize = finalize
        if finalize:
            self._new = [*self._new, Message.system(finalize.notice)]
            self._note([f"limit reached: {finalize.reason}"])

    # Wait.

    async def _sleep(self, duration: timedelta, *, is_active: bool) -> None:
        """Sleep durably; the notice tells a planner that decides by the transcript that it has waited."""
        stop_if_canceled()
        self._phase = "waiting"
        sleeping = asyncio.create_task(self.waiting.sleep(duration))
        if is_active:
            with self._clock.busy():
                await self._clock.bound([sleeping])
        else:
            await sleeping
        is_over = not sleeping.cancelled() and sleeping.result()
        seconds = f"{duration.total_seconds():g} s"
        self._new = [
            Message.system(f"Waited {seconds}." if is_over else f"The wait of {seconds} was cut short.")
        ]
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
        if is_overtaken(given, self._heeded):
            return
        self._heeded = given.number or self._heeded
        if isinstance(given, Resumed) and self.waiting.paused is None:
            return
        self.waiting.paused = given if isinstance(given, Paused) else None
        self._clock.pause(paused=isinstance(given, Paused))
        self.waiting.show()
        if isinstance(given, Resumed) and given.messages:
            self._said += [Message.user(text) for text in given.messages]
            self._begin_turn()
        self._children.tell(given)

    def note_refused(self, refused: Refused, what: str) -> None:
        """Keep a note of what was refused, or passed over."""
        self._note([f"{what}: {refused.reason}"])

    # End.

    def _output(self, plan: PlanOutcome) -> RunOutput:
        assert plan.final is not None
        self._phase = ""
        self._transcript.extend([*self._new, plan.final])
        self._new = []
        return RunOutput(
            run_id=self._run_id,
            agent_id=self._run.agent_id,
            final=plan.final,
            result=plan.result,
            reason=self._finalize.reason if self._finalize else "answered",
            error=gave_up(self._finalize, self._unanswered_for) if self._finalize else None,
            tool_calls=self._counts.tool_calls,
            rounds=self._counts.rounds,
            children_count=self._counts.children_count,
            telemetry=self._counts.telemetry,
            usage=self._counts.usage,
            notes=self._notes,
            artifacts=self._artifacts,
            active_time=self._clock.spent if self._clock.budget else None,
        )

    def _unanswered(self, why: ToolError) -> PlanOutcome:
        """The end of a run whose final turn failed: clear, not an error."""
        assert self._finalize is not None
        self._unanswered_for = why
        return PlanOutcome(final=outcomes.unanswered(str(why), self._finalize.message))

    def _failed(self, error: ToolError) -> ApplicationError:
        """The end of a run that failed, with what it has spent: whoever called it gets both."""
        return closing(error, self._spent())

    def _spent(self) -> Spent | None:
        active = self._clock.spent if self._clock.budget else None
        return spent_by(self._counts, self._artifacts, active)

    # Stand.

    @property
    def held(self) -> int:
        """Bytes that it takes in the worker's memory, about."""
        return self._transcript.held + OPENING_COPIES * self._opening_bytes

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

    def _messages(self) -> Iterable[bytes]:
        return [*self._transcript, *map(encode, (*self._new, *self._said))]

    @property
    def _turn_id(self) -> str:
        return ids.turn_after(self._run.turn_id, self._turn)

    @property
    def _limits(self) -> Limits:
        return limits_of(self._policy)

    @property
    def _caps(self) -> Caps:
        return caps_left(self._policy, self._counts, self._clock.spent)
