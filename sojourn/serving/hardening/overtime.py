"""Answer a call that is out of time, even if its coroutine does not end.

If the activity waited for it, the server would time the activity out and repeat it. And a CancelledError is
a cancellation only when the run or the worker requested one.
"""

import asyncio
from collections.abc import Awaitable
from typing import Any

import structlog
from temporalio import activity

from sojourn.contracts import safe_exceptions

__all__ = ["await_with_grace", "is_cancellation"]

GRACE = 2.0
"""Seconds that a cancelled tool has for its clean-up, within the 5 s after its own time limit."""

_log = structlog.get_logger("sojourn.tool")


def is_cancellation(error: BaseException) -> bool:
    """Check whether the run or the worker cancels, and no foreign code."""
    if not safe_exceptions.is_a(error, asyncio.CancelledError):
        return False
    this = asyncio.current_task()
    return activity.is_cancelled() or (this is not None and this.cancelling() > 0)


async def await_with_grace(tool_id: str, work: Awaitable[Any]) -> Any:
    """Return an awaitable's value. When cancelled, it has 2 s to end.

    Raises:
        RuntimeError: The awaitable raised an error that an event loop would act on (`KeyboardInterrupt`,
            `GeneratorExit`, a `CancelledError` without a cancellation); that error is the cause.
    """
    task = asyncio.create_task(_contain(work))
    try:
        value = await asyncio.shield(task)
    except asyncio.CancelledError as error:
        this = asyncio.current_task()
        if task.cancelled() and this is not None and not this.cancelling():
            raise RuntimeError("the tool raised CancelledError") from error
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=GRACE)
        if not done:
            _log.warning("async_tool_abandoned", tool=tool_id, mend="let asyncio.CancelledError pass")
            task.add_done_callback(_forget)
            raise
        if task.cancelled():
            raise
        if failure := task.exception():
            _log.warning("cancelled_tool_failed", tool=tool_id, error=type(failure).__name__)
            raise
        value = task.result()  # it returned in spite of the cancellation
    if not safe_exceptions.is_a(value, _Exit):
        return value
    if safe_exceptions.is_a(value.error, SystemExit):
        raise value.error
    raise RuntimeError(f"the tool raised {safe_exceptions.kind(value.error)}") from value.error


class _Exit:
    def __init__(self, error: BaseException) -> None:
        self.error = error


async def _contain(work: Awaitable[Any]) -> Any:
    """Return a value, or as a value an error that would end the loop if raised."""
    try:
        return await work
    except asyncio.CancelledError:
        raise
    except Exception:
        raise
    except BaseException as error:  # noqa: BLE001 - the caller judges it
        return _Exit(error)


def _forget(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not warn about it
