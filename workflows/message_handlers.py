"""The updates and signals with which people and systems reach a run.

Each message has an update, which returns the reason when it is refused and then leaves no trace,
and a signal of the same name for Temporal's CLI and UI, whose refusal becomes a note. No message
can harm a run.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.workflow import HandlerUnfinishedPolicy

from sojourn.contracts.awaits import Await
from sojourn.contracts.ids import place_in
from sojourn.contracts.message import Accepted
from sojourn.contracts.tool_call import CallEdit
from sojourn.contracts.wire_names import (
    ADMIT,
    BRANCH,
    CHILD_SPENT,
    CLOSE,
    DENIED,
    INTERRUPT,
    PAUSE,
    PROVIDE_CLARIFICATION,
    PROVIDE_CONFIRMATION,
    PROVIDE_TOOL_RESULTS,
    REMEMBER,
    RESUME,
    SEND,
    SET_ASIDE,
    STOP_ASKING,
    WITHDRAW,
)
from sojourn.core.awaits.confirmation import VOID
from sojourn.core.awaits.envelope import NOT_VISIBLE, ONCE, Rejection, message_id_of
from sojourn.core.awaits.external_tools import Supplied
from sojourn.core.awaits.kinds import facts_of
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
from sojourn.core.run.branches import Branching, busy_fault, read_branch, request_branch
from sojourn.core.run.inbox import (
    NO_CONVERSATION,
    Closing,
    Inbox,
    Interruption,
    SentMessage,
    Withdrawal,
    read_close,
    read_interrupt,
    read_remember,
    read_send,
    read_withdraw,
)
from sojourn.core.run.set_aside import SetAsideRequest, read_set_aside
from sojourn.core.run.totals import read_child_spent
from sojourn.core.run.turns import (
    deny_by_message,
    interrupt_turn,
    is_in_turn,
    receive_message,
    withdraw_message,
)
from sojourn.values.frozen import copy_with
from sojourn.values.text import echo

from .children import Children
from .conversation import Conversation
from .current_state import CurrentState, patched
from .open_awaits import OpenAwaits
from .undecodable import accept_values, require_decoded

_Steering = PauseRequest | ResumeRequest | Released | Rejection

_NO_CONVERSATION = Rejection(NO_CONVERSATION)

_NO_ROOM = Rejection(
    "the history has no room for it beside the calls that are under way; send it again once they have ended",
    "SessionBusy",
)

_HIDDEN = Rejection("its sender may not see the run", NOT_VISIBLE)


def _message_id() -> str:
    # Empty if its sender gave none.
    update = workflow.current_update_info()
    return message_id_of(update.id) if update else ""


class MessageHandlers(ABC):
    current: CurrentState
    awaits: OpenAwaits
    children: Children
    conversation: Conversation
    _signals: int = 0
    """Number of signals received, of the names below."""

    @abstractmethod
    def steer(self, message: PauseRequest | ResumeRequest | Released) -> None:
        """Apply an operator's request."""

    @property
    @abstractmethod
    def transcript_length(self) -> int:
        """Number of messages that a planner has received, or made."""

    # Answers.

    @workflow.update(name=PROVIDE_CLARIFICATION, description="Answer a question.")
    async def answer_by_update(self, *values: Any) -> str:
        return await self._take_answer(PROVIDE_CLARIFICATION, values)

    @answer_by_update.validator
    def _check_answer(self, *values: Any) -> None:
        self._check_sent(PROVIDE_CLARIFICATION, values)

    @workflow.signal(name=PROVIDE_CLARIFICATION, description="Answer a question.")
    async def answer_by_signal(self, *values: Any) -> None:
        self._take_signal(PROVIDE_CLARIFICATION, values)

    @workflow.update(
        name=PROVIDE_CONFIRMATION,
        description="Approve or deny a call.",
        unfinished_policy=HandlerUnfinishedPolicy.ABANDON,
    )
    async def decide_by_update(self, *values: Any) -> str:
        """Accept a decision that the validator has accepted, and return the await's id.

        If an approval is void, report that to its sender.
        """
        return await self._take_answer(PROVIDE_CONFIRMATION, values)

    @decide_by_update.validator
    def _check_decision(self, *values: Any) -> None:
        self._check_sent(PROVIDE_CONFIRMATION, values)

    @workflow.signal(
        name=PROVIDE_CONFIRMATION,
        description="Approve or deny a call.",
        unfinished_policy=HandlerUnfinishedPolicy.ABANDON,
    )
    async def decide_by_signal(self, *values: Any) -> None:
        received = self._receive(values)
        if isinstance(received, Rejection):
            self.awaits.refuse_signal(PROVIDE_CONFIRMATION, values, received)
        else:
            await self.awaits.decide_by_signal(PROVIDE_CONFIRMATION, received)

    @workflow.update(
        name=PROVIDE_TOOL_RESULTS,
        description="Send results of calls that are executed outside.",
        unfinished_policy=HandlerUnfinishedPolicy.ABANDON,
    )
    async def supply_by_update(self, *values: Any) -> str:
        """Accept results, and return the await's id.

        Report results that do not fit their tools.
        """
        return await self._take_answer(PROVIDE_TOOL_RESULTS, values)

    @supply_by_update.validator
    def _check_results(self, *values: Any) -> None:
        self._check_sent(PROVIDE_TOOL_RESULTS, values)

    @workflow.signal(
        name=PROVIDE_TOOL_RESULTS, description="Send results of calls that are executed outside."
    )
    async def supply_by_signal(self, *values: Any) -> None:
        self._take_signal(PROVIDE_TOOL_RESULTS, values)

    # Steering.

    @workflow.update(name=PAUSE, description="Start nothing new until the run is resumed.")
    async def pause_by_update(self, *values: Any) -> None:
        self._steer(read_pause(self._decode(values)))

    @pause_by_update.validator
    def _check_pause(self, *values: Any) -> None:
        self._check(refuse_ignored_fields(PAUSE, values) or read_pause(values))

    @workflow.signal(name=PAUSE, description="Start nothing new until the run is resumed.")
    async def pause_by_signal(self, *values: Any) -> None:
        self._steer_by_signal(PAUSE, values, read_pause)

    @workflow.update(name=RESUME, description="Go on after a pause.")
    async def resume_by_update(self, *values: Any) -> None:
        """Resume the run. Messages begin a new user turn."""
        self._steer(self._resume(self._decode(values)))

    @resume_by_update.validator
    def _check_resume(self, *values: Any) -> None:
        message = self._resume(values)
        if isinstance(message, ResumeRequest) and not self.current.state.admits(message.principal):
            self._check(_HIDDEN)
        self._check(refuse_ignored_fields(RESUME, values) or message)
        self._check_room(values)

    @workflow.signal(name=RESUME, description="Go on after a pause.")
    async def resume_by_signal(self, *values: Any) -> None:
        self._steer_by_signal(RESUME, values, self._resume)

    @workflow.update(name=STOP_ASKING, description="Approve these tools for the rest of the run.")
    async def release_by_update(self, *values: Any) -> None:
        self._steer(read_release(self._decode(values)))

    @release_by_update.validator
    def _check_release(self, *values: Any) -> None:
        self._check(refuse_ignored_fields(STOP_ASKING, values) or read_release(values))

    @workflow.signal(name=STOP_ASKING, description="Approve these tools for the rest of the run.")
    async def release_by_signal(self, *values: Any) -> None:
        self._steer_by_signal(STOP_ASKING, values, read_release)

    @workflow.update(
        name=SET_ASIDE, description="Leave a message or a result out of what planners read from now on."
    )
    async def set_aside_by_update(self, *values: Any) -> bool:
        """Set something aside that the validator has found.

        Return whether it was not set aside before.
        """
        request = read_set_aside(self._decode(values))
        self._check(request)
        assert isinstance(request, SetAsideRequest)
        before = self.current.state
        self.current.state = before.setting_aside(request)
        return self.current.state is not before

    @set_aside_by_update.validator
    def _check_set_aside(self, *values: Any) -> None:
        request = read_set_aside(values)
        self._check(request)
        assert isinstance(request, SetAsideRequest)
        if fault := self.current.state.set_aside_fault(request, self.transcript_length):
            self._check(Rejection(fault))

    # Messages to a conversation.

    @workflow.update(name=SEND, description="Send a message to a conversation.")
    async def send_by_update(self, *values: Any) -> Accepted:
        """Accept a message that the validator has judged.

        A message that was accepted before changes nothing.
        """
        return self._accept(self._read_send(self._decode(values)))

    @send_by_update.validator
    def _check_send(self, *values: Any) -> None:
        state = self.current.state
        # This check comes first, whatever the inbox says: two people may start one conversation at the same moment, and
        # a person who may not see it must not learn of it.
        sent = read_send(values, Inbox(), state.opening.tenant)
        if isinstance(sent, SentMessage) and not sent.admits and not state.admits(sent.principal):
            self._check(_HIDDEN)
        sent = self._read_send(values)
        self._check(sent)
        if isinstance(sent, SentMessage) and not state.inbox.where(sent.message_id):
            self._check_room(values)

    @workflow.signal(name=SEND, description="Send a message to a conversation.")
    async def send_by_signal(self, *values: Any) -> None:
        received = self._receive(values)
        sent = received if isinstance(received, Rejection) else self._read_send(received)
        if isinstance(sent, Rejection):
            self.awaits.note(f"{SEND} refused: {sent.reason}")
        else:
            self._accept(sent)

    @workflow.update(name=WITHDRAW, description="Take back a message that no turn has taken.")
    async def withdraw_by_update(self, *values: Any) -> bool:
        """Withdraw a message that the validator has judged.

        Return whether it was not withdrawn before. There is no signal: it would be recorded before the
        run can judge it, so that the history could not say whether the message or its turn came first.
        """
        request = self._read_withdraw(self._decode(values))
        self._check(request)
        assert isinstance(request, Withdrawal)
        before = self.current.state
        self.current.state = withdraw_message(before, request.message_id)
        return self.current.state is not before

    @withdraw_by_update.validator
    def _check_withdraw(self, *values: Any) -> None:
        self._check(self._read_withdraw(values))

    @workflow.update(
        name=REMEMBER, description="Remember the id of a message that a child run got as an answer."
    )
    async def remember_by_update(self, *values: Any) -> None:
        """Remember the id of a message, which is then delivered no more."""
        message_id = read_remember(self._decode(values))
        self._check(message_id)
        assert not isinstance(message_id, Rejection)
        self._remember(message_id)

    @remember_by_update.validator
    def _check_remember(self, *values: Any) -> None:
        is_conversation = self.current.state.opening.conversation
        self._check(read_remember(values) if is_conversation else _NO_CONVERSATION)

    @workflow.update(name=INTERRUPT, description="End the present turn of a conversation.")
    async def interrupt_by_update(self, *values: Any) -> bool:
        """End the present turn, and return whether there was one."""
        return self._interrupt(self._read_interrupt(self._decode(values)))

    @interrupt_by_update.validator
    def _check_interrupt(self, *values: Any) -> None:
        self._check(self._of_another_turn(self._read_interrupt(values)))

    @workflow.signal(name=INTERRUPT, description="End the present turn of a conversation.")
    async def interrupt_by_signal(self, *values: Any) -> None:
        received = self._receive(values)
        self._interrupt(received if isinstance(received, Rejection) else self._read_interrupt(received))

    @workflow.update(name=BRANCH, description="Go on from an earlier point of a conversation.")
    async def branch_by_update(self, *values: Any) -> Accepted:
        """End the present turn, and go on from an event that the validator has accepted.

        There is no signal, as for `withdraw`.
        """
        asked = self._read_branch(self._decode(values))
        self._check(asked)
        assert isinstance(asked, Branching)
        state = self.current.state
        after = place_in(state.executions, workflow.info().get_current_history_length())
        self.current.state, sent = request_branch(state, asked, after)
        if (viewers := self.current.state.viewers) != state.viewers:
            self.awaits.listed.show_to(viewers)
        self.conversation.interrupt()
        return Accepted(message_id=sent.message_id if sent else "", after=after)

    @branch_by_update.validator
    def _check_branch(self, *values: Any) -> None:
        self._check(self._read_branch(values))
        self._check_room(values)

    @workflow.update(name=CLOSE, description="End a conversation once no message waits.")
    async def close_by_update(self, *values: Any) -> None:
        self._close(self._read_close(self._decode(values)))

    @close_by_update.validator
    def _check_close(self, *values: Any) -> None:
        self._check(self._read_close(values))

    @workflow.signal(name=CLOSE, description="End a conversation once no message waits.")
    async def close_by_signal(self, *values: Any) -> None:
        received = self._receive(values)
        self._close(received if isinstance(received, Rejection) else self._read_close(received))

    def _read_send(self, values: Sequence[Any]) -> SentMessage | Rejection:
        sent = read_send(values, self.current.state.inbox, self.current.state.opening.tenant)
        if self._is_open or (
            isinstance(sent, SentMessage) and self.current.state.inbox.where(sent.message_id)
        ):
            return sent
        return self._not_open

    def _read_withdraw(self, values: Sequence[Any]) -> Withdrawal | Rejection:
        state = self.current.state
        if not state.opening.conversation:
            return _NO_CONVERSATION
        request = read_withdraw(values, state.opening.tenant)
        if isinstance(request, Rejection):
            return request
        if not request.as_operator and not state.admits(request.principal):
            return _HIDDEN
        return state.inbox.withdrawal_fault(request, state.opening.principal) or request

    def _read_branch(self, values: Sequence[Any]) -> Branching | Rejection:
        state = self.current.state
        if not self._is_open:
            return self._not_open
        asked = read_branch(values, state)
        if isinstance(asked, Rejection):
            return asked
        if asked.sent and not state.admits(asked.sent.principal):
            return _HIDDEN
        return busy_fault(state, asked) or asked

    def _read_interrupt(self, values: Sequence[Any]) -> Interruption | Rejection:
        return read_interrupt(values) if self.current.state.opening.conversation else _NO_CONVERSATION

    def _of_another_turn(self, message: Interruption | Rejection) -> Interruption | Rejection:
        # Between two turns there is none to end.
        state = self.current.state
        if (
            isinstance(message, Rejection)
            or not message.turn_id
            or state.is_idle
            or is_in_turn(state, message.turn_id)
        ):
            return message
        return Rejection(
            f"the present turn is {state.turn_id}, and not {echo(message.turn_id)}", "AwaitClosed"
        )

    def _read_close(self, values: Sequence[Any]) -> Closing | Rejection:
        return read_close(values) if self._is_open else self._not_open

    @property
    def _is_open(self) -> bool:
        return self.current.state.opening.conversation and self.current.state.closing is None

    @property
    def _not_open(self) -> Rejection:
        if self.current.state.opening.conversation:
            return Rejection("the conversation is closed", "AwaitClosed")
        return _NO_CONVERSATION

    def _accept(self, sent: SentMessage | Rejection) -> Accepted:
        self._check(sent)
        assert isinstance(sent, SentMessage)
        state = self.current.state
        if known := state.inbox.where(sent.message_id):
            was_answer = state.inbox.is_answer(sent.message_id)
            return Accepted(message_id=sent.message_id, after=known, repeated=True, is_answer=was_answer)
        after = place_in(state.executions, workflow.info().get_current_history_length())
        self.current.state, sent = receive_message(state, sent, after)
        self._deny(sent.message_id)
        if (viewers := self.current.state.viewers) != state.viewers:
            self.awaits.listed.show_to(viewers)
        if sent.mode == "interrupt":
            self.conversation.interrupt()
        return Accepted(message_id=sent.message_id, after=after)

    def _deny(self, message_id: str) -> None:
        # The history says so itself: in the workflow task that opens an approval, the message comes first here, and second there.
        state, denials = deny_by_message(self.current.state, message_id)
        if not denials or not patched("message-denies"):
            return
        self.current.state, await_ids = state, [denial.await_id for denial in denials]
        workflow.upsert_memo({DENIED: {"message_id": message_id, "await_ids": await_ids}})
        for denial in denials:
            self.awaits.decide(denial)

    def _remember(self, message_id: str) -> None:
        """Remember an answer's message id in a conversation, so it is delivered once."""
        state = self.current.state
        if state.opening.conversation:
            after = place_in(state.executions, workflow.info().get_current_history_length())
            self.current.state = copy_with(state, inbox=state.inbox.answered(message_id, after))

    def _interrupt(self, message: Interruption | Rejection) -> bool:
        if isinstance(message, Rejection):
            self.awaits.note(f"{INTERRUPT} refused: {message.reason}")
            return False
        before = self.current.state
        self.current.state = interrupt_turn(before, message.reason, message.turn_id)
        if self.current.state is before:
            return False
        self.conversation.interrupt()
        return True

    def _close(self, message: Closing | Rejection) -> None:
        if isinstance(message, Rejection):
            self.awaits.note(f"{CLOSE} refused: {message.reason}")
        else:
            self.current.state = copy_with(self.current.state, closing=message.reason)

    @workflow.signal(dynamic=True, description="A signal of any other name is ignored.")
    async def ignore_unknown(self, _name: str, _values: Sequence[RawValue]) -> None:
        """Ignore a signal with an unknown name.

        A waiting run checks the length of its history with each signal.
        """
        self.awaits.room.look()

    # Child runs.

    @workflow.signal(
        name=CHILD_SPENT, description="What a child run has spent that is about to end as canceled."
    )
    async def child_spent(self, *values: Any) -> None:
        """Record what a child run has spent, until it ends.

        Ignored from a run that is not an open child run.
        """
        received = self._receive(values)
        run_id, spent = ("", None) if isinstance(received, Rejection) else read_child_spent(received)
        if spent:
            self.children.record_spent(run_id, spent)

    # Quotas.

    @workflow.signal(name=ADMIT, description="The run has got the place for which it waited.")
    async def admit(self, *values: Any) -> None:
        """Ask the ledger again.

        It alone says whether the run has a place, so anyone may send this.
        """
        received = self._receive(values)
        if not isinstance(received, Rejection) and len(received) == 1 and isinstance(received[0], int):
            self.current.called = received[0]

    # Shared by all handlers.

    def _resume(self, values: Sequence[Any]) -> ResumeRequest | Rejection:
        state = self.current.state
        is_paused = state.paused is not None
        message = read_resume(values, is_paused=is_paused, tenant=state.opening.tenant)
        return idle_fault(message) if self.current.state.is_idle else message

    @staticmethod
    def _check(judged: object, wait: Await | None = None) -> None:
        # The refusal of an answer has the present facts of its wait.
        if isinstance(judged, Rejection):
            faults = {"faults": judged.faults} if judged.faults else {}
            details = [{**facts_of(wait), **faults}] if wait else []
            raise ApplicationError(judged.reason, *details, type=judged.kind, non_retryable=True)

    def _check_room(self, values: Sequence[Any]) -> None:
        self._check(None if self.awaits.room.has_room_for(values) else _NO_ROOM)

    def _check_sent(self, kind: str, values: Sequence[Any]) -> None:
        # Refuse too an answer with a field that would be ignored, such as a misspelt one.
        answer, wait = self.awaits.read(kind, values, "update"), self.awaits.find_named(values)
        self._check(answer, wait)
        self._check(refuse_ignored_fields(kind, values), wait)
        update = workflow.current_update_info()
        if isinstance(answer, Repeated) and update and update.id.startswith(ONCE):
            known = self.awaits.facts_of_repetition(answer.await_id, require_decoded(values)[0])
            reason = f"{answer.await_id} has this answer already"
            raise ApplicationError(reason, known, type="AwaitClosed", non_retryable=True)
        if not isinstance(answer, (Repeated, Rejection)) and self.awaits.is_overdue(answer.await_id):
            self._check(Rejection(f"{answer.await_id} expired before an answer came", "AwaitClosed"))
        message_id, inbox = _message_id(), self.current.state.inbox
        if not isinstance(answer, Repeated) and inbox.where(message_id) is not None:
            self._check(Rejection(f"the message {message_id!r} was delivered before", "AwaitClosed"))
        if not isinstance(answer, Repeated):
            self._check_room(values)

    async def _take_answer(self, kind: str, values: Sequence[Any]) -> str:
        sent = self._decode(values)
        edit: CallEdit | Rejection | None = None
        if kind == PROVIDE_CONFIRMATION:
            edit = await self.awaits.judge_decision(kind, sent, "accepted")
            self._check(edit, self.awaits.find_named(sent))
        answer = self.awaits.receive(kind, sent, "accepted", None if isinstance(edit, Rejection) else edit)
        self._check(answer, self.awaits.find_named(sent))
        assert not isinstance(answer, Rejection)
        self._remember(_message_id())
        if isinstance(answer, Supplied) and (wrong := await self.awaits.check_results(answer)):
            raise ApplicationError("; ".join(wrong)[:2_000], type="InvalidAnswer", non_retryable=True)
        if kind == PROVIDE_CONFIRMATION and (void := await self.awaits.void_approval(answer.await_id)):
            why, again = void
            changes = again.changes if again else []
            then = f"; look at {again.id}, and decide on it" if again else ""
            raise ApplicationError(
                f"the approval is void: {why}{then}",
                {"await_id": again and again.id, "changes": changes},
                type=VOID,
                non_retryable=True,
            )
        return answer.await_id

    def _take_signal(self, kind: str, values: Sequence[Any]) -> None:
        received = self._receive(values)
        answer = (
            received if isinstance(received, Rejection) else self.awaits.receive(kind, received, "signal")
        )
        if isinstance(answer, Rejection):
            self.awaits.refuse_signal(kind, values, answer)

    def _decode(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the values of an accepted update."""
        self.awaits.room.look(values)
        return require_decoded(values)

    def _receive(self, values: Sequence[Any]) -> Sequence[Any] | Rejection:
        """Return the values of a signal, or why they are refused."""
        self.awaits.room.look(values)
        self._signals += 1
        return accept_values(f"unread-{self._signals}", values)

    def _steer(self, message: _Steering) -> None:
        self._check(message)
        assert not isinstance(message, Rejection)
        self.steer(message)

    def _steer_by_signal(
        self, name: str, values: Sequence[Any], read: Callable[[Sequence[Any]], _Steering]
    ) -> None:
        received = self._receive(values)
        message = received if isinstance(received, Rejection) else read(received)
        if isinstance(message, Rejection):
            self.awaits.note(f"{name} refused: {message.reason}")
            return
        if rest := refuse_ignored_fields(name, values):
            self.awaits.note(f"left out: {rest.reason}")
        self.steer(message)
