"""Run: one run, seen from outside: its end, its events, its standing, its questions."""

import asyncio
import builtins
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
    TimeoutError,  # noqa: A004 - Temporal's name for it
)
from temporalio.service import RPCError, RPCStatusCode

from sojourn.client.access import Access
from sojourn.connection.rpc_errors import Patience, translated, unreadable
from sojourn.contracts.artifact import Artifact
from sojourn.contracts.awaits import Await, AwaitConfirmation
from sojourn.contracts.event import Event
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunOutput, RunStatus
from sojourn.converter.failures import chain_of
from sojourn.converter.marked import UnreadableError
from sojourn.core.awaits.clarification import CLARIFICATION
from sojourn.core.awaits.confirmation import CONFIRMATION
from sojourn.core.awaits.external_tools import TOOL_RESULTS
from sojourn.core.awaits.steering import PAUSE, RESUME, STOP_ASKING
from sojourn.errors import (
    AwaitClosed,
    InvalidInput,
    NoWorker,
    RunCanceled,
    RunError,
    RunFailed,
    RunNotFound,
    RunTerminated,
    RunTimedOut,
    ServerUnavailable,
)
from sojourn.events.one_run import status_in_history, transcript_of
from sojourn.events.pending import retrying
from sojourn.events.stream import stream

__all__ = ["Run", "status_name"]

QUERY_DEADLINE = timedelta(seconds=1)
"""For `status()`: with no worker alive the history answers instead."""

MAX_CHILDREN_ASKED = 20
"""Child runs of one run that its status looks into."""

ANSWER_DEADLINE = 30.0
"""Seconds in which a worker must take an answer."""

TASK_FAILS = "Workflow Task in failed state"
"""What the server says of a run whose newest workflow task has failed and is not tried again yet."""

_STATUS = {
    WorkflowExecutionStatus.RUNNING: "running",
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "canceled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
    WorkflowExecutionStatus.CONTINUED_AS_NEW: "running",
}


def _several(texts: Sequence[str] | str) -> list[str]:
    """A list of texts; one text is no list of its letters."""
    return [texts] if isinstance(texts, str) else list(texts)


def status_name(status: WorkflowExecutionStatus | None) -> str:
    """Our name of Temporal's status."""
    return _STATUS.get(status or WorkflowExecutionStatus.RUNNING, "running")


class Run:
    """One run: a handle, cheap to make, valid before, during and after."""

    def __init__(self, client: Access, run_id: str) -> None:
        self.client = client
        self.id = run_id

    @property
    def run_id(self) -> str:
        """Its id, under the name that everything recorded of it has."""
        return self.id

    @property
    def _handle(self) -> WorkflowHandle[Any, Any]:
        return self.client.temporal.get_workflow_handle(self.id, result_type=RunOutput)

    async def result(self) -> RunOutput:
        """Wait for the end; through a reset too.

        Raises:
            RunFailed: it failed; `RunCanceled`, `RunTerminated` and `RunTimedOut` are kinds of it.
            RunNotFound: there is no such run.
            RunUnreadable: its answer cannot be read here.
            ServerUnavailable: the server was away for a minute.
        """
        handle, away = self._handle, Patience()
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
                if not await away.bridges(error):
                    raise translated(error, self.id) from error
                with contextlib.suppress(RPCError):
                    await handle.describe()
                    away.answered()

    async def events(
        self,
        *,
        after: str | Mapping[str, str] | None = None,
        follow: bool = True,
        children: bool = False,
        deltas: bool = False,
    ) -> AsyncGenerator[Event]:
        """What happened and, with `follow`, what happens, to the last event `run_stream_end`.

        With `follow`, `tool_retry` and `tool_update` tell of calls that are in flight for more than a second;
        these have no `event_id`, and whoever comes later does not get them.

        Args:
            after: An event_id of this run; only later events come. With `children`, perhaps one for each run, by
                run id.
            follow: Wait for more until the run ends.
            children: The events of child runs too, each with its own `run_id` and `parent_tool_call_id`: after
                the `agent_run_started` of their call and before its `tool_end`.
            deltas: With `follow`, what a planner is saying too, while it says it: `text_delta`, `thinking_delta`,
                `tool_call_delta` and `stream_restarted`, as far as the client's live transport carries them. These
                have no `event_id` either; the `assistant_message` that follows holds it all.

        Raises:
            RunNotFound: there is no such run.
            ServerUnavailable: the server was away for a minute.
        """
        cursors = {self.id: after} if isinstance(after, str) else after or {}
        live = self.client.live if deltas else None
        events = stream(
            self.client.temporal, self.id, after=cursors, follow=follow, children=children, live=live
        )
        async with contextlib.aclosing(events):
            async for event in events:
                yield event

    async def transcript(self) -> list[Message]:
        """What was said so far: messages, calls and their answers, as the planner is given them.

        It is read from the history: with no worker alive too, and for closed runs.

        Raises:
            RunNotFound: there is no such run.
            ServerUnavailable: the server does not answer.
        """
        return await transcript_of(self.client.temporal, self.id)

    async def artifact(self, ref: str) -> Artifact:
        """An artifact of this run or of a child run, with its data; see `Client.artifact`."""
        return await self.client.artifact(ref)

    async def status(self) -> RunStatus:
        """How the run stands; answers with no worker alive too, and for closed runs.

        Raises:
            RunNotFound: there is no such run.
            RunUnreadable: what it recorded cannot be read here.
            ServerUnavailable: the server does not answer.
        """
        try:
            described = await self._handle.describe()
            if described.status == WorkflowExecutionStatus.RUNNING:
                found = await self._queried() or await status_in_history(self.client.temporal, self.id)
            else:
                found = await status_in_history(self.client.temporal, self.id)
            is_open = described.status == WorkflowExecutionStatus.RUNNING
            hints = await self._hints(described, found) if is_open else []
        except UnreadableError as error:
            raise unreadable(self.id, str(error)) from error
        except RPCError as error:
            raise translated(error, self.id) from error
        closed = status_name(described.status)
        below = await self._child_awaits(found) if closed == "running" else {}
        return found.model_copy(
            update={
                "status": found.status if closed == "running" else closed,
                "started_at": described.start_time,
                "closed_at": described.close_time,
                "hints": hints,
                "child_awaits": below,
            }
        )

    async def _hints(self, described: WorkflowExecutionDescription, found: RunStatus) -> list[str]:
        """What an operator should know of an open run that its own status does not tell."""
        queue, pending = described.task_queue, described.raw_description.pending_activities
        gone = [] if await self.client.has_worker(queue) else [f"no worker polls task queue {queue}"]
        tools = {call.tool_call_id: call.name for call in found.calls}
        return [*gone, *await retrying(pending, self.client.temporal.data_converter, tools)]

    async def _child_awaits(self, status: RunStatus) -> dict[str, list[Await]]:
        """What the child runs at work wait for, and theirs, by their run ids."""
        links = [call.run_link for call in status.calls if call.run_link and call.state == "running"]
        below: dict[str, list[Await]] = {}
        for link in links[:MAX_CHILDREN_ASKED]:
            with contextlib.suppress(RunNotFound, ServerUnavailable):  # it has ended, or is only starting
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

    async def answer(
        self, await_id: str | None, answer: str | dict[str, Any], *, by: str | None = None
    ) -> str:
        """Answer a question of the run; returns the await's id.

        Args:
            await_id: Which; None while exactly one is open.
            answer: Text, or values by field.
            by: Who answers, recorded as said.

        Raises:
            AwaitClosed: it is not open, or the run has ended.
            InvalidInput: it is no answer, or does not fit what is asked.
            NoWorker: no worker took the answer within 30 s.
            RunNotFound: there is no such run.
        """
        return await self._send(CLARIFICATION, {"id": await_id or "", "answer": answer, "by": by})

    async def decline(self, await_id: str | None, reason: str = "", *, by: str | None = None) -> str:
        """Say that a question will not be answered; the planner, or the tool that asks, is told. Raises as `answer`."""
        sent = {"id": await_id or "", "declined": True, "reason": reason, "by": by}
        return await self._send(CLARIFICATION, sent)

    async def approve(
        self,
        await_id: AwaitConfirmation | str | None = None,
        *,
        payload_digest: str | None = None,
        by: str | None = None,
        reason: str = "",
        for_run: bool = False,
    ) -> str:
        """Let a call run that a person is asked about; returns the await's id.

        A decision names the arguments it is about, and counts for no others. Hand over the wait that the person
        saw, or its id with its `payload_digest`; with less, the arguments are those of the call that is open now.

        Args:
            await_id: Which: the wait as it was seen, or its id; None while exactly one is open.
            payload_digest: Which arguments were seen; of a wait that is handed over, its own.
            by: Who approves, recorded as said.
            reason: Why, recorded.
            for_run: Whether to stop asking about this tool for the rest of the run; its other open calls run too.

        Raises:
            AwaitClosed: it is not open, or the run has ended.
            InvalidInput: it is about other arguments.
            NoWorker: no worker took the decision within 30 s.
            RunNotFound: there is no such run.
        """
        scope = "tool" if for_run else "call"
        sent = {"approved": True, "by": by, "reason": reason, "scope": scope}
        return await self._decide(await_id, payload_digest, sent)

    async def deny(
        self,
        await_id: AwaitConfirmation | str | None = None,
        reason: str = "",
        *,
        payload_digest: str | None = None,
        by: str | None = None,
    ) -> str:
        """Do not let a call run; the planner is told the reason. Names it, and raises, as `approve`."""
        return await self._decide(await_id, payload_digest, {"approved": False, "by": by, "reason": reason})

    async def _decide(
        self, seen: AwaitConfirmation | str | None, payload_digest: str | None, decision: dict[str, Any]
    ) -> str:
        if isinstance(seen, AwaitConfirmation):
            payload_digest = payload_digest or seen.payload_digest
            seen = seen.id
        sent = {"id": seen or "", "payload_digest": payload_digest, **decision}

        async def named() -> dict[str, Any]:
            """What is sent, with the arguments of the open call where none were named."""
            calls = [] if payload_digest else await self._open_calls(seen)
            only = calls[0] if len(calls) == 1 else None
            if not (calls or seen or payload_digest):
                raise AwaitClosed(f"{self.id}: no call waits for a decision", run_id=self.id)
            return {**sent, "id": only.id, "payload_digest": only.payload_digest} if only else sent

        # Of a call that opens later nobody has said anything: what is open is looked for once.
        return await self._send(CONFIRMATION, named if seen else await named())

    async def _open_calls(self, await_id: str | None) -> list[AwaitConfirmation]:
        """The calls that a person is asked about, of this id or all."""
        status = await self._queried() or await status_in_history(self.client.temporal, self.id)
        calls = [wait for wait in status.awaits if isinstance(wait, AwaitConfirmation)]
        return [call for call in calls if await_id in (None, "", call.id)]

    async def stop_asking(
        self,
        tools: Sequence[str] | str = (),
        *,
        tags: Sequence[str] | str = (),
        by: str | None = None,
        reason: str = "",
    ) -> None:
        """Approve these for the rest of the run; their open calls run now.

        Args:
            tools: Tools by id, as `ops.devices.*`, or `*` for all; a text is one.
            tags: Tools by their tags; a text is one.
            by: Who says so, recorded as said.
            reason: Why, recorded.

        Raises:
            InvalidInput: it names nothing, or is too long.
            AwaitClosed: the run has ended.
            NoWorker: no worker took it within 30 s.
            RunNotFound: there is no such run.
        """
        await self._send(
            STOP_ASKING, {"tools": _several(tools), "tags": _several(tags), "by": by, "reason": reason}
        )

    async def provide_tool_results(
        self, await_id: str | None, results: Sequence[Mapping[str, Any]], *, by: str | None = None
    ) -> str:
        """Send results of calls that are executed outside, all or some; returns the await's id.

        Args:
            await_id: Which; None while exactly one is open.
            results: For each call `tool_call_id` and `result`, or `error` (a text, or an object with `message` and
                `code`) and perhaps `retry_hint`.
            by: Who sends them, recorded as said.

        Raises:
            AwaitClosed: it is not open, the call was answered before, or the run has ended.
            InvalidInput: a result does not fit its tool; send that one again.
            NoWorker: no worker took them within 30 s.
            RunNotFound: there is no such run.
        """
        sent = {"id": await_id or "", "results": [dict(one) for one in results], "by": by}
        return await self._send(TOOL_RESULTS, sent)

    async def pause(self, reason: str = "", *, by: str | None = None) -> None:
        """Start nothing new until `resume`; what runs finishes. Child runs pause too.

        Raises:
            AwaitClosed: the run has ended.
            NoWorker: no worker took it within 30 s.
            RunNotFound: there is no such run.
        """
        await self._send(PAUSE, {"reason": reason, "by": by})

    async def resume(
        self, note: str = "", *, messages: Sequence[str] | str = (), by: str | None = None
    ) -> None:
        """Go on after a pause; messages begin a new user turn, and a text is one message.

        Raises:
            AwaitClosed: the run is not paused, or has ended.
            NoWorker: no worker took it within 30 s.
            RunNotFound: there is no such run.
        """
        await self._send(RESUME, {"note": note, "messages": _several(messages), "by": by})

    async def _send(self, name: str, value: dict[str, Any] | Callable[[], Awaitable[dict[str, Any]]]) -> Any:
        """Send an update, made anew for each try where it has to be, and say in our words why it is refused."""
        deadline: float | None = None
        failing: float | None = None
        while True:
            said = await value() if callable(value) else value
            given = {field: each for field, each in said.items() if each not in (None, "")}
            try:
                update = self._handle.execute_update(name, given)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                return await asyncio.wait_for(update, ANSWER_DEADLINE)  # pyright: ignore[reportUnknownArgumentType]
            except WorkflowUpdateFailedError as error:
                refused = getattr(error.cause, "type", None)
                # An event stream shows a question before the run can take its answer: by a few milliseconds,
                # or, when its worker died just then, by as long as the next one needs to start.
                deadline = deadline or time.monotonic() + 2.0
                if refused in ("AwaitNotOpen", "NotBound") and time.monotonic() < deadline:
                    await asyncio.sleep(0.05)
                    continue
                kind = InvalidInput if refused in ("InvalidAnswer", "NotBound") else AwaitClosed
                raise kind(f"{self.id}: {getattr(error.cause, 'message', error)}", run_id=self.id) from error
            except (builtins.TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
                said = f"no worker handled it within {ANSWER_DEADLINE:g} s; it can still take effect when a worker runs"
                raise NoWorker(f"{self.id}: {said}", run_id=self.id) from error
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND and "completed" in error.message:
                    raise AwaitClosed(
                        f"{self.id} has ended; it accepts no answers", run_id=self.id
                    ) from error
                if TASK_FAILS in error.message:  # the server refuses at once, and tries the task again
                    failing = failing or time.monotonic() + ANSWER_DEADLINE
                    if time.monotonic() < failing:
                        await asyncio.sleep(0.5)
                        continue
                    said = "its workflow task fails again and again; `sojourn list --stuck` says why"
                    raise NoWorker(f"{self.id}: {said}", run_id=self.id) from error
                raise translated(error, self.id) from error

    async def cancel(self, reason: str | None = None) -> None:
        """Ask the run to cancel: tools in flight are cancelled and answered, children asked too.

        A run that has ended stays as it ended.

        Raises:
            RunNotFound: there is no such run.
        """
        try:
            await self._handle.cancel(reason=reason or "")
        except RPCError as error:
            raise translated(error, self.id) from error

    async def _goes_on(self) -> bool:
        """Whether the execution that was terminated was only reset: a newer one goes on, or has ended."""
        return (await self._handle.describe()).status != WorkflowExecutionStatus.TERMINATED

    async def _failure(self, cause: BaseException | None) -> RunError:
        if isinstance(cause, CancelledError):
            reason, by = await self._cancel_request()
            said = f": {reason}" if reason else ""
            return RunCanceled(
                f"run {self.id} was canceled by {by}{said}", run_id=self.id, reason=reason, by=by
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
        error = chain_of(cause).told_once() if cause else None
        return RunFailed(f"run {self.id} failed: {error}", run_id=self.id, code=code, error=error)

    async def _cancel_request(self) -> tuple[str | None, str | None]:
        """Who asked for the cancellation, and why: a workflow that closes as Canceled carries no output."""
        async for event in self._handle.fetch_history_events():
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
                asked = event.workflow_execution_cancel_requested_event_attributes
                parent = asked.external_workflow_execution
                return asked.cause or None, asked.identity or (parent.workflow_id or None)
        return None, None
