"""Cancellation: a run that was asked to cancel, or a turn that is interrupted, begins nothing more, even after work that ended in spite of it.

An activity or a child run that ends in spite of its cancellation returns its result; the SDK then withdraws
the cancellation of the task, and `asyncio.wait_for` may prefer a result that is ready. Only the workflow
itself remembers the request for good.

Whether the task itself is still being cancelled depends on the SDK's version and flags. So
a marker records that the request was seen.
"""

import asyncio
from typing import Any

from temporalio import workflow

from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.run import outcomes

__all__ = ["cut_short", "is_canceled", "is_stopped", "stop_if_canceled", "stop_if_run_canceled"]

_PATCH = "cancel-wins"


def is_canceled() -> bool:
    """Whether the run was asked to cancel; a history in which the request was overlooked replays as it went."""
    if workflow.cancellation_reason() is None:
        return False
    if workflow.patched(_PATCH):
        return True
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_stopped() -> bool:
    """Whether the run was asked to cancel, or its present turn is interrupted."""
    return _is_interrupted() or is_canceled()


def stop_if_canceled() -> None:
    """Raise `CancelledError` where the run was asked to cancel, or its turn is interrupted; called before anything begins."""
    if is_stopped():
        raise asyncio.CancelledError


def stop_if_run_canceled() -> None:
    """Raise `CancelledError` where the run was asked to cancel; called where a turn has ended."""
    if is_canceled():
        raise asyncio.CancelledError


def cut_short(call: ToolRequest) -> ToolResult:
    """The result of a call that was cancelled with the run, or with its turn."""
    reason = workflow.cancellation_reason()
    return (
        outcomes.interrupted(call)
        if reason is None and _is_interrupted()
        else outcomes.canceled(call, reason)
    )


def _is_interrupted() -> bool:
    run: Any = workflow.instance()
    return run.current.state.interrupted is not None
