"""The executor of workflow tasks: small ones run on the worker's loop, as a thread would run them."""

import asyncio
import contextvars
import sys
import threading

import pytest
from temporalio.bridge.proto.workflow_activation import WorkflowActivation

from sojourn.serving.hardening.workflow_tasks import MAX_BYTES_ON_LOOP, TaskExecutor

LOOPS = contextvars.ContextVar("loops", default=0)


@pytest.fixture
def executor():
    """An executor, which is shut down in the end."""
    with TaskExecutor() as executor:
        yield executor


def task_of(size: int) -> WorkflowActivation:
    """A workflow task of about so many bytes."""
    return WorkflowActivation(run_id="x" * size)


async def execute(executor, task, size: int = 100):
    """Execute a workflow task as the SDK's worker does."""
    return await asyncio.get_running_loop().run_in_executor(executor, task, task_of(size))


async def test_only_a_small_task_runs_on_the_loop(executor):
    """A large one, and anything that is no workflow task, has a thread of its own."""

    def where(_task: object) -> int:
        return threading.get_ident()

    here = threading.get_ident()
    assert await execute(executor, where, MAX_BYTES_ON_LOOP - 100) == here
    assert await execute(executor, where, MAX_BYTES_ON_LOOP + 100) != here
    assert await asyncio.get_running_loop().run_in_executor(executor, where, "no workflow task") != here


async def test_a_task_does_not_see_the_loop_or_its_context(executor):
    """A workflow is a loop of its own: none runs while it begins, it may run another, and the worker's is back in the end."""

    def task(_task: object) -> tuple[int, str]:
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        before = LOOPS.get()
        LOOPS.set(before + 1)
        inner = asyncio.new_event_loop()
        try:
            return before, inner.run_until_complete(asyncio.sleep(0, "inner"))
        finally:
            inner.close()

    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    LOOPS.set(7)
    assert [await execute(executor, task) for _ in range(2)] == [(0, "inner")] * 2
    assert LOOPS.get() == 7
    assert (asyncio.get_running_loop(), asyncio.current_task()) == (loop, this)


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3)], ids=["exception", "exit"])
async def test_an_error_reaches_only_who_waits(executor, error):
    """An error that would end the loop, raised in a workflow, is raised to the SDK, and the loop is back."""

    def task(_task: object) -> None:
        raise error

    loop = asyncio.get_running_loop()
    executed = loop.run_in_executor(executor, task, task_of(100))
    await asyncio.wait({executed})
    assert executed.exception() is error
    assert asyncio.get_running_loop() is loop


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="no task runs within another's step")
async def test_a_small_task_is_done_at_once(executor):
    """The SDK gets the result before the loop runs anything else, however long that blocks: its limit of two seconds does not count it."""
    executed = asyncio.get_running_loop().run_in_executor(executor, len, task_of(100).run_id)
    task = asyncio.get_running_loop().run_in_executor(executor, lambda task: len(task.run_id), task_of(100))
    assert (executed.done(), task.done()) == (False, True)
    assert (await executed, task.result()) == (100, 100)
