"""Rate limits: how many requests and tokens a minute this worker sends to a provider.

There is one limiter for each provider, base URL and key. All planners and runs of a worker share it, so a
refusal of one request slows down all. The state belongs to the running event loop, of which a worker has one.
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
from sojourn.models.allowance import Allowance

__all__ = ["LONGEST_WAIT", "Limiter", "RateLimits", "Sent", "limiter_for"]

LONGEST_WAIT: Final = 30.0
"""Longest wait of a request in this process, in seconds, while it holds an activity's slot; Temporal waits longer."""

LONGEST_CLOSED: Final = 3600.0
"""Longest time for which a `Retry-After` stops the requests of the whole worker, in seconds."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """A user's limits for each provider; without them there is no limit until a provider refuses."""

    concurrency: int | None = None
    """Most requests in flight."""
    tokens_per_minute: int | None = None
    """Most tokens a minute, of input and output together."""

    @classmethod
    def given(cls, concurrency: int | None = None, tokens_per_minute: int | None = None) -> "RateLimits":
        """Return the given limits, else `SOJOURN_MODEL_CONCURRENCY` and `SOJOURN_MODEL_TPM`, else no limit.

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
class Sent:
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
        """Apply a planner's limits; of several planners' limits for the same provider, the strictest apply."""
        most = limits.concurrency
        if most is not None and (self._slots is None or most < self._slots.max_running):
            self._slots = ConcurrencyLimiter(most, name=self.name)
        if limits.tokens_per_minute is not None:
            self.allowance.limit(limits.tokens_per_minute)

    @asynccontextmanager
    async def request(self, tokens: float, model: str = "") -> AsyncGenerator[Sent]:
        """Wait until a request may be sent; the block sends it, and a `ModelRateLimitError` there lowers the rate.

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
            began, sent = self._clock(), Sent()
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
        """Return the error by which Temporal repeats a request later, each after those before it, at the rate of the tokens."""
        now = self._clock()
        wait = max(wait, self._handed_over - now)
        rate = self.allowance.rate
        self._handed_over = now + wait + (tokens / rate * 60 if rate else 0.0)
        return ModelRateLimitError(
            model or self.name, f"the requests to {self.name} stay under its rate limit", retry_after=wait
        )


_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[Any, ...], Limiter]] = WeakKeyDictionary()


def limiter_for(model: Model, limits: RateLimits | None = None) -> Limiter:
    """Return the limiter of a model's provider, base URL and key, in the running event loop."""
    whose = (model.system, model.base_url, _key_of(model))
    known = _limiters.setdefault(asyncio.get_running_loop(), {})
    if whose not in known:
        known[whose] = Limiter(model.system)
    if limits:
        known[whose].limit(limits)
    return known[whose]


def _key_of(model: Model) -> str | None:
    """Return the key of a model's client; None for a client without one, or one that does not show it."""
    client = getattr(model, "client", None)
    keys = (getattr(each, "api_key", None) for each in (client, getattr(client, "_api_client", None)))
    return next((key for key in keys if isinstance(key, str)), None)
