"""Wait for tasks, cancel them, and stream their updates.

Temporal runs the tasks.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Self, cast

from fasta2a.broker import Broker, TaskOperation
from fasta2a.event_bus import EventBus
from fasta2a.schema import (
    Artifact,
    Part,
    ResubscribeTaskRequest,
    StreamMessageResponse,
    StreamResponse,
    TaskArtifactUpdateEvent,
    TaskIdParams,
    TaskSendParams,
    TaskStatusUpdateEvent,
)
from fasta2a.task_manager import TaskManager

from sojourn.contracts.principal import Principal
from sojourn.errors import RunNotFound
from sojourn.http.problems import Problem
from sojourn.http.protocols.a2a.tasks import ANSWER, RunStorage, artifact_data, state_of, status_of, task_of
from sojourn.http.protocols.messages import stop, token_of_task
from sojourn.http.protocols.reply import AgentReply, follow, read, read_to_end
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.routes.parameters import RequestScope
from sojourn.http.security import audit
from sojourn.http.service import Service

__all__ = ["RunBroker", "RunTaskManager", "TaskEventBus", "require_open"]

PATIENCE = 60.0
"""Seconds for which a message without a stream waits for its task."""


LASTS = ("open", "asked")
"""The states of a task that has not ended."""


class TaskEventBus(EventBus):
    """The events of a task, from the one follower that its run has in this process."""

    def __init__(self, attending: RequestScope, asking: Principal) -> None:
        self._attending = attending
        self._service = attending.service
        self._asking = asking

    @asynccontextmanager
    async def subscribe(self, task_id: str, *, to_end: bool = False) -> AsyncGenerator[Any]:
        """Follow a task until it ends or, without `to_end`, asks a question."""
        self._attending.release()
        token = await token_of_task(self._service, self._asking, task_id)
        context_id = (await self._service.client.get_run(token.run_id).status()).session_id
        reply = AgentReply(token, is_task=True)
        async with aclosing(self._updates(reply, context_id, to_end=to_end)) as updates:
            yield updates

    async def _updates(
        self, reply: AgentReply, context_id: str, *, to_end: bool
    ) -> AsyncGenerator[StreamResponse]:
        text, wait = "", None
        async with aclosing(follow(self._service, reply, to_end=to_end)) as steps:
            async for step in steps:
                if step.text:
                    piece = Artifact(artifact_id=ANSWER, name=ANSWER, parts=[Part(text=step.text)])
                    yield _artifact(reply, context_id, piece, append=bool(text), last_chunk=False)
                    text += step.text
                if to_end and not step.is_past and reply.wait is not wait and reply.state in LASTS:
                    yield _status(reply, context_id)
                wait = reply.wait
        data = await artifact_data(self._service, self._asking, reply)
        for artifact in task_of(reply, context_id, data).get("artifacts", []):
            first, *rest = artifact["parts"]
            is_streamed = artifact["artifact_id"] == ANSWER and bool(text) and first.get("text") == text
            if is_streamed:
                artifact["parts"] = rest or [Part(text="")]
            yield _artifact(reply, context_id, artifact, append=is_streamed, last_chunk=True)
        yield _status(reply, context_id)

    async def emit(self, task_id: str, event: StreamResponse) -> None:
        raise NotImplementedError  # the library calls it in its own worker only, and Temporal runs our tasks

    async def close(self, task_id: str) -> None:
        """Do nothing, since a stream ends with its task."""


def _status(reply: AgentReply, context_id: str) -> StreamResponse:
    status = status_of(reply, context_id)
    update = TaskStatusUpdateEvent(task_id=reply.token.text, context_id=context_id, status=status)
    return StreamResponse(status_update=update)


def _artifact(
    reply: AgentReply, context_id: str, artifact: Artifact, *, append: bool, last_chunk: bool
) -> StreamResponse:
    update = TaskArtifactUpdateEvent(task_id=reply.token.text, context_id=context_id, artifact=artifact)
    update["append"], update["last_chunk"] = append, last_chunk
    return StreamResponse(artifact_update=update)


class RunBroker(Broker):
    """Broker for the tasks of one agent, on behalf of a principal.

    `waits` says whether sending a message waits for its task.
    """

    def __init__(
        self, attending: RequestScope, asking: Principal, storage: RunStorage, *, waits: bool
    ) -> None:
        super().__init__(event_bus=TaskEventBus(attending, asking))
        self._attending = attending
        self._service = attending.service
        self._asking = asking
        self._storage = storage
        self._waits = waits

    async def run_task(self, params: TaskSendParams) -> None:
        """Wait for the task to end or ask a question, if the client wants to wait.

        After `PATIENCE` the client gets the task as it was when the message was sent.
        """
        token = await token_of_task(self._service, self._asking, params["id"])
        audit.bind(run_id=token.run_id)
        if self._waits:
            reply = AgentReply(token, is_task=True)
            with suppress(TimeoutError):  # return the task as it was when the message was sent
                await self._attending.wait(read_to_end(self._service, reply), PATIENCE)
                await self._storage.refresh(reply)
        self._storage.limit_history(params.get("history_length"))

    async def cancel_task(self, params: TaskIdParams) -> None:
        """Cancel a task, and wait at most a minute until it has ended."""
        token = await token_of_task(self._service, self._asking, params["id"])
        await _check_open(self._service, token, "task_not_cancelable")
        self._attending.count()
        await stop(self._service, self._asking, token)
        with suppress(TimeoutError):
            reply = AgentReply(token, is_task=True)
            await self._attending.wait(read_to_end(self._service, reply, to_end=True), PATIENCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Do nothing, since there is nothing to close."""

    async def receive_task_operations(self) -> AsyncIterator[TaskOperation]:
        return
        yield


async def require_open(service: Service, asking: Principal, task_id: str) -> None:
    """Check that a task has not ended, to which a client subscribes (A2A 1.0, 3.1.6)."""
    token = await token_of_task(service, asking, task_id)
    await _check_open(service, token, "task_ended")


async def _check_open(service: Service, token: ReplyToken, code: str) -> None:
    reply = await read(service, token, is_task=True)
    if reply.state not in LASTS:
        detail = f"the task has ended: it is {state_of(reply)}"
        raise Problem(409, code, detail, then="Look at it by GetTask.", run_id=token.run_id)


class RunTaskManager(TaskManager):
    async def resubscribe_task(self, request: ResubscribeTaskRequest) -> AsyncIterator[bytes]:
        """Yield the task, then its updates until it has ended (A2A 1.0, section 3.1.6)."""
        task_id = request["params"]["id"]
        task = await self.storage.load_task(task_id)
        if task is None:
            raise RunNotFound(f"there is no task {task_id[:80]!r}")
        first = StreamResponse(task=task)
        yield self._format_sse_event(StreamMessageResponse(jsonrpc="2.0", id=request["id"], result=first))
        bus = cast("TaskEventBus", self.broker.event_bus)
        async with bus.subscribe(task_id, to_end=True) as updates:
            async for update in updates:
                response = StreamMessageResponse(jsonrpc="2.0", id=request["id"], result=update)
                yield self._format_sse_event(response)
