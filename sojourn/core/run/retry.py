"""Retry: whether a failed attempt is made again, or answered; the only place that decides it.

| what happened | what follows |
|---|---|
| the worker was lost: a heartbeat time-out | another attempt, until 3 workers were lost under the call (`sojourn.core.run.retry`); then, and at once with `idempotent=False`, answered `tool_unavailable`, "its outcome is unknown" |
| the worker was shut down, as in a deploy | Temporal makes up to 20 attempts in all, 1 s apart, doubled, at most 30 s (three deploys during one tool use up three) |
| `RateLimited`, `ToolUnavailable`, `ConnectionError` | up to the tool's own `Retry` (3 attempts), after `retry_after` or 1 s, doubled; answered at once where `retry_after` is over 30 s or the tool is `idempotent=False` |
| the tool exceeded its time-out | the same where it is `read_only` or `idempotent`, else answered as `timeout`: it may have taken effect |
| `ToolFailed`, any other exception, a bad payload, a bad result | answered at once: the same would happen again |
| a planner or policy engine raised, or exceeded `plan_timeout` | 5 attempts, or 20 where it says when to try again; then the run fails with its reason |

Temporal repeats what an activity raises; what is answered is never executed again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sojourn.contracts import raised
from sojourn.contracts.dispatch import ACTIVITY_ATTEMPTS
from sojourn.contracts.retry_hint import RetryHint, RetryReason
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_spec import Annotations, ToolSpec
from sojourn.core.payload import hints
from sojourn.core.values.json_value import is_object
from sojourn.errors import RateLimited, ToolUnavailable

__all__ = [
    "LONGEST_INTERVAL",
    "LOST_KINDS",
    "MAX_LOST",
    "PLANNER_ATTEMPTS",
    "TRANSIENT",
    "Failure",
    "Retry",
    "counted",
    "decide",
    "delay_of",
    "most_attempts",
    "planner_attempts",
    "timed_out",
    "told",
    "transient",
    "written",
]

LONGEST_INTERVAL = timedelta(seconds=30)
"""Between two attempts. A longer `retry_after` is answered at once: a planner can do something else meanwhile."""

PLANNER_ATTEMPTS = 5
"""Attempts of a planner that raises or exceeds `plan_timeout`, before the run fails with its reason.

One that says when to try again, by `next_retry_delay` or `retry_after`, has all the attempts of an
activity: a provider may be away for an hour.
"""

TRANSIENT = (RateLimited, ToolUnavailable, ConnectionError)
"""What a tool raises when the same call may succeed later."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt at a call that may be worth another."""

    reason: str
    """Of `RetryReason`."""
    answer: tuple[ToolError, RetryHint | None]
    """What the call is answered with, when it is not repeated."""
    retry_after: timedelta | None = None
    """How long to wait, where the tool says so."""


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt is to fail, so that Temporal makes another one."""

    delay: timedelta
    """Until then."""


def transient(spec: ToolSpec, error: BaseException, message: str) -> Failure:
    """A limit, or something that is away.

    Args:
        spec: The tool.
        error: One of `TRANSIENT`.
        message: Its text, fit to be told.
    """
    after = delay_of(raised.attribute(error, "retry_after"))
    if raised.is_a(error, RateLimited):
        return Failure(RetryReason.RATE_LIMITED, hints.rate_limited(spec.id, message, after), after)
    return Failure(RetryReason.TOOL_UNAVAILABLE, hints.unavailable(spec.id, message, after), after)


def timed_out(spec: ToolSpec, limit: timedelta) -> Failure:
    """No answer in time."""
    return Failure(RetryReason.TIMEOUT, hints.timeout(spec.id, limit))


def decide(spec: ToolSpec, failure: Failure, attempt: int) -> Retry | tuple[ToolError, RetryHint | None]:
    """Another attempt, or the answer to the call.

    Args:
        spec: The tool, with its annotations and its own `Retry`.
        failure: What came of this attempt.
        attempt: Which it was, from 1.
    """
    after, first = failure.retry_after, spec.retry.initial_interval
    if failure.reason == RetryReason.TIMEOUT:
        may = bool(spec.annotations.read_only or spec.annotations.idempotent)
    else:
        may = spec.annotations.idempotent is not False and (after is None or after <= LONGEST_INTERVAL)
    if not may or attempt >= spec.retry.max_attempts:
        return failure.answer
    return Retry(after or min(min(first, LONGEST_INTERVAL) * 2 ** (attempt - 1), LONGEST_INTERVAL))


def delay_of(said: Any) -> timedelta | None:
    """How long a stranger's exception asks to wait; what is no duration, or a negative one, asks for nothing."""
    return said if isinstance(said, timedelta) and said >= timedelta(0) else None


def most_attempts(annotations: Annotations) -> int:
    """Attempts at a call whose workers are lost; one, where a lost attempt may have done what must be done once."""
    return 1 if annotations.idempotent is False else ACTIVITY_ATTEMPTS


def planner_attempts(retry_after: timedelta | None, *, is_last_turn: bool = False) -> int:
    """Attempts at a plan.

    Args:
        retry_after: When its planner asks to be tried again.
        is_last_turn: Whether the run's time is used up, so that nothing is waited for.
    """
    return PLANNER_ATTEMPTS if retry_after is None or is_last_turn else ACTIVITY_ATTEMPTS


MAX_LOST = 3
"""Workers that one call may lose; then its outcome is unknown, and nobody tries it again."""

LOST_KINDS = ("heartbeat", "start_to_close")
"""Time-outs that a living worker prevents: it beats, and ends a call within its own, narrower limit."""


def counted(before: int, last_timeout: str | None) -> int:
    """Workers lost, with the attempt that ended last.

    Args:
        before: Those told by the attempts before.
        last_timeout: The time-out by which the server gave the last attempt up, if it did.
    """
    return before + (last_timeout in LOST_KINDS)


def told(details: Sequence[Any]) -> int:
    """The count in the last heartbeat's details, which anybody may have written."""
    said: Any = details[0].get("lost") if details and is_object(details[0]) else 0
    return said if isinstance(said, int) and not isinstance(said, bool) and 0 < said <= MAX_LOST else 0


def written(lost: int) -> dict[str, int]:
    """The count as heartbeat details carry it; nothing for none."""
    return {"lost": lost} if lost else {}
