"""Answer messages to a conversation while a step only waits for approvals.

The answer is a plan beside the step. It may only answer, and changes nothing of the step: neither its calls and
waits nor the transcript, to which the message and its answer come once the step is settled. One message is
answered at a time, in their order. The step does not settle before an answer that is under way, so that the next
plan knows it; an approved call begins meanwhile. The time of an answer does not count, since the run waits for a
person anyway: questions would else use up the time budget, and an approved call would not run.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from sojourn.contracts.message import Message
from sojourn.contracts.run_policy import Limits
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.core.payload.memory import task_fields
from sojourn.core.run.inbox import SentMessage
from sojourn.core.run.interim import APPROVAL_OPEN, answering, interim_input, with_interim
from sojourn.core.run.outcomes import plan_fault, unusable_plan
from sojourn.core.run.state import RunState
from sojourn.core.run.transcript import Packed
from sojourn.core.run.turns import apply_interim, begin_interim, fail_interim, find_interim, join_interim
from sojourn.values.undecodable import Undecodable
from sojourn.values.wire import MAX_INLINE_BYTES, size_of

from .cancellation import is_stopped
from .clock import Clock
from .current_state import CurrentState, patched
from .open_awaits import OpenAwaits
from .plan import request_plan
from .step import StepExecution
from .tool_activity import may_move
from .undecodable import manual_result_fault

__all__ = ["InterimAnswers"]


class InterimAnswers:
    def __init__(self, current: CurrentState, awaits: OpenAwaits, clock: Clock, transcript: Packed) -> None:
        self._current = current
        self._awaits = awaits
        self._clock = clock
        self._transcript = transcript
        self._task: asyncio.Task[None] | None = None
        """Answers the messages of the present step."""
        self._is_ending = False
        self._input: Sequence[Message] = ()
        """What the plan under way reads after the transcript, if it asks the run for it."""

    @property
    def _state(self) -> RunState:
        return self._current.state

    @_state.setter
    def _state(self, state: RunState) -> None:
        self._current.state = state

    @property
    def is_answering(self) -> bool:
        return bool(answering(self._state.interim))

    def messages(self, until: int | None) -> Sequence[Message]:
        """Return the messages that are not in the transcript yet.

        The plan under way asks for messages up to `until`, beyond the transcript, and also gets placeholders of results. Other readers
        do not.
        """
        is_plan = until is not None and until > len(self._transcript)
        return self._input if is_plan and self._input else with_interim(self._state.new, self._state.interim)

    def begin(self, plan: PlanOutcome, step: StepExecution) -> None:
        """Answer messages until the step ends, if one of its approvals says so."""
        confirms = [dispatch.confirm for dispatch in plan.dispatches]
        if self._state.opening.conversation and any(
            confirm and confirm.on_message == "answer" for confirm in confirms
        ):
            self._is_ending = False
            self._task = asyncio.create_task(self._answer_all(plan, step))

    async def end(self) -> None:
        """Begin no further answer, and wait for the one under way.

        The end of the run or of its turn cancels it.
        """
        task, self._task, self._is_ending = self._task, None, True
        if task is None:
            return
        if is_stopped():
            task.cancel()
        try:
            await asyncio.gather(task, return_exceptions=True)
        except asyncio.CancelledError:
            if not task.done():
                raise
        self._input = ()
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _answer_all(self, plan: PlanOutcome, step: StepExecution) -> None:
        while True:
            await workflow.wait_condition(lambda: self._is_ending or self._next(step) is not None)
            sent = None if self._is_ending else self._next(step)
            if sent is None or not patched("message-answers"):
                return
            self._state = begin_interim(self._state, sent.message_id)
            while self.is_answering:
                await self._plan_once(plan, step)

    def _next(self, step: StepExecution) -> SentMessage | None:
        if not step.only_waits or self._awaits.room.looks_full:
            return None
        return find_interim(self._state, workflow.now())

    async def _plan_once(self, plan: PlanOutcome, step: StepExecution) -> None:
        await self._awaits.while_paused()
        began, task = workflow.now(), self._plan_task(plan, step)
        try:
            result = await request_plan(task, summary="answer a message")
        except ActivityError as error:
            self._awaits.room.look()
            if may_move(error):
                return
            if is_stopped() or is_cancelled_exception(error):
                raise asyncio.CancelledError from error
            self._count(task, began)
            self._state = fail_interim(self._state)
            self._input = ()
            return
        self._awaits.room.look(result)
        self._count(task, began)
        self._state = apply_interim(self._state, self._check(result))
        self._input = ()

    def _count(self, task: PlanTask, began: datetime) -> None:
        if not task.off_clock:
            self._clock.add(workflow.now() - began)

    def _check(self, plan: PlanOutcome | Undecodable) -> PlanOutcome:
        present = self._state.interim
        marker = f"by-hand-interim-{self._state.plans}-{len(present)}-{present[-1].faults}"
        why = manual_result_fault(marker, plan, plan_fault(plan, final_turn=True))
        return unusable_plan(why or "") if why is not None or isinstance(plan, Undecodable) else plan

    def _plan_task(self, plan: PlanOutcome, step: StepExecution) -> PlanTask:
        # Nothing of the step is passed on but results and placeholders. The plan has the number of the next one,
        # so that a worker finds the transcript that it has kept.
        state, run, after = self._state, self._state.opening, len(self._transcript)
        joined = join_interim(state)
        new = interim_input(state.interim, step.results_so_far(plan))
        large = sum(map(size_of, new)) > MAX_INLINE_BYTES
        off_clock = patched("answers-off-clock")
        self._input = new if large else ()
        return PlanTask(
            agent_id=run.agent_id,
            session_id=run.session_id,
            turn_id=state.turn_id,
            parent=run.parent,
            labels=run.labels,
            principal=joined.acts_for,
            depth=run.depth,
            callers=run.callers,
            plan=state.plans + 1,
            after=after,
            turn_start=state.turn_start,
            conversation=True,
            new=[] if large else new,
            until=after + len(new) if large else None,
            accepted_attempt=state.accepted_attempt,
            limits=state.limits if off_clock else self._limits,
            caps=state.caps(workflow.now()),
            finalize=APPROVAL_OPEN,
            key_run_id=run.key_run_id,
            also_asked_by=list(joined.also_asked_by),
            taint=state.taint,
            interim_for=state.interim[-1].sent.message_id,
            off_clock=off_clock,
            **task_fields(state.memory),
        )

    @property
    def _limits(self) -> Limits:
        # Of a history in which the time counts: it cuts off no call, and is no longer than what is left.
        limits, left = self._state.limits, self._clock.time_left
        if left is None or left >= limits.plan_timeout:
            return limits
        return limits.model_copy(update={"plan_timeout": max(left, timedelta(seconds=1))})
