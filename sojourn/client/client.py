"""Start runs, follow them, answer their questions, and end them.

```python
async with Client.connect() as client:
    run = await client.start("ops.assistant", "Why is site s-7 dark?")
    async for event in run.events():
        ...
    print((await run.result()).text)
```
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from temporalio.converter import PayloadCodec
from temporalio.exceptions import (
    WorkflowAlreadyStartedError,
)
from temporalio.service import RPCError

from sojourn.attachments import Upload, owner_of_schedule
from sojourn.client.access import Access, Attachable, Connecting, no_worker, queue_of
from sojourn.client.conversation_id import conversation_id
from sojourn.client.forking import (
    MISSING,
    ForkRequest,
    ForkReview,
    decide_when_asked,
    fork_of,
    read_histories,
)
from sojourn.client.listing import Selection, find_runs, with_labels
from sojourn.client.run import Run
from sojourn.client.schedule import (
    Schedule,
    client_of_schedule,
    create_schedule,
    list_schedules,
    spec_of,
    template_of,
)
from sojourn.client.session import Session
from sojourn.client.start import (
    RUN_ID_RULE,
    as_messages,
    generate_id,
    priority_of,
    start_workflow,
    taint_of,
    validate_input,
)
from sojourn.connection import settings
from sojourn.connection.connect import connect
from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.attachment import Attachment, AttachmentLimits
from sojourn.contracts.ids import RUN_ID
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Principal, Visibility
from sojourn.contracts.run import RunOutput, RunStatus, ScheduleStatus
from sojourn.contracts.run_policy import RunPolicyOverride
from sojourn.contracts.taint import Taint
from sojourn.errors import (
    InvalidInput,
    NotApprover,
    NoWorker,
    RunAlreadyExists,
)
from sojourn.live import LiveTransport
from sojourn.storage import StorageDriver

if TYPE_CHECKING:
    from sojourn.authoring.app import App

__all__ = ["Client", "Run"]

MAX_SCHEDULE_ID = 150
"""Longest id of a schedule: those of its runs have a time in addition."""

FAILED = ("failed", "timed_out")
"""`RunStatus.status` of a run that can be retried."""


class Client(Access):
    """A client that starts and finds runs.

    It wraps a Temporal client, which is available as `temporal`. Methods raise `ServerUnavailable` if the server does not
    answer, `RunNotFound` if there is no such run, `RunUnreadable` if its records cannot be decoded here, and `NoWorker` if
    no worker polls the task queue.

    Args:
        temporal: A Temporal client made with `sojourn.data_converter`.
        task_queue: The task queue of new runs; `SOJOURN_TASK_QUEUE`, else that of the workers that serve a run's agent.
        storage: The storage of the workers for data that is too large for a history, as `App(storage=...)`.
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
        attachment_limits: AttachmentLimits | None = None,
    ) -> "Connecting[Client]":
        """Connect by the standard Temporal settings. An argument overrides a setting.

        Await it, or enter it, which closes the client at the end: `async with Client.connect() as client`.

        Args:
            address: The server's address, as `host:port`.
            namespace: The namespace.
            task_queue: The task queue of new runs; `SOJOURN_TASK_QUEUE`, else that of the workers that serve a run's agent.
            storage: The storage of the workers for data that is too large for a history, as `App(storage=...)`.
            live: The transport of deltas, as `App(live=...)`; `SOJOURN_LIVE`, else within this process
                and from the `sojourn dev` of the server.
            codec: Encrypts and decrypts payloads; `SOJOURN_CODEC`, else none. Workers need the same codec.
            encrypted_only: Whether messages in clear text are refused; also set by `SOJOURN_ENCRYPTED_ONLY`.
            compression: The compression of messages to and from the server; `SOJOURN_GRPC_COMPRESSION`, else none for a server
                on this machine and `gzip` for any other.
            attachment_limits: Bounds of the files that messages may have; 25 MB each by default.

        Raises:
            ServerUnavailable: No server answers at the address.
            DefinitionError: A setting cannot be read, or names no codec.
        """

        async def connect_client() -> "Client":
            options = settings.connect_options(address, namespace, compression)
            temporal = await connect(options, codec=codec, encrypted_only=encrypted_only)
            return cls(
                temporal,
                task_queue=task_queue,
                storage=storage,
                live=live,
                attachment_limits=attachment_limits,
            )

        return Connecting(connect_client())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
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
        principal: Principal | None = None,
        visibility: Visibility = "tenant",
        priority: int | None = None,
        attach: bool = False,
        wait_for_worker: bool = False,
        attachments: Sequence[Attachable] = (),
        taint: RunOutput | Taint | None = None,
    ) -> "Run":
        """Start a run of an agent.

        Args:
            agent_id: The agent. If the client has no task queue, the run starts on that of the workers that serve the agent;
                on a named queue a worker fails the run within seconds if no worker of the queue has the agent.
            messages: A user message, or the whole opening.
            session_id: Groups the runs of a conversation; no quotes, backslashes or control characters, at most 200 characters.
            run_id: Letters, digits and `_.:@=+-`, at most 200; generated when left out.
            turn_id: The first user turn's id; `t1` when left out.
            labels: Labels for planners, tools and listings; they authorise nothing.
            policy: Limits of this run; a value applies only if it is tighter.
            principal: The principal that the run acts for, as the caller has authenticated it; planners, tools and policy engines get it,
                in child runs too.
            visibility: The principals that see the run over HTTP, before its first plan too. From that plan on, the agent's app decides
                if its visibility is `subject`.
            priority: 1, the highest, to 5; 3 when left out. Work of a higher priority that waits for a worker goes first, before that of other tenants too.
                Child runs and tool calls have their run's.
            attach: Return the run when it exists already, instead of `RunAlreadyExists`.
            wait_for_worker: Start even though no worker polls the client's task queue yet; a client that names none
                waits until a worker serves the agent.
            attachments: Files to send with the last message: paths, or what `Client.attach` has stored.
            taint: The output of a run whose text is in the messages, or its `taint`. If that run had read text from outside, this one begins
                as if it had read the same.

        Raises:
            InvalidInput: An argument breaks its rule; or the client names no task queue, and workers of several serve the agent.
            NoWorker: No worker polls the task queue, or serves the agent.
            RunAlreadyExists: A run of this id was started before.
        """
        run_id = run_id or generate_id(agent_id, principal.tenant if isinstance(principal, Principal) else "")
        opening = await self.opening_of(messages, attachments, run_id=run_id, principal=principal)
        run = validate_input(
            run_id,
            agent_id=agent_id,
            messages=opening,
            session_id=session_id,
            turn_id=turn_id,
            labels=dict(labels or {}),
            policy=policy,
            principal=principal,
            visibility=visibility,
            taint=taint_of(taint),
        )
        try:
            queue = self.task_queue or await queue_of(
                self.temporal, run.agent_id, run_id, patient=wait_for_worker
            )
            if self.task_queue and not wait_for_worker and not await self.worker_soon(queue):
                raise NoWorker(no_worker(queue), run_id=run_id)
            listed = run.model_copy(update={"listed": True})
            await start_workflow(self.temporal, run_id, run, queue, argument=listed, priority=priority)
        except WorkflowAlreadyStartedError as error:
            if not attach:
                raise RunAlreadyExists(
                    f"run id {run_id!r} was used before; choose another run_id, or pass attach=True to follow that run",
                    run_id=run_id,
                ) from error
        except RPCError as error:
            raise translate_error(error, run_id) from error
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
        arguments: Mapping[str, Any] | None = None,
        by: str | None = None,
        history: str | PathLike[str] | None = None,
        new_run_id: str | None = None,
        principal: Principal | None = None,
        app: "App | None" = None,
        review: Callable[[ForkReview], Awaitable[None]] | None = None,
        wait_for_worker: bool = False,
    ) -> "Run":
        """Start a new run that continues from a point of another, with one thing changed.

        Nothing that was executed up to the point is executed again, as the fork begins with the
        transcript. The last point up to `at` is after a step, after the result of a call, when the
        planner asks or sleeps, or before the first plan. `status().forked_from` has the point that was used.
        Calls of the step that had no result yet are answered as not executed. The limits of the
        fork count from zero. Its policy, labels, principal and safeguards are those of the origin.

        Args:
            run_id: The run to fork; it may be open, and does not change.
            at: An event id of the run; its last event when left out.
            message: A user message, which begins a new user turn; after the run's answer too.
            result: A result, as JSON or a `ToolResult`, in place of the one that the call of `at` had, or the last call.
            answer: Another answer to the planner's question at `at`.
            approve: Another decision on the call whose approval, or result, is at `at`. It applies to the call,
                unless the policy or the policy engine denies the call by now. A call that the origin may have carried out is
                not approved so; the fork waits for a person who reads that in its question.
            arguments: Arguments in place of those that the call at `at` had, or the last call. The app as it is now judges the call
                by them, as if a planner had just planned it: it may deny it, or ask a person first. Arguments that do not fit the
                tool's schema fail the fork.
            by: Name of the person who forks, and decides with `approve`, recorded unchecked.
            history: A file of `sojourn export RUN --history FILE`, for a run that the server has deleted.
            new_run_id: The id of the fork; generated when left out. The fork of a conversation is a session of its own,
                `<session>-fork-<8 digits>`; with an id of the form `<agent>@<session>` it is that one.
            principal: The principal that asks for the fork; that of the origin when left out.
            app: The app of the run's agent. `arguments` that do not fit its tool are then refused before the fork starts, and calls of
                the fork's knowledge of its origin leaves out tools that only read.
            review: Awaited before the fork starts, with a `ForkReview`. Its `warning` says if the origin carried out the call
                that gets other `arguments`, or may have. No fork starts if it raises.
            wait_for_worker: As for `start`.

        Raises:
            InvalidInput: An argument breaks its rule, the run has no such event, or the change does not fit there.
            NotApprover: The principal may not decide on the call; no fork was started, unless a function of the tool says so.
            RunAlreadyExists: `new_run_id` was used before.
        """
        if at == "":
            raise InvalidInput(
                "at is the id of an event; leave it out to fork the end of the run", run_id=run_id
            )
        asked = ForkRequest(self.get_run(run_id).id, at, message, result, answer, approve, arguments)
        exported = read_histories(run_id, history) if history else ()
        fork = await fork_of(self.temporal, asked, exported, self.storage, app)
        fork = fork.asked_by(principal, asked.run_id, by).named(new_run_id)
        if approve is not None and (why := fork.why_not(principal, approved=approve)):
            raise NotApprover(why, run_id=run_id)
        new = self.get_run(new_run_id or fork.run_id)
        if not RUN_ID.match(new.id):
            raise InvalidInput(f"the new run: {RUN_ID_RULE}", run_id=new.id)
        queue = self.task_queue or fork.task_queue
        if review is not None:
            await review(ForkReview(new.id, fork.link, fork.warning))
        try:
            if not wait_for_worker and not await self.worker_soon(queue):
                raise NoWorker(no_worker(queue), run_id=new.id)
            shown, fork = fork.run, await fork.fitting(self.temporal, self.storage, new.id)
            await start_workflow(self.temporal, new.id, shown, queue, argument=fork.argument())
        except WorkflowAlreadyStartedError as error:
            raise RunAlreadyExists(
                f"run id {new.id!r} was used before; choose another one for the new run", run_id=new.id
            ) from error
        except RPCError as error:
            raise translate_error(error, new.id) from error
        if fork.approval and approve is not None:
            await decide_when_asked(new, fork.approval, approve=approve, by=by, principal=principal)
        return new

    async def retry(
        self, run_id: str, *, new_run_id: str | None = None, wait_for_worker: bool = False
    ) -> "Run":
        """Retry a failed run from the last point before its failure.

        This is a fork without a change, for a planner that is mended, a provider that is back, or a
        tool that is deployed again.

        Args:
            run_id: The run that failed.
            new_run_id: The id of the new run; generated when left out.
            wait_for_worker: As for `start`.

        Raises:
            InvalidInput: The run did not fail; use `fork` for a run that ended otherwise.
            RunAlreadyExists: `new_run_id` was used before.
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
        principal: Principal | None = None,
        priority: int | None = None,
        attach: bool = False,
        wait_for_worker: bool = False,
        attachments: Sequence[Attachable] = (),
        taint: RunOutput | Taint | None = None,
    ) -> RunOutput:
        """Start a run and wait for its answer.

        It takes the arguments and raises the errors of `start` and `Run.result`.
        """
        run = await self.start(
            agent_id,
            messages,
            session_id=session_id,
            run_id=run_id,
            turn_id=turn_id,
            labels=labels,
            policy=policy,
            principal=principal,
            priority=priority,
            attach=attach,
            wait_for_worker=wait_for_worker,
            attachments=attachments,
            taint=taint,
        )
        return await run.result()

    async def attach(
        self, path: Path | str | Attachment, *, media_type: str = "", principal: Principal | None = None
    ) -> Upload:
        """Store a file, to send it with messages of the same principal later.

        Args:
            path: The file; or a file of a run, as `run.attachments()` returns it, which is copied. A copy of a file that may hold text
                from outside may hold it too.
            media_type: Its MIME type; by default the one that its name suggests, or that of the run's file.
            principal: The principal that will send it.

        Raises:
            InvalidInput: The file cannot be read or is too large, or there is no external storage.
        """
        if isinstance(path, Attachment):
            file: Attachment = path
            return await self.attachments.store(
                file.chunks(),
                name=file.name,
                media_type=media_type or file.media_type,
                principal=principal,
                tainted=file.record.tainted,
            )
        return await self.attachments.store_path(Path(path), media_type=media_type, principal=principal)

    async def opening_of(
        self,
        messages: str | Message | Sequence[Message],
        attachments: Sequence[Attachable] = (),
        *,
        run_id: str,
        principal: Principal | None = None,
    ) -> list[Message]:
        """Return the opening of a run with these files in its last message.

        Larger data of its messages goes to storage.
        """
        opening = as_messages(messages)
        if attachments and (not opening or opening[-1].role != "user"):
            raise InvalidInput("attachments: they join the last message, which is no user's")
        last = len(opening) - 1
        return [
            await self.with_attachments(
                message, attachments if at == last else (), run_id=run_id, principal=principal
            )
            for at, message in enumerate(opening)
        ]

    def get_run(self, run_id: str) -> "Run":
        """Return a handle of the run with this id, without a request.

        Raises:
            InvalidInput: No run can have this id: it is empty, too long, or has invisible characters.
        """
        return Run(self, run_id)

    def session(
        self,
        agent_id: str,
        session_id: str,
        *,
        labels: Mapping[str, str] | None = None,
        policy: RunPolicyOverride | None = None,
        principal: Principal | None = None,
        visibility: Visibility = "tenant",
        priority: int | None = None,
        admit: bool = False,
    ) -> "Session":
        """Return a handle of the conversation with an agent, without a request.

        Nothing is started.

        Args:
            agent_id: The agent.
            session_id: The session: 1 to 200 characters, without quotes, backslashes and control characters.
            labels: Labels of the conversation, if this handle's first message starts it.
            policy: Limits of each turn, and with its `session` of the whole, if this handle's first message starts
                it; a value applies only if it is tighter than the agent's.
            principal: The principal that sends the messages; the turns that they open act for it. The conversation belongs to its
                tenant, so two tenants with the same session id have two conversations.
            visibility: The principals that see the conversation over HTTP, if this handle's first message starts it, as for `start`.
            priority: Priority of the conversation, if this handle's first message starts it, as for `start`.
            admit: Let the principal take part in a conversation of the visibility `subject` that it does not see yet. Without it,
                the conversation refuses its messages as if it did not exist, unless the principal is an operator.

        Raises:
            InvalidInput: An argument breaks its rule.
        """
        return Session(
            self,
            agent_id,
            session_id,
            labels=labels,
            policy=policy,
            principal=principal,
            visibility=visibility,
            priority=priority,
            admit=admit,
        )

    def list_sessions(
        self,
        *,
        agent_id: str | None = None,
        session_id: str | None = None,
        status: str | None = None,
        since: datetime | None = None,
        labels: Mapping[str, str] | None = None,
        tenant: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[RunStatus]:
        """Yield conversations of this namespace, as `list_runs` yields runs.

        They are those that `session` finds by their ids. The arguments are those of `list_runs`; the status `idle` finds
        those that wait for a message.

        Raises:
            InvalidInput: The search attributes are not registered on this server.
        """
        selection = Selection(
            agent_id, session_id, status, since, children=False, tenant=tenant, only_sessions=True
        )
        return self._list(selection, labels, limit)

    async def schedule(
        self,
        agent_id: str,
        messages: str | Message | Sequence[Message],
        *,
        every: timedelta | None = None,
        cron: str | Sequence[str] | None = None,
        time_zone: str | None = None,
        session_id: str = "",
        schedule_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        policy: RunPolicyOverride | None = None,
        principal: Principal | None = None,
        priority: int | None = None,
        by: str | None = None,
        note: str = "",
        attachments: Sequence[Attachable] = (),
    ) -> "Schedule":
        """Create a Temporal Schedule that starts a run, or sends a message, repeatedly.

        With `session_id` it sends a message to that conversation. If a run is still open when the
        next is due, the schedule skips the next one. A message is delivered once each time it is
        due.

        Args:
            agent_id: The agent.
            messages: A user message, or without `session_id` the whole opening. `{scheduled_at}` in it is the time at which
                the schedule acts, in its time zone: in ISO 8601, or in a format of `strftime`, as in
                `{scheduled_at:%d %B}`. `{{scheduled_at}}` stays as text, with single braces.
            every: The interval, at least a second, counted from 1970-01-01T00:00Z: a day is from midnight to midnight UTC.
            cron: In place of it a cron expression of five fields, or several, such as `0 8 * * 1-5`.
            time_zone: The time zone of `cron`, such as `Europe/Berlin`; UTC when left out.
            session_id: The session of the conversation, which the first message starts.
            schedule_id: As a run id, at most 150 characters; generated when left out. The ids of its runs and messages begin with it.
            labels: Labels of the runs, or of the conversation if a message starts it.
            policy: Limits of the runs, or of the conversation if a message starts it.
            principal: The principal that the runs act for, as in `start`, or that sends the messages, as in `session`.
            priority: Priority of the runs, or of sending the messages, as for `start`.
            by: With `session_id`: name of the sender, recorded unchecked.
            note: A note for people.
            attachments: Files to send with the last message each time: paths, or what `Client.attach` has stored.

        Raises:
            InvalidInput: An argument breaks its rule, or the server refuses the cron expression or the time zone.
            NoWorker: No worker polls the task queue, or serves the agent.
            ScheduleAlreadyExists: There is a schedule of this id.
        """
        spec = spec_of(every, cron, time_zone)
        tenant = principal.tenant if principal else ""
        place = priority_of(tenant, priority)
        schedule_id = schedule_id or generate_id(agent_id, tenant)
        if len(schedule_id) > MAX_SCHEDULE_ID:
            raise InvalidInput(f"schedule_id has at most {MAX_SCHEDULE_ID} characters")
        temporal = client_of_schedule(self.temporal, schedule_id, tenant)
        owner = (
            conversation_id(agent_id, session_id, tenant) if session_id else owner_of_schedule(schedule_id)
        )
        run = validate_input(
            schedule_id,
            agent_id=agent_id,
            messages=await self.opening_of(messages, attachments, run_id=owner, principal=principal),
            session_id=session_id,
            labels=dict(labels or {}),
            policy=policy,
            principal=principal,
        )
        sends = template_of(run, time_zone or "UTC", by)
        try:
            queue = self.task_queue or await queue_of(self.temporal, agent_id, schedule_id)
            if self.task_queue and not await self.worker_soon(queue):
                raise NoWorker(no_worker(queue))
        except RPCError as error:
            raise translate_error(error, None) from error
        return await create_schedule(temporal, schedule_id, sends, spec, queue, note=note, priority=place)

    def get_schedule(self, schedule_id: str) -> "Schedule":
        """Return a handle of the schedule with this id, without a request."""
        return Schedule(self.temporal, schedule_id)

    def list_schedules(self, *, agent_id: str | None = None) -> AsyncIterator[ScheduleStatus]:
        """Yield the schedules that `schedule` created in this namespace, in no order.

        The listing lags by about a second.

        Args:
            agent_id: Only schedules of this agent.
        """
        return list_schedules(self.temporal, agent_id)

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
        tenant: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[RunStatus]:
        """Yield runs of this namespace from Temporal's visibility store.

        Open runs come before ended ones, each newest first. The store lags by about a second. A
        listed run has the fields `run_id`, `agent_id`, `session_id`, `status`, `awaiting`,
        `started_at`, `closed_at` and, of `forked_from`, the `run_id`, which are those that the
        store has. The others have their defaults, since they are in each run's history, which
        `client.get_run(run_id).status()` reads.

        Args:
            agent_id: Only runs of this agent.
            session_id: Only runs of this session.
            status: As `RunStatus.status`; `running` includes waiting, paused and idle ones, `waiting` paused ones.
            since: Only runs that started at this moment or later.
            labels: Only runs that were started with all of these labels. The store does not have them: each listed run's
                input is read, and a run whose input cannot be read has none.
            children: Whether to include child runs.
            fork_of: Only forks of this run, and retries of it.
            tenant: Only runs of this tenant; empty for those without one.
            limit: Most runs to return.

        Raises:
            InvalidInput: The search attributes are not registered on this server.
        """
        selection = Selection(agent_id, session_id, status, since, children, fork_of, tenant)
        return self._list(selection, labels, limit)

    def _list(
        self, selection: Selection, labels: Mapping[str, str] | None, limit: int | None
    ) -> AsyncIterator[RunStatus]:
        if labels:
            return with_labels(self.temporal, find_runs(self.temporal, selection, None), labels, limit)
        return find_runs(self.temporal, selection, limit)
