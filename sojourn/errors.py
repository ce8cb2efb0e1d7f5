"""The errors that Sojourn raises, as one tree of classes.

```
SojournError
├── DefinitionError      a declaration or a setting is invalid; raised before a run starts
├── ToolFailed           raised by a tool: the call fails, perhaps with a hint for its repair
│   ├── RateLimited      the tool is over a rate limit; retried, then returned to the planner
│   └── ToolUnavailable  a service that the tool needs is unavailable; retried, then returned
├── CallFailed           raised in a flow: a call failed, and its repair did not help
├── ServerNotFound       no `temporal` command runs on this machine
├── NetworkRetriesExhausted   a request failed at every allowed attempt
└── RunError             raised by `Client` and `Run`
    ├── RunNotFound
    ├── RunAlreadyExists
    ├── ArtifactNotFound
    ├── RunFailed
    │   ├── RunCanceled
    │   ├── RunTerminated
    │   └── RunTimedOut
    ├── AwaitClosed      the wait ended without an answer, or the message is no longer to be changed
    │   ├── AlreadyAnswered  the wait has another answer
    │   ├── UnknownWait  the run has not asked this
    │   ├── NotPaused    the run is not paused
    │   ├── RunEnded     the run has ended, or the conversation is closed
    │   └── ApprovalVoid the tool has changed since it was displayed; this approval did not run the call
    ├── MissingRole      the principal lacks the role for an answer
    │   └── NotApprover  the principal may not decide on the call
    ├── InvalidInput     an argument is invalid, or the server refuses the request
    │   ├── EditRefused  edited arguments of an approval do not fit the tool
    │   ├── StaleDigest  a decision names other arguments than those of the call as it is now
    │   └── OtherKind    an answer is of another kind than the wait
    ├── NoWorker         no worker polls the task queue, or none accepts an answer
    ├── ScheduleAlreadyExists
    ├── ScheduleNotFound
    ├── RunUnreadable    the run's records cannot be decoded by this client
    ├── SessionBusy      100 messages of a conversation wait for their turn
    ├── TenantQuotaExceeded  the tenant has no place for another run
    ├── StorageUnavailable   external storage cannot be read or written now
    └── ServerUnavailable
```

A message says what happened, where, and what to do next.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sojourn.contracts.definition import DefinitionError, SojournError

if TYPE_CHECKING:
    from sojourn.contracts.tool_error import RetryHint, ToolError
    from sojourn.contracts.tool_result import ToolResult

__all__ = [
    "AlreadyAnswered",
    "ApprovalVoid",
    "ArtifactNotFound",
    "AwaitClosed",
    "CallFailed",
    "DefinitionError",
    "EditRefused",
    "InvalidInput",
    "MissingRole",
    "NetworkRetriesExhausted",
    "NoWorker",
    "NotApprover",
    "NotPaused",
    "OtherKind",
    "RateLimited",
    "RunAlreadyExists",
    "RunCanceled",
    "RunEnded",
    "RunError",
    "RunFailed",
    "RunNotFound",
    "RunTerminated",
    "RunTimedOut",
    "RunUnreadable",
    "ScheduleAlreadyExists",
    "ScheduleNotFound",
    "ServerNotFound",
    "ServerUnavailable",
    "SessionBusy",
    "SojournError",
    "StaleDigest",
    "StorageUnavailable",
    "TenantQuotaExceeded",
    "ToolFailed",
    "ToolUnavailable",
    "UnknownWait",
]


_LONGEST_DELAY = timedelta(days=3650)
"""A longer `retry_after` is shortened to this, so that it fits into a timer."""


class ToolFailed(SojournError):
    """Raised by a tool to fail its call, without another attempt.

    Args:
        message: The error for the planner.
        hint: How to repair the call.
        code: The error's code, such as `closed`.
    """

    def __init__(self, message: str, *, hint: "RetryHint | None" = None, code: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


def _delay(retry_after: timedelta | float | None) -> timedelta | None:
    """Return a duration or a number of seconds as a delay from 0 to ten years.

    None for NaN and other types.
    """
    if isinstance(retry_after, (int, float)):
        try:
            retry_after = timedelta(seconds=retry_after)
        except ValueError:
            return None
        except OverflowError:
            retry_after = _LONGEST_DELAY if retry_after > 0 else timedelta(0)
    return min(max(retry_after, timedelta(0)), _LONGEST_DELAY) if isinstance(retry_after, timedelta) else None


class RateLimited(ToolFailed):
    """The tool is over a rate limit.

    The call is attempted as often as its `Retry` allows (3 times by default), then the error is
    returned to the planner. It is returned at once if the tool is declared `idempotent=False`, or
    if `retry_after` is over 30 s.

    Args:
        message: The error for the planner.
        retry_after: Delay before the next attempt, a duration or seconds; by default as the tool's `Retry` states.
    """

    def __init__(
        self, message: str = "rate limited", *, retry_after: timedelta | float | None = None
    ) -> None:
        super().__init__(message, code="rate_limited")
        self.retry_after = _delay(retry_after)


class ToolUnavailable(ToolFailed):
    """A service that the tool needs is unavailable.

    The call is attempted as often as for `RateLimited`.

    Args:
        message: The error for the planner.
        retry_after: Delay before the next attempt, a duration or seconds; by default as the tool's `Retry` states.
        outcome_unknown: Whether the service may have carried the request out, as when the connection broke off
            after the request was sent. By default, whether an exception that this one is raised from says so.
            Then only a tool that is declared `idempotent=True` or `read_only=True` is called again by repairs,
            with the same idempotency key.
    """

    def __init__(
        self,
        message: str = "unavailable",
        *,
        retry_after: timedelta | float | None = None,
        outcome_unknown: bool | None = None,
    ) -> None:
        super().__init__(message, code="tool_unavailable")
        self.retry_after = _delay(retry_after)
        self.outcome_unknown = outcome_unknown


class CallFailed(SojournError):
    """A call in a flow failed.

    The flow may catch this error. Otherwise the run fails with the causes.

    Args:
        message: The tool's id and the error with its causes.
        result: The failed result, with its error and its hint.
        outcome_unknown: Whether the call may have taken effect although it failed: its outcome is unknown, or it was
            cut off when its turn was interrupted, its run canceled or its time used up.
    """

    def __init__(self, message: str, *, result: "ToolResult", outcome_unknown: bool = False) -> None:
        super().__init__(message)
        self.result = result
        self.error = result.error
        self.outcome_unknown = outcome_unknown


class ServerNotFound(SojournError):
    """No `temporal` command runs on this machine.

    Also raised if `SOJOURN_TEMPORAL_CLI` names another program.
    """


class NetworkRetriesExhausted(SojournError, RuntimeError):
    """Every attempt of a request failed because of the network or an HTTP status.

    `__cause__` is the last failure.

    Args:
        message: A sentence for people, from `format_network_error`.
        provider: The name of the API.
        attempts: The number of attempts.
        status: The last HTTP status; None when the server did not answer.
    """

    def __init__(
        self, message: str, *, provider: str | None = None, attempts: int = 1, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.attempts = attempts
        self.status = status


class RunError(SojournError):
    """Base class of the errors of `Client` and `Run`.

    `run_id` is None if the error is not about a single run.
    """

    def __init__(self, message: str, *, run_id: str | None = None) -> None:
        super().__init__(message)
        self.run_id = run_id


class RunNotFound(RunError):
    """No run has this id in the namespace.

    It was never started, or its retention period has ended.
    """


class RunAlreadyExists(RunError):
    """A run with this id was started before.

    With `attach=True`, `Client` returns its handle instead.
    """


class RunFailed(RunError):
    """The run ended without an answer.

    Args:
        message: The failure with its causes.
        code: The failure's type, such as `PlannerError`.
        error: The failure and the chain of its causes; None for a run that was terminated or timed out, and for
            one that was canceled, unless a call may have taken effect. Its `outcome_unknown` says that of any call of the run.
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
    """The run was canceled.

    `reason` and `by` come from the request. Each is None if the request has none.
    """

    def __init__(
        self,
        message: str,
        *,
        run_id: str | None = None,
        reason: str | None = None,
        by: str | None = None,
        error: "ToolError | None" = None,
    ) -> None:
        super().__init__(message, run_id=run_id, code="Canceled", error=error)
        self.reason = reason
        self.by = by


class RunTerminated(RunFailed):
    """The run was terminated from outside, its open calls without an answer."""


class RunTimedOut(RunFailed):
    """The run exceeded its execution time-out, which Sojourn itself never sets."""


class AwaitClosed(RunError):
    """The wait is not open.

    Its subclasses say why: it has another answer, the run has not asked it, or the run has ended. The class itself
    stands for a wait that expired or was given up, and for a message or turn that is no longer to be changed.

    Args:
        await_id: The wait, if it is known.
    """

    def __init__(self, message: str, *, run_id: str | None = None, await_id: str | None = None) -> None:
        super().__init__(message, run_id=run_id)
        self.await_id = await_id


class AlreadyAnswered(AwaitClosed):
    """The wait has another answer. The same answer again is a success.

    Args:
        outcome: The answer in one word: `answered`, `declined`, `approved`, `denied` or `provided`.
        by: Who gave it; None if that is not recorded.
        at: When; None if that is not known.
    """

    def __init__(
        self,
        message: str,
        *,
        run_id: str | None = None,
        await_id: str | None = None,
        outcome: str = "answered",
        by: str | None = None,
        at: datetime | None = None,
    ) -> None:
        super().__init__(message, run_id=run_id, await_id=await_id)
        self.outcome = outcome
        self.by = by
        self.at = at


class UnknownWait(AwaitClosed):
    """The run has not asked this, or not yet."""


class NotPaused(AwaitClosed):
    """The run to resume is not paused."""


class RunEnded(AwaitClosed):
    """The run has ended, or the conversation is closed.

    It takes no answers and no messages.
    """


class MissingRole(RunError):
    """The principal lacks the role for an answer.

    The run still waits.

    Args:
        message: Who lacks which role.
        role: The role that is missing.
    """

    def __init__(self, message: str, *, run_id: str | None = None, role: str = "") -> None:
        super().__init__(message, run_id=run_id)
        self.role = role


class NotApprover(MissingRole):
    """The principal may not decide on a call.

    It lacks the role, asked for the call itself, or is not one of the named deciders. The run still
    waits.

    Args:
        message: Why the principal may not decide.
        deciders: Who may decide, in words; empty if the tool and the rules do not say.
    """

    def __init__(self, message: str, *, run_id: str | None = None, deciders: str = "") -> None:
        super().__init__(message, run_id=run_id, role="approver")
        self.deciders = deciders


class ApprovalVoid(AwaitClosed):
    """The tool of an approved call has changed since it was shown to the approver.

    The call did not run by this approval.

    Args:
        message: How the tool was changed, and what to decide on now.
        await_id: The wait that repeats the question, or None if the run answered the call with an error.
        changes: How the tool was changed, one change a text, if the run repeats the question.
    """

    def __init__(
        self,
        message: str,
        *,
        run_id: str | None = None,
        await_id: str | None = None,
        changes: Sequence[str] = (),
    ) -> None:
        super().__init__(message, run_id=run_id, await_id=await_id)
        self.changes = list(changes)


class InvalidInput(RunError):
    """An argument breaks a rule, or the server refuses the request.

    The text says which rule, or why.

    Args:
        faults: For values by field, every fault, each with its `field` (a JSON pointer) and a `message`.
    """

    part = "answer"
    """What `faults` are about: a field of a request over HTTP."""

    def __init__(
        self, message: str, *, run_id: str | None = None, faults: Sequence[Mapping[str, str]] = ()
    ) -> None:
        super().__init__(message, run_id=run_id)
        self.faults = [dict(each) for each in faults]


class StaleDigest(InvalidInput):
    """A decision names another digest than that of the call's current arguments.

    Nothing is decided.

    Args:
        await_id: The wait.
        digest: The digest of the arguments as they are now.
    """

    def __init__(self, message: str, *, run_id: str | None = None, await_id: str, digest: str) -> None:
        super().__init__(message, run_id=run_id)
        self.await_id = await_id
        self.digest = digest


class EditRefused(InvalidInput):
    """Edited arguments of an approval do not fit the tool. The call still waits.

    `faults` has the fields that cannot be used.
    """

    part = "arguments"


class OtherKind(InvalidInput):
    """An answer is of another kind than its wait, such as an approval of a question.

    Args:
        await_id: The wait.
        kind: The kind of the wait: `question`, `approval` or `tool_results`.
    """

    def __init__(self, message: str, *, run_id: str | None = None, await_id: str, kind: str) -> None:
        super().__init__(message, run_id=run_id)
        self.await_id = await_id
        self.kind = kind


class SessionBusy(RunError):
    """The conversation's backlog is full: 100 messages, or 1 MB of them.

    Send the message again once a turn has ended. A run also refuses a large message or answer for which its
    history has no room beside the calls that are under way: send that again once they have ended.
    """


class TenantQuotaExceeded(RunError):
    """The tenant has reached its quota, and the run may not wait for a place.

    The run was not started.

    Args:
        message: The tenant and its quota.
        quota: The limit that is reached: `runs` or `starts_per_minute`.
        limit: That limit.
    """

    def __init__(
        self, message: str, *, run_id: str | None = None, quota: str = "runs", limit: int = 0
    ) -> None:
        super().__init__(message, run_id=run_id)
        self.quota = quota
        self.limit = limit


class ScheduleAlreadyExists(RunError):
    """There is a schedule of this id."""


class ScheduleNotFound(RunError):
    """There is no schedule of this id in the namespace."""


class RunUnreadable(RunError):
    """The run's records cannot be decoded here.

    The codec or the storage of its workers is missing or fails.
    """


class NoWorker(RunError):
    """No worker polls the task queue, or none accepted an answer in 30 s.

    The answer can still take effect.
    """


class ArtifactNotFound(RunError):
    """The run made no such artifact, or its data cannot be read from storage."""


class StorageUnavailable(RunError):
    """External storage cannot be read or written now.

    A tool's call and a plan are attempted again.
    """

    retry_after = timedelta(seconds=30)
    """Delay before the next attempt. With it, the three attempts of a call outlast a minute without storage."""


class ServerUnavailable(RunError):
    """The Temporal server does not answer, or a development server cannot start."""
