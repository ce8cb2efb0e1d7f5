"""Cancellation: a run that was asked to cancel begins nothing more, whatever became of what was in flight.

An activity or a child run that ends in spite of its cancellation gives its result; the SDK then takes the
cancellation of the task back, and `asyncio.wait_for` may prefer a result that is ready. Only the workflow
itself remembers the request for good.

Whether the task itself still is being cancelled is the SDK's to say, and depends on its version and flags. So
a marker says that the request was seen.
"""

import asyncio

from temporalio import workflow

__all__ = ["is_canceled", "stop_if_canceled"]

_PATCH = "cancel-wins"


def is_canceled() -> bool:
    """Whether the run was asked to cancel; a history in which that was overlooked replays as it went."""
    if workflow.cancellation_reason() is None:
        return False
    if workflow.patched(_PATCH):
        return True
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def stop_if_canceled() -> None:
    """Raise `CancelledError` where the run was asked to cancel; stands before whatever begins."""
    if is_canceled():
        raise asyncio.CancelledError
