"""Carry out one call of a step, or use its recorded result.

A call is carried out as an activity, a child run or an external call. Every call is answered,
however it ends: only a cancellation of the run is raised here, and only after the call is answered.
"""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.common import TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)

from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.run import CallStatus, RunInput, RunOutput
from sojourn.contracts.tasks import PlanOutcome, ToolTask
from sojourn.contracts.tool_call import Approval, CallEdit, InputRequired, ToolInput, ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import RunLink, ToolResult
from sojourn.contracts.wire_names import AGENT_RUN
from sojourn.converter.failures import failure_of, spending_of
from sojourn.core.awaits.clarification import Clarified
from sojourn.core.awaits.confirmation import Decided, deny_by_decision, is_void, void_reason
from sojourn.core.awaits.external_tools import missing_result
from sojourn.core.awaits.factories import (
    MAX_ASKED_AGAIN,
    MAX_INPUT_ROUNDS,
    approval_by_release,
    approval_of,
    confirm_again,
    external_wait,
    input_response,
    input_wait,
    with_payload,
)
from sojourn.core.payload.boundary import state_bounds
from sojourn.core.payload.memory import task_fields
from sojourn.core.run import child_runs, outcomes
from sojourn.core.run.child_runs import ChildTime, inherit_limits
from sojourn.core.run.continuation import CallProgress, EarlierAttempts, StepProgress
from sojourn.core.run.ids import child_run_id
from sojourn.core.run.limits import limits_of
from sojourn.core.run.outcomes import correct_result, unusable_result
from sojourn.core.run.plan_rules import not_executed
from sojourn.core.run.run_input import summarize, viewers_of
from sojourn.core.run.state import call_status
from sojourn.core.run.transcript import for_planner
from sojourn.search_attributes import attributes_of
from sojourn.telemetry.observer import Observer
from sojourn.values.undecodable import Undecodable
from sojourn.values.wire import MAX_FORMS_BYTES, size_of

from .cancellation import cut_short, stop_if_canceled
from .children import Children
from .clock import Clock
from .continue_as_new import ContinueAsNew
from .current_state import CurrentState, patched
from .history_budget import InputsInFlight
from .open_awaits import OpenAwaits
from .tool_activity import (
    answer_to,
    check_approval,
    execute,
    execute_locally,
    is_not_answered,
    is_unscheduled,
)
from .undecodable import WRONG_FIGURES, manual_result_fault

_EVERY_CALL = "every-approval-checked"
"""Approvals of calls of agents are checked too, as those of calls that a worker executes."""


class StepExecution:
    """The calls of one plan, with the run they belong to."""

    def __init__(
        self,
        current: CurrentState,
        awaits: OpenAwaits,
        clock: Clock,
        children: Children,
        observer: Observer,
        count: int,
    ) -> None:
        self._current = current
        self._run = current.state.opening
        self._turn_id = current.state.turn_id
        self._policy = current.state.policy
        self._memory = current.state.memory
        self._awaits = awaits
        self._clock = clock
        self._children = children
        self._observer = observer
        self._carried_out: set[str] = set()
        self._at_work: set[str] = set()
        """Ids of the calls that a worker or a child run may have begun to carry out."""
        self._checked_at: dict[str, datetime] = {}
        """When the approvals of calls were checked, by id."""
        self._unknown: set[str] = set()
        """Ids of the calls that an attempt may have carried out, without a later attempt that settled the outcome."""
        self._results = 0
        self._slots = asyncio.Semaphore(self._policy.max_parallel_calls)
        self._external: AwaitExternalTools | None = None
        self._began = clock.active_time
        self._child_time = ChildTime()
        self._load = InputsInFlight()
        self.go_on: ContinueAsNew | None = None
        """Goes on in a new execution while all open calls wait."""
        self._open = count
        self._waiting = 0
        self._since: dict[str, datetime] = {}
        self._answers: dict[str, ToolResult] = {}
        self._past: dict[str, list[EarlierAttempts]] = {}
        """Results so far of the calls without an answer, by id. Only results that a call waited for, or waits because of."""
        self._approvals: dict[str, Approval] = {}
        self._edits: dict[str, CallEdit] = {}
        """The edits of calls that were approved with other arguments, by id."""
        self._taken_up: dict[str, int] = {}
        """How much of that its call has taken up, by id."""

    # Continue as new.

    @property
    def only_waits(self) -> bool:
        """Whether all open calls wait for people or external results."""
        return self._waiting == self._open > 0 and not self._awaits.is_answered

    def progress(self) -> StepProgress:
        answered = {
            call_id: CallProgress(self._since[call_id], result) for call_id, result in self._answers.items()
        }
        waiting = {
            call_id: CallProgress(since, past=tuple(self._past.get(call_id, ())))
            for call_id, since in self._since.items()
            if call_id not in self._answers
        }
        opened = self._awaits.opened_at
        return StepProgress(
            calls={**answered, **waiting},
            opened={await_id: opened[await_id] for await_id in self._awaits.waits.open if await_id in opened},
            external=self._external.id if self._external else "",
            began=self._began,
            child_time=self._child_time.total,
        )

    def resume(self, progress: StepProgress) -> None:
        """Take up a step of an earlier execution."""
        for call_id, call in progress.calls.items():
            self._since[call_id] = call.since
            self._past[call_id] = list(call.past)
            if call.result is not None:
                self._answers[call_id] = call.result
        self._awaits.take_over(progress.opened)
        self._external = self._awaits.resume_external(progress.external)
        self._began = progress.began
        self._child_time.total = progress.child_time

    def _next(self, call: ToolRequest) -> EarlierAttempts | None:
        # None once the call has taken up all of that.
        at, past = self._taken_up.get(call.tool_call_id, 0), self._past.get(call.tool_call_id, ())
        self._taken_up[call.tool_call_id] = at + 1
        return past[at] if at < len(past) else None

    def _keep(self, call: ToolRequest, past: EarlierAttempts) -> None:
        self._past.setdefault(call.tool_call_id, []).append(past)

    def _was_asked_before(self, call: ToolRequest) -> bool:
        """Check whether an earlier execution requested an approval at this place."""
        at, past = self._taken_up.get(call.tool_call_id, 0), self._past.get(call.tool_call_id, ())
        return at < len(past) and past[at].result is None

    def _is_told(self, call: ToolRequest) -> bool:
        """Check whether the call has not yet caught up with its earlier execution."""
        at, past = self._taken_up.get(call.tool_call_id, 0), self._past.get(call.tool_call_id, ())
        return at < len(past) or self._awaits.find_left(call.tool_call_id) is not None

    async def _answer_to(
        self, call: ToolRequest, wait: AwaitClarification | AwaitConfirmation
    ) -> Decided | Clarified | None:
        if known := self._next(call):
            return known.decided or known.clarified
        with self._waits():
            answer = await self._awaits.answer_to(wait, self.go_on)
        assert answer is None or isinstance(answer, Decided | Clarified)
        decided = answer if isinstance(answer, Decided) else None
        self._keep(call, EarlierAttempts(decided, answer if isinstance(answer, Clarified) else None))
        return answer

    @contextmanager
    def _waits(self) -> Generator[None]:
        self._waiting += 1
        self._release_place()
        try:
            yield
        finally:
            self._waiting -= 1

    def _release_place(self) -> None:
        # While all open calls wait for people, another run of the tenant may work.
        if self.only_waits:
            self._current.state = self._current.state.without_place()

    def results_so_far(self, plan: PlanOutcome) -> list[ToolResult]:
        """Return a result of every call of the plan.

        A call that waits for an approval, or was approved meanwhile, has a placeholder.
        """
        results = [
            self._answers.get(call.tool_call_id)
            or outcomes.awaits_approval(call, is_open=bool(self._awaits.waits.of_call(call.tool_call_id)))
            if index < len(plan.dispatches)
            else not_executed(call, plan.refused, limits_of(self._policy))
            for index, call in enumerate(plan.calls)
        ]
        return [for_planner(outcomes.by_reference(result)) for result in results]

    # Carry out.

    def open_external(
        self, calls: Sequence[tuple[ToolRequest, Dispatch]], wait: AwaitExternalTools | None
    ) -> None:
        opened = external_wait(calls, wait)
        if opened:
            self._external = self._awaits.open_external(opened)

    def child_active_time(self) -> timedelta:
        """Return the active time of the child runs that ended.

        Time in which this run itself was active is left out.
        """
        return self._child_time.beyond(self._clock.active_time - self._began)

    @property
    def _time_left(self) -> timedelta | None:
        left = self._clock.time_left
        return None if left is None else max(left - self.child_active_time(), timedelta(0))

    async def carry_out(self, call: ToolRequest, dispatch: Dispatch) -> ToolResult:
        """Return the call's one answer."""
        if known := self._answers.get(call.tool_call_id):
            self._open -= 1
            return known
        since = self._since.setdefault(call.tool_call_id, workflow.now())
        try:
            result = await self._answer(call, dispatch)
        except asyncio.CancelledError:
            result = self.cut_short(call, dispatch)
        if call.tool_call_id in self._unknown:
            result = outcomes.still_unknown(result)
        run_id = self._run.key_run_id or workflow.info().workflow_id
        result = outcomes.with_edit(result, self._edits.get(call.tool_call_id), run_id)
        self._open -= 1
        self._release_place()
        self._answers[call.tool_call_id] = result
        self._past.pop(call.tool_call_id, None)
        self._current.state = self._current.state.with_call(call_status(result))
        by_worker = call.tool_call_id in self._carried_out
        self._observer.report_answer(
            call, dispatch, result, turn_id=self._turn_id, since=since, by_worker=by_worker
        )
        return result

    def _show(self, call: ToolRequest, state: str, link: RunLink | None = None) -> None:
        shown = CallStatus(tool_call_id=call.tool_call_id, name=call.name, state=state, run_link=link)
        self._current.state = self._current.state.with_call(shown)

    def _is_overtime(self) -> bool:
        # The call ended in spite of its cancellation.
        return self._clock.is_expired and patched("overtime-asks-nobody")

    def cut_short(self, call: ToolRequest, dispatch: Dispatch) -> ToolResult:
        """Return the result of a call that was cancelled, or cut off by the time budget."""
        result = outcomes.overtime_result(call) if self._clock.is_expired else cut_short(call)
        return outcomes.state_effect(result, dispatch, begun=self._has_begun(call.tool_call_id))

    def _has_begun(self, call_id: str) -> bool:
        told = self._external.items if self._external else []
        begun = self._at_work | self._unknown
        return call_id in begun or any(item.tool_call_id == call_id for item in told)

    async def _answer(self, call: ToolRequest, dispatch: Dispatch) -> ToolResult:
        # If its tool has changed since it was displayed, a person has to approve it again.
        task, first, confirm, times = self._task(call, dispatch), dispatch.confirm, dispatch.confirm, 0
        while True:
            refused = await self._request_approval(call, dispatch, task, confirm)
            call, dispatch, task = self._as_edited(call, dispatch, task)
            result = refused or await self._by_kind(call, dispatch, task)
            if result.confirm is None:
                if is_void(result):
                    self._void(first)
                return result
            result, asked, times = result.model_copy(update={"confirm": None}), result.confirm, times + 1
            if first is None or times > MAX_ASKED_AGAIN or not patched("asked-again"):
                self._void(first)
                return result
            if self._is_overtime():
                return self.cut_short(call, dispatch)
            confirm = self._ask_again(call, asked, first)
            task = task.model_copy(update={"spec_digest": confirm.spec_digest, "shown": confirm.shown})

    async def _request_approval(
        self, call: ToolRequest, dispatch: Dispatch, task: ToolTask, confirm: AwaitConfirmation | None
    ) -> ToolResult | None:
        if confirm is None:
            return None
        if not (self._was_asked_before(call) or self._asks(confirm)):
            self._note_approval(call, approval_by_release(self._awaits.waits.release_of(confirm)))
            self._awaits.waits = self._awaits.waits.bound(confirm)
            return None
        self._show(call, "waiting")
        decided = await self._answer_to(call, with_payload(confirm, call))
        if decided is None and (refused := self._no_room(call)):
            return refused
        if isinstance(decided, Decided) and decided.approved:
            self._show(call, "running")
            self._note_approval(call, approval_of(decided, confirm))
            if decided.edit:
                self._edits[call.tool_call_id] = decided.edit
                call, dispatch, task = self._as_edited(call, dispatch, task)
            return await self._check_approval(call, dispatch, task, decided.await_id)
        return deny_by_decision(call, decided if isinstance(decided, Decided) else None)

    def _as_edited(
        self, call: ToolRequest, dispatch: Dispatch, task: ToolTask
    ) -> tuple[ToolRequest, Dispatch, ToolTask]:
        """Return a call as its approver has edited it.

        With other arguments it repeats no earlier effect.
        """
        edit = self._edits.get(call.tool_call_id)
        if edit is None:
            return call, dispatch, task
        return (
            call.edited(edit.arguments),
            dispatch.model_copy(update={"effect": None}),
            task.model_copy(update={"payload": edit.arguments, "raw": None, "effect": None}),
        )

    def _note_approval(self, call: ToolRequest, approval: Approval | None) -> None:
        if approval is not None:
            self._approvals[call.tool_call_id] = approval

    async def _check_approval(
        self, call: ToolRequest, dispatch: Dispatch, task: ToolTask, await_id: str
    ) -> ToolResult | None:
        # The sender of the approval gets the outcome.
        if known := self._next(call):
            return known.result
        by_worker = dispatch.kind in ("activity", "local")
        if not self._awaits.is_to_be_checked(await_id) or not (by_worker or patched(_EVERY_CALL)):
            self._awaits.judge(await_id, None)
            self._keep(call, EarlierAttempts())
            return None
        try:
            found = await check_approval(await_id, task, self._awaits.room, is_last=not by_worker)
        except asyncio.CancelledError:
            self._awaits.judge(await_id, None)
            raise
        self._checked_at[call.tool_call_id] = workflow.now()
        self._awaits.judge(await_id, found)
        self._keep(call, EarlierAttempts(result=found))
        return found and outcomes.attach_call(call, found, workflow.info().workflow_id)

    async def _void_by_now(self, call: ToolRequest, dispatch: Dispatch, task: ToolTask) -> ToolResult | None:
        # This is checked before the child run starts. None if the tool is unchanged. A worker that executes a
        # tool compares by itself. So does this, if the call had to wait since its approval was checked, or
        # needed none.
        confirm, now = dispatch.confirm, workflow.now()
        if confirm is None or self._checked_at.get(call.tool_call_id) == now or not patched(_EVERY_CALL):
            return None
        found = await check_approval(confirm.id, task, self._awaits.room, is_last=True)
        return found and outcomes.attach_call(call, found, workflow.info().workflow_id)

    def _asks(self, confirm: AwaitConfirmation) -> bool:
        waits = self._awaits.waits
        if waits.asks(confirm) and not waits.asks(confirm, by_name=True):
            return patched("released-as-seen")
        return waits.asks(confirm) and (not waits.names(confirm) or patched("released-as-shown"))

    def _ask_again(
        self, call: ToolRequest, asked: AwaitConfirmation, first: AwaitConfirmation
    ) -> AwaitConfirmation:
        # The call's tool was changed. No approval is requested if a person has released the tool as it is
        # now: then the call runs.
        stop_if_canceled()
        unknown = call.tool_call_id in self._unknown and patched("unknown-stays-unknown")
        again = confirm_again(asked, first, unknown=unknown)
        if self._asks(again) and not self._is_told(call):
            self._void(first)
            self._awaits.note(void_reason(again))
        return again

    def _void(self, first: AwaitConfirmation | None) -> None:
        if first is not None:
            self._awaits.waits = self._awaits.waits.voided(first)

    async def _by_kind(self, call: ToolRequest, dispatch: Dispatch, task: ToolTask) -> ToolResult:
        if dispatch.kind in ("activity", "local"):
            return await self._with_input(call, dispatch, task)
        if dispatch.kind == "child":
            async with self._slots:
                with await self._awaits.room.for_answer():
                    await self._awaits.while_paused()
                    if refused := self._no_room(call) or await self._void_by_now(call, dispatch, task):
                        return refused
                    return await self._child(call, dispatch)
        if dispatch.kind == "external":
            return await self._wait_for_result(call, dispatch)
        if dispatch.result is not None:
            return dispatch.result
        return outcomes.failure_result(
            call, ToolError.new(f"this worker does not know dispatch {dispatch.kind!r}")
        )

    async def _with_input(self, call: ToolRequest, dispatch: Dispatch, task: ToolTask) -> ToolResult:
        # A tool that needs a person's input is called again with the answers.
        rounds, approval = 0, self._approvals.get(call.tool_call_id)
        if approval is not None:
            task = task.model_copy(update={"approval": approval})
        while True:
            known = self._next(call)
            told = known and known.result
            result = told or await self._in_turn(call, dispatch, task)
            self._note_outcome(call, dispatch, result)
            if told is None and (result.input_required or result.confirm):
                self._keep(call, EarlierAttempts(result=result))
            needed, rounds = result.input_required, rounds + 1
            if needed is None:
                return result
            if self._is_overtime():
                return self.cut_short(call, dispatch)
            if not self._policy.interrupts_allowed:
                return outcomes.no_input(call, needed)
            if rounds > MAX_INPUT_ROUNDS:
                return outcomes.too_much_input(call, needed.server)
            self._show(call, "waiting")
            answers = await self._input(call, needed)
            if size_of(answers) > MAX_FORMS_BYTES and patched("answers-bounded-together"):
                return outcomes.too_long_input(call, needed.server)
            self._show(call, "running")
            task = task.model_copy(update={"input": answers})

    def _note_outcome(self, call: ToolRequest, dispatch: Dispatch, result: ToolResult) -> None:
        if (result.input_required or result.confirm) and outcomes.says_unknown(result, dispatch):
            self._unknown.add(call.tool_call_id)

    async def _in_turn(self, call: ToolRequest, dispatch: Dispatch, task: ToolTask) -> ToolResult:
        async with self._slots:
            # A local result is small. Each of the others needs room.
            with nullcontext() if dispatch.kind == "local" else await self._awaits.room.for_answer():
                await self._awaits.while_paused()
                if refused := self._no_room(call):
                    return refused
                if task.input is None:
                    return await self._by_worker(call, dispatch, task)
                with await self._load.of(task.input):
                    return await self._by_worker(call, dispatch, task)

    def _no_room(self, call: ToolRequest) -> ToolResult | None:
        if not self._awaits.room.is_full:
            return None
        return not_executed(call, "history", limits_of(self._policy))

    async def _by_worker(self, call: ToolRequest, dispatch: Dispatch, task: ToolTask) -> ToolResult:
        if task.given is None:
            self._at_work.add(call.tool_call_id)
        if call.tool_call_id in self._unknown:
            task = task.model_copy(update={"unknown": True})
        with self._clock.busy():
            try:
                if dispatch.kind == "local":
                    with self._awaits.room.local():
                        result = await execute_locally(call, dispatch, task)
                else:
                    result = await execute(call, dispatch, task)
                    self._awaits.room.look(result)
            except (
                ActivityError,
                ApplicationError,
            ) as error:  # the error of a local activity comes without a wrapper
                if is_cancelled_exception(error) or is_not_answered(error):
                    if dispatch.kind == "activity" and is_unscheduled(error):
                        self._at_work.discard(call.tool_call_id)
                    self._carried_out.add(call.tool_call_id)
                    return self.cut_short(call, dispatch)
                return answer_to(call, dispatch, error)
        if task.given is None:
            self._carried_out.add(call.tool_call_id)
        result = self._check_result(call, result)
        if result.input_required or result.confirm:
            self._at_work.discard(call.tool_call_id)
        else:
            self._unknown.discard(call.tool_call_id)  # the worker knew, and its result says what is known now
        return outcomes.by_reference(outcomes.attach_call(call, result, workflow.info().workflow_id))

    def _check_result(self, call: ToolRequest, result: ToolResult | Undecodable) -> ToolResult:
        self._results += (
            1  # a call that needs input, or is checked again, has several results: each has its own marker
        )
        fault = result.reason if isinstance(result, Undecodable) else None
        why = manual_result_fault(f"by-hand-{call.tool_call_id}-{self._results}", result, fault)
        if why is not None or isinstance(result, Undecodable):
            return unusable_result(call, why or "")
        right = correct_result(result)
        return right if right is result or patched(WRONG_FIGURES) else result

    def _task(self, call: ToolRequest, dispatch: Dispatch) -> ToolTask:
        run, link = self._run, self._run.parent
        return ToolTask(
            name=call.name,
            payload=call.payload,
            raw=call.raw,
            agent_id=run.agent_id,
            session_id=run.session_id,
            turn_id=self._turn_id,
            parent_tool_call_id=link.parent_tool_call_id if link else None,
            labels=run.labels,
            principal=self._current.state.acts_for,
            spec_digest=dispatch.confirm.spec_digest if dispatch.confirm else None,
            shown=dispatch.confirm.shown if dispatch.confirm else None,
            rules=self._policy.approval.rules if dispatch.confirm else [],
            effect=dispatch.effect,
            key_run_id=run.key_run_id,
            attachments=dispatch.attachments,
            tainted=self._current.state.is_tainted,
            taint=self._current.state.known_taint,
            **(task_fields(self._memory, local=dispatch.kind == "local") if dispatch.memory else {}),
        )

    async def _input(self, call: ToolRequest, needed: InputRequired) -> ToolInput:
        responses = dict(needed.responses)
        for form in needed.forms:
            answer = await self._answer_to(call, input_wait(call, needed, form))
            responses[form.key] = input_response(answer if isinstance(answer, Clarified) else None)
        return ToolInput(responses=responses, request_state=needed.request_state)

    async def _wait_for_result(self, call: ToolRequest, dispatch: Dispatch) -> ToolResult:
        # A check takes no slot and no room, and no pause delays it, since the sender of the result waits for
        # it.
        stop_if_canceled()
        wait = self._external
        if wait is None:
            return missing_result(call)  # a caller has started the run with a state of their own making
        while True:
            with self._waits():
                sent = await self._awaits.result_of(wait, call.tool_call_id, self.go_on)
            room, is_read = self._awaits.room, True
            if sent is None:
                result = outcomes.not_read(call) if room.is_full else missing_result(call)
            elif room.looks_full and patched("checks-need-room"):
                result, is_read = outcomes.not_read(call), False
            else:
                task = self._task(call, dispatch).model_copy(update={"given": sent})
                with await self._load.of(sent):
                    result = await self._by_worker(call, dispatch, task)
            if self._awaits.settle_part(wait.id, call.tool_call_id, result, is_read=is_read):
                return result

    async def _child(self, call: ToolRequest, dispatch: Dispatch) -> ToolResult:
        parent = workflow.info().workflow_id
        agent_id = dispatch.agent_id or ""
        link = RunLink(
            run_id=child_run_id(parent, call.tool_call_id),
            agent_id=agent_id,
            parent_run_id=parent,
            parent_tool_call_id=call.tool_call_id,
        )
        self._show(call, "running", link)
        child = RunInput(
            agent_id=agent_id,
            messages=dispatch.messages,
            session_id=self._run.session_id,
            turn_id=self._turn_id,
            parent=link,
            labels=self._run.labels,
            principal=self._current.state.acts_for,
            policy=inherit_limits(self._run.policy, dispatch.policy, self._time_left),
            depth=self._run.depth + 1,
            callers=[*self._run.callers, self._run.agent_id],
            answer=dispatch.answer,
            key_run_id=self._run.key_run_id and child_run_id(self._run.key_run_id, call.tool_call_id),
            also_asked_by=list(self._current.state.also_asked_by),
            taint=self._current.state.known_taint,
            visibility=self._run.visibility,
            visible_to=list(self._current.state.viewers),
        )
        attributes = self._search_attributes(agent_id, viewers_of(child))
        if attributes:
            child = child.model_copy(update={"listed": True})
        introduction, began = summarize(child, call.name), self._child_time.total
        self._at_work.add(call.tool_call_id)
        try:
            with self._children.register(link.run_id):
                with await self._load.of(child):
                    handle = await workflow.start_child_workflow(
                        AGENT_RUN,
                        child,
                        id=link.run_id,
                        result_type=RunOutput,
                        task_queue=dispatch.task_queue,
                        # A parent run that was reset starts its child run again. The earlier one would run on
                        # without a listener.
                        id_reuse_policy=WorkflowIDReusePolicy.TERMINATE_IF_RUNNING,
                        parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                        search_attributes=attributes,
                        memo=introduction.memo,
                        static_summary=introduction.summary,
                        static_details=introduction.details,
                    )
                self._children.signal_started(link.run_id)
                output: RunOutput = await handle
                self._awaits.room.look(output)
        except ChildWorkflowError as error:
            self._awaits.room.look()
            if is_cancelled_exception(error):
                spent = self._children.take_spent(link.run_id)
                self._child_time.count_ended(began, spent and spent.active_time)
                self._current.state = self._current.state.asked_below(spent)
                if is_unscheduled(error) or (spent and spent.may_have_acted is False):
                    self._at_work.discard(call.tool_call_id)
                return child_runs.add_spent(self.cut_short(call, dispatch), link, spent)
            spent = spending_of(error)
            self._child_time.count_ended(began, spent and spent.active_time)
            self._current.state = self._current.state.asked_below(spent)
            return child_runs.result_of_failure(
                call, failure_of(error), link, spent, may_act=dispatch.may_act
            )
        except WorkflowAlreadyStartedError:
            taken = ToolError.new("a run with this id exists already", code="run_already_exists")
            return child_runs.result_of_failure(call, taken, link, None)
        self._child_time.count_ended(began, output.active_time)
        self._current.state = self._current.state.asked_below(output)
        result = child_runs.result_of_output(
            call, output, link, typed=dispatch.answer is not None, may_act=dispatch.may_act
        )
        return state_bounds(result) if dispatch.bounded else result

    def _search_attributes(self, agent_id: str, viewers: Sequence[str]) -> TypedSearchAttributes | None:
        """Return the child run's own search attributes, since it inherits none."""
        listed = self._awaits.listed
        tenant = listed.tenant
        if not listed.may_set():
            return None
        return attributes_of(agent_id, self._run.session_id, tenant=tenant, visible_to=viewers)
