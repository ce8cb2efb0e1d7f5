"""Run workflow tasks so that no query advances a run, and large ones in a thread.

The SDK hands each workflow task to a thread, so that it can tell a workflow that blocks. That costs two
changes of thread for each call and each plan, 3 % to 5 % of a run's time. An `AgentRun` has no user code
that could block, and a task of a few kilobytes takes it about a millisecond. A large task still has a
thread and the SDK's limit of two seconds.

A query that no worker has answered yet is sent to the next worker, which builds the run from the whole
history. The SDK then also applies the events after the last workflow task, and the run acts on them: at the
time of the task before, and without the updates that the task of these events brings. A replay applies all
of that at once, and its commands differ: the workflow task would fail for ever. So the run does not get
these events. It answers the query, and is evicted: its next task builds it anew.

A query that comes while a local activity ends is answered by ending the workflow task. The result may be
recorded with that task, but the run gets it with the next one, and acts on it after the events of the next
one. A replay gives it in the task in which it is recorded. So a next task that has such events begins anew,
with the run built from its history. A local activity whose result is not recorded is repeated, as after a
lost worker.
"""

import asyncio
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from functools import partial
from typing import Any, ParamSpec, TypeVar, cast

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.bridge.proto.workflow_activation import WorkflowActivation
from temporalio.bridge.proto.workflow_commands import UpdateResponse
from temporalio.bridge.proto.workflow_completion import WorkflowActivationCompletion
from temporalio.converter import SerializationContext, StorageDriverStoreContext
from temporalio.worker import (
    UnsandboxedWorkflowRunner,
    Worker,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowRunner,
)
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner
from temporalio.workflow import Info

from sojourn.converter.data_converter import GuardedDataConverter
from sojourn.serving.run_cache import evict

__all__ = [
    "MAX_BYTES_ON_LOOP",
    "Sandboxed",
    "TaskExecutor",
    "Unsandboxed",
    "by_whole_tasks",
    "serve_by_whole_tasks",
]

MAX_BYTES_ON_LOOP = 16_000
"""Most bytes of a task that the loop executes, so few that a hundred signals do not delay it."""

MAX_THREADS = 500
P = ParamSpec("P")
T = TypeVar("T")


class TaskExecutor(ThreadPoolExecutor):
    """Executes what `asyncio.loop.run_in_executor` is given with a workflow task."""

    def __init__(self) -> None:
        super().__init__(max_workers=MAX_THREADS, thread_name_prefix="temporal_workflow_")

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Execute a small workflow task in the running loop, all else in a thread."""
        if any(isinstance(arg, WorkflowActivation) and arg.ByteSize() <= MAX_BYTES_ON_LOOP for arg in args):
            # asyncio takes a future of its own as it is, without a thread's way of waking the loop.
            return cast("Future[T]", _on_loop(lambda: fn(*args, **kwargs)))
        return super().submit(fn, *args, **kwargs)


def _on_loop(task: Callable[[], T]) -> "asyncio.Future[T]":
    """Execute a workflow task in the running loop, in a context of its own.

    A thread would give it such a context too. The result is there at once: a loop that something else
    blocks cannot make the SDK take the task for one that blocks.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def execute() -> None:
        if future.cancelled():
            return
        asyncio._set_running_loop(None)  # noqa: SLF001 - meant for loops within loops, such as a workflow
        try:
            result = task()
        except BaseException as error:  # noqa: BLE001 - as in a thread: the waiter of the future gets it
            future.set_exception(error)
        else:
            future.set_result(result)
        finally:
            asyncio._set_running_loop(loop)  # noqa: SLF001

    if sys.version_info < (3, 14):
        Context().run(execute)
    else:  # from 3.14 on no task may run within another's step
        loop.call_soon(execute, context=Context())
    return future


class _WholeTasks:
    _worker: Callable[[], Worker | None] | None = None

    def serve(self, worker: Worker) -> None:
        object.__setattr__(self, "_worker", weakref.ref(worker))  # the sandbox's runner is frozen

    @property
    def _evicts(self) -> Callable[[str], None] | None:
        worker = self._worker and self._worker()
        return worker and partial(evict, worker)

    @property
    def _ignores_context(self) -> bool:
        """Whether payloads convert alike for every workflow and activity."""
        worker = self._worker and self._worker()
        converter = worker and worker.client.data_converter
        return isinstance(converter, GuardedDataConverter) and converter.ignores_context


class Unsandboxed(_WholeTasks, UnsandboxedWorkflowRunner):
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Instance(super().create_instance(det), self._evicts, ignores_context=self._ignores_context)


class Sandboxed(_WholeTasks, SandboxedWorkflowRunner):
    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        return _Instance(super().create_instance(det), self._evicts, ignores_context=self._ignores_context)


def by_whole_tasks(runner: WorkflowRunner) -> WorkflowRunner:
    """Return the runner, by whole workflow tasks if it is one of the SDK's."""
    if type(runner) is SandboxedWorkflowRunner:
        return Sandboxed(restrictions=runner.restrictions, runner_class=runner.runner_class)
    return Unsandboxed() if type(runner) is UnsandboxedWorkflowRunner else runner


def serve_by_whole_tasks(worker: Worker) -> None:
    """Let the worker, if by whole tasks, evict runs that a query has built."""
    runner = worker.config(active_config=True)["workflow_runner"]  # pyright: ignore[reportTypedDictNotRequiredAccess] - the active one has it
    if isinstance(runner, _WholeTasks):
        runner.serve(worker)


class _Instance(WorkflowInstance):
    """An instance of a workflow that gets events only with their workflow task.

    It gets no local results with events of a later one.
    """

    def __init__(
        self, instance: WorkflowInstance, evict: Callable[[str], None] | None, *, ignores_context: bool
    ) -> None:
        self._instance = instance
        self._ignores_context = ignores_context
        self._evict = evict
        self._events, self._at = 0, Timestamp()
        """Length of the history at the last workflow task, and when that began."""
        self._is_behind = False
        """Whether the run was not given events that the SDK has applied."""
        self._has_answered = False
        self._updates: set[str] = set()
        """Updates that are accepted, and not yet answered; the SDK loses the answer of one in a task that begins anew."""

    def activate(self, act: WorkflowActivation) -> WorkflowActivationCompletion:
        if any(job.HasField("query_workflow") or job.HasField("remove_from_cache") for job in act.jobs):
            if self._is_behind and self._evict:
                self._evict(act.run_id)
            self._has_answered = True
            return self._instance.activate(act)
        is_new = act.history_length > self._events
        is_local = any(job.resolve_activity.is_local for job in act.jobs)
        # Each workflow task has its own time. Updates and local results come with a task.
        if self._evict and is_new and act.timestamp == self._at and not (is_local or _has_update(act)):
            self._is_behind = True
            done = WorkflowActivationCompletion(run_id=act.run_id)
            done.successful.SetInParent()
            return done
        is_split = self._has_answered and is_new
        self._has_answered = False
        is_alone = all(job.resolve_activity.is_local for job in act.jobs)
        if self._is_behind or (is_split and is_local and not is_alone and not self._updates):
            return _restart(act.run_id)
        if is_new:
            self._events = act.history_length
            self._at.CopyFrom(act.timestamp)
        done = self._instance.activate(act)
        for command in done.successful.commands:
            if command.HasField("update_response"):
                self._note(command.update_response)
        return done

    def _note(self, response: UpdateResponse) -> None:
        if response.HasField("accepted"):
            self._updates.add(response.protocol_instance_id)
        else:
            self._updates.discard(response.protocol_instance_id)

    def get_serialization_context(self, command_info: Any) -> SerializationContext | None:
        return None if self._ignores_context else self._instance.get_serialization_context(command_info)

    def get_external_store_context(self, command_info: Any) -> StorageDriverStoreContext:
        return self._instance.get_external_store_context(command_info)

    def get_info(self) -> Info:
        return self._instance.get_info()

    def get_thread_id(self) -> int | None:
        return self._instance.get_thread_id()


def _has_update(act: WorkflowActivation) -> bool:
    return any(job.HasField("do_update") for job in act.jobs)


def _restart(execution: str) -> WorkflowActivationCompletion:
    failed = WorkflowActivationCompletion(run_id=execution)
    failed.failed.failure.message = (
        "the run was built, or went on, while a query was answered; the task begins anew"
    )
    return failed
