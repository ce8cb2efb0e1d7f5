"""Fold messages from outside and fired timers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sojourn.contracts.awaits import Await, AwaitConfirmation, AwaitExternalTools
from sojourn.contracts.event import (
    ApprovalEscalatedEvent,
    ApprovalGivenEvent,
    AwaitAnsweredEvent,
    Event,
    MessageReceivedEvent,
    MessageWithdrawnEvent,
    PlannerNoteEvent,
    RunPausedEvent,
    RunResumedEvent,
)
from sojourn.contracts.ids import place_in
from sojourn.contracts.tasks import ApproverTask, ApproverVerdict, EditTask, EditVerdict, PlanOutcome
from sojourn.contracts.tool_call import CallEdit
from sojourn.contracts.wire_names import (
    BRANCH,
    CLOSE,
    INTERRUPT,
    PAUSE,
    PROVIDE_CONFIRMATION,
    REMEMBER,
    RESUME,
    SEND,
    SET_ASIDE,
    STOP_ASKING,
    WITHDRAW,
)
from sojourn.core.awaits.confirmation import SOURCES, UNCHECKED, Decided, deny_by_decision, refusal_of_edit
from sojourn.core.awaits.deciding import UNASKED, is_judged
from sojourn.core.awaits.envelope import Rejection
from sojourn.core.awaits.external_tools import Supplied
from sojourn.core.awaits.kinds import KINDS_BY_NAME, Answer, kind_of
from sojourn.core.awaits.steering import (
    PauseRequest,
    ResumeRequest,
    idle_fault,
    read_pause,
    read_release,
    read_resume,
    refuse_ignored_fields,
)
from sojourn.core.awaits.waits import Released, Repeated
from sojourn.core.history.fold_step import StepFold
from sojourn.core.history.record import FoldState, HistoryRecord
from sojourn.core.run.branches import branch_fault, drop_branch, read_branch, request_branch
from sojourn.core.run.inbox import (
    NO_CONVERSATION,
    Closing,
    Interruption,
    SentMessage,
    read_close,
    read_interrupt,
    read_remember,
    read_send,
    read_withdraw,
)
from sojourn.core.run.set_aside import read_set_aside
from sojourn.core.run.state import RunState
from sojourn.core.run.turns import (
    close_question,
    deny_by_message,
    interrupt_turn,
    receive_message,
    withdraw_message,
)
from sojourn.values.frozen import copy_with
from sojourn.values.timers import ESCALATES, EXPIRES

__all__ = ["WaitFold"]

MAX_NAMED = 500
"""Longest list of names in a note, in characters."""


class WaitFold:
    """The messages from outside."""

    def __init__(self, fold: FoldState, step: StepFold) -> None:
        self._fold = fold
        self._step = step
        self.asked = PlanOutcome()
        """The plan of the planner's open question."""
        self.judging: dict[int, ApproverTask | EditTask] = {}
        """The decisions that a worker judges or whose edits it checks, by the event that asks it."""
        self._sent: list[HistoryRecord] = []
        """These decisions, as they were sent."""
        self._verdicts: dict[str, tuple[ApproverTask | EditTask, Any]] = {}
        """The verdicts on decisions that the run takes later in the history, by the task's key."""
        self._late: dict[str, HistoryRecord] = {}
        """The ends of the time of waits that such a decision comes before, by that key."""
        self.is_branch_read = False
        """Whether the point was read from which the conversation is to go on in the next execution."""

    def ask(self, record: HistoryRecord, plan: PlanOutcome) -> Iterator[Event]:
        assert plan.await_
        self.asked, self._fold.state = plan, self._fold.state.waiting()
        if self._fold.state.interrupted is not None:
            self._fold.state = close_question(self._fold.state, plan)
            return
        yield self._step.open_wait(record, plan.await_)

    def still_open(self, record: HistoryRecord) -> Iterator[Event]:
        """Tell of waits that a run begins with."""
        for wait in self._step.waits.open.values():
            kind = kind_of(wait)
            yield self._fold.event(record, kind.event, **{kind.field: wait})

    def read_message(self, record: HistoryRecord) -> Iterator[Event]:
        """Read an update or signal."""
        if record.name in KINDS_BY_NAME:
            yield from self._take_answer(record)
        elif record.name in (PAUSE, RESUME, STOP_ASKING):
            yield from self._steer(record)
        elif record.name == SEND:
            yield from self._take_message(record)
        elif record.name == REMEMBER:
            remembered = read_remember(record.value)
            self._remember(record, "" if isinstance(remembered, Rejection) else remembered)
        elif record.name == BRANCH and record.judged:
            yield from self._branch(record)
        elif record.name == INTERRUPT:
            yield from self._interrupt(record)
        elif record.name == CLOSE:
            yield from self._close(record)
        elif record.name == SET_ASIDE and record.judged:
            yield from self._set_aside(record)
        elif record.name == WITHDRAW and record.judged:
            yield from self._withdraw(record)

    # Branches of a conversation.

    def _branch(self, record: HistoryRecord) -> Iterator[Event]:
        yield from self.stay(record)
        state = self._fold.state
        asked = read_branch(record.value, state)
        if isinstance(asked, Rejection):
            return
        after, sent = request_branch(state, asked, place_in(state.executions, record.id))
        self._go_on_with(record, after)
        for waiting in state.inbox.waiting:
            if sent is None or waiting.message_id != sent.message_id:
                yield self._fold.event(record, MessageWithdrawnEvent, message_id=waiting.message_id)
        if sent is not None:
            yield self.received_event(record, sent)

    def drop_branch(self, record: HistoryRecord) -> Iterator[Event]:
        """Stay in a branch, since the point to go on from could not be read."""
        self.is_branch_read, self._fold.state = False, drop_branch(self._fold.state)
        yield self._note(record, branch_fault(record.error))

    def stay(self, record: HistoryRecord) -> Iterator[Event]:
        """Stay in a branch if the run has read a point and begun no execution since.

        Only the run knows that it cannot use the point. Whatever it does next in this execution tells.
        """
        if self.is_branch_read:
            yield from self.drop_branch(replace(record, error=None))

    # Messages to a conversation.

    def _take_message(self, record: HistoryRecord) -> Iterator[Event]:
        state = self._fold.state
        sent = read_send(record.value, state.inbox, state.opening.tenant)
        if isinstance(sent, SentMessage) and state.inbox.where(sent.message_id) is not None:
            return
        if not state.opening.conversation:
            yield self._note(record, f"{SEND} refused: {NO_CONVERSATION}")
            return
        if state.closing is not None:
            yield self._note(record, f"{SEND} refused: the conversation is closed")
            return
        if isinstance(sent, Rejection):
            yield self._note(record, f"{SEND} refused: {sent.reason}")
            return
        after = place_in(state.executions, record.id)
        received, sent = receive_message(state, sent, after)
        self._go_on_with(record, received)
        yield self.received_event(record, sent)

    def deny_approvals(self, record: HistoryRecord) -> Iterator[Event]:
        """Deny the approvals that a message has denied."""
        self._fold.state, denials = deny_by_message(self._fold.state, record.key, record.await_ids)
        for denial in denials:
            self._fold.state, _ = self._fold.state.settled_by(denial)
            yield from self._settle(record, denial)

    def _remember(self, record: HistoryRecord, message_id: str) -> None:
        """Know a message of a conversation that was an answer."""
        state = self._fold.state
        if state.opening.conversation:
            after = place_in(state.executions, record.id)
            self._fold.state = copy_with(state, inbox=state.inbox.answered(message_id, after))

    def received_event(self, record: HistoryRecord, sent: SentMessage) -> Event:
        """Return the event of a message that a conversation accepted."""
        return self._fold.event(
            record,
            MessageReceivedEvent,
            message_id=sent.message_id,
            message=sent.message,
            mode=sent.mode,
            by=sent.by,
            identity=record.identity or None,
            principal=sent.principal,
        )

    def _withdraw(self, record: HistoryRecord) -> Iterator[Event]:
        request, state = read_withdraw(record.value), self._fold.state
        if isinstance(request, Rejection):
            return
        self._fold.state = withdraw_message(state, request.message_id)
        if self._fold.state is not state:
            who = {"by": request.by, "identity": record.identity or None}
            yield self._fold.event(record, MessageWithdrawnEvent, message_id=request.message_id, **who)

    def _interrupt(self, record: HistoryRecord) -> Iterator[Event]:
        state, message = self._fold.state, read_interrupt(record.value)
        if isinstance(message, Rejection) or not state.opening.conversation:
            why = message.reason if isinstance(message, Rejection) else "the run is no conversation"
            yield self._note(record, f"{INTERRUPT} refused: {why}")
            return
        after = interrupt_turn(state, message.reason, message.turn_id)
        if after is state:
            return
        self._go_on_with(record, after)
        yield self._steering_note(record, "interrupted", message)

    def _go_on_with(self, record: HistoryRecord, after: RunState) -> None:
        before, self._fold.state = self._fold.state, after
        if before.interrupted is not None or after.interrupted is None:
            return
        if before.phase == "waiting" and before.waits.of_call(None) is not None:
            self._fold.state = close_question(after, self.asked)
        self._step.cut_waiting(record)

    def _close(self, record: HistoryRecord) -> Iterator[Event]:
        state = self._fold.state
        message = read_close(record.value)
        if isinstance(message, Rejection) or not state.opening.conversation or state.closing is not None:
            why = message.reason if isinstance(message, Rejection) else "the conversation is not open"
            yield self._note(record, f"{CLOSE} refused: {why}")
            return
        self._fold.state = copy_with(state, closing=message.reason)
        yield self._steering_note(record, "closed", message)

    def _steering_note(self, record: HistoryRecord, done: str, message: Interruption | Closing) -> Event:
        text = f"{done}: {message.reason}" if message.reason else done
        return self._fold.event(
            record, PlannerNoteEvent, text=text, by=message.by, identity=record.identity or None
        )

    # Answers.

    def take_verdict(self, record: HistoryRecord) -> Iterator[Event]:
        """Take a decision once a worker has judged its sender and its edit, or refuse it."""
        task = self.judging.pop(record.of, None)
        if task is None:
            return
        if task.key and _refusal_in(task, record.value) is None:
            self._verdicts[task.key] = (task, record.value)
            return
        yield from self._take_judged(record, task, record.value)

    def take_decision(self, record: HistoryRecord) -> Iterator[Event]:
        """Take a decision where the run took it: it may have read other messages first."""
        if record.key in self._verdicts:
            yield from self._take_judged(record, *self._verdicts.pop(record.key))
        if late := self._late.pop(record.key, None):
            yield from self.expire(replace(late, id=record.id))

    def _take_judged(
        self, record: HistoryRecord, task: ApproverTask | EditTask, verdict: Any
    ) -> Iterator[Event]:
        of = next((each for each in self._sent if list(each.value)[:1] == [task.sent]), None)
        if of is not None:
            self._sent.remove(of)
        sent = replace(
            of or record, id=record.id, time=record.time, name=PROVIDE_CONFIRMATION, value=[task.sent]
        )
        sent = replace(sent, judged=not task.by_signal)
        refused = _refusal_in(task, verdict)
        if refused is None:
            edit = verdict.edit if isinstance(verdict, EditVerdict) else None
            yield from self._take_answer(sent, was_judged=True, edit=edit)
        elif task.by_signal:
            yield self._note(record, f"answer refused: {refused.reason}")

    def _take_answer(
        self, record: HistoryRecord, *, was_judged: bool = False, edit: CallEdit | None = None
    ) -> Iterator[Event]:
        values, waits = record.value, self._step.waits
        channel = "accepted" if record.judged else "signal"
        answer = waits.read(record.name, values[0] if len(values) == 1 else values, channel)
        if isinstance(answer, Decided):
            # Before it is judged, a decision has no edit yet.
            answer = waits.with_edit(answer, edit) if was_judged else replace(answer, edit=edit)
        if isinstance(answer, Rejection):
            if not (was_judged and record.judged):  # a refused update leaves no note
                yield self._note(record, f"answer refused: {answer.reason}")
            return
        if isinstance(answer, Repeated):
            self._remember(record, record.message_id)
            return
        question = waits.open.get(answer.await_id)
        if (
            not was_judged
            and isinstance(question, AwaitConfirmation)
            and isinstance(answer, Decided)
            and (
                answer.arguments is not None
                or is_judged(question, answer.principal, approved=answer.approved)
            )
        ):
            self._sent.append(record)
            return
        self._remember(record, record.message_id)
        self._fold.state, settled = self._fold.state.settled_by(answer)
        for one_answer in settled:
            yield from self._settle(record, one_answer, question)
        if isinstance(answer, Decided) and not settled:
            yield self._count_approval(record, answer)
        yield from self._continue_after(record, question, answer)

    def _continue_after(
        self, record: HistoryRecord, wait: Await | None, answer: Answer | None
    ) -> Iterator[Event]:
        """Continue the planner, or the call that asks, after a wait."""
        match wait:
            case None | AwaitConfirmation() | AwaitExternalTools():
                pass
            case _ if wait.tool_call_id is None:
                self._fold.state = self._fold.state.answered(self.asked, answer)
            case _:
                yield from self._step.next_form(record, wait.tool_call_id)

    def _settle(self, record: HistoryRecord, answer: Answer, wait: Await | None = None) -> Iterator[Event]:
        fields: dict[str, Any] = {
            "by": answer.by,
            "identity": record.identity or None,
            "message_id": record.message_id or None,
        }
        if answer.principal:
            fields |= {"principal": answer.principal}
        if isinstance(answer, Supplied):
            self._step.supplier = fields  # the event follows once the results are checked
            return
        fields |= {"text": answer.text}
        if answer.code:
            fields |= {"code": answer.code}
        approved = answer.approved if isinstance(answer, Decided) else None
        if isinstance(answer, Decided) and answer.edit and answer.arguments is not None:
            fields |= {"edited_arguments": answer.edit.arguments}
        if isinstance(answer, Decided) and answer.scope == SOURCES and isinstance(wait, AwaitConfirmation):
            fields |= {"lifted": wait.taint.count if wait.taint else 0}
        yield self._fold.event(
            record, AwaitAnsweredEvent, await_id=answer.await_id, approved=approved, **fields
        )
        if not isinstance(answer, Decided):
            return
        known = self._step.asking.pop(answer.await_id, None)
        if known and answer.approved:
            yield from self._step.approve(record, answer.await_id, known[0], answer.edit)
        elif known:
            denied = deny_by_decision(known[0], answer)
            yield from self._step.end_unstarted(record, *known, denied)

    def _count_approval(self, record: HistoryRecord, answer: Decided) -> Event:
        """Return the event of one of several approvals."""
        return self._fold.event(
            record,
            ApprovalGivenEvent,
            await_id=answer.await_id,
            confirmation=self._step.waits.open[answer.await_id],
            edited_arguments=answer.edit and answer.edit.arguments,
            text=answer.text,
            by=answer.by,
            identity=record.identity or None,
            message_id=record.message_id or None,
            principal=answer.principal,
        )

    def expire(self, record: HistoryRecord) -> Iterator[Event]:
        await_id = record.name.removeprefix(EXPIRES)
        wait = self._step.waits.open.get(await_id)
        if wait is None:
            return
        decided = next((key for key, (task, _) in self._verdicts.items() if task.wait.id == await_id), None)
        if decided is not None:
            self._late[decided] = record
            return
        self._step.waits = self._step.waits.closed(await_id)
        yield self._fold.event(record, AwaitAnsweredEvent, await_id=await_id, code="expired")
        yield from self._step.expire(record, wait)
        yield from self._continue_after(record, wait, None)

    def escalate(self, record: HistoryRecord) -> Iterator[Event]:
        """Announce a call that has waited too long for a decision."""
        await_id = record.name.removeprefix(ESCALATES)
        self._step.waits, wait = self._step.waits.escalated(await_id)
        if wait is not None:
            yield self._fold.event(record, ApprovalEscalatedEvent, await_id=await_id, confirmation=wait)

    # Steering.

    def _steer(self, record: HistoryRecord) -> Iterator[Event]:
        values, name = record.value, record.name
        state = self._fold.state
        message = (
            read_pause(values)
            if name == PAUSE
            else read_release(values)
            if name == STOP_ASKING
            else read_resume(values, is_paused=state.paused is not None, tenant=state.opening.tenant)
        )
        if name == RESUME and state.is_idle and not isinstance(message, (PauseRequest, Released)):
            message = idle_fault(message)
        if isinstance(message, Rejection):
            yield self._note(record, f"{name} refused: {message.reason}")
            return
        identity = record.identity or None
        if rest := refuse_ignored_fields(name, values):
            yield self._note(record, f"left out: {rest.reason}", identity=identity)
        if isinstance(message, Released):
            yield from self._release(record, message)
            return
        state, is_applied = self._fold.state.steered(message, record.time)
        if is_applied:
            yield self._steering_event(record, message)
        self._fold.state = state

    def _steering_event(self, record: HistoryRecord, message: PauseRequest | ResumeRequest) -> Event:
        by = {"by": message.by, "identity": record.identity or None}
        if isinstance(message, PauseRequest):
            return self._fold.event(record, RunPausedEvent, text=message.reason, **by)
        return self._fold.event(
            record, RunResumedEvent, text=message.note, messages=list(message.messages), **by
        )

    def _set_aside(self, record: HistoryRecord) -> Iterator[Event]:
        request, state = read_set_aside(record.value), self._fold.state
        if isinstance(request, Rejection):
            return
        self._fold.state = state.setting_aside(request)
        if self._fold.state is not state:
            who = {"by": request.by, "identity": record.identity or None}
            yield self._fold.event(record, PlannerNoteEvent, text=request.note, **who)

    def _release(self, record: HistoryRecord, release: Released) -> Iterator[Event]:
        named = ", ".join([*release.tools, *release.tags])[:MAX_NAMED]
        yield self._fold.event(
            record,
            PlannerNoteEvent,
            text=f"{named}: approved for the rest of the run",
            by=release.by,
            identity=record.identity or None,
        )
        self._step.waits, settled = self._step.waits.released(release)
        for decision in settled:
            yield from self._settle(record, decision)

    def _note(self, record: HistoryRecord, note: str, **fields: Any) -> Event:
        self._fold.state = self._fold.state.with_notes(note)
        return self._fold.event(record, PlannerNoteEvent, text=note, **fields)


def _refusal_in(task: ApproverTask | EditTask, verdict: Any) -> Rejection | None:
    """Return why a worker's verdict refuses a decision, or None if it allows it."""
    match task, verdict:
        case EditTask(), EditVerdict():
            return refusal_of_edit(verdict)
        case EditTask(), _:
            return Rejection(UNCHECKED)
        case ApproverTask(), ApproverVerdict():
            return None if verdict.allowed else Rejection(verdict.why)
        case _:
            return Rejection(UNASKED.format(task.wait.approver_check))
