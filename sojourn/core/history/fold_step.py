"""The calls of a step in the fold: begun, waiting, carried out, answered, settled."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.event import (
    AwaitAnsweredEvent,
    Event,
    MemoryChangedEvent,
    PlannerNoteEvent,
    ToolEndEvent,
    ToolResultReceivedEvent,
    ToolStartEvent,
)
from sojourn.contracts.run import CallStatus, Spent
from sojourn.contracts.run_policy import Limits
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.contracts.tool_call import CallEdit, ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import RunLink, ToolResult
from sojourn.core.awaits.confirmation import is_void, void_reason
from sojourn.core.awaits.factories import (
    MAX_ASKED_AGAIN,
    MAX_INPUT_ROUNDS,
    confirm_again,
    external_wait,
    input_wait,
    with_payload,
)
from sojourn.core.awaits.kinds import kind_of
from sojourn.core.awaits.waits import Waits
from sojourn.core.history.record import FoldState, HistoryRecord, OpenCall
from sojourn.core.payload.memory import MemoryChange, apply_patches
from sojourn.core.run import outcomes
from sojourn.core.run.child_runs import ChildTime
from sojourn.core.run.continuation import CallProgress, StepProgress
from sojourn.core.run.plan_rules import not_executed
from sojourn.core.run.state import RunState, call_status
from sojourn.core.run.taint import result_taint
from sojourn.values.frozen import copy_with

__all__ = ["StepFold", "StepSoFar"]


@dataclass(frozen=True, slots=True)
class StepSoFar:
    """The calls of a plan, as far as they are answered."""

    plan: PlanOutcome
    results: Mapping[str, ToolResult]
    state: RunState
    """The run state before the step was settled."""
    is_settled: bool
    """Whether all admitted calls are answered, and no plan has begun since."""
    edits: Mapping[str, CallEdit] = field(default_factory=dict[str, CallEdit])
    """The edits of calls that were approved with other arguments, by call id."""


class StepFold:
    """The calls of the last plan with calls."""

    def __init__(self, fold: FoldState) -> None:
        self._fold = fold
        self.reason: str | None = None
        """The reason of the request to cancel."""
        self.is_canceling = False
        self.open: dict[int, OpenCall] = {}
        """Plans, activities and child runs in progress, by the id of the event that scheduled or initiated each."""
        self.local: dict[str, OpenCall] = {}
        """Calls in progress as local activities, by call id."""
        self.asking: dict[str, tuple[ToolRequest, datetime]] = {}
        """Calls that wait for a person or an external result, by the id of the wait or of the call."""
        self.unstarted: dict[str, ToolRequest] = {}
        """Calls that wait for nothing but their turn: no worker and no child run has them yet."""
        self.kinds: dict[str, str] = {}
        """The dispatch kind of a call that waits for approval, by the id of the wait; `local` by call id for a local call."""
        self.external = ""
        """The id of the wait for external results."""
        self.supplier: dict[str, Any] = {}
        """The sender of the last external result."""
        self.spent: dict[str, Spent] = {}
        """Spending that cancelled child runs reported, by run id."""
        self.planned: dict[str, ToolRequest] = {}
        self.bounded: set[str] = set()
        """Ids of calls whose child run states bounds."""
        self._forms: dict[str, list[AwaitClarification]] = {}
        """The further forms of a tool's request for input, after the open one, by call id."""
        self._asked_by: dict[str, int] = {}
        """How often a call asked for input, by call id."""
        self._approved: dict[str, ToolRequest] = {}
        """Approved calls, by the id of the wait, which is the id of the check of the approval."""
        self._again: dict[str, int] = {}
        """Number of further approval requests for a call whose tool was changed, by call id."""
        self._begun: dict[str, datetime] = {}
        """Start of a call that needs a further approval, by call id. Its start event exists."""
        self._confirms: dict[str, AwaitConfirmation] = {}
        """The confirmations of the plan, by call id."""
        self._admitted: dict[str, ToolRequest] = {}
        """The admitted calls of the plan, by id."""
        self._plan, self._results = PlanOutcome(), dict[str, ToolResult]()
        self._child_time, self._began, self._edits = ChildTime(), timedelta(0), dict[str, CallEdit]()
        """The last one has the edits of calls that were approved with other arguments, by call id."""
        self._dispatches: dict[str, Dispatch] = {}
        """The dispatches of the admitted calls, by id."""
        self._at_work: set[str] = set()
        """Ids of the calls that a worker, a child run or a program outside may have begun to carry out."""
        self._unknown: set[str] = set()
        """Ids of the calls that an attempt may have carried out, without a later attempt that settled the outcome."""
        self._unsettled: tuple[RunState, list[ToolResult], datetime] | None = None
        """The state before the last step was settled, the step's results, and the time."""
        self._changes: list[MemoryChange] = []
        """Changes of the memory by the last step that have no event yet."""

    @property
    def so_far(self) -> StepSoFar:
        """The calls of the last plan with calls, as far as they are answered."""
        state = self._fold.state
        if self._unsettled:  # a message may have been answered since
            state = copy_with(self._unsettled[0], interim=state.interim)
        is_settled = self._unsettled is not None
        return StepSoFar(self._plan, {**self._results}, state, is_settled, {**self._edits})

    # Begin.

    def begin(self, record: HistoryRecord, plan: PlanOutcome) -> Iterator[Event]:
        """Begin a step: yield the events of calls without an activity, and open waits."""
        limits = self._fold.state.limits
        self._fold.state = self._fold.state.step_begun(plan.calls, plan.dispatches)
        admitted = self._take_plan(plan)
        self._began = self._fold.state.active.active_time(record.time)
        is_cut = self._fold.state.interrupted is not None
        outside = None if is_cut else external_wait(admitted, plan.external)
        if outside:
            yield self.open_wait(record, outside)
        for call, dispatch in admitted:
            if is_cut:
                yield from self.end_unstarted(
                    record, call, record.time, dispatch.result or self.cut_short(call)
                )
            else:
                yield from self._begin_call(record, call, dispatch)
        if not admitted:
            self._settle(record)
        for call in plan.calls[len(admitted) :]:
            yield from self.end_unstarted(record, call, record.time, not_executed(call, plan.refused, limits))

    def _take_plan(self, plan: PlanOutcome) -> list[tuple[ToolRequest, Dispatch]]:
        self._plan, self._results, self._child_time = plan, {}, ChildTime()
        self.planned = {call.tool_call_id: call for call in plan.calls}
        admitted = list(zip(plan.calls, plan.dispatches, strict=False))
        self._admitted = {call.tool_call_id: call for call, _ in admitted}
        self._dispatches = {call.tool_call_id: dispatch for call, dispatch in admitted}
        self._at_work, self._unknown = set(), set()
        self._approved, self._again, self._begun, self._edits = {}, {}, {}, {}
        self._confirms = {
            call.tool_call_id: dispatch.confirm for call, dispatch in admitted if dispatch.confirm
        }
        self.bounded = {call.tool_call_id for call, dispatch in admitted if dispatch.bounded}
        return admitted

    def resume(self, plan: PlanOutcome, progress: StepProgress) -> None:
        """Take up a step of an earlier execution, whose open calls all wait."""
        admitted = self._take_plan(plan)
        self._began, self._child_time.total = progress.began, progress.child_time
        self.external = progress.external
        for call, dispatch in admitted:
            known = progress.calls.get(call.tool_call_id)
            if known and known.result:
                self._results[call.tool_call_id] = known.result
            elif known:
                self._resume_call(call, dispatch, known)
            if dispatch.kind == "external":
                self.set_at_work(call.tool_call_id)

    def _resume_call(self, call: ToolRequest, dispatch: Dispatch, progress: CallProgress) -> None:
        call_id, wait = call.tool_call_id, self.waits.of_call(call.tool_call_id)
        results = [(at, past.result) for at, past in enumerate(progress.past) if past.result]
        for _, result in results:
            self._note_outcome(call, result)
        for past in progress.past:
            if past.decided and past.decided.edit:
                self._edits[call_id] = past.decided.edit
        call = self._as_edited(call)
        again = [at for at, result in results if result.confirm]
        if again:
            self._again[call_id], self._begun[call_id] = len(again), progress.since
        asked = [(at, result.input_required) for at, result in results if result.input_required]
        self._asked_by[call_id] = sum(at > max(again, default=-1) for at, _ in asked)
        if isinstance(wait, AwaitConfirmation):
            self.asking[wait.id] = (call, progress.since)
            self.kinds[wait.id] = dispatch.kind
            return
        self.asking[call_id] = (call, progress.since)
        if dispatch.kind == "local":
            self.kinds[call_id] = "local"
        if wait and asked and (needed := asked[-1][1]):
            answered = len(progress.past) - 1 - asked[-1][0]
            self._forms[call_id] = [input_wait(call, needed, form) for form in needed.forms[answered + 1 :]]

    def _begin_call(self, record: HistoryRecord, call: ToolRequest, dispatch: Dispatch) -> Iterator[Event]:
        if dispatch.kind == "external":
            self.set_at_work(call.tool_call_id)
            self.asking[call.tool_call_id] = (call, record.time)
            yield self._fold.event(record, ToolStartEvent, call=call)
            return
        if dispatch.confirm and self.waits.asks(dispatch.confirm):
            yield from self._ask(record, call, record.time, dispatch.confirm, dispatch.kind)
            return
        if dispatch.confirm:
            self.waits = self.waits.bound(dispatch.confirm)
        if dispatch.kind == "local":
            self.begin_local(record, call, record.time)
            yield self._fold.event(record, ToolStartEvent, call=call)
        elif dispatch.result is None:
            self.unstarted[call.tool_call_id] = call
        else:
            yield from self.end_unstarted(record, call, record.time, dispatch.result)

    def _ask(
        self, record: HistoryRecord, call: ToolRequest, since: datetime, confirm: AwaitConfirmation, kind: str
    ) -> Iterator[Event]:
        self._show(call, "waiting")
        event = self.open_wait(record, with_payload(confirm, call))
        assert event.type == "await_confirmation"
        self.asking[event.confirmation.id] = (call, since)
        self.kinds[event.confirmation.id] = kind
        yield event

    def begin_local(self, record: HistoryRecord, call: ToolRequest, since: datetime) -> None:
        self.local[call.tool_call_id] = OpenCall(call, since, is_local=True)
        self.begin_work(record.time)

    def set_at_work(self, call_id: str, *, at_work: bool = True) -> None:
        """Record whether a call may have begun."""
        if at_work:
            self._at_work.add(call_id)
        else:
            self._at_work.discard(call_id)

    def may_act(self, call_id: str) -> bool | None:
        """Return whether a call may have an effect, as its dispatch says."""
        dispatch = self._dispatches.get(call_id)
        return dispatch and dispatch.may_act

    def fail_attempt(self, call: ToolRequest, error: ToolError, detail: Any) -> ToolResult:
        return outcomes.attempt_failure_result(call, error, detail, may_act=self.may_act(call.tool_call_id))

    def begin_work(self, now: datetime) -> None:
        """Count one more plan or call in progress as active time."""
        self._fold.state = copy_with(self._fold.state, active=self._fold.state.active.begun(now))

    def end_work(self, now: datetime) -> None:
        """Count one less plan or call in progress."""
        self._fold.state = copy_with(self._fold.state, active=self._fold.state.active.ended(now))

    def begin_child(self, record: HistoryRecord, call: ToolRequest, opened: OpenCall) -> None:
        self.set_at_work(call.tool_call_id)
        self.open[record.id] = replace(opened, child_time=self._child_time.total)
        self._show(call, "running", opened.link)

    def end_child(self, opened: OpenCall, active: timedelta | None) -> None:
        """End a child run, with its active time."""
        self._child_time.count_ended(opened.child_time, active)

    def open_wait(self, record: HistoryRecord, wait: Await) -> Event:
        self.waits, opened = self.waits.opened(wait)
        if isinstance(opened, AwaitExternalTools):
            self.external = opened.id
        kind = kind_of(opened)
        return self._fold.event(record, kind.event, **{kind.field: opened})

    @property
    def waits(self) -> Waits:
        return self._fold.state.waits

    @waits.setter
    def waits(self, waits: Waits) -> None:
        self._fold.state = copy_with(self._fold.state, waits=waits)

    def _show(self, call: ToolRequest, state: str, link: RunLink | None = None) -> None:
        shown = CallStatus(tool_call_id=call.tool_call_id, name=call.name, state=state, run_link=link)
        self._fold.state = self._fold.state.with_call(shown)

    # End.

    def apply_result(self, record: HistoryRecord, opened: OpenCall, result: ToolResult) -> Iterator[Event]:
        """Apply an activity's result."""
        call, asks_people = opened.call, self._fold.state.policy.interrupts_allowed
        needed = result.input_required
        self._note_outcome(call, result)
        if needed or result.confirm:
            self.set_at_work(call.tool_call_id, at_work=False)
        if needed and self._fold.state.active.expired:
            result = self.cut_short(call)
        elif needed and asks_people and self._may_ask_again(call.tool_call_id):
            if self.is_cut:
                yield from self.answer(record, self.cut_short(call), opened.since)
                return
            asked = [input_wait(call, needed, form) for form in needed.forms]
            self.asking[call.tool_call_id] = (call, opened.since)
            self._forms[call.tool_call_id] = asked[1:]
            if opened.is_local:
                self.kinds[call.tool_call_id] = "local"
            self._show(call, "waiting")
            yield self.open_wait(record, asked[0])
            return
        elif needed and asks_people:
            result = outcomes.too_much_input(call, needed.server)
        elif needed:
            result = outcomes.no_input(call, needed)
        elif result.confirm or (is_void(result) and call.tool_call_id in self._confirms):
            self._begun.setdefault(call.tool_call_id, opened.since)
            yield from self._void_approval(record, opened, result)
            return
        if opened.external:
            yield from self._check_external_result(record, opened, result)
        else:
            yield from self.answer(record, result, opened.since)

    def _note_outcome(self, call: ToolRequest, result: ToolResult) -> None:
        # The note stays until the result of an attempt settles the outcome.
        dispatch = self._dispatches.get(call.tool_call_id)
        if not (result.input_required or result.confirm):
            self._unknown.discard(call.tool_call_id)
        elif dispatch and outcomes.says_unknown(result, dispatch):
            self._unknown.add(call.tool_call_id)

    def apply_approval_check(
        self, record: HistoryRecord, await_id: str, result: ToolResult
    ) -> Iterator[Event]:
        """If the approval is void, the call did not begin."""
        call = self._approved.get(await_id) or self._find_released_call(await_id)
        if call is None or result.error is None:
            return
        self._approved.pop(await_id, None)
        result = outcomes.attach_call(call, result, self._fold.run_id)
        opened = self.local.pop(call.tool_call_id, None)
        if opened:  # its start event exists
            self.end_work(record.time)
            self._begun.setdefault(call.tool_call_id, opened.since)
        self.unstarted.pop(call.tool_call_id, None)
        self.asking.pop(call.tool_call_id, None)
        since = self._began_before(call) or record.time
        yield from self._void_approval(record, opened or OpenCall(call, since), result)

    def _find_released_call(self, await_id: str) -> ToolRequest | None:
        # It needed no approval. It is checked before its child run starts.
        for call in self.unstarted.values():
            confirm = self._confirms.get(call.tool_call_id)
            if confirm is not None and confirm.id == await_id:
                return call
        return None

    def _void_approval(self, record: HistoryRecord, opened: OpenCall, result: ToolResult) -> Iterator[Event]:
        asked, result = result.confirm, result.model_copy(update={"confirm": None})
        call = opened.call
        first, times = self._confirms.get(call.tool_call_id), self._again.get(call.tool_call_id, 0)
        if asked is None or first is None or times >= MAX_ASKED_AGAIN:
            if first and (asked or is_void(result)):
                self.waits = self.waits.voided(first)
            yield from self.end_unstarted(record, call, opened.since, result)
        elif self._fold.state.active.expired or self.is_cut:
            yield from self.end_unstarted(record, call, opened.since, self.cut_short(call))
        else:
            unknown = call.tool_call_id in self._unknown
            yield from self._ask_again(record, opened, confirm_again(asked, first, unknown=unknown))

    def _ask_again(
        self, record: HistoryRecord, opened: OpenCall, confirm: AwaitConfirmation
    ) -> Iterator[Event]:
        call = opened.call
        self._asked_by.pop(call.tool_call_id, None)
        self._again[call.tool_call_id] = self._again.get(call.tool_call_id, 0) + 1
        kind = "local" if opened.is_local else "activity"
        if self.waits.asks(confirm):
            self.waits, note = self.waits.voided(confirm), void_reason(confirm)
            self._fold.state = self._fold.state.with_notes(note)
            yield self._fold.event(record, PlannerNoteEvent, text=note)
            yield from self._ask(record, call, opened.since, confirm, kind)
        else:
            self.waits = self.waits.bound(confirm)
            yield from self._begin_approved(record, call, kind)

    def _check_external_result(
        self, record: HistoryRecord, opened: OpenCall, result: ToolResult
    ) -> Iterator[Event]:
        # If the result does not fit, the call waits for another one.
        was_open = self.external in self.waits.open
        self.waits, is_final = self.waits.checked(self.external, opened.call.tool_call_id, result)
        if not is_final:
            self.asking[opened.call.tool_call_id] = (opened.call, opened.since)
            note = f"result refused: {result.error.message if result.error else ''}"
            self._fold.state = self._fold.state.with_notes(note)
            yield self._fold.event(record, PlannerNoteEvent, text=note)
            return
        yield from self.answer(record, result, opened.since)
        if was_open and self.external not in self.waits.open:
            digests = self.waits.result_digests(self.external)
            yield self._fold.event(
                record, AwaitAnsweredEvent, await_id=self.external, result_digests=digests, **self.supplier
            )

    def _may_ask_again(self, call_id: str) -> bool:
        self._asked_by[call_id] = self._asked_by.get(call_id, 0) + 1
        return self._asked_by[call_id] <= MAX_INPUT_ROUNDS

    def next_form(self, record: HistoryRecord, call_id: str) -> Iterator[Event]:
        """Open the next form of a call's request for input.

        After the last form the call continues.
        """
        forms = self._forms.get(call_id)
        if forms:
            yield self.open_wait(record, forms.pop(0))
            return
        known = self.asking.get(call_id)
        if known and self.kinds.get(call_id) == "local":
            del self.asking[call_id]
            self.begin_local(record, *known)
        if known:
            self._show(known[0], "running")

    def approve(
        self, record: HistoryRecord, await_id: str, call: ToolRequest, edit: CallEdit | None = None
    ) -> Iterator[Event]:
        """Begin an approved call."""
        if edit:
            self._edits[call.tool_call_id] = edit
            call = self._as_edited(call)
        self._show(call, "running")
        self._approved[await_id] = call
        yield from self._begin_approved(record, call, self.kinds.get(await_id))

    def _as_edited(self, call: ToolRequest) -> ToolRequest:
        """Return a call as its approver has edited it."""
        edit = self._edits.get(call.tool_call_id)
        return call.edited(edit.arguments) if edit else call

    def _begin_approved(self, record: HistoryRecord, call: ToolRequest, kind: str | None) -> Iterator[Event]:
        # A call that begins again has its start event already.
        began = self._began_before(call)
        if kind == "local":
            self.begin_local(record, call, began or record.time)
            if began is None:
                yield self._fold.event(record, ToolStartEvent, call=call)
        elif began is None:
            self.unstarted[call.tool_call_id] = call
        else:
            self.asking[call.tool_call_id] = (call, began)

    def _began_before(self, call: ToolRequest) -> datetime | None:
        # None for a call that has no start event yet.
        return self._begun.get(call.tool_call_id)

    def end_unstarted(
        self, record: HistoryRecord, call: ToolRequest, since: datetime, result: ToolResult
    ) -> Iterator[Event]:
        """Yield the events of a call that ends without ever running."""
        if self._began_before(call) is None:
            yield self._fold.event(record, ToolStartEvent, call=call)
        yield from self.answer(record, result, since)

    def expire(self, record: HistoryRecord, wait: Await) -> Iterator[Event]:
        kind = kind_of(wait)
        for key in kind.calls(wait):
            known = self.asking.pop(key, None)
            if not known or not kind.expired:
                continue
            call, since = known
            if key == call.tool_call_id:
                yield from self.answer(record, kind.expired(call), since)
            else:  # the call waited for approval, and never began
                yield from self.end_unstarted(record, call, since, kind.expired(call))

    def answer(self, record: HistoryRecord, result: ToolResult, since: datetime) -> Iterator[Event]:
        """Yield the events of a call's answer.

        The last answer of a step settles the run's state.
        """
        if result.tool_call_id in self._unknown:
            result = outcomes.still_unknown(result)
        run_id = self._fold.state.opening.key_run_id or self._fold.run_id
        result = outcomes.with_edit(result, self._edits.get(result.tool_call_id), run_id)
        self._settle_with(record, result)
        yield self._fold.event(record, ToolResultReceivedEvent, result=result)
        dispatch = self._dispatches.get(result.tool_call_id)
        taints = result_taint(dispatch, result) if dispatch else ""
        yield self._fold.event(
            record, ToolEndEvent, result=result, duration=record.time - since, taints=taints
        )
        yield from self._note_memory_changes(record)

    def _note_memory_changes(self, record: HistoryRecord) -> Iterator[Event]:
        changes, self._changes = self._changes, []
        for change in changes:
            if change.refused:
                yield self._fold.event(record, PlannerNoteEvent, text=change.notice)
            else:
                yield self._fold.event(
                    record, MemoryChangedEvent, patch=dict(change.patch), tool_call_id=change.tool_call_id
                )

    def _settle_with(self, record: HistoryRecord, result: ToolResult) -> None:
        if result.tool_call_id not in self._admitted or result.tool_call_id in self._results:
            return  # the call was not admitted, or its answer was known before its event
        self._fold.state = self._fold.state.with_call(call_status(result))
        self._results[result.tool_call_id] = outcomes.by_reference(result)
        self._settle(record)

    def _settle(self, record: HistoryRecord) -> None:
        if len(self._results) < len(self._admitted):
            return
        state = self._fold.state
        executed = [self._results[call_id] for call_id in self._admitted]
        beyond = self._child_time.beyond(state.active.active_time(record.time) - self._began)
        state = copy_with(state, active=state.active.added(beyond))
        self._unsettled = (state, executed, record.time)
        self._changes = apply_patches(state.memory, executed)
        safeguards = state.judge_step(self._plan.calls, executed, record.time)
        self._fold.state = state.settled(self._plan, executed, safeguards, record.time)

    def judge(self, *, is_stopped: bool, from_first: bool) -> None:
        """Judge the last step again, by the version of the rules that the run used.

        The next plan shows which version that was.

        Args:
            is_stopped: Whether a safeguard made that plan the last.
            from_first: Whether the run's code may have known only version 1 of the rules.
        """
        safeguards = self._fold.state.safeguards
        if self._unsettled and any(map(safeguards.differs_by, (1, 2, 3))):
            state, executed, now = self._unsettled
            judged = safeguards.where_stopped(is_stopped=is_stopped, from_first=from_first)
            if judged.rules != safeguards.rules:
                present, settled = self._fold.state, state.settled(self._plan, executed, judged, now)
                self._fold.state = copy_with(  # a message may have been answered since
                    settled,
                    interim=present.interim,
                    active=present.active,
                    totals=copy_with(settled.totals, usage=present.totals.usage),
                )
        self._unsettled = None

    # Cut short.

    def cut_short(self, call: ToolRequest) -> ToolResult:
        """Return the result of a call that was cancelled, or cut off by the time budget."""
        is_interrupted = self._fold.state.interrupted is not None and not self.is_canceling
        if self._fold.state.active.expired:
            result = outcomes.overtime_result(call)
        else:
            result = (
                outcomes.interruption_result(call)
                if is_interrupted
                else outcomes.cancellation_result(call, self.reason)
            )
        return self._cut_off(result)

    def _cut_off(self, result: ToolResult) -> ToolResult:
        call_id = result.tool_call_id
        dispatch = self._dispatches.get(call_id)
        begun = call_id in self._at_work | self._unknown
        return outcomes.state_effect(result, dispatch, begun=begun) if dispatch else result

    @property
    def is_cut(self) -> bool:
        """Whether the run has a request to cancel, or its turn is interrupted."""
        return self.is_canceling or self._fold.state.interrupted is not None

    def cut_waiting(self, record: HistoryRecord) -> None:
        """Give up at once everything that only waits.

        This happens when a cancellation is requested, the turn is interrupted, or the run's time is
        over. The events come with the next plan or the end, since only then the history shows that
        nothing answered those calls.
        """
        at_work = {opened.call.tool_call_id for opened in (*self.open.values(), *self.local.values())}
        for await_id in self.waits.open:
            self.waits = self.waits.closed(await_id)
        for call in self._admitted.values():
            if call.tool_call_id not in at_work:
                self._settle_with(record, self.cut_short(call))

    def give_up(self, record: HistoryRecord) -> Iterator[Event]:
        """Answer the calls that still wait for people or for their turn."""
        waiting, self.asking = self.asking, {}
        external = self.waits.open.get(self.external)
        items = external.items if isinstance(external, AwaitExternalTools) else []
        outside = {item.tool_call_id for item in items}
        for await_id in self.waits.open if _is_full(record) else ():
            self.waits = self.waits.closed(await_id)
            yield self._fold.event(record, AwaitAnsweredEvent, await_id=await_id, code="history")
        for await_id in self.waits.open if waiting else ():
            self.waits = self.waits.closed(await_id)
        for key, (call, since) in waiting.items():
            if (
                key != call.tool_call_id and self._began_before(call) is None
            ):  # it waited for its first approval
                yield self._fold.event(record, ToolStartEvent, call=call)
            is_unread = call.tool_call_id in outside and _is_full(record)
            result = outcomes.not_read(call) if is_unread else self.answer_left_open(record, call)
            yield from self.answer(record, result, since)
        for opened in self.local.values():
            yield from self.answer(record, self.answer_left_open(record, opened.call), opened.since)
        for call in self.unstarted.values():
            yield from self.end_unstarted(record, call, record.time, self.answer_left_open(record, call))
        self.local.clear()
        self.unstarted.clear()

    def answer_left_open(self, record: HistoryRecord, call: ToolRequest) -> ToolResult:
        """Return the result of a call that nothing in the history answers."""
        if _is_full(record):
            return not_executed(call, "history", Limits())
        if record.kind in ("scheduled", "run_canceled", "turn_ended"):
            return self.cut_short(call)
        ended = ToolError.new("the run ended before this call was answered", code=record.kind)
        self._at_work |= {*self.local}
        return self._cut_off(outcomes.failure_result(call, ended))


def _is_full(record: HistoryRecord) -> bool:
    """Return whether a record belongs to the last turn of a run whose history is full."""
    finalize = record.value.finalize if isinstance(record.value, PlanTask) else None
    return finalize is not None and finalize.reason == "history"
