"""Stop a cancelled run or an interrupted turn from beginning anything more.

This holds even after work that ended in spite of the cancellation. An activity or a child run that
ends in spite of its cancellation returns its result. The SDK then withdraws the cancellation of the
task, and `asyncio.wait_for` may prefer a result that is ready. Only the workflow itself remembers
the request for good.

Whether the task itself is still being cancelled depends on the SDK's version and flags. So
a marker records that the request was seen.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy

from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.wire_names import YIELD
from sojourn.core.run import outcomes

from .current_state import patched

__all__ = [
    "cut_short",
    "is_canceled",
    "is_stopped",
    "keeps_result",
    "stop_if_canceled",
    "stop_if_run_canceled",
    "until_cancellation_is_known",
]

_PATCH = "cancel-wins"
_KNOWN = "cancel-before-continuing"
_BY_ACTIVITY = "yields-by-activity"
_KEEPS = "interrupted-plan-stays"
_YIELD_LIMIT = timedelta(seconds=5)
_YIELD_RETRY = RetryPolicy(maximum_interval=timedelta(seconds=5))


def is_canceled() -> bool:
    """Check whether a cancellation of the run was requested.

    A history in which the request was overlooked replays as it went.
    """
    if workflow.cancellation_reason() is None:
        return False
    if patched(_PATCH):
        return True
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def is_stopped() -> bool:
    """Check whether the run is being canceled, or its current turn interrupted."""
    return _is_interrupted() or is_canceled()


def stop_if_canceled() -> None:
    """Raise `CancelledError` if the run is to be cancelled, or its turn interrupted.

    Callers check this before anything begins.
    """
    if is_stopped():
        raise asyncio.CancelledError


def stop_if_run_canceled() -> None:
    """Raise `CancelledError` if a cancellation of the run was requested."""
    if is_canceled():
        raise asyncio.CancelledError


def keeps_result() -> bool:
    """Check whether work keeps a result that came in spite of a cancellation.

    It does if its turn was interrupted, but not if the run was cancelled. If so, the cancellation
    of this task is withdrawn, as the SDK does if a task awaits the activity itself. A history in
    which the result was dropped replays as it went.
    """
    if not _is_interrupted() or workflow.cancellation_reason() is not None or not patched(_KEEPS):
        return False
    task = asyncio.current_task()
    while task is not None and task.uncancel():
        pass
    return True


async def until_cancellation_is_known(is_ready: Callable[[], bool]) -> None:
    """Wait until this is ready and every recorded cancellation is known.

    That is: every cancellation that the server has recorded by then.

    In one workflow task the SDK delivers the messages, lets the workflow act on them, and only then
    delivers a request to cancel. A new execution would not get the request again. The result of an
    activity comes with that request. (That of a local one may be recorded in one workflow task and
    come in the next, whose messages a replay would lose.)
    """
    await workflow.wait_condition(is_ready)
    while patched(_KNOWN):
        if patched(_BY_ACTIVITY):
            await workflow.execute_activity(
                YIELD,
                start_to_close_timeout=_YIELD_LIMIT,
                retry_policy=_YIELD_RETRY,
                cancellation_type=workflow.ActivityCancellationType.TRY_CANCEL,
                summary="go on",
            )
        else:
            await workflow.execute_local_activity(YIELD, start_to_close_timeout=_YIELD_LIMIT, summary="go on")
        if is_ready():
            return
        await workflow.wait_condition(is_ready)


def cut_short(call: ToolRequest) -> ToolResult:
    """Return the result of a call that was cancelled with the run, or with its turn."""
    reason = workflow.cancellation_reason()
    return (
        outcomes.interruption_result(call)
        if reason is None and _is_interrupted()
        else outcomes.cancellation_result(call, reason)
    )


def _is_interrupted() -> bool:
    run: Any = workflow.instance()
    return run.current.state.interrupted is not None
