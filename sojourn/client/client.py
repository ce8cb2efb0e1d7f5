"""Client: start runs, follow them, answer their questions, end them.

```python
async with Client.connect() as client:
    run = await client.start("ops.assistant", "Why is site s-7 dark?")
    async for event in run.events():
        ...
    print((await run.result()).text)
```
"""

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from os import PathLike
from typing import Any, Literal, Self

from pydantic import ValidationError
from temporalio.client import (
    WorkflowExecution,
)
from temporalio.converter import PayloadCodec
from temporalio.exceptions import (
    WorkflowAlreadyStartedError,
)
from temporalio.service import RPCError

from sojourn import search_attributes
from sojourn.client.access import Access
from sojourn.client.begin import begin
from sojourn.client.connecting import Connecting
from sojourn.client.forking import MISSING, ForkRequest, fork_of, read_histories
from sojourn.client.labels import with_labels
from sojourn.client.run import Run, status_name
from sojourn.client.session import Session
from sojourn.client.started import started_at_of
from sojourn.client.task_queue import no_worker, queue_of
from sojourn.connection import settings
from sojourn.connection.connect import connect
from sojourn.connection.rpc_errors import translated
from sojourn.contracts.fork import ForkedFrom
from sojourn.contracts.ids import AGENT_ID, RUN_ID
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunInput, RunOutput, RunStatus
from sojourn.contracts.run_policy import RunPolicyOverride
from sojourn.core.run.opening import labels_fault, messages_fault, opening_fault
from sojourn.core.values.wire import encode_readable
from sojourn.errors import (
    InvalidInput,
    NoWorker,
    RunAlreadyExists,
)
from sojourn.live import LiveTransport
from sojourn.storage import StorageDriver

__all__ = ["Client", "Run", "quoted"]

RUN_ID_RULE = (
    "run_id must begin with a letter or digit, and have only letters, digits and _.:@=+-, at most 200"
)

FAILED = ("failed", "timed_out")
"""`RunStatus.status` of a run that can be retried."""


class Client(Access):
    """Starts and finds runs; wraps a Temporal client, which is available as `temporal`.

    Args:
        temporal: A Temporal client made with `sojourn.data_converter`.
        task_queue: The task queue of new runs; `SOJOURN_TASK_QUEUE`, else that of the workers that serve a run's agent.
        storage: Where the workers keep what is too large for a history, as `App(storage=...)`.
        live: The transport of deltas, as `App(live=...)`; `SOJOURN_LIVE`, else within this process
            and from the `sojourn dev` of the server.

    Raises:
        DefinitionError: `SOJOURN_LIVE` cannot be read.
    """

    @classmethod
    def connect(
        cls,
        address: str | None = None,
        *,
        namespace: str | None = None,
        task_queue: str | None = None,
        storage: StorageDriver | None = None,
        live: LiveTransport | str | None = None,
        codec: PayloadCodec | None = None,
        encrypted_only: bool = False,
        compression: Literal["gzip", "none"] | None = None,
    ) -> "Connecting[Client]":
        """Connect by the standard Temporal settings; an argument takes precedence over a setting.

        Await it, or enter it, which closes the client at the end: `async with Client.connect() as client`.

        Args:
            address: The server's address, as `host:port`.
            namespace: The namespace.
            task_queue: The task queue of new runs; `SOJOURN_TASK_QUEUE`, else that of the workers that serve a run's agent.
            storage: Where the workers keep what is too large for a history, as `App(storage=...)`.
            live: The transport of deltas, as `App(live=...)`; `SOJOURN_LIVE`, else within this process
                and from the `sojourn dev` of the server.
            codec: Encrypts and decrypts payloads; `SOJOURN_CODEC`, else none. Workers need the same codec.
            encrypted_only: Whether messages in clear text are refused; also set by `SOJOURN_ENCRYPTED_ONLY`.
            compression: The compression of messages to and from the server; `SOJOURN_GRPC_COMPRESSION`, else none for a server
                on this machine and `gzip` for any other.

        Raises:
            ServerUnavailable: No server answers at the address.
            DefinitionError: A setting cannot be read, or names no codec.
        """

        async def connected() -> "Client":
            options = settings.connect_options(address, namespace, compression)
            temporal = await connect(options, codec=codec, encrypted_only=encrypted_only)
            return cls(temporal, task_queue=task_queue, storage=storage, live=live)

        return Connecting(connected())

    async def __aenter__(self) -> Self:
        """Return the client; at the end it is closed."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close the client."""
        await self.close()

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
            agent_id: The agent. Where the client has no task queue, the run starts where workers serve the agent;
                on a named queue a worker fails the run within seconds if no worker of the queue has the agent.
            messages: A user message, or the whole opening.
            session_id: Groups the runs of a conversation; no quotes, backslashes or control characters, at most 200 characters.
            run_id: Letters, digits and `_.:@=+-`, at most 200; generated when left out.
            turn_id: The first user turn's id; `t1` when left out.
            labels: Labels for planners, tools and listings; they authorise nothing.
            policy: Limits of this run; a value applies only where it is tighter.
            attach: Return the run when it exists already, instead of `RunAlreadyExists`.
            wait_for_worker: Start even though no worker polls the client's task queue yet; a client that names none
                waits until a worker serves the agent.

        Raises:
            InvalidInput: An argument breaks its rule; or the client names no task queue, and workers of several serve the agent.
            NoWorker: No worker polls the task queue, or serves the agent.
            RunAlreadyExists: A run of this id was started before.
            ServerUnavailable: The server does not answer.
        """
        run_id = run_id or _generated_id(agent_id)
        run = _opened(
            run_id,
            agent_id=agent_id,
            messages=_opening(messages),
            session_id=session_id,
            turn_id=turn_id,
            labels=dict(labels or {}),
            policy=policy,
        )
        try:
            queue = self.task_queue or await queue_of(
                self.temporal, run.agent_id, run_id, patient=wait_for_worker
            )
            if self.task_queue and not wait_for_worker and not await self.worker_soon(queue):
                raise NoWorker(no_worker(queue), run_id=run_id)
            listed = run.model_copy(update={"listed": True})
            await begin(self.temporal, run_id, run, queue, listed=listed, unlisted=run)
        except WorkflowAlreadyStartedError as error:
            if not attach:
                raise RunAlreadyExists(
                    f"run id {run_id!r} was used before; choose another run_id, or pass attach=True to follow that run",
                    run_id=run_id,
                ) from error
        except RPCError as error:
            raise translated(error, run_id) from error
        return self.get_run(run_id)

    async def fork(
        self,
        run_id: str,
        *,
        at: str | None = None,
        message: str | None = None,
        result: Any = MISSING,
        answer: str | Mapping[str, Any] | None = None,
        approve: bool | None = None,
        by: str | None = None,
        history: str | PathLike[str] | None = None,
        new_run_id: str | None = None,
        wait_for_worker: bool = False,
    ) -> "Run":
        """Start a new run that goes on from a point of another, with one thing changed.

        Nothing that was executed up to the point is executed again: the fork begins with the transcript. The last
        point up to `at` is after a step, after the result of a call, where the planner asks or sleeps, or before the
        first plan; `status().forked_from` tells which it was. Calls of the step that had no result yet are answered as
        not executed. The limits of the fork count from zero; its policy, labels and safeguards are those of the origin.

        Args:
            run_id: The run to fork; it may be open, and does not change.
            at: An event id of the run; its last event where left out.
            message: A user message, which begins a new user turn; after the run's answer too.
            result: A result, as JSON or a `ToolResult`, in place of the one that the call of `at` had, or the last call.
            answer: Another answer to the planner's question at `at`.
            approve: Another decision on the call whose approval, or result, is at `at`; the call is carried out by it.
            by: Name of the person who decides with `approve`, recorded unchecked.
            history: A file of `sojourn export RUN --history FILE`, for a run that the server has deleted.
            new_run_id: The id of the fork; generated when left out.
            wait_for_worker: Start even though no worker polls the task queue yet.

        Raises:
            InvalidInput: An argument breaks its rule, the run has no such event, or the change does not fit there.
            NoWorker: No worker polls the task queue.
            RunAlreadyExists: A run of the id `new_run_id` was started before.
            RunNotFound: There is no such run.
            RunUnreadable: The run's records cannot be decoded here.
            ServerUnavailable: The server does not answer.
        """
        if at == "":
            raise InvalidInput(
                "at is the id of an event; leave it out to fork the end of the run", run_id=run_id
            )
        asked = ForkRequest(self.get_run(run_id).id, at, message, result, answer, approve)
        exported = read_histories(run_id, history) if history else ()
        fork = await fork_of(self.temporal, asked, exported, self.storage)
        agent_id = fork.begins.state.opening.agent_id
        new = self.get_run(new_run_id or _generated_id(agent_id))
        if not RUN_ID.match(new.id):
            raise InvalidInput(RUN_ID_RULE.replace("run_id", "new_run_id"), run_id=new.id)
        queue = self.task_queue or fork.task_queue
        try:
            if not wait_for_worker and not await self.worker_soon(queue):
                raise NoWorker(no_worker(queue), run_id=new.id)
            shown, fork = fork.run, await fork.fitting(self.temporal, self.storage, new.id)
            listed, unlisted = fork.argument(is_listed=True), fork.argument(is_listed=False)
            await begin(self.temporal, new.id, shown, queue, listed=listed, unlisted=unlisted)
        except WorkflowAlreadyStartedError as error:
            raise RunAlreadyExists(
                f"run id {new.id!r} was used before; choose another new_run_id", run_id=new.id
            ) from error
        except RPCError as error:
            raise translated(error, new.id) from error
        if fork.approval and approve is not None:
            await (new.approve(fork.approval, by=by) if approve else new.deny(fork.approval, by=by))
        return new

    async def retry(
        self, run_id: str, *, new_run_id: str | None = None, wait_for_worker: bool = False
    ) -> "Run":
        """Take a failed run up again, at the last point before its failure: a fork without a change.

        For a planner that is mended, a provider that is back, or a tool that is deployed again.

        Args:
            run_id: The run that failed.
            new_run_id: The id of the new run; generated when left out.
            wait_for_worker: Start even though no worker polls the task queue yet.

        Raises:
            InvalidInput: The run did not fail; `fork` takes up a run that ended otherwise.
            NoWorker: No worker polls the task queue.
            RunAlreadyExists: A run of the id `new_run_id` was started before.
            RunNotFound: There is no such run.
            RunUnreadable: The run's records cannot be decoded here.
            ServerUnavailable: The server does not answer.
        """
        status = (await self.get_run(run_id).status()).status
        if status not in FAILED:
            raise InvalidInput(
                f"run {run_id} did not fail, it is {status}; fork takes up any run", run_id=run_id
            )
        return await self.fork(run_id, new_run_id=new_run_id, wait_for_worker=wait_for_worker)

    async def execute(
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
    ) -> RunOutput:
        """Start a run and wait for its answer; takes the arguments and raises the errors of `start` and `Run.result`."""
        run = await self.start(
            agent_id,
            messages,
            session_id=session_id,
            run_id=run_id,
            turn_id=turn_id,
            labels=labels,
            policy=policy,
            attach=attach,
            wait_for_worker=wait_for_worker,
        )
        return await run.result()

    def get_run(self, run_id: str) -> "Run":
        """A handle of the run with this id; sends no request.

        Raises:
            InvalidInput: No run can have this id: it is empty, too long, or has invisible characters.
        """
        return Run(self, run_id)

    def session(self, agent_id: str, session_id: str) -> "Session":
        """A handle of the conversation with an agent; sends no request, and starts nothing.

        Args:
            agent_id: The agent.
            session_id: The session: 1 to 200 characters, without quotes, backslashes and control characters.

        Raises:
            InvalidInput: An id breaks its rule.
        """
        return Session(self, agent_id, session_id)

    def list_runs(
        self,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        status: str | None = None,
        since: datetime | None = None,
        labels: Mapping[str, str] | None = None,
        children: bool = True,
        fork_of: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[RunStatus]:
        """Runs of this namespace, open ones before ended ones, each newest first, from Temporal's visibility store.

        The store lags by about a second. A listing has the fields `run_id`, `agent_id`, `session_id`, `status`, `awaiting`,
        `started_at`, `closed_at` and, of `forked_from`, the `run_id`, which are those that the store has; the others keep their defaults, since they are
        in each run's history: `client.get_run(run_id).status()` reads it.

        Args:
            agent_id: Only runs of this agent.
            session_id: Only runs of this session.
            status: As `RunStatus.status`; `running` includes waiting and paused ones, `waiting` paused ones.
            since: Only runs that started at this moment or later.
            labels: Only runs that were started with all of these labels. The store does not have them: each listed run's
                input is read, and a run whose input cannot be read has none.
            children: Whether to include child runs.
            fork_of: Only forks of this run, and retries of it.
            limit: Most runs to return.

        Raises:
            ServerUnavailable: The server does not answer.
            InvalidInput: The search attributes are not registered on this server.
        """
        clauses = ["WorkflowType = 'AgentRun'"]
        if since:
            since = since.astimezone(UTC)
            clauses.append(f"StartTime >= '{since.isoformat()}'")
        if not children:
            clauses.append("ParentWorkflowId IS NULL")
        if agent_id:
            clauses.append(f"SojournAgent = {quoted(agent_id)}")
        if session_id:
            clauses.append(f"SojournSession = {quoted(session_id)}")
        if fork_of:
            clauses.append(f"SojournForkOf = {quoted(fork_of)}")
        if status in ("waiting", "paused"):
            which = f"= '{search_attributes.PAUSED}'" if status == "paused" else "IS NOT NULL"
            clauses.append(f"SojournAwaiting {which} AND ExecutionStatus = 'Running'")
        elif status:
            clauses.append(f"ExecutionStatus = {quoted(_visibility_name(status))}")
        else:
            clauses.append("ExecutionStatus != 'ContinuedAsNew'")
        query = " AND ".join(clauses)
        if labels:
            return with_labels(self.temporal, self._listed(query, None, since), labels, limit)
        return self._listed(query, limit, since)

    async def _listed(
        self, query: str, limit: int | None, since: datetime | None
    ) -> AsyncGenerator[RunStatus]:
        left = limit
        try:
            # The store selects by the start of the last execution, so that some of what it finds may be left out.
            async for found in self.temporal.list_workflows(query, limit=None if since else limit):
                started_at = await started_at_of(found)
                if since and started_at < since:
                    continue
                if left is not None and (left := left - 1) < 0:
                    return
                attributes = found.typed_search_attributes
                origin = attributes.get(search_attributes.FORK_OF)
                yield RunStatus(
                    run_id=found.id,
                    agent_id=attributes.get(search_attributes.AGENT) or "",
                    session_id=attributes.get(search_attributes.SESSION) or "",
                    forked_from=ForkedFrom(run_id=origin, event_id="") if origin else None,
                    status=_status_of(found),
                    awaiting="" if found.close_time else attributes.get(search_attributes.AWAITING) or "",
                    started_at=started_at,
                    closed_at=found.close_time,
                )
        except RPCError as error:
            if search_attributes.is_unknown(error):
                raise InvalidInput(search_attributes.HOW_TO_REGISTER) from error
            raise translated(error, None) from error


def _generated_id(agent_id: str) -> str:
    return f"{str(agent_id).rsplit('.', 1)[-1]}-{uuid.uuid4().hex[:12]}"


def _opening(messages: str | Message | Sequence[Message]) -> list[Message]:
    if isinstance(messages, str):
        return [Message.user(messages)]
    return [messages] if isinstance(messages, Message) else list(messages)


def _opened(run_id: str, **fields: Any) -> RunInput:
    """The run's input, validated before the start: a run with an invalid opening should not exist."""
    try:
        run = RunInput(**fields)
        encode_readable(run)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidInput(f"{place}: {first['msg']}", run_id=run_id) from error
    except ValueError as error:
        raise InvalidInput(f"the input of a run must be JSON: {str(error)[:200]}", run_id=run_id) from error
    fault = _fault_of(run_id, run)
    if fault:
        raise InvalidInput(fault, run_id=run_id)
    return run


def _fault_of(run_id: str, run: RunInput) -> str | None:
    if not AGENT_ID.match(run.agent_id):
        return opening_fault(run)  # the run id is derived from the agent id
    if not RUN_ID.match(run_id):
        return RUN_ID_RULE
    return opening_fault(run) or messages_fault(run.messages) or labels_fault(run.labels)


def _status_of(found: WorkflowExecution) -> str:
    status = status_name(found.status)
    awaiting = found.typed_search_attributes.get(search_attributes.AWAITING)
    if status != "running" or not awaiting:
        return status
    return {search_attributes.PAUSED: "paused", search_attributes.IDLE: "idle"}.get(awaiting, "waiting")


def quoted(text: str) -> str:
    """A text as a quoted literal in a visibility query."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _visibility_name(status: str) -> str:
    return "".join(part.title() for part in status.split("_"))
