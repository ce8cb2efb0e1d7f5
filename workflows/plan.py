"""Make the plan of a turn, by a local activity or by an ordinary one.

The plan's task holds the new messages, or refers to them if they are large. A worker returns the plan, with a
`Dispatch` for every call. A faulty plan goes back to the planner with the reason, at most twice in a row.
"""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

from sojourn.contracts.dispatch import ACTIVITY_ATTEMPTS, HEARTBEAT, ForkedStep
from sojourn.contracts.quota import Admission
from sojourn.contracts.run_policy import Caps, Limits
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.wire_names import PLAN
from sojourn.converter.failures import failure_of
from sojourn.core.payload.memory import task_fields
from sojourn.core.run import outcomes
from sojourn.core.run.outcomes import MAX_FAULTS, correct_usage, plan_fault, unusable_plan
from sojourn.core.run.retry import LONGEST_INTERVAL
from sojourn.core.run.state import RunState
from sojourn.core.run.transcript import Packed
from sojourn.core.run.turns import join_turn, open_turn
from sojourn.values.frozen import copy_with
from sojourn.values.timers import QUOTA
from sojourn.values.undecodable import OrUndecodable, Undecodable
from sojourn.values.wire import MAX_INLINE_BYTES

from .cancellation import stop_if_canceled
from .clock import Clock
from .conversation import Conversation, NothingWaits
from .current_state import VERSION, CurrentState, patched
from .local_plan import LocalPlans
from .notices import Notices
from .open_awaits import OpenAwaits
from .tool_activity import is_at_wrong_worker, may_move
from .undecodable import WRONG_FIGURES, manual_result_fault

__all__ = ["PlanExecution", "request_plan"]

_PLAN_LIMIT = timedelta(hours=1)
"""Start-to-close time-out of a plan, as a fallback.

`PlanActivity` enforces the policy's `plan_timeout` itself.
"""

_RETRY = RetryPolicy(maximum_interval=LONGEST_INTERVAL, maximum_attempts=ACTIVITY_ATTEMPTS)
"""Retry intervals of 1 s, doubled, at most 30 s.

Three deploys during one activity use up three attempts.
"""

_SHORTEST_RETRY = timedelta(seconds=1)
"""Shortest wait for a place before the run asks again."""

_PLAN: Any = OrUndecodable(PlanOutcome)


async def request_plan(task: PlanTask, summary: str) -> PlanOutcome | Undecodable:
    """Have a worker plan, and wait for its result.

    `summary` is what Temporal's UI shows.

    Raises:
        ActivityError: No attempt gave a result.
    """
    result: PlanOutcome | Undecodable = await workflow.execute_activity(
        PLAN,
        task,
        result_type=_PLAN,
        start_to_close_timeout=_PLAN_LIMIT,
        heartbeat_timeout=HEARTBEAT,
        retry_policy=_RETRY,
        cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=summary,
    )
    return result


class PlanExecution:
    """Makes the plans of a run, and appends to its transcript what each plan is given."""

    def __init__(
        self,
        current: CurrentState,
        awaits: OpenAwaits,
        clock: Clock,
        notices: Notices,
        conversation: Conversation,
        transcript: Packed,
        forked: ForkedStep | None,
        opening_bytes: int,
    ) -> None:
        self._current = current
        self._awaits = awaits
        self._clock = clock
        self._notices = notices
        self._conversation = conversation
        self._transcript = transcript
        self.forked = forked
        """In a fork: the step that the next plan judges in place of asking the planner."""
        self.local = LocalPlans(current, awaits.room)
        self.opening_bytes = opening_bytes
        """Size of the messages with which this execution began."""

    @property
    def _state(self) -> RunState:
        return self._current.state

    @_state.setter
    def _state(self, state: RunState) -> None:
        self._current.state = state

    async def make(self) -> PlanOutcome:
        """Return the next plan, which the planner may have to correct twice.

        A conversation that is idle opens a turn first.

        Raises:
            ApplicationError: The planner failed, or its plans were refused three times in a row.
            NothingWaits: The message that was to open a turn was withdrawn.
        """
        await self._awaits.while_paused()
        if self._state.is_idle:
            if not self._state.inbox.waiting:
                raise NothingWaits
            self._state = open_turn(self._state)
            self.local.count_wait()
            self._awaits.show()
        if not self._state.limit and self._awaits.room.is_full:
            self._state = self._state.history_full()
        plan = PlanOutcome()
        for _ in range(1 + MAX_FAULTS):
            await self._awaits.while_paused()
            before_step = self.forked is not None and self._state.limit is None
            self._state = join_turn(self._state, before_step=before_step)[0].planning()
            plan = await self._plan_in_time()
            if plan.fault is None:
                self._state = self._state.remembering(plan)
                return plan
            self._state = self._state.plan_refused(plan)
        if self._state.limit:
            return self._answer_for_planner(
                ToolError.new(plan.fault or "", code=plan.fault_code or "PlannerError")
            )
        refused = f"the planner of {self._state.opening.agent_id} was refused {1 + MAX_FAULTS} times in a row"
        raise self._current.make_failure(
            ToolError.new(f"{refused}: {plan.fault}", code=plan.fault_code or "PlannerError")
        )

    async def _plan_in_time(self) -> PlanOutcome:
        # When the budget is used up meanwhile, return the final plan.
        await self._awaits.while_paused()
        with self._clock.busy():
            plan = await self._clock.within(self._plan_once())
            in_time = plan and not (plan.overtime or self._clock.is_expired)
            if plan and (in_time or plan.final or plan.failure or self._state.limit):
                return plan
            if plan is None:
                self._state = self._state.without_new_place()
            self._state = self._state.out_of_time()
            return await self._plan_once()

    async def _plan_once(self) -> PlanOutcome:
        stop_if_canceled()
        before = self._state
        # Judged once: the next turn does not carry out a step that an interruption cut off.
        forked, self.forked = self.forked, None
        task = self._plan_task(forked)
        try:
            result = await self._execute_plan(task, before)
        except ActivityError as error:
            if is_cancelled_exception(error):
                self._state = self._state.plan_canceled(getattr(error.cause, "details", ()))
                raise
            if is_at_wrong_worker(error):
                raise asyncio.CancelledError from error
            self._notices.take_kinds(error)
            cause = failure_of(error)
            if self._state.limit:
                return self._answer_for_planner(cause)
            failed = self._current.make_failure(cause)
            raise failed from failed.__cause__
        plan = self._check_plan(result)
        self.forked = forked if plan.fault is not None else None
        before, self._state = self._state, self._state.planned(plan, workflow.now())
        if (viewers := self._state.viewers) != before.viewers:
            self._awaits.listed.show_to(viewers)
        self._clock.watch()
        return plan

    async def _execute_plan(self, task: PlanTask, before: RunState) -> PlanOutcome | Undecodable:
        # This worker plans locally if it can. Otherwise any worker plans.
        if self.local.takes(task):
            whole = task_fields(self._state.memory, local=True) | {"asks_memory": False}
            try:
                local = await self.local.plan(task.model_copy(update=whole) if task.asks_memory else task)
            except asyncio.CancelledError:
                if self._state.interrupted is not None:
                    self._take_back(before)
                raise
            if local is not None:
                return local
        task = task if self._current.version else task.model_copy(update={"version": VERSION})
        while True:
            try:
                result = await request_plan(task, summary=f"plan {task.plan}")
            except ActivityError as error:
                self._awaits.room.look()
                if not may_move(error):
                    raise
            else:
                self._awaits.room.look(result)
                self._current.follow(result)
                self.local.begin(result)
                if isinstance(result, PlanOutcome) and result.quota and not result.is_made:
                    await self._wait_for_place(result.quota)
                    continue
                return result

    async def _wait_for_place(self, admission: Admission) -> None:
        # The ledger knows the run by the number of this plan. The run asks again once a worker calls it.
        self._state = self._state.queued_by(admission)
        number = self._state.place
        with self._clock.idle(), contextlib.suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: self._current.called == number,
                timeout=max(admission.retry_after or timedelta(0), _SHORTEST_RETRY),
                timeout_summary=QUOTA,
            )
        self._current.called = 0
        stop_if_canceled()
        self._state = self._state.asking_again()

    def _take_back(self, before: RunState) -> None:
        # The history does not contain the plan, so no reader could know that it began.
        self.local.add(-self._transcript.drop_last(len(before.new) + len(before.resume_messages)))
        self._state = self._state.plan_cut_off(before)
        self._conversation.plan_cut_off()

    def _check_plan(self, plan: PlanOutcome | Undecodable) -> PlanOutcome:
        fault = plan_fault(plan, final_turn=self._state.limit is not None)
        why = manual_result_fault(f"by-hand-plan-{self._state.plans}", plan, fault)
        if why is not None or isinstance(plan, Undecodable):
            return unusable_plan(why or "")
        usage = plan.usage and correct_usage(plan.usage)
        if usage is plan.usage or not patched(WRONG_FIGURES):
            return plan
        return plan.model_copy(update={"usage": usage})

    def _plan_task(self, forked: ForkedStep | None) -> PlanTask:
        # Large messages are passed by reference.
        state, run, after = self._state, self._state.opening, len(self._transcript)
        new = [*state.new, *state.resume_messages]
        size = self._transcript.extend(new)
        self.local.add(size)
        first = state.plans == 0
        self.opening_bytes = size if first else self.opening_bytes
        large, is_known = size > MAX_INLINE_BYTES, state.is_policy_known
        asks = not state.place and run.parent is None
        state = state.plan_begun(after)
        self._state = copy_with(state, place=state.plans) if asks and run.tenant else state
        return PlanTask(
            agent_id=run.agent_id,
            session_id=run.session_id,
            turn_id=state.turn_id,
            parent=run.parent,
            labels=run.labels,
            principal=state.acts_for,
            depth=run.depth,
            callers=run.callers,
            answer=run.answer,
            plan=self._state.plans,
            after=after,
            turn_start=self._state.turn_start,
            conversation=run.conversation,
            new=[] if large else new,
            until=len(self._transcript) if large else None,
            accepted_attempt=state.accepted_attempt,
            override=None if is_known and forked is None else run.policy,
            unlimited=not (first or is_known),
            limits=state.limits if is_known else Limits(),
            caps=state.caps(workflow.now()) if is_known else Caps(),
            finalize=state.limit,
            unseen=state.unseen,
            unsettled=list(state.unsettled),
            unexecuted=list(state.unexecuted),
            carried=list(state.carried),
            key_run_id=run.key_run_id,
            also_asked_by=list(state.also_asked_by),
            taint=state.taint,
            forked=None if state.limit else forked,
            quota_tenant=run.tenant if asks else "",
            **task_fields(state.memory),
        )

    def _answer_for_planner(self, why: ToolError) -> PlanOutcome:
        # The run completes. It does not fail.
        limit = self._state.limit
        assert limit is not None
        self._state = self._state.unanswered(why)
        return PlanOutcome(final=outcomes.unanswered_message(str(why), limit.message))
