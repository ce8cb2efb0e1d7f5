"""Rate and concurrency limits for requests to a provider (in memory).

The bucket holds at most the tokens of a minute. A refusal halves the rate, and a success adds 5 % of the full
rate; the rate stays between 10 % and 100 % of it. When no rate is set, there is no limit before the first
refusal. Then the full rate is what was sent in the last minute, and when it is reached again, the limit ends.

Without a clock: every method takes the time, in seconds of any clock.

There is one limiter for each provider, base URL and key. All planners and runs of a worker share it, so a
refusal of one request slows down all. The state belongs to the running event loop, and a worker has one loop.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from pydantic_ai.concurrency import ConcurrencyLimiter
from pydantic_ai.exceptions import ModelRateLimitError
from pydantic_ai.models import Model

from sojourn.errors import DefinitionError

__all__ = ["LONGEST_WAIT", "Allowance", "Limiter", "RateLimits", "SentRequest", "limiter_for"]

BACK_OFF: Final = 0.5
RECOVERY: Final = 0.05
LOWEST: Final = 0.1

LEAST_KNOWN: Final = 60_000.0
"""Least full rate assumed at the first refusal, in tokens a minute: other programs may use the same account."""

_MINUTE = 60.0

_INSTANT = 0.001
"""Seconds below which a wait counts as none, because of rounding errors."""


@dataclass(slots=True)
class Allowance:
    """The number of tokens that may be sent to one provider, and the time for it."""

    set_rate: float | None = None
    """Tokens a minute that a user set, by `limit`."""
    rate: float | None = None
    """The current tokens a minute; None while there is no limit."""
    full_rate: float = 0.0
    """Tokens a minute up to which the rate recovers."""
    closed_until: float = 0.0
    """The time before which the provider accepts nothing."""
    _level: float = 0.0
    """Tokens in the bucket; negative when more was used than estimated."""
    _at: float | None = None
    """The time of `_level` and `_recent`."""
    _backed_off: float | None = None
    """The time of the last halving."""
    _recent: float = 0.0
    """Tokens sent in about the last minute, as a decaying sum."""

    def limit(self, rate: float) -> None:
        """Set the rate, in tokens a minute, unless a stricter rate is set."""
        if self.set_rate is not None and rate >= self.set_rate:
            return
        self._level = rate if self.rate is None else min(self._level, rate)
        self.rate = min(self.rate or rate, rate)
        self.set_rate = self.full_rate = rate

    def wait(self, tokens: float, now: float, ahead: float = 0.0) -> float:
        """Return the seconds until a request may be sent, 0 if it may be now.

        Args:
            tokens: Estimated tokens of the request. A request larger than the bucket waits for a full bucket.
            now: The time.
            ahead: Tokens of the requests that are sent before it.
        """
        self._advance(now)
        wait = self.closed_until - now
        if self.rate is not None:
            missing = ahead + min(tokens, self.rate) - self._level
            wait = max(wait, missing / self.rate * _MINUTE)
        return wait if wait > _INSTANT else 0.0

    def take(self, tokens: float, now: float) -> None:
        """Take tokens out of the bucket.

        A negative number puts back what was estimated too much.
        """
        self._advance(now)
        self._recent += tokens
        if self.rate is not None:
            self._level -= tokens

    def refused(self, now: float, *, sent: float, retry_after: float | None) -> None:
        """Lower the rate, since the provider refused a request for its rate limit.

        Args:
            now: The time.
            sent: When the request was sent; the refusal of a request from before the last halving does not halve again.
            retry_after: Seconds for which the provider accepts nothing, if it says so.
        """
        self._advance(now)
        self.closed_until = max(self.closed_until, now + (retry_after or 0.0))
        if self._backed_off is not None and sent <= self._backed_off:
            return
        if self.rate is None:
            self.rate = self.full_rate = max(self._recent, LEAST_KNOWN)
            self._level = 0.0
        self.rate = max(self.rate * BACK_OFF, self.full_rate * LOWEST)
        self._level = min(self._level, 0.0)
        self._backed_off = now

    def succeeded(self) -> None:
        """Raise the rate, since the provider answered."""
        if self.rate is None:
            return
        self.rate = min(self.rate + self.full_rate * RECOVERY, self.full_rate)
        if self.set_rate is None and self.rate >= self.full_rate:
            self.rate = None

    def _advance(self, now: float) -> None:
        passed = 0.0 if self._at is None else max(now - self._at, 0.0)
        self._at = now
        self._recent *= max(1.0 - passed / _MINUTE, 0.0)
        if self.rate is not None:
            self._level = min(self._level + passed / _MINUTE * self.rate, self.rate)


LONGEST_WAIT: Final = 30.0
"""Longest wait of a request in this process, in seconds, while it holds an activity's slot; Temporal waits longer."""

LONGEST_CLOSED: Final = 3600.0
"""Longest time for which a `Retry-After` stops the requests of the whole worker, in seconds."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """A user's limits for each provider.

    Without them there is no limit until a provider refuses.
    """

    concurrency: int | None = None
    """Most requests in flight."""
    tokens_per_minute: int | None = None
    """Most tokens a minute, of input and output together."""

    @classmethod
    def given(cls, concurrency: int | None = None, tokens_per_minute: int | None = None) -> "RateLimits":
        """Return the given limits, or else those of the environment.

        The variables are `SOJOURN_MODEL_CONCURRENCY` and `SOJOURN_MODEL_TPM`. Without them there is
        no limit.

        Raises:
            DefinitionError: A limit is not a number above 0.
        """
        return cls(
            _number("max_concurrency", concurrency, "SOJOURN_MODEL_CONCURRENCY"),
            _number("tokens_per_minute", tokens_per_minute, "SOJOURN_MODEL_TPM"),
        )


def _number(name: str, argument: int | None, variable: str) -> int | None:
    written = os.environ.get(variable)
    if argument is not None:
        value, name = argument, f"{name} is {argument!r}"
    elif written:
        value, name = int(written) if written.isdecimal() else 0, f"{variable} is {written[:60]!r}"
    else:
        return None
    if value < 1:
        raise DefinitionError(f"{name}; write a whole number above 0, or leave it out for no limit")
    return value


@dataclass(slots=True)
class SentRequest:
    """A request that is sent."""

    used: int = 0
    """Tokens that the provider counted, which correct the estimate; 0 while unknown."""


class Limiter:
    """Delays the requests to one provider so that they stay within its limits.

    Args:
        name: The provider's name, for errors and spans.
        limits: The user's limits.
        clock: Returns the time in seconds; the event loop's time when left out.
        sleep: Waits for a number of seconds.
    """

    def __init__(
        self,
        name: str,
        limits: RateLimits | None = None,
        *,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = name
        self.allowance = Allowance()
        self._clock = clock or asyncio.get_running_loop().time
        self._sleep = sleep
        self._slots: ConcurrencyLimiter | None = None
        self._turn = asyncio.Lock()  # fair: first come, first served
        self._queued = 0.0
        self._handed_over = 0.0
        if limits:
            self.limit(limits)

    def limit(self, limits: RateLimits) -> None:
        """Apply a planner's limits.

        Of several planners' limits for the same provider, the strictest apply.
        """
        most = limits.concurrency
        if most is not None and (self._slots is None or most < self._slots.max_running):
            self._slots = ConcurrencyLimiter(most, name=self.name)
        if limits.tokens_per_minute is not None:
            self.allowance.limit(limits.tokens_per_minute)

    @asynccontextmanager
    async def request(self, tokens: float, model: str = "") -> AsyncGenerator[SentRequest]:
        """Wait until a request may be sent.

        The block sends it, and a `ModelRateLimitError` there lowers the rate.

        Args:
            tokens: The estimated tokens of the request.
            model: The model's name, for the error.

        Raises:
            ModelRateLimitError: The request would have to wait for more than 30 s; `retry_after` has the seconds.
        """
        slots = self._slots
        if slots:
            await self._slot(slots, tokens, model)
        try:
            await self._admitted(tokens, model)
            began, sent = self._clock(), SentRequest()
            try:
                yield sent
            except ModelRateLimitError as error:
                wait = error.retry_after and min(error.retry_after, LONGEST_CLOSED)
                self.allowance.refused(self._clock(), sent=began, retry_after=wait)
                raise
            self.allowance.succeeded()
            if sent.used:
                self.allowance.take(sent.used - tokens, self._clock())
        finally:
            if slots:
                slots.release()

    async def _slot(self, slots: ConcurrencyLimiter, tokens: float, model: str) -> None:
        """Wait until the limit of requests in flight allows another."""
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await slots.acquire(f"model:{model}")
        except TimeoutError:
            raise self._later(LONGEST_WAIT, tokens, model) from None

    async def _admitted(self, tokens: float, model: str) -> None:
        """Wait for the earlier requests, and until the bucket has the tokens."""
        self._check(self.allowance.wait(tokens, self._clock(), self._queued), tokens, model)
        self._queued += tokens
        try:
            async with self._turn:
                while (wait := self.allowance.wait(tokens, self._clock())) > 0:
                    self._check(wait, tokens, model)
                    await self._sleep(wait)
                self.allowance.take(tokens, self._clock())
        finally:
            self._queued -= tokens

    def _check(self, wait: float, tokens: float, model: str) -> None:
        if wait > LONGEST_WAIT:
            raise self._later(wait, tokens, model)

    def _later(self, wait: float, tokens: float, model: str) -> ModelRateLimitError:
        """Return the error that makes Temporal repeat a request later.

        Each such request comes after those before it, at the rate of the tokens.
        """
        now = self._clock()
        wait = max(wait, self._handed_over - now)
        rate = self.allowance.rate
        self._handed_over = now + wait + (tokens / rate * 60 if rate else 0.0)
        return ModelRateLimitError(
            model or self.name, f"the requests to {self.name} stay under its rate limit", retry_after=wait
        )


_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[Any, ...], Limiter]] = WeakKeyDictionary()


def limiter_for(model: Model, limits: RateLimits | None = None) -> Limiter:
    """Return the limiter of a model's provider, base URL and key.

    It belongs to the running event loop.
    """
    whose = (model.system, model.base_url, _key_of(model))
    known = _limiters.setdefault(asyncio.get_running_loop(), {})
    if whose not in known:
        known[whose] = Limiter(model.system)
    if limits:
        known[whose].limit(limits)
    return known[whose]


def _key_of(model: Model) -> str | None:
    """Return the key of a model's client, or None.

    None for a client without a key, or one that does not show it.
    """
    client = getattr(model, "client", None)
    keys = (getattr(each, "api_key", None) for each in (client, getattr(client, "_api_client", None)))
    return next((key for key in keys if isinstance(key, str)), None)
