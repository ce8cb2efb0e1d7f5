"""TaskExecutor: executes workflow tasks, the small ones on the worker's event loop.

The SDK hands each workflow task to a thread, so that it can tell a workflow that blocks. That costs two changes of
thread for each call and each plan, 3 % to 5 % of a run's time. An `AgentRun` has no user code that could block, and a
task of a few kilobytes takes it about a millisecond; the interpreter would not run the loop meanwhile either. A large one,
as of a run that goes on with its whole state, still has a thread and the SDK's limit of two seconds.
"""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from typing import ParamSpec, TypeVar, cast

from temporalio.bridge.proto.workflow_activation import WorkflowActivation

__all__ = ["MAX_BYTES_ON_LOOP", "TaskExecutor"]

MAX_BYTES_ON_LOOP = 16_000
"""Most bytes of a workflow task that the loop executes: so few that a hundred signals, or a result, do not hold it up."""

MAX_THREADS = 500
"""Most workflow tasks in threads at once, as in the SDK."""

P = ParamSpec("P")
T = TypeVar("T")


class TaskExecutor(ThreadPoolExecutor):
    """Executes what `asyncio.loop.run_in_executor` is given with a workflow task."""

    def __init__(self) -> None:
        super().__init__(max_workers=MAX_THREADS, thread_name_prefix="temporal_workflow_")

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Execute a small workflow task at once, in the running loop, and anything else in a thread."""
        if any(isinstance(arg, WorkflowActivation) and arg.ByteSize() <= MAX_BYTES_ON_LOOP for arg in args):
            # asyncio takes a future of its own as it is, without a thread's way of waking the loop.
            return cast("Future[T]", _on_loop(lambda: fn(*args, **kwargs)))
        return super().submit(fn, *args, **kwargs)


def _on_loop(task: Callable[[], T]) -> "asyncio.Future[T]":
    """The result of a workflow task that is executed in the running loop as in a thread: in a context of its own.

    The result is there at once: a loop that something else blocks cannot make the SDK take the task for one that blocks.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def execute() -> None:
        if future.cancelled():
            return
        asyncio._set_running_loop(None)  # noqa: SLF001 - meant for loops within loops; a workflow is one
        try:
            result = task()
        except BaseException as error:  # noqa: BLE001 - as in a thread: whoever waits for the future gets it
            future.set_exception(error)
        else:
            future.set_result(result)
        finally:
            asyncio._set_running_loop(loop)  # noqa: SLF001

    if sys.version_info < (3, 14):
        Context().run(execute)
    else:  # where no task may run within another's step
        loop.call_soon(execute, context=Context())
    return future
