"""Decide whether a failed attempt is retried or answered.

No other module decides it.

| what happened | what follows |
|---|---|
| the worker was lost: a heartbeat time-out | another attempt, until 3 workers were lost under the call (`MAX_LOST`); then, and at once with `idempotent=False`, answered `tool_unavailable`, "its outcome is unknown" |
| the worker was shut down, as in a deploy | Temporal makes up to 20 attempts in all, 1 s apart, doubled, at most 30 s (three deploys during one tool use up three) |
| `RateLimited`, `ToolUnavailable`, `StorageUnavailable`, `ConnectionError` | up to the tool's own `Retry` (3 attempts), after `retry_after` or 1 s, doubled; answered at once if `retry_after` is over 30 s, the tool is `idempotent=False`, or a call of an MCP server may have taken effect, whose tool is neither `read_only` nor `idempotent` |
| the tool exceeded its time-out | the same if it is `read_only` or `idempotent`, else answered as `timeout`: it may have taken effect |
| `ToolFailed`, any other exception, a bad payload, a bad result | answered at once: the same would happen again |
| a planner or policy engine has a bug: `TypeError`, `KeyError` and the like, raised in the author's own code (`BUGS`); or a wrong argument of a constructor of Sojourn, such as `PlanResult(memory=...)` | the run fails with its reason, at once: the same would happen again |
| it raised anything else, or exceeded `plan_timeout` | 5 attempts, or 20 if it says when to try again; then the run fails with its reason |

Temporal retries an activity that raises. A call that was answered is never executed again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sojourn.contracts import safe_exceptions
from sojourn.contracts.dispatch import ACTIVITY_ATTEMPTS
from sojourn.contracts.record import refusing_record
from sojourn.contracts.safe_exceptions import source_location
from sojourn.contracts.tool_error import RetryHint, RetryReason, ToolError
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload import hints
from sojourn.core.payload.unknown_outcome import changes_nothing, leaves_unknown
from sojourn.errors import RateLimited, StorageUnavailable, ToolUnavailable
from sojourn.values.json_value import is_object

__all__ = [
    "BUGS",
    "LONGEST_INTERVAL",
    "LOST_KINDS",
    "MAX_LOST",
    "OUTCOME_UNKNOWN",
    "PLANNER_ATTEMPTS",
    "TRANSIENT",
    "FailedAttempt",
    "Repetition",
    "count_lost",
    "decide",
    "delay_of",
    "is_bug",
    "lost_details",
    "most_attempts",
    "planner_attempts",
    "read_lost",
    "read_unknown",
    "timeout_failure",
    "transient",
]

LONGEST_INTERVAL = timedelta(seconds=30)
"""Longest delay between two attempts. With a longer `retry_after` the call is answered at once: the planner may do something else."""

PLANNER_ATTEMPTS = 5
"""Attempts of a planner that raises or exceeds `plan_timeout`, before the run fails with its reason.

A planner that says when to try again, by `next_retry_delay` or `retry_after`, has all the attempts
of an activity: a model provider may be unavailable for an hour.
"""

BUGS = (
    TypeError,
    AttributeError,
    KeyError,
    IndexError,
    NameError,
    AssertionError,
    NotImplementedError,
    ImportError,
    SyntaxError,
    ZeroDivisionError,
    RecursionError,
)
"""Exceptions that a mistake in a planner's code raises, in every attempt.

`UnboundLocalError` is a `NameError`.
"""

TRANSIENT = (RateLimited, ToolUnavailable, StorageUnavailable, ConnectionError)
"""Exceptions that a tool raises if the same call may succeed later."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt that may be worth another."""

    reason: str
    """A value of `RetryReason`."""
    answer: tuple[ToolError, RetryHint | None]
    """The answer to the call, when it is not attempted again."""
    retry_after: timedelta | None = None
    outcome_unknown: bool = False


@dataclass(frozen=True, slots=True)
class Repetition:
    """The decision to fail the attempt, so that Temporal makes another one."""

    delay: timedelta


def transient(spec: ToolSpec, error: BaseException, message: str) -> FailedAttempt:
    """Return the failure of an attempt at a rate-limited or unavailable service."""
    after, unknown = delay_of(safe_exceptions.attribute(error, "retry_after")), leaves_unknown(spec, error)
    if safe_exceptions.is_a(error, RateLimited):
        return FailedAttempt(
            RetryReason.RATE_LIMITED, hints.rate_limited(spec.id, message, after), after, unknown
        )
    return FailedAttempt(
        RetryReason.TOOL_UNAVAILABLE, hints.unavailable(spec.id, message, after), after, unknown
    )


def timeout_failure(spec: ToolSpec, limit: timedelta) -> FailedAttempt:
    """Return the failure of an attempt that exceeded its time limit."""
    unknown = not changes_nothing(spec)
    return FailedAttempt(
        RetryReason.TIMEOUT, hints.timeout(spec.id, limit, unknown=unknown), outcome_unknown=unknown
    )


def decide(
    spec: ToolSpec, failure: FailedAttempt, attempt: int
) -> Repetition | tuple[ToolError, RetryHint | None]:
    """Decide on another attempt, or on the answer to the call."""
    after, first = failure.retry_after, spec.retry.initial_interval
    # A function has an idempotency key for its repetition. An MCP server has none, and by MCP a tool that says nothing
    # is not idempotent.
    is_in_doubt = failure.outcome_unknown and spec.kind == "mcp"
    if failure.reason == RetryReason.TIMEOUT or is_in_doubt:
        may = bool(spec.annotations.read_only or spec.annotations.idempotent)
    else:
        may = spec.annotations.idempotent is not False and (after is None or after <= LONGEST_INTERVAL)
    if not may or attempt >= spec.retry.max_attempts:
        return failure.answer
    return Repetition(after or min(min(first, LONGEST_INTERVAL) * 2 ** (attempt - 1), LONGEST_INTERVAL))


def delay_of(value: Any) -> timedelta | None:
    """Return the delay that an exception asks for.

    None for a negative duration and for other values.
    """
    return value if isinstance(value, timedelta) and value >= timedelta(0) else None


def most_attempts(spec: ToolSpec) -> int:
    """Return the most attempts at a call, for any reason.

    It is 1 if repeating the call is not safe.
    """
    return 1 if spec.annotations.idempotent is False else max(ACTIVITY_ATTEMPTS, spec.retry.max_attempts)


def planner_attempts(retry_after: timedelta | None, *, is_last_turn: bool = False) -> int:
    """Return most attempts at a plan."""
    return PLANNER_ATTEMPTS if retry_after is None or is_last_turn else ACTIVITY_ATTEMPTS


def is_bug(error: BaseException) -> bool:
    """Return whether an exception comes from a mistake in an author's code.

    An exception that a library raised by itself may be transient, and is none.
    """
    is_one = any(safe_exceptions.is_a(error, kind) for kind in BUGS) or refusing_record(error) is not None
    return is_one and source_location(error) is not None


OUTCOME_UNKNOWN = "outcome_unknown"
"""The key in details that says whether a failed call may have taken effect.

The error of the failed attempt has it, and so do the heartbeats of a later one.
"""

MAX_LOST = 3
"""Most workers that one call may lose before its outcome counts as unknown."""

LOST_KINDS = ("heartbeat", "start_to_close")
"""Time-outs that only a lost worker exceeds: a living one heartbeats, and ends a call within its own, shorter limit."""


def count_lost(before: int, last_timeout: str | None) -> int:
    """Number of workers lost, with the attempt that ended last."""
    return before + (last_timeout in LOST_KINDS)


def read_lost(details: Sequence[Any]) -> int:
    """Return the number of lost workers from the last heartbeat's details.

    Any client may have written them.
    """
    count: Any = details[0].get("lost") if details and is_object(details[0]) else 0
    return count if isinstance(count, int) and not isinstance(count, bool) and 0 < count <= MAX_LOST else 0


def read_unknown(details: Sequence[Any]) -> bool:
    """Return whether an earlier attempt may have taken effect.

    The details are those of the last heartbeat.
    """
    return bool(details and is_object(details[0]) and details[0].get(OUTCOME_UNKNOWN) is True)


def lost_details(lost: int, *, unknown: bool = False) -> dict[str, Any]:
    """Return heartbeat details about lost workers and an unknown outcome."""
    details: dict[str, Any] = {"lost": lost} if lost else {}
    return {**details, OUTCOME_UNKNOWN: True} if unknown else details
