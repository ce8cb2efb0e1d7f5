"""One durable run, which plans, calls tools, waits and repeats.

No user code runs here and nothing is read from the app: the policy, and a `Dispatch` for
every call, are in the recorded results of `PlanActivity`. The decisions are in `sojourn.core`.
This file awaits, and keeps the transcript; `plan.py` makes a plan, and `step.py` carries out its calls.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

from sojourn.contracts.dispatch import HEARTBEAT, Dispatch
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput, RunOutput
from sojourn.contracts.tasks import BranchTask, PlanOutcome, Stored, StoreTask
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import AGENT_RUN, IN_DOUBT, READ_BRANCH, STORE_TRANSCRIPT
from sojourn.converter.failures import chain_of
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.awaits.steering import PauseRequest, ResumeRequest
from sojourn.core.awaits.waits import Released
from sojourn.core.run.branches import branch_fault, drop_branch, rewind
from sojourn.core.run.continuation import (
    Continuation,
    StepProgress,
    read_continuation,
    transcript_fault,
    write_continuation,
)
from sojourn.core.run.plan_rules import not_executed
from sojourn.core.run.retry import LONGEST_INTERVAL
from sojourn.core.run.run_input import opening_fault, read_run_input
from sojourn.core.run.scheduled_time import fill_opening
from sojourn.core.run.state import RunState
from sojourn.core.run.transcript import Packed, Segments, question_message
from sojourn.core.run.turns import close_question
from sojourn.core.safeguards.judge import PATCHES, SafeguardState
from sojourn.telemetry.observer import Observer
from sojourn.values.timers import limit_duration
from sojourn.values.undecodable import OrUndecodable, Undecodable
from sojourn.values.wire import encode

from .cancellation import (
    is_canceled,
    is_stopped,
    stop_if_canceled,
    stop_if_run_canceled,
    until_cancellation_is_known,
)
from .children import Children, report_to_parent
from .clock import Clock
from .continue_as_new import (
    STORE_LIMIT,
    Archive,
    ContinueWhileCallsWait,
    ContinueWhileIdle,
    LeavingExecution,
    store_retry,
    versioning_behavior,
)
from .conversation import Conversation
from .current_state import CurrentState, patched, tells_doubt
from .interim import InterimAnswers
from .message_handlers import MessageHandlers
from .notices import Notices
from .open_awaits import OpenAwaits
from .plan import PlanExecution
from .queries import RunQueries
from .search_attributes import Listed, memo_since
from .step import StepExecution
from .undecodable import accept_values

OPENING_COPIES = 5
"""Copies of the opening in memory, in addition to the transcript.

One is here, and four are in Temporal's core (measured).
"""

_STORED: Any = OrUndecodable(Stored)
_ANY: Any = OrUndecodable(dict)

BRANCH_RETRY = RetryPolicy(maximum_interval=LONGEST_INTERVAL)
"""The point of a branch is read until a worker can; a point that cannot be read ends the attempts."""


@workflow.defn(name=AGENT_RUN)
class AgentRun(RunQueries, MessageHandlers):
    """One run of an agent. Its workflow id is the run id."""

    @workflow.init
    def __init__(self, *arguments: Any) -> None:
        """Start with the opening's messages. The policy comes with the first plan.

        This method reads the input, not the SDK. Anyone with a Temporal client may have written it,
        and an input that the SDK cannot decode would fail the workflow task for ever.
        """
        opening = _read_opening(arguments)
        self._fault = opening if isinstance(opening, Exception) else None
        self._transcript, opening_bytes, forked = Packed(), 0, None
        self._pending: Continuation | None = None
        """The wait that the run was in when it continued as new."""
        if isinstance(opening, Continuation):
            state, self._transcript = opening.state, Packed.unpacked(opening.transcript)
            opening_bytes = sum(len(data) for _, data in opening.transcript)
            self._pending, forked = opening, opening.forked
        else:
            state = RunState.opened(
                opening if isinstance(opening, RunInput) else RunInput(agent_id="", messages=[])
            )
        self.current = CurrentState(state)
        self.notices = Notices(self.current)
        self.awaits = OpenAwaits(self.current, Listed(is_listed=state.opening.listed), self.notices)
        if self._pending:
            self.awaits.room.scale_to_input()
        self.children = Children()
        self._clock = Clock(self.current)
        self._archive = Archive(self.current)
        idle_since = opening.since if isinstance(opening, Continuation) and state.is_idle else None
        go_on = partial(self._go_on, None)
        self.conversation = Conversation(
            self.current, self.awaits, self.notices, self._turn, go_on, self._branch, idle_since
        )
        self._plans = PlanExecution(
            self.current,
            self.awaits,
            self._clock,
            self.notices,
            self.conversation,
            self._transcript,
            forked,
            opening_bytes,
        )
        self._interim = InterimAnswers(self.current, self.awaits, self._clock, self._transcript)
        self._observer = Observer()
        self._is_answered = True
        """Whether a plan has the answer of the last turn, and not the run itself."""

    @property
    def _state(self) -> RunState:
        return self.current.state

    @_state.setter
    def _state(self, state: RunState) -> None:
        self.current.state = state

    @workflow.run
    async def run(self, *_arguments: Any) -> RunOutput:
        """Plan, then call, ask, sleep or end, until the planner answers."""
        if self._fault:
            self._state = self._state.ended()
            raise self._fault
        try:
            self._clock.watch()
            self._archive.begin()
            output = await (self.conversation.run() if self._state.opening.conversation else self._go())
            self.awaits.listed.end(output)
            await self._archive.wait()
            await self.notices.send_end(output)
        except (asyncio.CancelledError, FailureError) as error:
            was_asked = is_canceled()
            if not was_asked:
                await self._archive.wait()
            try:
                if was_asked or is_cancelled_exception(error):
                    await report_to_parent(self._state.opening.parent, self._state.spending(workflow.now()))
                    await self.notices.send_end()
                else:
                    await self.notices.send_end(error=chain_of(error))
            finally:
                self._state = self._state.ended()
            if was_asked:
                if tells_doubt(self._state.doubts):
                    workflow.upsert_memo({IN_DOUBT: True})  # a cancellation carries no data
                raise asyncio.CancelledError from error
            raise
        self._state = self._state.ended()
        return output

    async def _go(self) -> RunOutput:
        """Run turn after turn. Everything that begins checks for a cancellation first."""
        while True:
            pending, self._pending = self._pending, None
            plan, since = (pending.waits_for, pending.since) if pending else (None, None)
            if plan is None:
                since = None  # that of an idle conversation
                await self._until_resumed()
                plan = await self._plans.make()
            if plan.failure:
                raise self.current.make_failure(plan.failure)
            if plan.calls:
                await self._step(plan, pending and pending.step)
            elif plan.await_:
                await self._ask(plan, since)
            elif plan.wait_:
                await self._sleep(plan, since)
            else:
                self._clock.stop()
                self._is_answered = self._state.unanswered_for is None
                output = self._output(plan)
                stop_if_run_canceled()  # an answer ends an interrupted turn too
                return output

    async def _turn(self) -> tuple[RunOutput, bool]:
        self._clock.stop()
        self._clock.watch()
        output = await self._go()
        return output, self._is_answered

    async def _go_on(
        self,
        waits_for: PlanOutcome | None = None,
        since: datetime | None = None,
        is_over: Callable[[], bool] = lambda: False,
        step: StepExecution | None = None,
    ) -> None:
        # Call this only when nothing is in flight. A run stays for now if its transcript is too large to be
        # carried over, and external storage does not take it.
        is_last = self._state.limit is not None and self._state.limit.reason == "history"
        if is_last or not self.awaits.room.is_long:
            return
        stop_if_canceled()
        await self._store_transcript()
        await self._archive.wait()
        await self.notices.under_way()
        # The handler of an answer may itself wait for the call that is answered.
        await until_cancellation_is_known(lambda: is_over() or workflow.all_handlers_finished())
        stop_if_canceled()
        if is_over():
            return
        state = self._state.continued(workflow.info().workflow_start_time)
        progress = step and step.progress()
        segments = self._transcript.segments()
        argument = write_continuation(
            Continuation(state, segments, waits_for, since, progress, self._plans.forked)
        )
        if argument:
            workflow.continue_as_new(
                args=[argument],
                memo=memo_since(state.began or workflow.info().workflow_start_time),
                initial_versioning_behavior=versioning_behavior(),
            )
        self.awaits.room.stays()

    async def _branch(self) -> None:
        # Returns only if the run stays in its branch.
        request = self._state.branching
        assert request is not None
        stop_if_canceled()
        try:
            found = await workflow.execute_activity(
                READ_BRANCH,
                BranchTask(agent_id=self._state.opening.agent_id, at=request.at),
                result_type=_ANY,
                start_to_close_timeout=STORE_LIMIT,
                heartbeat_timeout=HEARTBEAT,
                retry_policy=BRANCH_RETRY,
                summary="go on from an earlier point",
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            self._stay(branch_fault(chain_of(error)))
            return
        point = None if isinstance(found, Undecodable) else read_continuation(found)
        if isinstance(point, Continuation):
            await self._archive.wait()
            await self.notices.under_way()
            await until_cancellation_is_known(workflow.all_handlers_finished)
            stop_if_canceled()
            began = workflow.info().workflow_start_time
            state = rewind(self._state, point.state).continued(began)
            argument = write_continuation(Continuation(state, point.transcript, branch=request))
            if argument:
                workflow.continue_as_new(
                    args=[argument],
                    memo=memo_since(state.began or began),
                    initial_versioning_behavior=versioning_behavior(),
                )
        self._stay(branch_fault())

    def _stay(self, why: str) -> None:
        self.awaits.note(why)
        self._state = drop_branch(self._state)

    async def _until_resumed(self) -> None:
        # A long run continues as new meanwhile, or now.
        while True:
            await self.awaits.until_resumed_or_long()
            await self._go_on()
            if self._state.paused is None or self.awaits.room.looks_full:
                return

    async def _store_transcript(self) -> None:
        after, until = self._transcript.stored_count, len(self._transcript)
        if after == until or not patched("transcript-stored"):
            return
        try:
            stored = await workflow.execute_activity(
                STORE_TRANSCRIPT,
                StoreTask(agent_id=self._state.opening.agent_id, after=after, until=until),
                result_type=_STORED,
                start_to_close_timeout=STORE_LIMIT,
                heartbeat_timeout=HEARTBEAT,
                retry_policy=store_retry(self._state),
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                summary="store the transcript",
            )
        except ActivityError as error:
            stop_if_canceled()
            if is_cancelled_exception(error):
                raise
            self._state = self._state.storing(fails=True)
            return
        finally:
            self.awaits.room.look()
        if isinstance(stored, Stored):
            self._state = self._state.archiving(stored.archives).storing(fails=False)
        if isinstance(stored, Stored) and stored.claim:
            self._transcript.move_to_storage(until - after, stored.claim)

    def observe(self, observer: Observer) -> None:
        """Let an observer on this worker follow the run, which it cannot change."""
        self._observer = self.awaits.observer = observer
        observer.begins(self._state.opening, self._state.began)

    # Call tools.

    async def _step(self, plan: PlanOutcome, progress: StepProgress | None) -> None:
        # At most `max_parallel_calls` run at a time.
        if progress is None:
            self._transcript.append(plan.message or Message.calls(plan.calls))
            self._state = self._state.step_begun(plan.calls, plan.dispatches)
        calls = list(zip(plan.calls, plan.dispatches, strict=False))
        step = StepExecution(
            self.current, self.awaits, self._clock, self.children, self._observer, len(calls)
        )
        if progress is not None:
            step.resume(progress)
        elif not is_stopped():
            step.open_external(calls, plan.external)

        def only_waits() -> bool:
            return step.only_waits and not self._interim.is_answering

        self._interim.begin(plan, step)
        go_on = partial(self._go_on, plan, None, lambda: not only_waits(), step)
        if len(calls) == 1 and self._clock.active.budget is None:
            # The usual step: a task for its only call would be a needless cost.
            step.go_on = ContinueWhileCallsWait(only_waits, go_on)
            result = await step.carry_out(*calls[0])
            await self._interim.end()
            self._settle(plan, [result])
            return
        step.go_on = ContinueWhileCallsWait(only_waits, None)
        tasks = [asyncio.create_task(step.carry_out(call, dispatch)) for call, dispatch in calls]
        try:
            await self._finish_calls(tasks, step.go_on, go_on)
            await self._interim.end()
        except asyncio.CancelledError:
            await self._interim.end()
            self._clock.add(step.child_active_time())
            self._settle(plan, _results(calls, tasks, step))
            raise
        self._clock.add(step.child_active_time())
        self._settle(plan, _results(calls, tasks, step))

    async def _finish_calls(
        self,
        tasks: Sequence[asyncio.Task[ToolResult]],
        waiting: ContinueWhileCallsWait,
        go_on: Callable[[], Awaitable[None]],
    ) -> None:
        # A long run continues as new while all of them wait.
        while True:
            try:
                await self._clock.wait_for(tasks, waiting)
            except LeavingExecution:
                try:
                    await go_on()
                except asyncio.CancelledError:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)
                    raise
            else:
                return

    def _settle(self, plan: PlanOutcome, executed: list[ToolResult]) -> None:
        now = workflow.now()
        self._plans.local.count_step(plan.dispatches, executed)
        safeguards = self._apply_patched_rules(self._state.judge_step(plan.calls, executed, now))
        self._state = self._state.settled(plan, executed, safeguards, now)
        for call in plan.calls[len(executed) :]:
            refused = not_executed(call, plan.refused, self._state.limits)
            self._observer.report_answer(
                call, None, refused, turn_id=self._state.turn_id, since=now, by_worker=False
            )

    @staticmethod
    def _apply_patched_rules(safeguards: SafeguardState) -> SafeguardState:
        # Earlier rules apply if they decide otherwise and the history was made with them.
        for rules, change in PATCHES.items():
            if safeguards.differs_by(rules) and not patched(change):
                safeguards = safeguards.by(rules)
        return safeguards

    # Wait.

    async def _sleep(self, plan: PlanOutcome, since: datetime | None) -> None:
        assert plan.wait_ is not None
        stop_if_canceled()
        self._state = self._state.waiting()
        duration, began = plan.wait_, since or workflow.now()
        left = (
            max(began + limit_duration(duration) - workflow.now(), timedelta(0))
            if since
            else limit_duration(duration)
        )
        go_on = None if plan.wait_counts else ContinueWhileIdle(partial(self._go_on, plan, began))
        sleeping = asyncio.create_task(self.awaits.sleep(left, go_on))
        if plan.wait_counts:
            with self._clock.busy():
                await self._clock.wait_for([sleeping])
        else:
            await sleeping
        self._plans.local.count_wait()
        is_over = not sleeping.cancelled() and sleeping.result()
        self._state = self._state.slept(duration, workflow.now(), is_over=is_over)

    async def _ask(self, plan: PlanOutcome, since: datetime | None) -> None:
        assert plan.await_ is not None
        if since is None:
            self._transcript.append(question_message(plan))
            self._state = self._state.waiting()
        elif asked := self.awaits.find_left(None):
            self.awaits.take_over({asked.id: since})
        go_on = ContinueWhileIdle(partial(self._go_on, plan, since or workflow.now()))
        try:
            answer = await self.awaits.answer_to(plan.await_, go_on)
        except asyncio.CancelledError:
            if self._state.interrupted is not None:
                self._state = close_question(self._state, plan)
            raise
        self._plans.local.count_wait()
        self._state = self._state.answered(plan, answer)

    def steer(self, message: PauseRequest | ResumeRequest | Released) -> None:
        """Pause, resume, or stop asking about tools."""
        if isinstance(message, Released):
            self.awaits.release(message)
            return
        self._state, is_applied = self._state.steered(message, workflow.now())
        if is_applied:
            self.awaits.show()
            self.children.signal(message)

    # End.

    def _output(self, plan: PlanOutcome) -> RunOutput:
        assert plan.final is not None
        self._transcript.extend([*self._state.new, plan.final])
        self._state = self._state.finished()
        return self._state.output(plan, workflow.info().workflow_id, workflow.now())

    @property
    def transcript_length(self) -> int:
        """Number of messages that a planner has received, or made."""
        return len(self._transcript)

    @property
    def memory_bytes(self) -> int:
        """Approximate memory of the run on its worker, in bytes."""
        return self._transcript.memory_bytes + OPENING_COPIES * self._plans.opening_bytes

    def _stored_segments(self) -> Segments:
        return self._transcript.stored_segments

    def _messages(self, until: int | None) -> Iterable[bytes]:
        state = self._state
        return [
            *self._transcript,
            *map(encode, (*self._interim.messages(until), *state.resume_messages)),
        ]


def _read_opening(values: Sequence[Any]) -> RunInput | Continuation | Exception:
    # An error is returned too: `run` raises it, and so fails the run.
    try:
        opening = accept_values("unread-start", values)
    except RuntimeError as error:  # `run` raises it: the SDK has already begun this method
        return error
    if isinstance(opening, Rejection):
        return _invalid(f"AgentRun takes one RunInput: {opening.reason}")
    continuation = read_continuation(opening[0]) if len(opening) == 1 else None
    if isinstance(continuation, Continuation):
        # A run that continues as new has written it itself.
        fault = None if workflow.info().continued_run_id else transcript_fault(continuation)
        return _invalid(fault) if fault and workflow.patched("transcript-read") else continuation
    if continuation is not None:
        return _invalid(continuation)
    run = read_run_input(opening[0] if len(opening) == 1 else opening)
    if isinstance(run, str):
        return _invalid(run)
    if (fault := opening_fault(run)) and workflow.patched("opening-rules"):
        return _invalid(f"AgentRun takes one RunInput; {fault}")
    return fill_opening(run, workflow.info().workflow_id)


def _invalid(fault: str) -> ApplicationError:
    return ApplicationError(fault, type="InvalidInput", non_retryable=True)


def _results(
    calls: Sequence[tuple[ToolRequest, Dispatch]],
    tasks: Sequence[asyncio.Task[ToolResult]],
    step: StepExecution,
) -> list[ToolResult]:
    # A task that was cancelled before it began has no result of its own.
    return [
        task.result() if not task.cancelled() else step.cut_short(call, dispatch)
        for (call, dispatch), task in zip(calls, tasks, strict=True)
    ]
