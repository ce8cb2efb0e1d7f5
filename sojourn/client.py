"""Client: start runs, follow them, answer their questions, end them.

```python
client = await Client.connect()
run = await client.start("ops.assistant", "Why is site s-7 dark?")
async for event in run.events():
    ...
print((await run.result()).text)
```
"""

import asyncio
import builtins
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import temporalio.client
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import (
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
)
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ApplicationError,
    CancelledError,
    TerminatedError,
    TimeoutError,  # noqa: A004 - Temporal's name for it
    WorkflowAlreadyStartedError,
)
from temporalio.service import RPCError, RPCStatusCode

from sojourn import search_attributes, settings
from sojourn.connection import connect
from sojourn.contracts.event import Event
from sojourn.contracts.ids import AGENT_ID, RUN_ID
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput, RunOutput, RunStatus
from sojourn.contracts.run_policy import RunPolicyOverride
from sojourn.core.run_input import labels_fault, messages_fault
from sojourn.core.standing import Standing
from sojourn.errors import (
    AwaitClosed,
    InvalidInput,
    NoWorker,
    RunAlreadyExists,
    RunCanceled,
    RunError,
    RunFailed,
    RunNotFound,
    RunTerminated,
    RunTimedOut,
    ServerUnavailable,
)
from sojourn.events import END, fold_history

__all__ = ["Client", "Run"]

POLLER_SEEN = timedelta(seconds=75)
"""A worker's poll lasts up to a minute; one seen longer ago is gone."""

WORKER_GRACE = 2.0
"""Seconds in which a worker that is just starting may appear."""

QUERY_DEADLINE = timedelta(seconds=1)
"""For `status()`: with no worker alive the history answers instead."""

ANSWER_DEADLINE = 30.0
"""Seconds in which a worker must take an answer."""

SERVER_PATIENCE = 60.0
"""Seconds that `result()` and `events()` bridge while a server restarts."""

_STATUS = {
    WorkflowExecutionStatus.RUNNING: "running",
    WorkflowExecutionStatus.COMPLETED: "completed",
    WorkflowExecutionStatus.FAILED: "failed",
    WorkflowExecutionStatus.CANCELED: "canceled",
    WorkflowExecutionStatus.TERMINATED: "terminated",
    WorkflowExecutionStatus.TIMED_OUT: "timed_out",
    WorkflowExecutionStatus.CONTINUED_AS_NEW: "running",
}
_AWAY = {
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.UNKNOWN,
}


class Client:
    """Starts and finds runs; wraps a Temporal client, which stays reachable as `temporal`.

    Args:
        temporal: A Temporal client made with `sojourn.data_converter`.
        task_queue: Where runs are started; `SOJOURN_TASK_QUEUE`, else `sojourn`.
    """

    def __init__(self, temporal: temporalio.client.Client, *, task_queue: str | None = None) -> None:
        self.temporal = temporal
        self.task_queue = settings.task_queue(task_queue)

    @classmethod
    async def connect(
        cls, address: str | None = None, *, namespace: str | None = None, task_queue: str | None = None
    ) -> "Client":
        """Connect by the standard Temporal settings; what is given here wins.

        Raises:
            ServerUnavailable: nothing answers there.
        """
        return cls(await connect(settings.connect_options(address, namespace)), task_queue=task_queue)

    async def start(
        self,
        agent_id: str,
        messages: str | Message | Sequence[Message],
        *,
        session_id: str = "",
        run_id: str | None = None,
        turn_id: str = "",
        labels: Mapping[str, str] | None = None,
        policy: RunPolicyOverride | None = None,
        attach: bool = False,
        wait_for_worker: bool = False,
    ) -> "Run":
        """Start a run of an agent.

        Args:
            agent_id: Which agent; checked by the worker, which fails the run within seconds if it has none.
            messages: A user message, or the whole opening.
            session_id: Groups runs of one conversation.
            run_id: Letters, digits and `_.:@=+-`, at most 200; made up when left out.
            turn_id: The first user turn's id; `t1` when left out.
            labels: Carried to planners, tools and listings; they authorise nothing.
            policy: This run's own limits; only tighter ones count.
            attach: Follow the run when it exists already, in place of `RunAlreadyExists`.
            wait_for_worker: Start even though nobody polls the queue yet.

        Raises:
            InvalidInput: an argument breaks its rule.
            NoWorker: nobody polls the task queue.
            RunAlreadyExists: a run of this id was started before.
            ServerUnavailable: the server does not answer.
        """
        run_id = run_id or f"{agent_id.rsplit('.', 1)[-1]}-{uuid.uuid4().hex[:12]}"
        opening = _opening(messages)
        _check(agent_id, run_id, session_id, turn_id, opening, dict(labels or {}))
        try:
            if not wait_for_worker and not await self._worker_soon():
                raise NoWorker(
                    f"no worker polls task queue {self.task_queue!r}; start one with "
                    f"`sojourn worker MODULE:APP --task-queue {self.task_queue}`, or pass wait_for_worker=True",
                    run_id=run_id,
                )
            await self._start(
                run_id,
                RunInput(
                    agent_id=agent_id,
                    messages=opening,
                    session_id=session_id,
                    turn_id=turn_id,
                    labels=dict(labels or {}),
                    policy=policy,
                ),
            )
        except WorkflowAlreadyStartedError as error:
            if not attach:
                raise RunAlreadyExists(
                    f"a run {run_id!r} was started before; choose another run_id, or pass attach=True to follow it",
                    run_id=run_id,
                ) from error
        except RPCError as error:
            raise _translated(error, run_id) from error
        return self.get_run(run_id)

    async def _start(self, run_id: str, run: RunInput) -> None:
        first = next((m.text for m in reversed(run.messages) if m.role == "user"), "")
        options: dict[str, Any] = {
            "id": run_id,
            "task_queue": self.task_queue,
            "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
            "memo": {"message": first[:200]},
            "static_summary": f"{run.agent_id}: {' '.join(first.split())[:80]}",
        }
        attributes = search_attributes.attributes_of(run.agent_id, run.session_id)
        try:
            await self.temporal.start_workflow("AgentRun", run, search_attributes=attributes, **options)
        except RPCError as error:
            if not search_attributes.is_unknown(error):
                raise
            await self.temporal.start_workflow("AgentRun", run, **options)

    async def execute(
        self, agent_id: str, messages: str | Message | Sequence[Message], **options: Any
    ) -> RunOutput:
        """Start a run and wait for its answer; takes and raises what `start` and `Run.result` do."""
        run = await self.start(agent_id, messages, **options)
        return await run.result()

    def get_run(self, run_id: str) -> "Run":
        """The run of this id; nothing is asked of the server yet."""
        return Run(self, run_id)

    async def list_runs(
        self, *, agent_id: str | None = None, session_id: str | None = None, status: str | None = None
    ) -> AsyncIterator[RunStatus]:
        """Runs of this namespace, newest first, as far as visibility tells (it lags by about a second).

        Raises:
            ServerUnavailable: the server does not answer.
            InvalidInput: the search attributes are not registered on this server.
        """
        clauses = ["WorkflowType = 'AgentRun'"]
        if agent_id:
            clauses.append(f"SojournAgent = {_quoted(agent_id)}")
        if session_id:
            clauses.append(f"SojournSession = {_quoted(session_id)}")
        if status == "waiting":
            clauses.append("SojournAwaiting IS NOT NULL AND ExecutionStatus = 'Running'")
        elif status:
            clauses.append(f"ExecutionStatus = {_quoted(_visibility_name(status))}")
        try:
            async for found in self.temporal.list_workflows(" AND ".join(clauses)):
                attributes = found.typed_search_attributes
                yield RunStatus(
                    run_id=found.id,
                    agent_id=attributes.get(search_attributes.AGENT) or "",
                    session_id=attributes.get(search_attributes.SESSION) or "",
                    status=_STATUS.get(found.status, "running") if found.status else "running",
                    started_at=found.start_time,
                    closed_at=found.close_time,
                )
        except RPCError as error:
            raise _translated(error, None) from error

    async def _worker_soon(self) -> bool:
        """A worker that starts at this moment has not polled yet, so that a no is asked again for 2 s."""
        deadline = time.monotonic() + WORKER_GRACE
        while not await self.has_worker():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.1)
        return True

    async def has_worker(self) -> bool:
        """Whether a worker polled the task queue within the last 75 s."""
        answer = await self.temporal.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=self.temporal.namespace,
                task_queue=TaskQueue(name=self.task_queue),
                task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
            )
        )
        oldest = time.time() - POLLER_SEEN.total_seconds()
        return any(poller.last_access_time.seconds >= oldest for poller in answer.pollers)


class Run:
    """One run: a handle, cheap to make, valid before, during and after."""

    def __init__(self, client: Client, run_id: str) -> None:
        self.client = client
        self.id = run_id

    @property
    def _handle(self) -> WorkflowHandle[Any, Any]:
        return self.client.temporal.get_workflow_handle(self.id, result_type=RunOutput)

    async def result(self) -> RunOutput:
        """Wait for the end.

        Raises:
            RunFailed: it failed; `RunCanceled`, `RunTerminated` and `RunTimedOut` are kinds of it.
            RunNotFound: there is no such run.
            ServerUnavailable: the server was away for a minute.
        """
        handle, away = self._handle, _Patience()
        while True:
            try:
                return await handle.result()
            except WorkflowFailureError as error:
                raise await self._failure(error.cause) from error
            except RPCError as error:
                if not await away.bridges(error):
                    raise _translated(error, self.id) from error

    async def events(self, *, after: str | None = None, follow: bool = True) -> AsyncIterator[Event]:
        """What happened and, with `follow`, what happens, to the last event `run_stream_end`.

        Args:
            after: An event_id; only later events come.
            follow: Wait for more until the run ends.

        Raises:
            RunNotFound: there is no such run.
            ServerUnavailable: the server was away for a minute.
        """
        last, away = after or "", _Patience()
        while True:
            try:
                async for event in fold_history(
                    self._handle, self.client.temporal.data_converter, follow=follow
                ):
                    if event.event_id > last:
                        last = event.event_id
                        yield event
                    if event.type == END:
                        return
                return
            except RPCError as error:
                if not await away.bridges(error):
                    raise _translated(error, self.id) from error

    async def status(self) -> RunStatus:
        """How the run stands; answers with no worker alive too, and for closed runs.

        Raises:
            RunNotFound: there is no such run.
            ServerUnavailable: the server does not answer.
        """
        try:
            described = await self._handle.describe()
            if described.status == WorkflowExecutionStatus.RUNNING:
                found = await self._queried() or await self._folded()
            else:
                found = await self._folded()
            hints = []
            if described.status == WorkflowExecutionStatus.RUNNING and not await self.client.has_worker():
                hints = [f"no worker polls task queue {self.client.task_queue}"]
        except RPCError as error:
            raise _translated(error, self.id) from error
        closed = _STATUS.get(described.status or WorkflowExecutionStatus.RUNNING, "running")
        return found.model_copy(
            update={
                "status": found.status if closed == "running" else closed,
                "started_at": described.start_time,
                "closed_at": described.close_time,
                "hints": hints,
            }
        )

    async def _queried(self) -> RunStatus | None:
        try:
            return await self._handle.query("status", result_type=RunStatus, rpc_timeout=QUERY_DEADLINE)
        except (RPCError, WorkflowQueryFailedError):
            return None

    async def _folded(self) -> RunStatus:
        standing = Standing(self.id)
        async for event in fold_history(self._handle, self.client.temporal.data_converter, follow=False):
            standing.feed(event)
        return standing.status()

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
            InvalidInput: it is no answer.
            NoWorker: no worker took the answer within 30 s.
            RunNotFound: there is no such run.
        """
        value = {"id": await_id or "", "answer": answer, **({"by": by} if by else {})}
        deadline = time.monotonic() + 2.0
        while True:
            try:
                update = self._handle.execute_update("provide_clarification", value, result_type=str)  # pyright: ignore[reportUnknownMemberType]
                return await asyncio.wait_for(update, ANSWER_DEADLINE)
            except WorkflowUpdateFailedError as error:
                refused = getattr(error.cause, "type", None)
                # An event stream shows a question a few milliseconds before the run can take its answer.
                if refused == "AwaitNotOpen" and time.monotonic() < deadline:
                    await asyncio.sleep(0.05)
                    continue
                kind = InvalidInput if refused == "InvalidAnswer" else AwaitClosed
                raise kind(f"{self.id}: {getattr(error.cause, 'message', error)}", run_id=self.id) from error
            except builtins.TimeoutError as error:
                raise NoWorker(
                    f"{self.id}: no worker took the answer; send it again", run_id=self.id
                ) from error
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND and "completed" in error.message:
                    raise AwaitClosed(f"{self.id} has ended; it takes no answers", run_id=self.id) from error
                raise _translated(error, self.id) from error

    async def cancel(self, reason: str | None = None) -> None:
        """Ask the run to cancel: tools in flight are cancelled and answered, children asked too.

        Raises:
            RunNotFound: there is no such run, or it has ended.
        """
        try:
            await self._handle.cancel(reason=reason or "")
        except RPCError as error:
            raise _translated(error, self.id) from error

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
        text = getattr(cause, "message", None) or str(cause)
        return RunFailed(f"run {self.id} failed: {text}", run_id=self.id, code=code)

    async def _cancel_request(self) -> tuple[str | None, str | None]:
        """Who asked for the cancellation, and why: a workflow that closes as Canceled carries no output."""
        async for event in self._handle.fetch_history_events():
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
                asked = event.workflow_execution_cancel_requested_event_attributes
                parent: WorkflowExecution = asked.external_workflow_execution
                return asked.cause or None, asked.identity or (parent.workflow_id or None)
        return None, None


class _Patience:
    """Bridges a server's restart: retries with growing delays, for a minute without success."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._delay = 0.1
        self._last = 0.0

    async def bridges(self, error: RPCError) -> bool:
        now = time.monotonic()
        if error.status not in _AWAY:
            return False
        if self._since is None or now - self._last > SERVER_PATIENCE / 2:
            self._since, self._delay = now, 0.1
        self._last = now
        if now - self._since > SERVER_PATIENCE:
            return False
        await asyncio.sleep(self._delay)
        self._delay = min(self._delay * 2, 2.0)
        return True


def _opening(messages: str | Message | Sequence[Message]) -> list[Message]:
    if isinstance(messages, str):
        return [Message.user(messages)]
    return [messages] if isinstance(messages, Message) else list(messages)


def _check(
    agent_id: str, run_id: str, session_id: str, turn_id: str, opening: list[Message], labels: dict[str, str]
) -> None:
    fault = None
    if not AGENT_ID.match(agent_id):
        fault = f"agent_id {agent_id[:80]!r} has another form than <service>.<agent>"
    elif not RUN_ID.match(run_id):
        fault = "run_id holds letters, digits and _.:@=+- and is at most 200 characters long"
    elif len(session_id) > 200 or len(turn_id) > 64:
        fault = "session_id is at most 200 characters long, turn_id at most 64"
    fault = fault or messages_fault(opening) or labels_fault(labels)
    if fault:
        raise InvalidInput(fault, run_id=run_id)


def _translated(error: RPCError, run_id: str | None) -> RunError:
    """An RPC error as one of ours; the one place that does it."""
    if error.status == RPCStatusCode.NOT_FOUND:
        return RunNotFound(f"no run {run_id!r} here, or it has ended: {error.message}", run_id=run_id)
    if error.status in _AWAY:
        return ServerUnavailable(
            f"the Temporal server does not answer ({error.message[:200]}); is it running?", run_id=run_id
        )
    return InvalidInput(f"the Temporal server refused: {error.message[:300]}", run_id=run_id)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _visibility_name(status: str) -> str:
    return "".join(part.title() for part in status.split("_"))
