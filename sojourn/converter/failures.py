"""Temporal's failures as `ToolError` chains, short enough for the server to hold.

Temporal's server holds the last failure of an activity that it will attempt again in at most 4,096 bytes
(`limit.mutableStateActivityFailureSize`). Of a larger one it keeps a message of its own, "Failure exceeds size
limit.", and of the cause the clear text only, which an encrypted failure does not have: its message and its stack
trace are one payload. So a failure is shortened before it is encrypted: first its stack traces, then its messages.

A failure that cannot be sent (a cause of 10 MB, half of a surrogate pair, a `__str__` that raises) is never
reported: the attempt ends with a heartbeat time-out, the reason is lost, and the attempt is repeated. So
`to_sendable` bounds the exception of a planner first.
"""

from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

from temporalio.api.failure.v1 import Failure
from temporalio.converter import FailureConverter, PayloadConverter
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    FailureError,
    TerminatedError,
    TimeoutError,  # noqa: A004 - Temporal's name for it
    TimeoutType,
)

from sojourn.contracts import safe_exceptions
from sojourn.contracts.run import Spent
from sojourn.contracts.tool_error import MAX_CAUSES, MAX_CODE, ToolError
from sojourn.core.run.totals import read_spent
from sojourn.values.json_value import is_object

__all__ = [
    "FAILURE_BOUNDS",
    "LARGEST",
    "TERMINATED",
    "TIMED_OUT",
    "FailureBounds",
    "ShortFailureConverter",
    "chain_of",
    "closing",
    "failure_of",
    "is_in_doubt",
    "may_be_held",
    "spending_of",
    "to_sendable",
]

TERMINATED = ToolError(message="the run was terminated", outcome_unknown=True)
TIMED_OUT = ToolError(message="the run timed out", outcome_unknown=True)


def closing(error: ToolError, spent: Spent | None) -> ApplicationError:
    """Return the failure with which a run closes, an error for each of the chain."""
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
    if isinstance(error, ChildWorkflowError) and isinstance(error.cause, TimeoutError):
        return TIMED_OUT
    return chain_of(error.cause or error).without_repeats()


def chain_of(cause: BaseException) -> ToolError:
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
    """Return whether a failure says that a call of the run may have taken effect."""
    if isinstance(detail, Spent):
        return detail.in_doubt
    return is_object(detail) and detail.get("in_doubt") is True


def spending_of(error: ChildWorkflowError) -> Spent | None:
    """Return the spending of a failed child run, if it reported it."""
    cause = error.cause
    details = cause.details if isinstance(cause, ApplicationError) else ()
    return read_spent(details[0]) if details else None


LARGEST = 3_900
"""Most bytes of an encoded failure; the server adds a little to it."""


@dataclass(frozen=True, slots=True)
class FailureBounds:
    trace: int
    message: int
    causes: int


FAILURE_BOUNDS = (
    FailureBounds(trace=900, message=10_000, causes=8),
    FailureBounds(trace=300, message=1_500, causes=4),
    FailureBounds(trace=0, message=900, causes=2),
    FailureBounds(trace=0, message=500, causes=1),
    FailureBounds(trace=0, message=250, causes=0),
)

_CUT = "…"


def may_be_held(failure: Failure) -> bool:
    """Return whether the server may keep a failure that texts make large."""
    about = failure.application_failure_info
    return not about.non_retryable and about.details.ByteSize() < LARGEST // 2


class ShortFailureConverter(FailureConverter):
    def __init__(self, inner: FailureConverter, bounds: FailureBounds) -> None:
        self._inner = inner
        self._bounds = bounds

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        self._inner.to_failure(exception, payload_converter, failure)
        link, depth = failure, 0
        while True:
            self._shorten(link, payload_converter)
            if not link.HasField("cause"):
                return
            if depth == self._bounds.causes:
                link.ClearField("cause")
                return
            link, depth = link.cause, depth + 1

    def from_failure(self, failure: Failure, payload_converter: PayloadConverter) -> BaseException:
        return self._inner.from_failure(failure, payload_converter)

    def _shorten(self, failure: Failure, payload_converter: PayloadConverter) -> None:
        failure.message = _beginning(failure.message, self._bounds.message)
        failure.stack_trace = _end(failure.stack_trace, self._bounds.trace)
        if not failure.HasField("encoded_attributes"):
            return
        (texts,) = payload_converter.from_payloads([failure.encoded_attributes])
        if isinstance(texts, dict):
            known = cast("dict[str, Any]", texts)
            short = {
                "message": _beginning(str(known.get("message", "")), self._bounds.message),
                "stack_trace": _end(str(known.get("stack_trace", "")), self._bounds.trace),
            }
            failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([short])[0])


def _beginning(text: str, most: int) -> str:
    data = text.encode(errors="replace")
    return text if len(data) <= most else data[: most - 3].decode(errors="ignore") + _CUT


def _end(text: str, most: int) -> str:
    """Return the last lines of a stack trace, which show the place of the error."""
    data = text.encode(errors="replace")
    if len(data) <= most:
        return text
    _, _, lines = data[len(data) - max(most - 4, 0) :].partition(b"\n")
    return f"{_CUT}\n{lines.decode(errors='ignore')}" if most > 4 and lines else ""


MAX_FRAMES = 8
"""Most frames kept of each exception, the innermost ones."""

_MAX_LINKS = 1_000
"""Most exceptions of a chain that are read."""


def to_sendable(error: BaseException) -> ApplicationError:
    """Convert an exception and its causes to errors of bounded size.

    Each has its type, bounded text, source location and a few frames. Of a long chain, the
    outermost and the root causes remain.
    """
    links = list(safe_exceptions.chain(error, _MAX_LINKS))
    if len(links) > MAX_CAUSES:
        links = [*links[: MAX_CAUSES // 2], *links[-MAX_CAUSES // 2 :]]
    made: ApplicationError | None = None
    for link in reversed(links):
        cause, made = made, _application_error(link)
        made.__cause__ = cause
    assert made is not None
    return made


def _application_error(error: BaseException) -> ApplicationError:
    bounded_error = ToolError.from_error(error)
    message, kind = bounded_error.text, safe_exceptions.kind(error)
    if safe_exceptions.is_a(error, ApplicationError):
        # The text of an ApplicationError repeats its type.
        message = ToolError.new(str(error.message)).message
        kind = ToolError.new(str(error.type or kind)).message[:MAX_CODE]
        message = message if message.strip() else kind
    return ApplicationError(message, type=kind).with_traceback(_innermost(safe_exceptions.trace(error)))


def _innermost(innermost: TracebackType | None) -> TracebackType | None:
    depth, frame = 0, innermost
    while frame is not None:
        depth, frame = depth + 1, frame.tb_next
    for _ in range(depth - MAX_FRAMES):
        assert innermost is not None
        innermost = innermost.tb_next
    return innermost
