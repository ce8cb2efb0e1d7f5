"""Temporal's failures and `ToolError` chains: how a run closes as failed, and how that failure is read."""

from typing import Any

from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    TerminatedError,
    TimeoutError,  # noqa: A004 - Temporal's name for it
    TimeoutType,
)

from sojourn.contracts.run import Spent
from sojourn.contracts.tool_error import ToolError
from sojourn.core.run.totals import read_spent
from sojourn.core.values.json_value import is_object

__all__ = ["TERMINATED", "TIMED_OUT", "chain_of", "closing", "failure_of", "is_in_doubt", "spent_of"]

TERMINATED = ToolError(message="the run was terminated", outcome_unknown=True)
"""The error of a child run that was terminated, so that it gave no reason itself."""

TIMED_OUT = ToolError(message="the run timed out", outcome_unknown=True)
"""The error of a child run that the server timed out, so that it gave no reason itself."""


def closing(error: ToolError, spent: Spent | None) -> ApplicationError:
    """The failure with which a run closes: an ApplicationError for each error of the chain, so that every screen shows it."""
    failure: ApplicationError | None = None
    for depth, link in reversed(list(enumerate(error.chain()))):
        told = (
            spent if not error.outcome_unknown else (spent or Spent()).model_copy(update={"in_doubt": True})
        )
        details = [told] if told and depth == 0 else []
        outer = ApplicationError(link.text, *details, type=link.code, non_retryable=True)
        outer.__cause__ = failure
        failure = outer
    assert failure is not None
    return failure


def failure_of(error: FailureError) -> ToolError:
    """The chain of causes of an activity's or child run's failure, without the wrappers."""
    if isinstance(error, ChildWorkflowError) and isinstance(error.cause, TimeoutError):
        return TIMED_OUT
    return chain_of(error.cause or error).without_repeats()


def chain_of(cause: BaseException) -> ToolError:
    """A failure as a chain, error by error."""
    while isinstance(cause, (ActivityError, ChildWorkflowError)) and cause.cause is not None:
        cause = cause.cause
    if isinstance(cause, ApplicationError):
        nested = chain_of(cause.cause) if isinstance(cause.cause, FailureError) else None
        is_open = is_in_doubt(cause.details[0]) if cause.details else False
        return ToolError(message=cause.message, code=cause.type, cause=nested, outcome_unknown=is_open)
    if isinstance(cause, TerminatedError):
        return TERMINATED
    if isinstance(cause, TimeoutError):
        return ToolError.new(f"timed out ({(cause.type or TimeoutType.START_TO_CLOSE).name.lower()})")
    return ToolError.new(str(cause))


def is_in_doubt(detail: Any) -> bool:
    """Whether the first detail of a run's failure says that one of its calls may have taken effect."""
    if isinstance(detail, Spent):
        return detail.in_doubt
    return is_object(detail) and detail.get("in_doubt") is True


def spent_of(error: ChildWorkflowError) -> Spent | None:
    """What a failed child run had spent; None where it did not report that, or was stopped from outside."""
    cause = error.cause
    details = cause.details if isinstance(cause, ApplicationError) else ()
    return read_spent(details[0]) if details else None
