"""Questions of an activity to the run that it belongs to: its transcript, and its memory."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from sojourn.contracts.tasks import PlanTask, ToolTask

__all__ = ["Key", "ask", "memory_of"]

Key = tuple[str, str]
"""Workflow id and execution id."""


async def memory_of(key: Key, task: PlanTask | ToolTask) -> Mapping[str, Any]:
    """The memory of the run; it does not change while a plan is made, or the calls of a step run."""
    return await ask(key, "memory", [], dict[str, Any]) if task.asks_memory else task.memory


async def ask(key: Key, query: str, args: Sequence[Any], result_type: Any = RawValue) -> Any:
    """The answer of the run to a query.

    Raises:
        ApplicationError: `WorkerStopping`: a stopping worker does not wait for the answer, since no other worker may be left
            to give it; the next attempt is made by another worker.
        RPCError: The run cannot be asked now.
    """
    handle = activity.client().get_workflow_handle(key[0], run_id=key[1])
    asked: Awaitable[Any] = handle.query(query, args=args, result_type=result_type)
    answer, stopping = (
        asyncio.ensure_future(asked),
        asyncio.ensure_future(activity.wait_for_worker_shutdown()),
    )
    try:
        await asyncio.wait({answer, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ApplicationError("the worker stops; another one goes on", type="WorkerStopping")
        return answer.result()
    finally:
        stopping.cancel()
        answer.cancel()
