"""A handle of one run, for its result, events, status and open waits."""

import asyncio
import builtins
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, overload

from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
)
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
    TimeoutError,  # noqa: A004 - Temporal's name for it
)
from temporalio.service import RPCError, RPCStatusCode

from sojourn.client.access import Access, backoff
from sojourn.client.sending import Fields, send
from sojourn.client.setting_aside import target_of
from sojourn.connection.rpc_errors import OutageRetry, translated, unreadable
from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation
from sojourn.contracts.event import Event
from sojourn.contracts.ids import MAX_MESSAGE_ID, run_id_fault
from sojourn.contracts.memory import SessionMemory, read_only
from sojourn.contracts.message import Accepted, Message
from sojourn.contracts.principal import Principal
from sojourn.contracts.run import RunOutput, RunStatus
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import Artifact
from sojourn.contracts.wire_names import (
    CLOSE,
    IN_DOUBT,
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
)
from sojourn.converter.codec import UnreadableError
from sojourn.converter.failures import chain_of
from sojourn.core.awaits.envelope import Refused, update_id_of
from sojourn.core.awaits.principals import PRINCIPAL, written_principal
from sojourn.core.payload.unknown_outcome import in_doubt
from sojourn.core.run.inbox import Inbox, is_message_id, read_send
from sojourn.errors import (
    AwaitClosed,
    InvalidInput,
    RunCanceled,
    RunError,
    RunFailed,
    RunNotFound,
    RunTerminated,
    RunTimedOut,
    ServerUnavailable,
)
from sojourn.events.cursor import position_of
from sojourn.events.history import sender_of
from sojourn.events.one_run import memory_in_history, status_in_history, transcript_of
from sojourn.events.pending import retrying
from sojourn.events.stream import stream

__all__ = ["CANCEL_REQUESTED", "Run", "status_name"]

CANCEL_REQUESTED = "cancel was requested; the run ends once a worker has handled that"
"""The hint of an open run that was asked to cancel."""

QUERY_DEADLINE = timedelta(seconds=1)
"""Time limit of the query in `status()`; without a worker the history is read instead."""

MAX_CHILDREN_ASKED = 20
"""Most child runs that a run's status reads."""

WAITING_DEADLINE = timedelta(seconds=60)
"""Default time limit of `until_waiting`."""

MAX_QUOTED = 200
"""Most characters of an answer in an error."""

_STATUS = {
    WorkflowExecutionStatus.RUNNING: "running",
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "canceled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
    WorkflowExecutionStatus.CONTINUED_AS_NEW: "running",
}


_ABSENT: Any = object()


def _sender(by: str | None, principal: Principal | None) -> Fields:
    if principal is None:
        return {"by": by}
    return {"by": by or principal.subject, PRINCIPAL: written_principal(principal)}


def _several(texts: Sequence[str] | str) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def status_name(status: WorkflowExecutionStatus | None) -> str:
    """Return the name of Temporal's status in `RunStatus`."""
    return _STATUS.get(status or WorkflowExecutionStatus.RUNNING, "running")


class Run:
    """A handle of one run, which is cheap to make.

    It is valid before the run starts, while it is open and after it ends.
    """

    def __init__(self, client: Access, run_id: str) -> None:
        if fault := run_id_fault(run_id):
            raise InvalidInput(fault)
        self.client = client
        self.id = run_id

    def __repr__(self) -> str:
        """Return the run's id. A handle knows no status."""
        return f"<Run {self.id}>"

    @property
    def run_id(self) -> str:
        """The run's id, under the name used in all records."""
        return self.id

    @property
    def _handle(self) -> WorkflowHandle[Any, Any]:
        return self.client.temporal.get_workflow_handle(self.id, result_type=RunOutput)

    async def result(self) -> RunOutput:
        """Wait for the run's output, through resets too.

        Raises:
            RunFailed: The run failed; `RunCanceled`, `RunTerminated` and `RunTimedOut` are subclasses.
            RunNotFound: There is no such run.
            RunUnreadable: The output cannot be decoded here.
            ServerUnavailable: The server did not answer for a minute.
        """
        handle, outage = self._handle, OutageRetry()
        while True:
            try:
                return await handle.result()
            except WorkflowFailureError as error:
                if isinstance(error.cause, TerminatedError) and await self._goes_on():
                    continue
                raise await self._failure(error.cause) from error
            except UnreadableError as error:
                raise unreadable(self.id, str(error)) from error
            except RPCError as error:
                if not await outage.may_retry(error):
                    raise translated(error, self.id) from error
                with contextlib.suppress(RPCError):
                    await handle.describe()
                    outage.answered()

    def events(
        self,
        *,
        after: str | Mapping[str, str] | None = None,
        follow: bool = True,
        children: bool = False,
        deltas: bool = False,
    ) -> AsyncGenerator[Event]:
        """Yield the recorded events, and with `follow` the coming ones.

        The last event is `run_stream_end`. With `follow`, `tool_retry` and `tool_update` report on
        calls in flight for more than a second. These events have no `event_id`, and a later
        subscriber does not get them.

        Args:
            after: An event_id of this run, after which the events begin; with `children`, the text of a
                `sojourn.events.Cursor`, or an event_id for each run, by run id. A child run without one has all of its
                events, unless its call had ended by then.
            follow: Wait for more events until the run ends.
            children: Include the events of child runs, each with its own `run_id` and `parent_tool_call_id`: after
                the `agent_run_started` of their call and before its `tool_end`.
            deltas: With `follow`, include what a planner is writing: `text_delta`, `thinking_delta`,
                `tool_call_delta` and `stream_restarted`, as far as the client's live transport carries them. These
                have no `event_id` either; the `assistant_message` that follows holds the whole text.

        Raises:
            InvalidInput: `after` is no event_id and no cursor. This is raised at once, the other errors when the events are read.
            RunNotFound: There is no such run.
            ServerUnavailable: The server did not answer for a minute.
        """
        try:
            position = position_of(self.id, after)
        except ValueError as error:
            raise InvalidInput(str(error), run_id=self.id) from error
        live = self.client.live if deltas else None
        # Not a generator around this one: at the end of a program, asyncio closes all of them at once, and an outer
        # one that closes an inner one then fails.
        return stream(
            self.client.temporal,
            self.id,
            after=position,
            follow=follow,
            children=children,
            live=live,
            storage=self.client.storage,
        )

    async def transcript(self) -> list[Message]:
        """Return the transcript so far, as the planner receives it.

        It has messages, calls and their results. It is read from the history, without a worker, and
        also for closed runs.

        Raises:
            RunNotFound: There is no such run.
            RunUnreadable: The beginning of a long run is in a storage that this client does not have, or the records of its
                workers cannot be decoded here.
            ServerUnavailable: The server does not answer.
        """
        return await transcript_of(self.client.temporal, self.id, self.client.storage)

    async def memory(self) -> SessionMemory:
        """Return the memory of the run, a read-only JSON object.

        Available without a worker, and for closed runs.

        Raises:
            RunNotFound: There is no such run.
            RunUnreadable: The run's records cannot be decoded here.
            ServerUnavailable: The server does not answer.
        """
        try:
            found: dict[str, Any] = await self._handle.query(
                "memory", result_type=dict[str, Any], rpc_timeout=QUERY_DEADLINE
            )
        except (RPCError, WorkflowQueryFailedError):
            return read_only(await memory_in_history(self.client.temporal, self.id))
        return read_only(found)

    async def exists(self) -> bool:
        """Return whether there is a run with this id.

        A service can check this before it begins to answer.

        Raises:
            ServerUnavailable: The server does not answer.
        """
        try:
            await self._handle.describe()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return False
            raise translated(error, self.id) from error
        return True

    async def artifact(self, ref: str) -> Artifact:
        """Return an artifact of this run or of a child run, with its data.

        See `Client.artifact`.
        """
        return await self.client.artifact(ref)

    async def status(self) -> RunStatus:
        """Return the run's status, without a worker and for closed runs, too.

        Raises:
            RunNotFound: There is no such run.
            RunUnreadable: The run's records cannot be decoded here.
            ServerUnavailable: The server does not answer.
        """
        try:
            described = await self._handle.describe()
            is_open = described.status == WorkflowExecutionStatus.RUNNING
            is_served = is_open and await self.client.is_served(described.task_queue)
            # Without a worker, a query has no answer, and each would take its whole deadline.
            found = await self._queried() if is_served else None
            found = found or await status_in_history(self.client.temporal, self.id)
            hints = await self._hints(described, found, is_served=is_served) if is_open else []
        except UnreadableError as error:
            raise unreadable(self.id, str(error)) from error
        except RPCError as error:
            raise translated(error, self.id) from error
        closed = status_name(described.status)
        below = await self._child_awaits(found) if closed == "running" else {}
        return found.model_copy(
            update={
                "status": found.status if closed == "running" else closed,
                "started_at": found.started_at or described.start_time,
                "closed_at": described.close_time,
                "hints": hints,
                "child_awaits": below,
            }
        )

    async def until_waiting(self, *, timeout: timedelta | None = WAITING_DEADLINE) -> list[Await]:  # noqa: ASYNC109 - it says more than `asyncio.timeout` can
        """Wait until the run has open waits, and return them, oldest first.

        Waits of child runs do not count: follow a child run itself, as `client.get_run(child_id)`.

        Args:
            timeout: How long to wait; None for no limit.

        Raises:
            AwaitClosed: The run answered without waiting; the message has its answer.
            RunFailed: The run ended without an answer; with its subclasses, as `result` raises them.
            TimeoutError: The run did not wait in time; the message has its state.
            RunNotFound: There is no such run.
            ServerUnavailable: The server does not answer.
        """
        state, delays = RunStatus(run_id=self.id), backoff(0.25)
        try:
            async with asyncio.timeout(timeout.total_seconds() if timeout else None):
                while (state := await self.status()).is_open:
                    if state.awaits:
                        return state.awaits
                    await asyncio.sleep(next(delays))
                output = await self.result()
        except builtins.TimeoutError:
            more = [f"its child run {id} waits" for id in state.child_awaits] + state.hints
            raise builtins.TimeoutError(
                f"{self.id} waited for nobody within {timeout}: {'; '.join([f'it is {state.status}', *more])}"
            ) from None
        raise AwaitClosed(
            f"{self.id} ended without waiting, and answered {output.text[:MAX_QUOTED]!r}", run_id=self.id
        )

    async def _hints(
        self, described: WorkflowExecutionDescription, found: RunStatus, *, is_served: bool
    ) -> list[str]:
        queue, pending = described.task_queue, described.raw_description.pending_activities
        gone = [] if is_served else [f"no worker polls task queue {queue}"]
        asked = described.raw_description.workflow_extended_info.cancel_requested
        cancel = [CANCEL_REQUESTED] if asked else []
        tools = {call.tool_call_id: call.name for call in found.calls}
        return [*gone, *cancel, *await retrying(pending, self.client.temporal.data_converter, tools)]

    async def _child_awaits(self, status: RunStatus) -> dict[str, list[Await]]:
        links = [call.run_link for call in status.calls if call.run_link and call.state == "running"]
        below: dict[str, list[Await]] = {}
        for link in links[:MAX_CHILDREN_ASKED]:
            # The child run may have ended, or be starting only now.
            with contextlib.suppress(RunNotFound, ServerUnavailable):
                child = await Run(self.client, link.run_id).status()
                below |= {link.run_id: child.awaits} if child.awaits else {}
                below |= child.child_awaits
        return below

    async def _queried(self) -> RunStatus | None:
        try:
            return await self._handle.query("status", result_type=RunStatus, rpc_timeout=QUERY_DEADLINE)
        except (RPCError, WorkflowQueryFailedError):
            return None

    # Answer.

    @overload
    async def answer(
        self,
        answer: str | dict[str, Any],
        /,
        *,
        by: str | None = None,
        principal: Principal | None = None,
        message_id: str | None = None,
    ) -> str: ...
    @overload
    async def answer(
        self,
        await_id: AwaitClarification | str | None,
        answer: str | dict[str, Any],
        *,
        by: str | None = None,
        principal: Principal | None = None,
        message_id: str | None = None,
    ) -> str: ...
    async def answer(
        self,
        await_id: Any,
        answer: Any = _ABSENT,
        *,
        by: str | None = None,
        principal: Principal | None = None,
        message_id: str | None = None,
    ) -> str:
        """Answer a question of the run, and return the await's id.

        Args:
            await_id: The wait, or its id; None, or left out, while exactly one question is open.
            answer: Text, or values by field.
            by: Name of the person who answers, recorded unchecked; by default the principal's subject.
            principal: The principal that answers, as your program has authenticated it. For calls that need
                four eyes, it then counts as one that asked for the calls of the turn.
            message_id: The id of the message that is the answer: delivered once, however often it is sent, also to a
                conversation.

        Raises:
            AwaitClosed: The wait is not open, the message was delivered before, or the run has ended.
            InvalidInput: The answer is invalid, or does not fit the question.
            NoWorker: No worker accepted the answer within 30 s.
            RunNotFound: There is no such run.
        """
        wait: Any = await_id
        if answer is _ABSENT:
            wait, answer = None, await_id
            if not isinstance(answer, (str, dict)):
                raise TypeError("run.answer takes the answer, or the wait and the answer")
        asked = _id_of(wait)
        sent: Fields = {"id": asked, "answer": answer, **_sender(by, principal)}
        return await self._settle(PROVIDE_CLARIFICATION, sent, message_id, asked)

    async def decline(
        self,
        await_id: AwaitClarification | str | None,
        reason: str = "",
        *,
        by: str | None = None,
        principal: Principal | None = None,
    ) -> str:
        """Decline to answer a question. The planner, or the asking tool, gets the reason.

        Takes its sender, and raises, as `answer`.
        """
        sent = {"id": _id_of(await_id), "declined": True, "reason": reason, **_sender(by, principal)}
        return await self._send(PROVIDE_CLARIFICATION, sent)

    async def approve(
        self,
        await_id: AwaitConfirmation | str | None = None,
        *,
        payload_digest: str | None = None,
        by: str | None = None,
        principal: Principal | None = None,
        reason: str = "",
        for_run: bool = False,
        message_id: str | None = None,
    ) -> str:
        """Approve a call that waits for a person, and return the await's id.

        A decision names the arguments of the call, and applies to no others. Pass the wait that the person
        saw, or its id with its `payload_digest`; with less, the decision applies to the call that is open
        now.

        Args:
            await_id: The wait as the person saw it, or its id; None while exactly one is open.
            payload_digest: Digest of the arguments that the person saw; by default that of the wait passed.
            by: Name of the person who approves, recorded unchecked; by default the principal's subject.
            principal: The principal that approves, as your program has authenticated it. Required if the tool or its policy restricts
                the approvers.
            reason: The reason, recorded.
            for_run: Whether to stop asking about this tool, until the turn ends, or as long as the run's `ApprovalPolicy.stop_asking`
                says; its other open calls run too.
            message_id: The id of the message that approves, as for `answer`.

        Raises:
            ApprovalVoid: The tool was changed since it was shown, so that the call did not run.
            AwaitClosed: The wait is not open, or the run has ended.
            InvalidInput: The decision names other arguments.
            NotApprover: The principal may not decide on the call.
            NoWorker: No worker accepted the decision within 30 s.
            RunNotFound: There is no such run.
        """
        scope = "tool" if for_run else "call"
        sent = {"approved": True, **_sender(by, principal), "reason": reason, "scope": scope}
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
    ) -> str:
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
    ) -> str:
        if isinstance(seen, AwaitConfirmation):
            payload_digest = payload_digest or seen.payload_digest
            seen = seen.id
        sent = {"id": seen or "", "payload_digest": payload_digest, **decision}

        async def named() -> dict[str, Any]:
            calls = [] if payload_digest else await self._open_calls(seen)
            only = calls[0] if len(calls) == 1 else None
            if not (calls or seen or payload_digest):
                raise AwaitClosed(f"{self.id}: no call waits for a decision", run_id=self.id)
            return {**sent, "id": only.id, "payload_digest": only.payload_digest} if only else sent

        # Looked up once, without a wait's id: the decision must not apply to a call that opens later.
        return await self._settle(PROVIDE_CONFIRMATION, named if seen else await named(), message_id, seen)

    async def _settle(
        self,
        kind: str,
        sent: Fields | Callable[[], Awaitable[Fields]],
        message_id: str | None,
        await_id: str | None,
    ) -> str:
        if message_id is not None and not is_message_id(message_id):
            raise InvalidInput(
                f"{self.id}: `message_id` is a text of at most {MAX_MESSAGE_ID} characters", run_id=self.id
            )
        answered = await self._send(kind, sent, update_id_of(message_id))
        if message_id and await_id and answered != await_id:
            raise AwaitClosed(
                f"{self.id}: the message {message_id[:200]!r} was the answer to {answered}", run_id=self.id
            )
        return answered

    async def _open_calls(self, await_id: str | None) -> list[AwaitConfirmation]:
        status = await self._queried() or await status_in_history(self.client.temporal, self.id)
        calls = [wait for wait in status.awaits if isinstance(wait, AwaitConfirmation)]
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
            by: Name of the person who decides, recorded unchecked; by default the principal's subject.
            principal: The principal that decides, as for `approve`.
            reason: The reason, recorded.

        Raises:
            InvalidInput: No tool or tag is given, or too many.
            AwaitClosed: The run has ended.
            NoWorker: No worker accepted the decision within 30 s.
            RunNotFound: There is no such run.
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
    ) -> str:
        """Send results of external calls, all or some, and return the await's id.

        Args:
            await_id: The wait's id; None while exactly one is open.
            results: For each call `tool_call_id` and `result`, or `error` (a text, or an object with `message` and
                `code`) and perhaps `retry_hint`.
            by: Name of the sender, recorded unchecked; by default the principal's subject.
            principal: The principal that gives the results, as for `answer`.

        Raises:
            AwaitClosed: The wait is not open, the call was answered before, or the run has ended.
            InvalidInput: A result does not fit its tool; send that result again.
            NoWorker: No worker accepted the results within 30 s.
            RunNotFound: There is no such run.
        """
        given = [dict(result) for result in results]
        sent = {"id": await_id or "", "results": given, **_sender(by, principal)}
        return await self._send(PROVIDE_TOOL_RESULTS, sent)

    async def pause(self, reason: str = "", *, by: str | None = None) -> None:
        """Pause, so that nothing new starts until `resume`.

        Calls in progress finish. Child runs pause too.

        Raises:
            AwaitClosed: The run has ended.
            NoWorker: No worker accepted the pause within 30 s.
            RunNotFound: There is no such run.
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
            by: Name of the person who resumes, recorded unchecked.
            principal: The sender of the messages, as the caller has authenticated it. The run still acts for the same subject as before, with
                only those of its roles that the sender has too.

        Raises:
            AwaitClosed: The run is not paused, or has ended.
            NoWorker: No worker accepted the resume within 30 s.
            RunNotFound: There is no such run.
        """
        sent: Fields = {"note": note, "messages": _several(messages), "by": by}
        if messages and principal:
            sent = {**sent, PRINCIPAL: written_principal(principal)}
        await self._send(RESUME, sent)

    async def set_aside(self, what: int | str, reason: str = "", *, by: str | None = None) -> bool:
        """Set a message or a result aside, so that planners no longer read it.

        From the next plan on, they read a short text in its place. The transcript still has the
        message or result, and records who set it aside.

        Args:
            what: The number of a message in the transcript, from 0 on; the id of a call, for its result; or the id of a
                message that was sent to the conversation.
            reason: The reason, recorded; models do not read it.
            by: Name of the person who sets it aside, recorded unchecked.

        Returns:
            Whether it was not set aside before.

        Raises:
            AwaitClosed: The run has ended.
            InvalidInput: The transcript has no such message or result, or no planner has read it yet.
            NoWorker: No worker accepted it within 30 s.
            RunNotFound: There is no such run.
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
            NoWorker: No worker accepted the message within 30 s.
            RunNotFound: There is no such run, or none that the principal may see.
        """
        message = {**message, PRINCIPAL: written_principal(principal)} if principal else message
        judged = read_send([dict(message)], Inbox())  # a text that no JSON can hold cannot be sent
        if isinstance(judged, Refused):
            raise InvalidInput(f"{self.id}: {judged.reason}", run_id=self.id)
        return Accepted.model_validate(await self._send(SEND, dict(message)))

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

        return await send(self._handle, update, value)

    async def cancel(self, reason: str | None = None) -> None:
        """Request the run's cancellation.

        Calls in flight are cancelled and answered, and child runs get the request too. A run that
        has ended does not change.

        Raises:
            RunNotFound: There is no such run.
        """
        try:
            await self._handle.cancel(reason=reason or "")
        except RPCError as error:
            raise translated(error, self.id) from error

    async def _goes_on(self) -> bool:
        """Return whether the terminated execution was only reset."""
        return (await self._handle.describe()).status != WorkflowExecutionStatus.TERMINATED

    async def _failure(self, cause: BaseException | None) -> RunError:
        if isinstance(cause, CancelledError):
            reason, by, is_open = await self._cancel_request()
            suffix = f": {reason}" if reason else ""
            text = f"run {self.id} was canceled by {by}{suffix}"
            error = in_doubt(ToolError.new(text, code="Canceled"), ["unknown"]) if is_open else None
            return RunCanceled(
                error.message if error else text, run_id=self.id, reason=reason, by=by, error=error
            )
        if isinstance(cause, TerminatedError):
            return RunTerminated(
                f"run {self.id} was terminated: {cause.message}", run_id=self.id, code="Terminated"
            )
        if isinstance(cause, TimeoutError):
            return RunTimedOut(
                f"run {self.id} exceeded its execution time-out", run_id=self.id, code="TimedOut"
            )
        code = cause.type if isinstance(cause, ApplicationError) else type(cause).__name__
        error = chain_of(cause).without_repeats() if cause else None
        return RunFailed(f"run {self.id} failed: {error}", run_id=self.id, code=code, error=error)

    async def _cancel_request(self) -> tuple[str | None, str | None, bool]:
        """Read a cancellation: a workflow that closes as Canceled has no output."""
        parent, asked, is_open = "", None, False
        async for event in self._handle.fetch_history_events():
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                parent = (
                    event.workflow_execution_started_event_attributes.parent_workflow_execution.workflow_id
                )
            elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
                asked = asked or event.workflow_execution_cancel_requested_event_attributes
            elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
                memo = event.workflow_properties_modified_event_attributes.upserted_memo.fields
                is_open = is_open or IN_DOUBT in memo
        if asked is None:
            return None, None, is_open
        return asked.cause or None, sender_of(asked, parent) or None, is_open


def _id_of(wait: AwaitClarification | str | None) -> str:
    return wait.id if isinstance(wait, AwaitClarification) else wait or ""
