"""Handle of a run for reading its result, events, status and open waits."""

import asyncio
import builtins
import contextlib
from collections.abc import AsyncGenerator, Mapping
from datetime import timedelta
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import (
    WorkflowExecution,
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

from sojourn.attachments import RunAttachments, attachments_in, runs_read_by
from sojourn.client.access import Access, backoff
from sojourn.connection.rpc_errors import OutageRetry, translate_error, unreadable
from sojourn.contracts.attachment import Attachment
from sojourn.contracts.awaits import Await
from sojourn.contracts.event import Event
from sojourn.contracts.ids import run_id_fault
from sojourn.contracts.memory import SessionMemory, read_only
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunOutput, RunStatus
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import Artifact
from sojourn.contracts.wire_names import IN_DOUBT
from sojourn.converter.codec import UnreadableError
from sojourn.converter.failures import chain_of
from sojourn.core.payload.unknown_outcome import mark_doubts
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
from sojourn.search_attributes import GAVE_UP

__all__ = ["CANCEL_REQUESTED", "ReadableRun", "limit_of_end", "status_name"]

CANCEL_REQUESTED = "cancel was requested; the run ends once a worker has handled that"
"""The hint of an open run with a request to cancel."""

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


def status_name(status: WorkflowExecutionStatus | None) -> str:
    """Return the name of Temporal's status in `RunStatus`."""
    return _STATUS.get(status or WorkflowExecutionStatus.RUNNING, "running")


def limit_of_end(found: WorkflowExecution) -> str:
    """Return the limit or safeguard that ended a run, or an empty text."""
    return found.typed_search_attributes.get(GAVE_UP) or ""


class ReadableRun:
    """Read access to a run: its status, events and results."""

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
            RunUnreadable: The output cannot be decoded here.
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
                    raise translate_error(error, self.id) from error
                with contextlib.suppress(RPCError):
                    await handle.describe()
                    outage.end_outage()

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
            deltas: With `follow`, include the text that a planner is writing: `text_delta`, `thinking_delta`,
                `tool_call_delta` and `stream_restarted`, as far as the client's live transport carries them. These
                have no `event_id` either; the `assistant_message` that follows holds the whole text.

        Raises:
            InvalidInput: `after` is no event_id and no cursor. This is raised at once, the other errors when the events are read.
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
            RunUnreadable: The beginning of a long run is in a storage that this client does not have, or the records of its
                workers cannot be decoded here.
        """
        return await transcript_of(self.client.temporal, self.id, self.client.storage)

    async def attachments(self) -> list[Attachment]:
        """Return the files of messages, and those that tools made, oldest first.

        Their `chunks` and `read` return the content.

        Raises as `transcript`.
        """
        files = attachments_in(await self.transcript())
        source = RunAttachments(self.client.attachments, await self._readable_runs() if files else ())
        return [Attachment(file, source) for file in files.values()]

    async def _readable_runs(self) -> set[str]:
        """Return the runs whose files this one has.

        They are those above it, and its origins as a fork.
        """
        runs, origin = runs_read_by(self.id), (await self.status()).forked_from
        while origin is not None and origin.run_id not in runs:
            runs |= runs_read_by(origin.run_id)
            try:
                origin = (await ReadableRun(self.client, origin.run_id).status()).forked_from
            except RunNotFound:
                break
        return runs

    async def memory(self) -> SessionMemory:
        """Return the memory of the run, a read-only JSON object.

        Available without a worker, and for closed runs.
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
        """
        try:
            await self._handle.describe()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return False
            raise translate_error(error, self.id) from error
        return True

    async def artifact(self, ref: str) -> Artifact:
        """Return an artifact of this run or of a child run, with its data.

        See `Client.artifact`.
        """
        return await self.client.artifact(ref)

    async def status(self) -> RunStatus:
        """Return the run's status, without a worker and for closed runs, too."""
        try:
            described = await self._handle.describe()
            is_open = described.status == WorkflowExecutionStatus.RUNNING
            is_served = is_open and await self.client.is_served(described.task_queue)
            # Without a worker, a query has no answer, and each would take its whole deadline.
            found = await self._query_status() if is_served else None
            found = found or await status_in_history(self.client.temporal, self.id)
            hints = await self._hints(described, found, is_served=is_served) if is_open else []
        except UnreadableError as error:
            raise unreadable(self.id, str(error)) from error
        except RPCError as error:
            raise translate_error(error, self.id) from error
        closed = status_name(described.status)
        below = await self._child_awaits(found) if closed == "running" else {}
        status = found.status if closed == "running" else closed
        return found.model_copy(
            update={
                "status": "waiting" if below and status == "running" else status,
                "started_at": found.started_at or described.start_time,
                "closed_at": described.close_time,
                "gave_up": limit_of_end(described),
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
                child = await ReadableRun(self.client, link.run_id).status()
                below |= {link.run_id: child.awaits} if child.awaits else {}
                below |= child.child_awaits
        return below

    async def _query_status(self) -> RunStatus | None:
        try:
            return await self._handle.query("status", result_type=RunStatus, rpc_timeout=QUERY_DEADLINE)
        except (RPCError, WorkflowQueryFailedError):
            return None

    async def _goes_on(self) -> bool:
        """Return whether the terminated execution was only reset."""
        return (await self._handle.describe()).status != WorkflowExecutionStatus.TERMINATED

    async def _failure(self, cause: BaseException | None) -> RunError:
        if isinstance(cause, CancelledError):
            reason, by, is_open = await self._cancel_request()
            # The reason names who asked, if the API, the console or a command did: the client is a process then.
            text = f"run {self.id} was canceled{f': {reason}' if reason else f' by {by}'}"
            error = mark_doubts(ToolError.new(text, code="Canceled"), ["unknown"]) if is_open else None
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
