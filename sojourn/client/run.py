"""Answer and steer a run, and read it."""

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, overload

from temporalio.service import RPCError

from sojourn.client.readable_run import ReadableRun
from sojourn.client.retry_now import retry_now
from sojourn.client.sending import AlreadyGiven, Fields, send
from sojourn.client.setting_aside import target_of
from sojourn.client.wait_end import Receipt, receipt_of, receipt_of_dropped
from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.awaits import AwaitClarification, AwaitConfirmation
from sojourn.contracts.event import Event
from sojourn.contracts.ids import MAX_MESSAGE_ID
from sojourn.contracts.message import Accepted
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunStatus
from sojourn.contracts.wire_names import (
    BRANCH,
    CLOSE,
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
from sojourn.core.awaits.clarification import faults_of
from sojourn.core.awaits.confirmation import EDIT, SOURCES
from sojourn.core.awaits.envelope import ONCE, Rejection, update_id_of
from sojourn.core.awaits.kinds import is_repetition
from sojourn.core.awaits.principals import PRINCIPAL, write_principal
from sojourn.core.run.inbox import AS_OPERATOR, Inbox, is_message_id, read_send
from sojourn.errors import ApprovalVoid, AwaitClosed, InvalidInput, RunError, StaleDigest, UnknownWait
from sojourn.events.one_run import find_update, status_in_history

__all__ = ["Run"]

_ABSENT: Any = object()


def _sender(by: str | None, principal: Principal | None) -> Fields:
    if principal is None:
        return {"by": by}
    return {"by": by or principal.subject, PRINCIPAL: write_principal(principal)}


def _several(texts: Sequence[str] | str) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


class Run(ReadableRun):
    """A handle of one run, which is cheap to make.

    It is valid before the run starts, while it is open and after it ends. Methods raise `RunNotFound` if there is no such
    run, `RunUnreadable` if its records cannot be decoded here, and `ServerUnavailable` if the server does not answer. Those
    that send something raise `NoWorker` if no worker accepts it within 30 s, and `RunEnded`, an `AwaitClosed`, if the run has
    ended. An answer that its wait has already is a success, also then: the `Receipt` says `already`, who gave it, and when.
    """

    known_events: Iterable[Event] = ()
    """Events that the caller has at hand. An earlier answer is looked for in them first."""

    @overload
    async def answer(
        self,
        answer: str | dict[str, Any],
        /,
        *,
        by: str | None = None,
        principal: Principal | None = None,
        message_id: str | None = None,
    ) -> Receipt: ...

    @overload
    async def answer(
        self,
        await_id: AwaitClarification | str | None,
        answer: str | dict[str, Any],
        *,
        by: str | None = None,
        principal: Principal | None = None,
        message_id: str | None = None,
    ) -> Receipt: ...

    async def answer(
        self,
        await_id: Any,
        answer: Any = _ABSENT,
        *,
        by: str | None = None,
        principal: Principal | None = None,
        message_id: str | None = None,
    ) -> Receipt:
        """Answer a question of the run, and return the await's id.

        Args:
            await_id: The wait, or its id; None, or left out, while it is the only open wait of the run.
            answer: Text, or values by field.
            by: Name to record, unchecked; by default the principal's subject.
            principal: The principal that answers, as your program has authenticated it. For calls that need
                four eyes, it then counts as one that asked for the calls of the turn.
            message_id: The id of the message that is the answer: delivered once, however often it is sent, also to a
                conversation.

        Raises:
            AwaitClosed: The wait is not open: `AlreadyAnswered` with another answer, `UnknownWait`, `RunEnded`; or the message
                was delivered before.
            InvalidInput: The answer is invalid, or does not fit the question.
        """
        wait: Any = await_id
        if answer is _ABSENT:
            wait, answer = None, await_id
            if not isinstance(answer, (str, dict)):
                raise TypeError("run.answer takes the answer, or the wait and the answer")
        asked = _id_of(wait)
        sent: Fields = {"id": asked, "answer": answer, **_sender(by, principal)}
        return await self._settle(PROVIDE_CLARIFICATION, sent, message_id, asked, sent)

    async def decline(
        self,
        await_id: AwaitClarification | str | None,
        reason: str = "",
        *,
        by: str | None = None,
        principal: Principal | None = None,
    ) -> Receipt:
        """Decline to answer a question. The planner, or the asking tool, gets the reason.

        Takes its sender, and raises, as `answer`.
        """
        asked = _id_of(await_id)
        sent: Fields = {"id": asked, "declined": True, "reason": reason, **_sender(by, principal)}
        return await self._settle(PROVIDE_CLARIFICATION, sent, None, asked, sent)

    async def approve(
        self,
        await_id: AwaitConfirmation | str | None = None,
        *,
        payload_digest: str | None = None,
        by: str | None = None,
        principal: Principal | None = None,
        reason: str = "",
        for_run: bool = False,
        lift_taint: bool = False,
        arguments: Mapping[str, Any] | None = None,
        message_id: str | None = None,
    ) -> Receipt:
        """Approve a call that waits for a person, and return the await's id.

        A decision names the arguments of the call, and applies to no others. Pass the wait that the person
        saw, or its id with its `payload_digest`; with less, the decision applies to the call that is open
        now.

        Args:
            await_id: The wait as the person saw it, or its id; None while exactly one is open.
            payload_digest: Digest of the arguments that the person saw; by default that of the wait passed.
            by: Name to record, unchecked; by default the principal's subject.
            principal: The principal that approves, as your program has authenticated it. Required if the tool or its policy restricts
                the approvers.
            reason: Recorded.
            for_run: Whether to stop asking about this tool, until the turn ends, or as long as the run's `ApprovalPolicy.stop_asking`
                says; its other open calls run too.
            lift_taint: Whether the sources in the wait's `taint` no longer count in this run, if the wait `lifts_taint`. Later ones count.
            arguments: All arguments of the call, edited: it runs with these in place of its own, if the wait `allows_edits`.
            message_id: The id of the message that approves, as for `answer`.

        Raises:
            ApprovalVoid: The tool has changed since it was displayed, so the call did not run.
            AwaitClosed: The wait is not open: `AlreadyAnswered` with another decision, `UnknownWait`, `RunEnded`.
            EditRefused: Edited arguments do not fit the tool; the call still waits.
            InvalidInput: The decision names the digest of other arguments, or the call takes no edit.
            NotApprover: The principal may not decide on the call.
        """
        if for_run and lift_taint:
            raise InvalidInput(f"{self.id}: an approval has for_run or lift_taint, not both", run_id=self.id)
        scope = "tool" if for_run else SOURCES if lift_taint else "call"
        sent: Fields = {"approved": True, **_sender(by, principal), "reason": reason, "scope": scope}
        if arguments is not None:
            sent[EDIT] = dict(arguments)
        return await self._decide(await_id, payload_digest, sent, message_id)

    async def deny(
        self,
        await_id: AwaitConfirmation | str | None = None,
        reason: str = "",
        *,
        payload_digest: str | None = None,
        by: str | None = None,
        principal: Principal | None = None,
        message_id: str | None = None,
    ) -> Receipt:
        """Deny a call. The planner gets the reason.

        The wait is named, and errors are raised, as for `approve`.
        """
        sent = {"approved": False, **_sender(by, principal), "reason": reason}
        return await self._decide(await_id, payload_digest, sent, message_id)

    async def _decide(
        self,
        seen: AwaitConfirmation | str | None,
        payload_digest: str | None,
        decision: dict[str, Any],
        message_id: str | None,
    ) -> Receipt:
        if isinstance(seen, AwaitConfirmation):
            payload_digest = payload_digest or seen.payload_digest
            seen = seen.id
        sent = {"id": seen or "", "payload_digest": payload_digest, **decision}

        async def named() -> dict[str, Any]:
            calls = [] if payload_digest else await self._open_calls(seen)
            only = calls[0] if len(calls) == 1 else None
            if not (calls or seen or payload_digest):
                raise UnknownWait(f"{self.id}: no call waits for a decision", run_id=self.id)
            return {**sent, "id": only.id, "payload_digest": only.payload_digest} if only else sent

        # Looked up once, without a wait's id: the decision must not apply to a call that opens later.
        decided = named if seen else await named()
        said: Fields = {**decision, "payload_digest": payload_digest}
        return await self._settle(PROVIDE_CONFIRMATION, decided, message_id, seen, said)

    async def _settle(
        self,
        kind: str,
        sent: Fields | Callable[[], Awaitable[Fields]],
        message_id: str | None,
        await_id: str | None,
        said: Fields,
    ) -> Receipt:
        if message_id is not None and not is_message_id(message_id):
            raise InvalidInput(
                f"{self.id}: `message_id` is a text of at most {MAX_MESSAGE_ID} characters", run_id=self.id
            )
        try:
            answered = await self._send(kind, sent, update_id_of(message_id) or f"{ONCE}{uuid.uuid4().hex}")
            if message_id:
                await self._check_message(kind, message_id, answered, await_id, said)
        except ApprovalVoid:
            raise
        except StaleDigest as stale:
            with suppress(RunError):
                if receipt := await receipt_of_dropped(self, stale, said):
                    return receipt
            raise
        except InvalidInput as refused:
            refused.faults = refused.faults or await self._faults_of(await_id, said)
            raise
        except AwaitClosed as closed:
            if isinstance(closed, AlreadyGiven) and said.get("approved") and not closed.is_judged:
                await self._judge_again(kind, sent)
            return await receipt_of(self, closed, kind, await_id or "", said, self.known_events)
        return Receipt(answered)

    async def _judge_again(self, kind: str, sent: Fields | Callable[[], Awaitable[Fields]]) -> None:
        """Raise `ApprovalVoid` if the approval that a run has is void.

        A run refuses a repetition at once. Sent as a new one, it is answered after a worker has judged the
        first approval.
        """
        try:
            await self._send(kind, sent, uuid.uuid4().hex)
        except ApprovalVoid:
            raise
        except AwaitClosed:
            return

    async def _faults_of(self, await_id: str | None, said: Fields) -> list[dict[str, str]]:
        if not isinstance(said.get("answer"), (str, dict)):
            return []
        with suppress(RunError):
            for wait in (await self._status_now()).awaits:
                if await_id in (None, "", wait.id):
                    return faults_of(wait, said)
        return []

    async def _status_now(self) -> RunStatus:
        return await self._query_status() or await status_in_history(self.client.temporal, self.id)

    async def _check_message(
        self, kind: str, message_id: str, answered: str, await_id: str | None, said: Fields
    ) -> None:
        # Temporal returns the outcome of the first update with this id, whatever the present one says.
        first, name = await find_update(self.client.temporal, self.id, message_id), repr(message_id[:200])
        if await_id and answered != await_id:
            raise AwaitClosed(
                f"{self.id}: the message {name} was the answer to {answered}",
                run_id=self.id,
                await_id=answered,
            )
        if first is not None and not is_repetition(kind, said, first):
            message = f"{self.id}: the message {name} was another answer to {answered}"
            raise AwaitClosed(message, run_id=self.id, await_id=answered)

    async def _open_calls(self, await_id: str | None) -> list[AwaitConfirmation]:
        calls = [wait for wait in (await self._status_now()).awaits if isinstance(wait, AwaitConfirmation)]
        return [call for call in calls if await_id in (None, "", call.id)]

    async def stop_asking(
        self,
        tools: Sequence[str] | str = (),
        *,
        tags: Sequence[str] | str = (),
        by: str | None = None,
        principal: Principal | None = None,
        reason: str = "",
    ) -> None:
        """Stop asking about these tools, and run their open calls now.

        This applies until the turn ends, or as long as the run's `ApprovalPolicy.stop_asking` says,
        and never to calls that the policy engine asks about, nor to those that the principal may
        not approve.

        Args:
            tools: A tool's id, a toolset as `ops.devices.*`, or `*` for all; one text or several.
            tags: Tags of tools; one text or several.
            by: Name to record, unchecked; by default the principal's subject.
            principal: The principal that decides, as for `approve`.
            reason: Recorded.

        Raises:
            InvalidInput: No tool or tag is given, or too many.
            AwaitClosed: The run has ended.
        """
        await self._send(
            STOP_ASKING,
            {
                "tools": _several(tools),
                "tags": _several(tags),
                **_sender(by, principal),
                "reason": reason,
            },
        )

    async def provide_tool_results(
        self,
        await_id: str | None,
        results: Sequence[Mapping[str, Any]],
        *,
        by: str | None = None,
        principal: Principal | None = None,
    ) -> Receipt:
        """Send results of external calls, all or some, and return the await's id.

        Args:
            await_id: The wait's id; None while it is the only open wait for results.
            results: For each call `tool_call_id` and `result`, or `error` (a text, or an object with `message` and
                `code`) and perhaps `retry_hint`.
            by: Name to record, unchecked; by default the principal's subject.
            principal: The principal that gives the results, as for `answer`.

        Raises:
            AwaitClosed: The wait is not open, the call has another result (`AlreadyAnswered`), or the run has ended.
            InvalidInput: A result does not fit its tool; send that result again.
        """
        given = [dict(result) for result in results]
        sent: Fields = {"id": await_id or "", "results": given, **_sender(by, principal)}
        return await self._settle(PROVIDE_TOOL_RESULTS, sent, None, await_id, sent)

    async def pause(self, reason: str = "", *, by: str | None = None) -> None:
        """Pause, so that nothing new starts until `resume`.

        Calls in progress finish. Child runs pause too.

        Raises:
            AwaitClosed: The run has ended.
        """
        await self._send(PAUSE, {"reason": reason, "by": by})

    async def resume(
        self,
        note: str = "",
        *,
        messages: Sequence[str] | str = (),
        by: str | None = None,
        principal: Principal | None = None,
    ) -> None:
        """Resume after a pause.

        The messages begin a new user turn. A single text is one message.

        Args:
            note: A note, recorded.
            messages: Messages for the planner.
            by: Name to record, unchecked.
            principal: The sender of the messages, as the caller has authenticated it. The run still acts for the same subject as before, with
                only those of its roles that the sender has too.

        Raises:
            NotPaused: The run is not paused. `RunEnded` if it has ended; both are `AwaitClosed`.
        """
        sent: Fields = {"note": note, "messages": _several(messages), "by": by}
        if messages and principal:
            sent = {**sent, PRINCIPAL: write_principal(principal)}
        await self._send(RESUME, sent)

    async def retry_now(self) -> list[str]:
        """Begin the next attempts of a plan and of calls at once.

        The rest of their backoff is skipped. They keep their number of attempts. A workflow task that fails is not retried sooner: Temporal repeats it by itself.

        Returns:
            The ids of the activities whose attempt begins; empty if none waits for one.

        Raises:
            InvalidInput: The Temporal server is older than 1.28, and cannot do it.
        """
        return await retry_now(self.client.temporal, self.id)

    async def set_aside(self, what: int | str, reason: str = "", *, by: str | None = None) -> bool:
        """Set a message or a result aside, so that planners no longer read it.

        From the next plan on, they read a short text in its place. The transcript still has the
        message or result, and records who set it aside.

        Args:
            what: The number of a message in the transcript, from 0 on; the id of a call, for its result; or the id of a
                message that was sent to the conversation.
            reason: The reason, recorded; models do not read it.
            by: Name to record, unchecked.

        Returns:
            Whether it was not set aside before.

        Raises:
            AwaitClosed: The run has ended.
            InvalidInput: The transcript has no such message or result, or gets it only with the next plan.
        """
        target = await target_of(self.id, await self.transcript(), lambda: self.events(follow=False), what)
        return bool(await self._send(SET_ASIDE, {**target, "reason": reason, "by": by}))

    async def send(self, message: Mapping[str, Any], *, principal: Principal | None = None) -> Accepted:
        """Send a message to a run that is a conversation. `Session.send` also starts it.

        Args:
            message: `message_id`, `text`, `parts`, `mode`, `by`, `principal` and `admit`, as the update `send` takes them.
            principal: The sender, as the caller has authenticated it; the turn that the message opens acts for it.

        Raises:
            SessionBusy: 100 messages wait already.
            AwaitClosed: The conversation was closed, or its run has ended.
            InvalidInput: The message is invalid, or the run is no conversation.
            RunNotFound: There is no such run, or none that the principal may see.
        """
        return Accepted.model_validate(await self._send(SEND, self._sendable(message, principal)))

    def _sendable(self, message: Mapping[str, Any], principal: Principal | None) -> Fields:
        fields = {**message, PRINCIPAL: write_principal(principal)} if principal else dict(message)
        judged = read_send([fields], Inbox())  # a text that no JSON can hold cannot be sent
        if isinstance(judged, Rejection):
            raise InvalidInput(f"{self.id}: {judged.reason}", run_id=self.id)
        return fields

    async def withdraw(
        self,
        message_id: str,
        *,
        by: str | None = None,
        principal: Principal | None = None,
        as_operator: bool = False,
    ) -> bool:
        """Withdraw a message that waits in a conversation.

        As `Session.withdraw`. With `principal` the message must be this principal's, unless `as_operator` is true.
        """
        if not message_id or not is_message_id(message_id):
            raise InvalidInput(f"{self.id}: `message_id` names a message that was sent", run_id=self.id)
        sent: Fields = {"message_id": message_id, "by": by}
        if principal:
            sent[PRINCIPAL] = write_principal(principal)
        if as_operator:
            sent[AS_OPERATOR] = True
        return bool(await self._send(WITHDRAW, sent))

    async def branch(
        self,
        at: str,
        number: int,
        message: Mapping[str, Any] | None = None,
        *,
        principal: Principal | None = None,
        idle: bool = False,
    ) -> Accepted:
        """Go on from an earlier point of a conversation.

        `Session.edit` and `Session.switch` find the point.

        Args:
            at: The event at which a turn ended, or at which the run started.
            number: How often the conversation has branched, as the caller has seen it.
            message: The message that goes on from there, as `send` takes it.
            principal: Its sender, as for `send`.
            idle: Refuse to end a turn under way, or to withdraw a message that waits.

        Raises:
            AwaitClosed: The conversation has ended, or has branched meanwhile.
            InvalidInput: The message is invalid.
            SessionBusy: Another branch is about to begin; or, with `idle`, the conversation is at work.
        """
        sent = {} if message is None else self._sendable(message, principal)
        place = {"at": at, "number": number, **({"idle": True} if idle else {})}
        return Accepted.model_validate(await self._send(BRANCH, {**sent, **place}))

    async def interrupt(self, reason: str = "", *, by: str | None = None, turn_id: str | None = None) -> bool:
        """End the present turn of a conversation, and return whether there was one.

        As `Session.interrupt`.
        """
        sent = {"reason": reason, "by": by, "turn_id": turn_id}
        if turn_id == "":  # Left out, it would mean any turn under way.
            raise InvalidInput(f"{self.id}: `turn_id` names a turn, or is left out", run_id=self.id)
        return bool(await self._send(INTERRUPT, sent))

    async def close(self, reason: str = "", *, by: str | None = None) -> None:
        """End a run that is a conversation, once its backlog of messages is empty.

        Raises as `Session.close`.
        """
        await self._send(CLOSE, {"reason": reason, "by": by})

    async def remember(self, message_id: str) -> None:
        """Record in a conversation a message that answered a question of a child run.

        It is then delivered once. Raises as `send`.
        """
        await self._send(REMEMBER, {"message_id": message_id})

    async def _send(
        self, name: str, value: Fields | Callable[[], Awaitable[Fields]], update_id: str | None = None
    ) -> Any:
        async def update(fields: Fields) -> Any:
            return await self._handle.execute_update(name, fields, id=update_id)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

        return await send(self._handle, name, update, value)

    async def cancel(self, reason: str | None = None, *, by: str | None = None) -> None:
        """Request the run's cancellation.

        Calls in flight are cancelled and answered, and child runs get the request too. A run that
        has ended does not change.

        Temporal records a reason only, so it names `by`.
        """
        reason = (reason or "").strip()
        if by:
            reason = f"{reason} (by {by})" if reason else f"requested by {by}"
        try:
            await self._handle.cancel(reason=reason)
        except RPCError as error:
            raise translate_error(error, self.id) from error


def _id_of(wait: AwaitClarification | str | None) -> str:
    return wait.id if isinstance(wait, AwaitClarification) else wait or ""
