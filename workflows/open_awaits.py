"""The open waits of a run."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from temporalio import workflow

from sojourn.contracts.awaits import Await, AwaitConfirmation, AwaitExternalTools, PlannerQuestion
from sojourn.contracts.tasks import ApproverTask, EditTask
from sojourn.contracts.tool_call import CallEdit
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import DECIDED
from sojourn.core.awaits.confirmation import Decided
from sojourn.core.awaits.deciding import NOT_APPROVER, is_judged
from sojourn.core.awaits.envelope import GIVEN_BEFORE, JUDGED, Channel, Rejection
from sojourn.core.awaits.external_tools import Supplied
from sojourn.core.awaits.kinds import Answer, Details
from sojourn.core.awaits.waits import (
    Released,
    Repeated,
    Waits,
    given_before,
    is_malformed,
    is_repeated_question,
)
from sojourn.core.run.state import MAX_NOTES
from sojourn.search_attributes import AWAITING, IDLE, PAUSED
from sojourn.telemetry.observer import Observer
from sojourn.values.frozen import copy_with
from sojourn.values.timers import LONGEST, WAITS, escalation_timer, expiry_timer, limit_duration

from .cancellation import stop_if_canceled, stop_if_run_canceled
from .clock import wait_until
from .continue_as_new import ContinueAsNew
from .current_state import CurrentState, patched
from .history_budget import HistoryBudget
from .notices import Notices
from .search_attributes import Listed
from .tool_activity import check_edit, judge_approver

_Part = tuple[str, str]
"""The id of an external wait, and of one of its calls."""


class OpenAwaits:
    """The open waits, one future each. `receive` accepts answers."""

    def __init__(self, current: CurrentState, listed: Listed, notices: Notices) -> None:
        self._current = current
        self.observer = Observer()
        self.notices = notices
        self._details = Details(workflow.info().workflow_id)
        self.listed = listed
        self.room = HistoryBudget(current)
        self._futures: dict[str, asyncio.Future[Answer]] = {}
        self._parts: dict[_Part, asyncio.Future[dict[str, Any]]] = {}
        self._checks: dict[_Part, asyncio.Future[ToolResult | None]] = {}
        self._approvals: dict[str, asyncio.Future[ToolResult | None]] = {}
        self.judging: list[str] = []
        """The waits of the decisions that a worker judges or whose edits it checks."""
        self._judged = 0
        """Number of decisions that this execution has had judged."""
        self.opened_at: dict[str, datetime] = {}
        self._reset_at: datetime | None = None
        """When the first workflow task after a reset began.

        The change of the seed tells, once that task's updates were judged. None after a reset to the run's first task.
        """
        workflow.register_random_seed_callback(partial(self._note_reset, asyncio.get_running_loop().time))
        self._left: dict[str, Await] = dict(current.state.waits.open)
        """The waits that an earlier execution left open, by id, until their call or planner takes them over."""
        self._unclaimed: dict[str, Answer] = {}
        """Answers to those, which came before."""
        self._unclaimed_parts: dict[_Part, dict[str, Any]] = {}
        self._early: list[tuple[int, str, Any, str]] = []
        self._judgements: set[asyncio.Task[None]] = set()
        """The early decisions that a worker judges now."""
        idle = IDLE if current.state.is_idle and current.state.executions else None
        self._shown: str | None = (
            PAUSED if current.state.paused else next(iter(current.state.waits.open), idle)
        )

    @property
    def waits(self) -> Waits:
        return self._current.state.waits

    @waits.setter
    def waits(self, waits: Waits) -> None:
        self._current.state = copy_with(self._current.state, waits=waits)

    @property
    def _is_paused(self) -> bool:
        return self._current.state.paused is not None

    # Wait.

    async def answer_to(
        self,
        wait: PlannerQuestion | AwaitConfirmation,
        go_on: ContinueAsNew | None = None,
    ) -> Answer | None:
        """Return the one answer to a wait, or None if it expires unanswered.

        If an earlier execution left a wait about the same call open, that one continues, with the
        time that is left of it.
        """
        stop_if_canceled()
        opened = self.find_left(wait.tool_call_id)
        if opened is None:
            self.waits, opened = self.waits.opened(wait)
            self.notices.waits(opened)
        self._left.pop(opened.id, None)
        began = self.opened_at.setdefault(opened.id, workflow.now())
        left = opened.expires_after and limit_duration(opened.expires_after)
        if left:
            left = max(began + left - workflow.now(), timedelta(0))
        future = self._futures[opened.id] = asyncio.get_running_loop().create_future()
        if opened.id in self._unclaimed:
            future.set_result(self._unclaimed.pop(opened.id))
        self.show()
        self._take_early(opened.id)
        try:
            await self._wait_for_answer(future, left, opened.id, go_on)
        except TimeoutError:
            if not (future.done() and patched("decided-in-time")):
                self._close(opened.id)
                return None
        except asyncio.CancelledError:
            # Not `finally`: a run that is only evicted from a worker's memory still waits.
            self._close(opened.id)
            self.judge(opened.id, None)
            if self._current.state.interrupted is None or wait.tool_call_id or not future.done():
                raise
            stop_if_run_canceled()
            return future.result()  # the planner's question was answered before its turn was interrupted
        self._close(opened.id)
        stop_if_canceled()
        return future.result() if future.done() else None

    def open_external(self, wait: AwaitExternalTools) -> AwaitExternalTools:
        self.waits, opened = self.waits.opened(wait)
        assert isinstance(opened, AwaitExternalTools)
        self.notices.waits(opened)
        self.opened_at[opened.id] = workflow.now()
        for item in wait.items:
            self._parts[opened.id, item.tool_call_id] = asyncio.get_running_loop().create_future()
        self.show()
        self._take_early(opened.id)
        return opened

    def take_over(self, opened: Mapping[str, datetime]) -> None:
        """Record when an earlier execution opened the waits that it left, by id."""
        self.opened_at.update(opened)

    def find_left(self, tool_call_id: str | None) -> Await | None:
        """Return the wait that an earlier execution left open about a call."""
        for wait in self._left.values():
            if not isinstance(wait, AwaitExternalTools) and wait.tool_call_id == tool_call_id:
                return wait
        return None

    def resume_external(self, await_id: str) -> AwaitExternalTools | None:
        """Continue an earlier execution's wait for external results."""
        wait = self._left.pop(await_id, None)
        if not isinstance(wait, AwaitExternalTools):
            return None
        self.opened_at.setdefault(await_id, workflow.now())
        for item in wait.items:
            part = (await_id, item.tool_call_id)
            future = self._parts[part] = asyncio.get_running_loop().create_future()
            if part in self._unclaimed_parts:
                future.set_result(self._unclaimed_parts.pop(part))
        return wait

    @property
    def is_answered(self) -> bool:
        """Whether an answer has come that its call has not taken up yet."""
        return bool(self._checks or self.judging) or any(future.done() for future in self._futures.values())

    async def result_of(
        self, wait: AwaitExternalTools, tool_call_id: str, go_on: ContinueAsNew | None = None
    ) -> dict[str, Any] | None:
        """Return the result that was sent for one call, or None if the wait expires first."""
        future = self._parts.get((wait.id, tool_call_id))
        stop_if_canceled()
        if future is None:
            return None  # a caller has started the run with a state of their own making
        left = None
        if wait.expires_after is not None:
            left = self.opened_at[wait.id] + wait.expires_after - workflow.now()
            left = min(max(left, timedelta(0)), LONGEST)
        try:
            await self._wait_for_answer(future, left, wait.id, go_on)
        except TimeoutError:
            return None
        stop_if_canceled()
        return future.result() if future.done() else None

    async def _wait_for_answer(
        self,
        future: asyncio.Future[Any],
        left: timedelta | None,
        await_id: str,
        go_on: ContinueAsNew | None = None,
    ) -> None:
        """Wait for an answer, as long as the history has room for what follows."""
        began = workflow.now()

        def stirs() -> bool:
            return future.done() or self.room.looks_full or self._may_go_on(go_on)

        while True:
            rest = None if left is None else max(began + left - workflow.now(), timedelta(0))
            escalates = self._escalates_in(await_id)
            is_first = escalates is not None and (rest is None or escalates < rest)
            purpose = escalation_timer(await_id) if is_first else expiry_timer(await_id)
            try:
                await wait_until(stirs, escalates if is_first else rest, purpose)
            except TimeoutError:
                if not is_first:
                    raise
                self._escalate(await_id)
                continue
            if future.done() or self.room.is_full:
                return
            if go_on:
                await go_on.go(future.done)
                if future.done():  # the run could not continue as new
                    return

    def _escalates_in(self, await_id: str) -> timedelta | None:
        """Return how long until a wait escalates. None if it does not, or has."""
        wait = self.waits.open.get(await_id)
        if not isinstance(wait, AwaitConfirmation) or wait.escalate_after is None or wait.escalated:
            return None
        due = self.opened_at[await_id] + limit_duration(wait.escalate_after)
        return max(due - workflow.now(), timedelta(0))

    def _escalate(self, await_id: str) -> None:
        self.waits, wait = self.waits.escalated(await_id)
        if wait is not None:
            self.notices.waits(wait, self.opened_at[await_id])
            self.show()

    def _may_go_on(self, go_on: ContinueAsNew | None) -> bool:
        return go_on is not None and self.room.is_long and go_on.may()

    def settle_part(
        self, await_id: str, tool_call_id: str, result: ToolResult, *, is_read: bool = True
    ) -> bool:
        """Apply the check of an external result, and return whether it answers its call.

        If it does not, its sender gets the reason, and the run waits for another result.
        """
        part = (await_id, tool_call_id)
        self.waits, final = self.waits.checked(await_id, tool_call_id, result)
        if not final:
            reason = result.error.message if result.error else ""
            self.note(f"result refused: {reason}")
            self._parts[part] = asyncio.get_running_loop().create_future()
        check = self._checks.pop(part, None)
        if check and not check.done():
            check.set_result(result if not (final and is_read) or is_malformed(result) else None)
        self.show()
        return final

    async def until_resumed_or_long(self) -> None:
        def stirs() -> bool:
            return not self._is_paused or self.room.is_long or self.room.looks_full

        while not stirs():
            stop_if_canceled()
            await workflow.wait_condition(stirs)

    async def while_paused(self) -> None:
        """Wait while the run is paused. Raise once a cancellation was requested."""
        while self._is_paused and not self.room.is_full:
            stop_if_canceled()  # a call that ended in spite of the request has taken it from the task: nothing would wake this wait
            await workflow.wait_condition(lambda: not self._is_paused or self.room.looks_full)
        stop_if_canceled()

    async def sleep(self, left: timedelta, go_on: ContinueAsNew | None = None) -> bool:
        """Sleep durably, as long as the history has room."""
        until = workflow.now() + left

        def stirs() -> bool:
            return self.room.is_full or self._may_go_on(go_on)

        try:
            while not self.room.is_full:
                await wait_until(stirs, left, WAITS)
                if go_on and not self.room.is_full:
                    await go_on.go(lambda: False)  # returns if the run cannot continue as new
                    left = max(until - workflow.now(), timedelta(0))
        except TimeoutError:
            return True
        return False

    def note(self, note: str) -> None:
        self._current.state = self._current.state.with_notes(note)

    # Receive.

    def find_named(self, values: Sequence[Any]) -> Await | None:
        return self.waits.find(values[0]) if values else None

    def read(self, kind: str, values: Sequence[Any], channel: Channel) -> Answer | Repeated | Rejection:
        """Read a message, and change nothing."""
        return self.waits.read(kind, values[0] if len(values) == 1 else list(values), channel)

    def is_overdue(self, await_id: str) -> bool:
        """Check whether the time of an open wait is over.

        Its timer may not have fired yet, or no worker ran when it did. A reset sends the answers anew that
        an earlier execution accepted, so those to a wait whose time was over before came in time.
        """
        wait, since = self.waits.open.get(await_id), self.opened_at.get(await_id)
        if wait is None or wait.expires_after is None or since is None:
            return False
        end = since + limit_duration(wait.expires_after)
        if _is_reset() and (self._reset_at is None or end <= self._reset_at):
            return False
        return end <= workflow.now()

    def _note_reset(self, clock: Callable[[], float], _seed: int) -> None:
        # The SDK calls this outside the workflow's event loop, where `workflow.now` raises.
        self._reset_at = datetime.fromtimestamp(clock(), UTC)

    def facts_of_repetition(self, await_id: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the sender of a repeated answer learns of it."""
        facts: dict[str, Any] = {
            "await_id": await_id,
            GIVEN_BEFORE: True,
            JUDGED: await_id not in self._approvals,
        }
        wait = self.waits.open.get(await_id)
        if isinstance(wait, AwaitConfirmation) and (given := given_before(wait, fields)):
            facts |= {"by": given.name, "left": wait.approvals_needed - len(wait.given)}
        return facts

    def receive(
        self, kind: str, values: Sequence[Any], channel: Channel, edit: CallEdit | None = None
    ) -> Answer | Repeated | Rejection:
        """Read a message, and apply it when it is an answer.

        `edit` is that of an approval with edited arguments, as it was checked.
        """
        answer = self.read(kind, values, channel)
        if isinstance(answer, Decided):
            answer = self.waits.with_edit(answer, edit)
        if not isinstance(answer, (Repeated, Rejection)):
            self._take(answer)
        return answer

    async def judge_decision(
        self, kind: str, values: Sequence[Any], channel: Channel
    ) -> CallEdit | Rejection | None:
        """Return the edit of a decision, or why the decision is refused, or None.

        A worker checks edited arguments, and the author's function judges the sender. None if the
        decision needs neither.
        """
        answer = self.read(kind, values, channel)
        wait = self.waits.open.get(answer.await_id) if isinstance(answer, Decided) else None
        if not isinstance(answer, Decided) or not isinstance(wait, AwaitConfirmation):
            return None
        judges = is_judged(wait, answer.principal, approved=answer.approved)
        if not judges and answer.arguments is None:
            return None
        if judges and answer.principal is None:
            return Rejection(f"{wait.id}: the decision does not say whose it is", NOT_APPROVER)
        agent_id, by_signal = self._current.state.opening.agent_id, channel == "signal"
        fields: dict[str, Any] = {"agent_id": agent_id, "wait": wait, "principal": answer.principal}
        fields |= {"sent": values[0], "by_signal": by_signal}
        if patched("decisions-in-order"):
            self._judged += 1
            fields["key"] = str(self._judged)
        self.judging.append(wait.id)
        try:
            if answer.arguments is not None:
                verdict = await check_edit(EditTask(**fields, judges=judges))
            else:
                why = await judge_approver(ApproverTask(**fields))
                verdict = Rejection(why, NOT_APPROVER) if why else None
        finally:
            self.judging.remove(wait.id)
        if "key" in fields and not isinstance(verdict, Rejection):
            # The run may have taken messages since that the history has after the verdict.
            workflow.upsert_memo({DECIDED: fields["key"]})
        return verdict

    async def decide_by_signal(self, kind: str, values: Sequence[Any]) -> None:
        """Take a decision by signal, once a worker has judged it if it must."""
        judged = await self.judge_decision(kind, values, "signal")
        edit = None if isinstance(judged, Rejection) else judged
        answer = judged if isinstance(judged, Rejection) else self.receive(kind, values, "signal", edit)
        if isinstance(answer, Rejection):
            self.refuse_signal(kind, values, answer)

    def refuse_signal(self, kind: str, values: Sequence[Any], refused: Rejection) -> None:
        """Note a refused signal.

        A signal in the very workflow task that opens the wait may become an answer yet.
        """
        note = f"answer refused: {refused.reason}"
        self.note(note)
        if refused.kind == "AwaitNotOpen":
            now = workflow.info().get_current_history_length()
            early = [
                *(early_signal for early_signal in self._early if early_signal[0] == now),
                (now, kind, values, note),
            ]
            self._early = early[:MAX_NOTES]

    def decide(self, decision: Decided) -> None:
        """Decide on an open call for the run itself."""
        self._take(decision)

    def release(self, released: Released) -> None:
        self.waits, settled = self.waits.released(copy_with(released, at=workflow.now()))
        for decision in settled:
            self._resolve(decision)

    async def check_results(self, supplied: Supplied) -> list[str]:
        """Return why results do not fit their tools, once they are checked."""
        waiting = [
            (call_id, check)
            for call_id in supplied.results
            if (check := self._checks.get((supplied.await_id, call_id)))
        ]
        wrong: list[str] = []
        for call_id, check in waiting:
            result = await check
            if result and result.error:
                answered = (
                    "; the call is answered with this"
                    if self.waits.is_answered(supplied.await_id, call_id)
                    else ""
                )
                wrong.append(f"{call_id}: {result.error.message}{answered}")
        return wrong

    async def void_approval(self, await_id: str) -> tuple[str, AwaitConfirmation | None] | None:
        """Return why an approval is void, and the wait for a new decision.

        This waits until the approval is checked. None if the approval holds.
        """
        check = self._approvals.get(await_id)
        result = await asyncio.shield(check) if check else None
        if result is None or result.error is None:
            return None
        again = next(
            (wait for wait in self.waits.open.values() if is_repeated_question(wait, await_id)), None
        )
        return result.error.message, again

    def abandon(self) -> None:
        """Give up all waits, which the state has closed.

        Their calls are cancelled, so nothing waits for a check any more.
        """
        for check in (*self._checks.values(), *self._approvals.values()):
            if not check.done():
                check.set_result(None)
        self.opened_at.clear()
        for grown in (
            self._parts,
            self._checks,
            self._approvals,
            self._left,
            self._unclaimed,
            self._unclaimed_parts,
        ):
            grown.clear()
        self.show()

    def is_to_be_checked(self, await_id: str) -> bool:
        """Check whether an approval is checked before its call begins.

        Earlier versions let the call's worker alone check it.
        """
        return await_id in self._approvals

    def judge(self, await_id: str, void: ToolResult | None) -> None:
        """Report to the sender of an approval whether it holds.

        `void` is the result of a call that the approval does not let run.
        """
        check = self._approvals.pop(await_id, None)
        if check and not check.done():
            check.set_result(void)

    def _take(self, answer: Answer) -> None:
        if isinstance(answer, Decided):
            answer = replace(answer, at=workflow.now())
        self._current.state, settled = self._current.state.settled_by(answer)
        for each in settled:
            self._resolve(each)
        if not settled:
            self.show()

    def _resolve(self, answer: Answer) -> None:
        if not isinstance(answer, Supplied):
            future = self._futures.get(answer.await_id)
            is_left = answer.await_id in self._left
            if is_left:
                self._unclaimed[answer.await_id] = answer
            if is_left or (future and not future.done()):
                if future:
                    future.set_result(answer)
                if isinstance(answer, Decided) and answer.approved and patched("approval-checked"):
                    self._approvals[answer.await_id] = asyncio.get_running_loop().create_future()
            return
        for call_id, result in answer.results.items():
            part = (answer.await_id, call_id)
            future = self._parts.get(part)
            if answer.await_id in self._left:
                self._unclaimed_parts[part] = result
                self._checks[part] = asyncio.get_running_loop().create_future()
            elif future and not future.done():
                self._checks[part] = asyncio.get_running_loop().create_future()
                future.set_result(result)

    def _take_early(self, await_id: str) -> None:
        # The history, and so the run's events, has the question as soon as the plan is recorded. But Temporal
        # delivers a workflow task's signals before its results, even if they came later.
        now = workflow.info().get_current_history_length()
        remaining: list[tuple[int, str, Any, str]] = []
        for early in self._early:
            length, kind, values, note = early
            if length != now:
                continue
            answer = self.read(kind, values, "signal")
            if isinstance(answer, (Repeated, Rejection)) or answer.await_id != await_id:
                remaining.append(early)
                continue
            self._current.state = self._current.state.without_note(note)
            if self._is_judged(answer):
                judgement = asyncio.create_task(self.decide_by_signal(kind, values))
                self._judgements.add(judgement)
                judgement.add_done_callback(self._judgements.discard)
            else:
                self._take(answer)
        self._early = remaining

    def _is_judged(self, answer: Answer) -> bool:
        """Check whether a worker judges an early decision before it counts."""
        if not isinstance(answer, Decided):
            return False
        wait = self.waits.open.get(answer.await_id)
        return answer.arguments is not None or (
            isinstance(wait, AwaitConfirmation)
            and is_judged(wait, answer.principal, approved=answer.approved)
            and patched("early-decisions-judged")
        )

    # Show.

    def _close(self, await_id: str) -> None:
        self.waits = self.waits.closed(await_id)
        self._futures.pop(await_id, None)
        self.opened_at.pop(await_id, None)
        self.show()

    def show(self) -> None:
        """Show the run's open waits in Temporal's UI, with how to answer."""
        self.observer.waits(self.waits.open)
        paused = self._current.state.paused
        workflow.set_current_details(self._details.of(self.waits.open, paused.reason if paused else None))
        idle = IDLE if self._current.state.is_idle else None
        wanted = PAUSED if paused else next(iter(self.waits.open), idle)
        if wanted == self._shown or not self.listed.is_listed:
            return
        self._shown = wanted
        if not self.listed.may_set():
            return
        change = AWAITING.value_set(wanted) if wanted else AWAITING.value_unset()
        workflow.upsert_search_attributes([change])  # pyright: ignore[reportUnknownMemberType]


def _is_reset() -> bool:
    """Check whether a reset began this execution.

    Only its first run id tells, so an execution that continues another one seems to be none.
    """
    info = workflow.info()
    return info.continued_run_id is None and info.run_id != info.first_execution_run_id
