"""Repeat a request that the network let down, with growing delays (ME-11, ME-14).

tenacity calls again; this module decides what is repeated, after how long, and when Temporal repeats instead.
"""

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

import structlog

from sojourn.errors import NetworkRetriesExhausted, RateLimited, ToolUnavailable
from sojourn.network.network_errors import RETRIED_STATUSES, network_failure_of
from sojourn.network.wording import format_network_error

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = ["LONGEST_DELAY", "LONGEST_WAIT", "MAX_RETRIES", "network_faults", "with_network_retry"]

MAX_RETRIES = 5
"""Executions after the first one."""

LONGEST_DELAY = 30.0
"""Seconds before one repetition, whatever a server asks for."""

LONGEST_WAIT = 300.0
"""Seconds of delay in all, however many repetitions are allowed."""

_JITTER = 0.3

_T = TypeVar("_T")
_log = structlog.get_logger("sojourn.network")


@dataclass(slots=True)
class _Use:
    """One use of `with_network_retry`; a task that it leaves behind is not within it for ever."""

    is_over: bool = False


_outer: ContextVar[_Use | None] = ContextVar("sojourn_network_retry", default=None)


@contextmanager
def network_faults(provider: str | None = None) -> Generator[None]:
    """Raise a network failure inside the block as `RateLimited` or `ToolUnavailable`.

    They carry the server's `Retry-After`, so that the attempt is repeated by Temporal, then, and that not
    even a lost worker forgets it. Every other exception passes as it is. Nothing of the request, which
    may hold a key, goes on into the history.

    Args:
        provider: Whose API it is, for the text.
    """
    try:
        yield
    except Exception as error:
        fault = network_failure_of(error)
        if fault is None:
            raise
        kind = RateLimited if fault.kind == "rate_limited" else ToolUnavailable
        raise kind(format_network_error(error, provider), retry_after=fault.retry_after) from None


@overload
async def with_network_retry(
    fn: Callable[[], Awaitable[_T]],
    provider: str | None = None,
    max_retries: int = MAX_RETRIES,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> _T: ...


@overload
async def with_network_retry(
    fn: Callable[[], _T],
    provider: str | None = None,
    max_retries: int = MAX_RETRIES,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> _T: ...


async def with_network_retry(
    fn: Callable[[], Any],
    provider: str | None = None,
    max_retries: int = MAX_RETRIES,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Any:
    """Call a function, and again while it fails by the network's doing.

    Repeated are time-outs, connections refused, reset or unreachable, DNS and TLS failures, and HTTP 408,
    425, 429, 500, 502, 503 and 504, whether raised or returned as a response. Before repetition n lie
    2^(n-1) s and up to 30 % more, or what `Retry-After` says; never over 30 s, nor over 300 s in all.
    Within another use it calls once, so that only the outermost repeats. Within an activity that is
    Temporal: it calls once, and raises as `network_faults` does.

    Args:
        fn: What to call: an async function without arguments, or a sync one that may block the loop.
        provider: Whose API it calls, for the text of the error.
        max_retries: How often to repeat; 0 calls once.
        sleep: Waits for some seconds.

    Raises:
        NetworkRetriesExhausted: it failed each time; caused by the last failure.
        ValueError: `max_retries` is below 0.
    """
    if max_retries < 0:
        raise ValueError(f"max_retries is {max_retries}; 0 calls once")
    if _in_activity():
        with network_faults(provider):
            return await _called(fn)
    outer = _outer.get()
    if outer is not None and not outer.is_over:
        return await _called(fn)
    use = _Use()
    token = _outer.set(use)
    try:
        return await _repeated(fn, provider, max_retries, sleep)
    finally:
        use.is_over = True
        _outer.reset(token)


async def _repeated(
    fn: Callable[[], Any],
    provider: str | None,
    max_retries: int,
    sleep: Callable[[float], Awaitable[None]],
) -> Any:
    # Loaded where it is used: a command that repeats nothing answers at once.
    from tenacity import AsyncRetrying, retry_if_exception  # noqa: PLC0415

    def is_enough(state: "RetryCallState") -> bool:
        return state.attempt_number > max_retries or state.idle_for + state.upcoming_sleep > LONGEST_WAIT

    def give_up(state: "RetryCallState") -> NoReturn:
        last = _failure(state)
        fault = network_failure_of(last)
        raise NetworkRetriesExhausted(
            format_network_error(last, provider),
            provider=provider,
            attempts=state.attempt_number,
            status=fault and fault.status,
        ) from last

    def log_retry(state: "RetryCallState") -> None:
        reason = format_network_error(_failure(state), provider)
        _log.warning("network_retry", reason=reason, attempt=state.attempt_number, delay=state.upcoming_sleep)

    retrying = AsyncRetrying(
        sleep=sleep,
        stop=is_enough,
        wait=_delay,
        retry=retry_if_exception(lambda error: network_failure_of(error) is not None),
        before_sleep=log_retry,
        retry_error_callback=give_up,
    )
    return await retrying(_called, fn)


async def _called(fn: Callable[[], Any]) -> Any:
    """One execution; an answer that is to be repeated is raised, if it has not been."""
    value = fn()
    if isawaitable(value):
        value = await value
    if getattr(value, "status_code", None) in RETRIED_STATUSES and hasattr(value, "raise_for_status"):
        value.raise_for_status()
    return value


def _failure(state: "RetryCallState") -> BaseException:
    error = state.outcome.exception() if state.outcome else None
    assert error is not None
    return error


def _delay(state: "RetryCallState") -> float:
    """Seconds before the next execution."""
    fault = network_failure_of(_failure(state))
    if fault is not None and fault.retry_after is not None:
        return min(fault.retry_after.total_seconds(), LONGEST_DELAY)
    growing = 2.0 ** (state.attempt_number - 1) * (1 + random.uniform(0, _JITTER))  # noqa: S311 - spreads load
    return min(growing, LONGEST_DELAY)


def _in_activity() -> bool:
    """Whether Temporal repeats what fails here; without loading its SDK where nothing else has."""
    activity = sys.modules.get("temporalio.activity")
    return activity is not None and activity.in_activity()
