"""Short failures: an attempt's failure keeps its message where Temporal holds it for the next attempt.

Temporal's server holds the last failure of an activity that it will attempt again in at most 4,096 bytes
(`limit.mutableStateActivityFailureSize`). Of a larger one it keeps a message of its own, "Failure exceeds size
limit.", and of the cause the clear text only, which an encrypted failure does not have: its message and its stack
trace are one payload. So a failure is shortened before it is encrypted: first its stack traces, then its messages.
"""

from dataclasses import dataclass
from typing import Any, cast

from temporalio.api.failure.v1 import Failure
from temporalio.converter import FailureConverter, PayloadConverter

__all__ = ["BOUNDS", "LARGEST", "Bounds", "ShortFailureConverter", "may_be_held"]

LARGEST = 3_900
"""Most bytes of an encoded failure; the server adds a little to it."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a failure is kept."""

    trace: int
    """Bytes of each stack trace, its last lines."""
    message: int
    """Bytes of each message, its beginning."""
    causes: int
    """Causes in the chain."""


BOUNDS = (
    Bounds(trace=900, message=10_000, causes=8),
    Bounds(trace=300, message=1_500, causes=4),
    Bounds(trace=0, message=900, causes=2),
    Bounds(trace=0, message=500, causes=1),
    Bounds(trace=0, message=250, causes=0),
)
"""The bounds to try, one after the other."""

_CUT = "…"


def may_be_held(failure: Failure) -> bool:
    """Whether the server holds a failure for a further attempt, and texts are what makes it large."""
    about = failure.application_failure_info
    return not about.non_retryable and about.details.ByteSize() < LARGEST // 2


class ShortFailureConverter(FailureConverter):
    """Makes the failures that another converter makes, and shortens them.

    Args:
        inner: Makes them.
        bounds: How much is kept.
    """

    def __init__(self, inner: FailureConverter, bounds: Bounds) -> None:
        self._inner = inner
        self._bounds = bounds

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """Make a failure, with bounded texts."""
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
        """Read a failure as the other converter does."""
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
    """The last lines of a text: those of a stack trace are where it was raised."""
    data = text.encode(errors="replace")
    if len(data) <= most:
        return text
    _, _, lines = data[len(data) - max(most - 4, 0) :].partition(b"\n")
    return f"{_CUT}\n{lines.decode(errors='ignore')}" if most > 4 and lines else ""
