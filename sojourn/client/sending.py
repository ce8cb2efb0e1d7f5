"""Send an update to a run, and retry until the run accepts or refuses it.

Its errors are translated, too.
"""

import asyncio
import builtins
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from temporalio.client import (
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from sojourn.connection.rpc_errors import translate_error
from sojourn.contracts.awaits import record_of
from sojourn.contracts.wire_names import CLOSE, PROVIDE_TOOL_RESULTS, RESUME, SEND
from sojourn.converter.codec import UnreadableError
from sojourn.core.awaits.confirmation import VOID
from sojourn.core.awaits.deciding import NOT_APPROVER
from sojourn.core.awaits.envelope import GIVEN_BEFORE, JUDGED, NOT_VISIBLE
from sojourn.core.awaits.kinds import KINDS_BY_NAME
from sojourn.core.run.inbox import NOT_SENDER
from sojourn.errors import (
    AlreadyAnswered,
    ApprovalVoid,
    AwaitClosed,
    EditRefused,
    InvalidInput,
    MissingRole,
    NotApprover,
    NotPaused,
    NoWorker,
    OtherKind,
    RunEnded,
    RunError,
    RunNotFound,
    RunUnreadable,
    SessionBusy,
    StaleDigest,
    UnknownWait,
)
from sojourn.values.wire import size_of

__all__ = ["AlreadyGiven", "Fields", "Update", "not_found", "other_kind", "run_ended", "send"]

ANSWER_DEADLINE = 30.0
"""Seconds in which a worker must accept an update."""

MAX_SENT_BYTES = 1_900_000
"""Largest update, in bytes of JSON.

A run accepts at most 1,000,000 bytes of messages or results. A server refuses more than 2,000,000 with the status of a busy
server, so the SDK and this module would retry in vain.
"""

ENDED = ("completed", "closing workflow")
"""Parts of the server's text if a run has ended, or only an execution of it.

It ended before the update arrived, or before a worker handled it.
"""

NOT_TAKEN = ("workflow update was aborted",)
"""Parts of the server's text if it has not accepted an update.

Too many updates arrive at once, or the run has just continued as new.
"""

TASK_FAILS = ("Workflow Task in failed state", "unexpected workflow task failure")
"""Parts of the server's text if the newest workflow task has failed.

The server attempts the task again. A task also fails if a signal arrives just as the run continues as new.
"""

_NOT_YET = ("AwaitNotOpen", "NotBound", "UnprocessedUpdate")
"""Types of refusals that are retried. The server sends `UnprocessedUpdate` if a worker completed its task without the update."""

Fields = dict[str, Any]
"""The fields of an update; those that are None or empty are left out."""

Update = Callable[[Fields], Awaitable[Any]]
"""One attempt at an update, as Temporal's client makes it; returns the outcome."""

_REFUSALS: dict[str, type[RunError]] = {
    "InvalidAnswer": InvalidInput,
    "NotBound": InvalidInput,
    NOT_APPROVER: NotApprover,
    "SessionBusy": SessionBusy,
}
"""The error of a refusal; of any other, `AwaitClosed`, or what `_CLOSED` says of the update."""

_NOT_OPEN: dict[str, type[AwaitClosed]] = {RESUME: NotPaused}
_CLOSED: dict[str, type[AwaitClosed]] = {SEND: RunEnded, CLOSE: RunEnded}
"""The error of an update that asks for something that is not open, and for something that is over."""


class AlreadyGiven(AwaitClosed):
    """The wait has this very answer. Callers of `Run` do not meet it.

    Args:
        message: What the run said.
        run_id: The run.
        await_id: The wait.
        details: What the run knows of the answer. A worker of an earlier version knows less.
    """

    def __init__(self, message: str, *, run_id: str, await_id: str | None, details: Fields) -> None:
        super().__init__(message, run_id=run_id, await_id=await_id)
        self.by: str | None = details.get("by")
        """The name of the approver, if the call needs several approvals."""
        self.left: int = details.get("left", 0)
        """How many approvals the call still needs, if it needs several."""
        self.is_judged: bool = details.get(JUDGED, False)
        """Whether the check of the approval is over, so that it can no longer prove void."""


async def send(
    handle: WorkflowHandle[Any, Any],
    name: str,
    update: Update,
    value: Fields | Callable[[], Awaitable[Fields]],
) -> Any:
    """Send the update of this name, and return its outcome."""
    run_id = handle.id
    deadline: float | None = None
    failing: float | None = None
    while True:
        message = await value() if callable(value) else value
        fields = {name: each for name, each in message.items() if each not in (None, "")}
        _check_size(fields, run_id)
        try:
            async with asyncio.timeout(ANSWER_DEADLINE):
                return await update(fields)
        except WorkflowUpdateFailedError as error:
            refused = getattr(error.cause, "type", None) or ""
            # An event stream shows a question before the run can accept its answer: by a few
            # milliseconds, or, when its worker was lost just then, until another worker has the run.
            deadline = deadline or time.monotonic() + 2.0
            if refused in _NOT_YET and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
                continue
            raise _refusal(error, refused, run_id, name, fields) from error
        except (builtins.TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
            _stop_if_cancelled(error)
            raise await _nobody(handle) from error
        except WorkflowAlreadyStartedError as error:
            raise _closed_error(run_id, fields) from error
        except UnreadableError as error:
            raise RunUnreadable(f"nothing can be sent to run {run_id}: {error}", run_id=run_id) from error
        except RPCError as error:
            if _says(error, ENDED) and not await _is_open(handle):
                raise _closed_error(run_id, fields) from error
            failing = failing or time.monotonic() + ANSWER_DEADLINE
            if not _may_pass(error) or time.monotonic() > failing:
                raise _timeout_error(error, run_id) from error
            await asyncio.sleep(random.uniform(0.1, 0.5))  # noqa: S311 - so that many do not come again at once


def _check_size(fields: Fields, run_id: str) -> None:
    try:
        size = size_of(fields)
    except ValueError:
        return  # the data converter reports what it cannot encode
    if size > MAX_SENT_BYTES:
        raise InvalidInput(
            f"{size:,} bytes are more than can be sent at once, at most {MAX_SENT_BYTES:,}", run_id=run_id
        )


async def _is_open(handle: WorkflowHandle[Any, Any]) -> bool:
    return (await handle.describe()).status == WorkflowExecutionStatus.RUNNING


async def _nobody(handle: WorkflowHandle[Any, Any]) -> RunError:
    try:
        queue = (await handle.describe()).task_queue
    except RPCError as error:  # the server itself did not answer, and perhaps started nothing
        return translate_error(error, handle.id)
    reason = f"no worker of task queue {queue} handled it within {ANSWER_DEADLINE:g} s"
    return NoWorker(f"{handle.id}: {reason}; it can still take effect when one runs", run_id=handle.id)


def run_ended(run_id: str, status: str, what: str) -> RunEnded:
    """Return the error of an operator's action on a run that has ended."""
    return RunEnded(f"{run_id} has ended ({status}); there is nothing to {what}", run_id=run_id)


def _closed_error(run_id: str, fields: Fields) -> RunEnded:
    message = (
        f"{run_id} has ended; it accepts no answers and no messages: start another run, or another session"
    )
    return RunEnded(message, run_id=run_id, await_id=fields.get("id"))


def _stop_if_cancelled(error: Exception) -> None:
    """Raise the cancellation of this task, which the SDK replaces with its own error."""
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError from error


def _refusal(
    error: WorkflowUpdateFailedError, refused: str, run_id: str, name: str, sent: Fields
) -> RunError:
    if refused == NOT_VISIBLE:
        return not_found(run_id)
    reason = getattr(error.cause, "message", error)
    message = f"{run_id}: {reason}"
    if refused == NOT_SENDER:
        return MissingRole(message, run_id=run_id, role="operator")
    details = _details(error)
    if refused == VOID:
        changes = details.get("changes") or ()
        return ApprovalVoid(message, run_id=run_id, await_id=details.get("await_id"), changes=changes)
    kind, await_id = details.get("kind"), details.get("await_id", "")
    answered = KINDS_BY_NAME.get(name)
    if kind and answered and kind != answered.record.kind:
        return other_kind(run_id, await_id, kind, answered.record.kind)
    if faults := details.get("faults"):
        return EditRefused(message, run_id=run_id, faults=faults)
    digest = details.get("digest")
    if digest and sent.get("payload_digest", digest) != digest:
        return StaleDigest(message, run_id=run_id, await_id=await_id, digest=digest)
    if refused in _REFUSALS:
        return _REFUSALS[refused](message, run_id=run_id)
    return _closed_refusal(message, refused, run_id, name, await_id or sent.get("id") or None, details)


def _closed_refusal(
    message: str, refused: str, run_id: str, name: str, await_id: str | None, details: Fields
) -> AwaitClosed:
    if refused == "AwaitNotOpen":
        return _NOT_OPEN.get(name, UnknownWait)(message, run_id=run_id, await_id=await_id)
    if name == PROVIDE_TOOL_RESULTS and details.get("kind"):
        # The wait is open, and a call of it has another result.
        return AlreadyAnswered(message, run_id=run_id, await_id=await_id, outcome="provided")
    if details.get(GIVEN_BEFORE):
        return AlreadyGiven(message, run_id=run_id, await_id=await_id, details=details)
    return _CLOSED.get(name, AwaitClosed)(message, run_id=run_id, await_id=await_id)


def other_kind(run_id: str, await_id: str, kind: str, given: str) -> OtherKind:
    """Return the error of an answer of another kind than its wait."""
    wanted, sent = (record.answer_path if (record := record_of(each)) else each for each in (kind, given))
    message = f"{run_id}: {await_id} takes {wanted}, not {sent}".replace("tool-results", "tool results")
    return OtherKind(message, run_id=run_id, await_id=await_id, kind=kind)


def _details(error: WorkflowUpdateFailedError) -> dict[str, Any]:
    """Return the run's details of the wait. Empty from an earlier version's worker."""
    details: Sequence[Any] = getattr(error.cause, "details", ())
    return cast("dict[str, Any]", details[0]) if details and isinstance(details[0], dict) else {}


def not_found(run_id: str) -> RunNotFound:
    """Return the error for a run that a principal may not see.

    It is the same as for a run that does not exist, so that the principal learns nothing.
    """
    return RunNotFound(f"there is no run {run_id!r}", run_id=run_id)


def _may_pass(error: RPCError) -> bool:
    """Return whether another attempt may succeed.

    It may if the server is busy, if the run is just continuing in a new execution, or if its workflow task is being retried.
    """
    is_busy = error.status == RPCStatusCode.RESOURCE_EXHAUSTED
    return is_busy or _says(error, NOT_TAKEN + TASK_FAILS + ENDED)


def _timeout_error(error: RPCError, run_id: str) -> RunError:
    if _says(error, TASK_FAILS + ENDED):
        reason = "its workflow task fails again and again; `sojourn list --stuck` says why"
        return NoWorker(f"{run_id}: {reason}", run_id=run_id)
    return translate_error(error, run_id)


def _says(error: RPCError, texts: Sequence[str]) -> bool:
    return any(text in error.message for text in texts)
