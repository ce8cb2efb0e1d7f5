"""Every error Sojourn raises, as one tree.

```
SojournError
├── DefinitionError      an app is declared wrongly: at import or `App(...)`, never in a run
├── ToolFailed           a tool author reports a planned failure, perhaps with a hint
│   ├── RateLimited      ... the tool is over a limit: retried, then returned
│   └── ToolUnavailable  ... what the tool needs is not there: retried, then returned
├── ServerNotFound       no `temporal` command on this machine
├── NetworkRetriesExhausted   a request failed as often as it may be repeated
└── RunError             what a caller of `Client` may meet
    ├── RunNotFound
    ├── RunAlreadyExists
    ├── ArtifactNotFound
    ├── RunFailed
    │   ├── RunCanceled
    │   ├── RunTerminated
    │   └── RunTimedOut
    ├── AwaitClosed      the answer came too late, or there is no such question
    ├── InvalidInput     what the caller handed in cannot start a run or answer a question
    ├── NoWorker         nobody polls the task queue
    ├── RunUnreadable    what the run recorded is encrypted, or kept where this client cannot read
    └── ServerUnavailable
```

A message says what happened, where, and what to do next.
"""

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sojourn.contracts.retry_hint import RetryHint
    from sojourn.contracts.tool_error import ToolError

__all__ = [
    "ArtifactNotFound",
    "AwaitClosed",
    "DefinitionError",
    "InvalidInput",
    "NetworkRetriesExhausted",
    "NoWorker",
    "RateLimited",
    "RunAlreadyExists",
    "RunCanceled",
    "RunError",
    "RunFailed",
    "RunNotFound",
    "RunTerminated",
    "RunTimedOut",
    "RunUnreadable",
    "ServerNotFound",
    "ServerUnavailable",
    "SojournError",
    "ToolFailed",
    "ToolUnavailable",
]


_FOREVER = timedelta(days=3650)
"""A longer delay is as long."""


class SojournError(Exception):
    """Any error of this library; its text is one sentence a person can act on."""


class DefinitionError(SojournError):
    """A toolset, agent, app or setting is declared wrongly; names the place and the mend."""


class ToolFailed(SojournError):
    """A tool's own, planned failure: returned to the planner at once, with `hint` when there is one."""

    def __init__(self, message: str, *, hint: "RetryHint | None" = None, code: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


def _delay(given: timedelta | float | None) -> timedelta | None:
    """What a service asks for, as a delay that is one: not negative, not for ever; None where it is no number."""
    if isinstance(given, (int, float)):
        try:
            given = timedelta(seconds=given)
        except ValueError:
            return None
        except OverflowError:
            given = _FOREVER if given > 0 else timedelta(0)
    return min(max(given, timedelta(0)), _FOREVER) if isinstance(given, timedelta) else None


class RateLimited(ToolFailed):
    """The tool is over a limit; retried up to 3 attempts while `retry_after` is at most 30 s, then returned."""

    def __init__(
        self, message: str = "rate limited", *, retry_after: timedelta | float | None = None
    ) -> None:
        super().__init__(message, code="rate_limited")
        self.retry_after = _delay(retry_after)


class ToolUnavailable(ToolFailed):
    """What the tool needs cannot be reached now; retried up to 3 attempts, then returned."""

    def __init__(self, message: str = "unavailable", *, retry_after: timedelta | float | None = None) -> None:
        super().__init__(message, code="tool_unavailable")
        self.retry_after = _delay(retry_after)


class ServerNotFound(SojournError):
    """There is no Temporal server to start here; lists every way to get one."""


class NetworkRetriesExhausted(SojournError, RuntimeError):
    """A request failed by the network's doing at every attempt; the text is for people, `__cause__` is the last failure.

    Args:
        message: One sentence, as `format_network_error` words it.
        provider: Whose API it was.
        attempts: How often it was tried.
        status: The last HTTP status, where the server answered.
    """

    def __init__(
        self, message: str, *, provider: str | None = None, attempts: int = 1, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.attempts = attempts
        self.status = status


class RunError(SojournError):
    """Something a caller of `Client` meets about one run."""

    def __init__(self, message: str, *, run_id: str | None = None) -> None:
        super().__init__(message)
        self.run_id = run_id


class RunNotFound(RunError):
    """No run has this id in the namespace (it was never started, or its retention has ended)."""


class RunAlreadyExists(RunError):
    """A run with this id was started before; pass `attach=True` to follow it."""


class RunFailed(RunError):
    """The run ended without an answer.

    Args:
        message: What happened, with its causes.
        run_id: The run.
        code: The failure's type, such as `PlannerError`.
        error: The chain of what led to it, outermost first; None where the run did not fail by itself.
    """

    def __init__(
        self,
        message: str,
        *,
        run_id: str | None = None,
        code: str | None = None,
        error: "ToolError | None" = None,
    ) -> None:
        super().__init__(message, run_id=run_id)
        self.code = code
        self.error = error


class RunCanceled(RunFailed):
    """The run was cancelled; `reason` and `by` as recorded in the request, where given."""

    def __init__(
        self, message: str, *, run_id: str | None = None, reason: str | None = None, by: str | None = None
    ) -> None:
        super().__init__(message, run_id=run_id, code="Canceled")
        self.reason = reason
        self.by = by


class RunTerminated(RunFailed):
    """The run was terminated from outside, with no chance to answer its calls."""


class RunTimedOut(RunFailed):
    """The run exceeded an execution time-out set by whoever started it."""


class AwaitClosed(RunError):
    """The question is not open: answered before, expired, unknown, or its run has ended."""


class InvalidInput(RunError):
    """What the caller handed in breaks a rule that the message names."""


class RunUnreadable(RunError):
    """What the run recorded cannot be read here: it is encrypted, or its codec or storage is away."""


class NoWorker(RunError):
    """No worker takes what was sent: none polls the task queue, or the run's workflow task fails again and again."""


class ArtifactNotFound(RunError):
    """The run made no such artifact, or what it lies in was removed."""


class ServerUnavailable(RunError):
    """No Temporal server answers at the address."""
