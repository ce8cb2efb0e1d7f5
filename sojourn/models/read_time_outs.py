"""Read time-outs: a model that does not answer in time is asked the same three times, and not as long as an outage may last.

A request without an answer has cost its whole computation: a small model that rambles without an end, or a machine that is too slow
for the conversation, does so again each time. The count is of one worker, since a plan is seldom repeated by another.
"""

from collections import OrderedDict

from pydantic_ai import exceptions as raised
from temporalio.exceptions import ApplicationError

__all__ = ["ReadTimeOuts"]

MOST = 3
"""Times that the same request is made when no answer comes in time."""

MAX_RUNS = 1_000


class ReadTimeOuts:
    """The time-outs in a row of each run, of one planner."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def passed(self, run_id: str) -> None:
        """Forget the time-outs of a run, whose model has answered."""
        self._counts.pop(run_id, None)

    def judged(self, run_id: str, error: ApplicationError) -> ApplicationError:
        """Return the error of a run's request; after the third read time-out in a row one that ends the run."""
        if error.type != "ModelTimeout" or not _is_read(error.__context__):
            return error
        count = self._counts.pop(run_id, 0) + 1
        if count >= MOST:
            return ApplicationError(
                f"{error.message} It was asked {count} times. Allow it more time, by SOJOURN_TIMEOUT_LOCAL or the variable of its "
                "provider, or less to write, by settings={'max_tokens': ...}.",
                type=error.type,
                non_retryable=True,
            )
        self._counts[run_id] = count
        while len(self._counts) > MAX_RUNS:
            self._counts.popitem(last=False)
        return error


def _is_read(error: BaseException | None) -> bool:
    """Whether a request had been sent when it timed out; connecting is tried for as long as an outage may last."""
    return isinstance(error, raised.ModelRequestTimeout) or (
        isinstance(error, raised.ModelTimeoutError) and error.phase in (None, "read")
    )
