"""Cancellation: a run that was asked to cancel begins nothing more, even after work that ended in spite of the cancellation.

An activity or a child run that ends in spite of its cancellation returns its result; the SDK then withdraws
the cancellation of the task, and `asyncio.wait_for` may prefer a result that is ready. Only the workflow
itself remembers the request for good.

Whether the task itself is still being cancelled depends on the SDK's version and flags. So
a marker records that the request was seen.
"""

import asyncio

from temporalio import workflow

__all__ = ["is_canceled", "stop_if_canceled"]

_PATCH = "cancel-wins"


def is_canceled() -> bool:
    """Whether the run was asked to cancel; a history in which the request was overlooked replays as it went."""
    if workflow.cancellation_reason() is None:
        return False
    if workflow.patched(_PATCH):
        return True
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def stop_if_canceled() -> None:
    """Raise `CancelledError` where the run was asked to cancel; called before anything begins."""
    if is_canceled():
        raise asyncio.CancelledError
