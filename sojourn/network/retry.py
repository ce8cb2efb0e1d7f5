"""Repeat a request after a network failure, with growing delays (ME-11, ME-14)."""

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
from sojourn.network.network_errors import RETRIED_STATUSES, format_network_error, network_failure_of

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = ["LONGEST_DELAY", "LONGEST_WAIT", "MAX_RETRIES", "network_faults", "with_network_retry"]

MAX_RETRIES = 5

LONGEST_DELAY = 30.0
"""Longest delay before one repetition in seconds, also for a longer `Retry-After`."""

LONGEST_WAIT = 300.0
"""Most seconds of delay in all, however many repetitions are allowed."""

_JITTER = 0.3

_T = TypeVar("_T")
_log = structlog.get_logger("sojourn.network")


@dataclass(slots=True)
class _Use:
    """One use of `with_network_retry`, which a task may outlive."""

    is_over: bool = False


_outer: ContextVar[_Use | None] = ContextVar("sojourn_network_retry", default=None)


@contextmanager
def network_faults(provider: str | None = None) -> Generator[None]:
    """Raise a network failure inside the block as `RateLimited` or `ToolUnavailable`.

    The error carries the server's `Retry-After`, and Temporal repeats the attempt after that time, even if
    the worker is lost. It contains nothing of the request, which may hold a key. It says whether the server
    may have carried the request out (`outcome_unknown`; docs/network.md has the table). Every other
    exception is raised unchanged.

    Args:
        provider: The name of the API in the error's text; `API` when left out.

    Raises:
        RateLimited: The server answered HTTP 429.
        ToolUnavailable: Another network failure.
    """
    try:
        yield
    except Exception as error:
        fault = network_failure_of(error)
        if fault is None:
            raise
        text, after = format_network_error(error, provider), fault.retry_after
        if fault.kind == "rate_limited":
            raise RateLimited(text, retry_after=after) from None
        raise ToolUnavailable(text, retry_after=after, outcome_unknown=fault.outcome_unknown) from None


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
    """Call a function, and repeat the call after a network failure.

    Network failures are time-outs, connections that are refused, reset or unreachable, DNS and TLS failures, and
    HTTP 408, 425, 429, 500, 502, 503 and 504, whether raised or returned as a response. The delay before
    repetition n is 2^(n-1) s and up to 30 % more, or `Retry-After`; at most 30 s, and 300 s in all.
    Inside another use the function is called once, since the outermost use repeats. Inside an activity it
    is called once too, since Temporal repeats; then errors are raised as by `network_faults`.

    Args:
        fn: A function without arguments: async, or sync if it may block the event loop.
        provider: The name of the API in the error's text; `API` when left out.
        max_retries: Most repetitions after the first attempt.
        sleep: Waits for a number of seconds; replaced in tests.

    Returns:
        The function's value; every other exception of the function is raised unchanged.

    Raises:
        NetworkRetriesExhausted: All attempts failed; the cause is the last failure.
        RateLimited: Inside an activity: the server answered HTTP 429.
        ToolUnavailable: Inside an activity: another network failure.
        ValueError: `max_retries` is below 0.
    """
    if max_retries < 0:
        raise ValueError(f"max_retries is {max_retries}; 0 calls once")
    if _in_activity():
        with network_faults(provider):
            return await _call(fn)
    outer = _outer.get()
    if outer is not None and not outer.is_over:
        return await _call(fn)
    use = _Use()
    token = _outer.set(use)
    try:
        return await _repeat(fn, provider, max_retries, sleep)
    finally:
        use.is_over = True
        _outer.reset(token)


async def _repeat(
    fn: Callable[[], Any],
    provider: str | None,
    max_retries: int,
    sleep: Callable[[float], Awaitable[None]],
) -> Any:
    # Imported here, since most commands repeat nothing and should start fast.
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
    return await retrying(_call, fn)


async def _call(fn: Callable[[], Any]) -> Any:
    """Make one attempt, and raise the error of a response that is to be repeated."""
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
    fault = network_failure_of(_failure(state))
    if fault is not None and fault.retry_after is not None:
        return min(fault.retry_after.total_seconds(), LONGEST_DELAY)
    growing = 2.0 ** (state.attempt_number - 1) * (1 + random.uniform(0, _JITTER))  # noqa: S311 - spreads load
    return min(growing, LONGEST_DELAY)


def _in_activity() -> bool:
    activity = sys.modules.get("temporalio.activity")
    return activity is not None and activity.in_activity()
