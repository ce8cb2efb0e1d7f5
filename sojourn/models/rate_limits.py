"""Rate limits: how much this worker asks of a provider at once and in a minute.

One limiter for each provider, address and key, shared by all planners and runs of a worker; so
all obey the refusal that one run meets. State belongs to the running event loop, of which a worker has one.
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
"""Seconds a request waits here, in an activity's slot; what has to wait longer is handed to Temporal."""

LONGEST_CLOSED: Final = 3600.0
"""Seconds that a `Retry-After` closes a provider for the whole worker, at most."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """What a user allows for each provider; by default nothing is limited before a provider refuses."""

    concurrency: int | None = None
    """Requests in flight."""
    tokens_per_minute: int | None = None
    """Of input and output."""

    @classmethod
    def given(cls, concurrency: int | None = None, tokens_per_minute: int | None = None) -> "RateLimits":
        """What is given, else `SOJOURN_MODEL_CONCURRENCY` and `SOJOURN_MODEL_TPM`, else no limit.

        Raises:
            DefinitionError: one of them is no number above 0.
        """
        return cls(
            _number("max_concurrency", concurrency, "SOJOURN_MODEL_CONCURRENCY"),
            _number("tokens_per_minute", tokens_per_minute, "SOJOURN_MODEL_TPM"),
        )


def _number(name: str, given: int | None, variable: str) -> int | None:
    written = os.environ.get(variable)
    if given is not None:
        value, name = given, f"{name} is {given!r}"
    elif written:
        value, name = int(written) if written.isdecimal() else 0, f"{variable} is {written[:60]!r}"
    else:
        return None
    if value < 1:
        raise DefinitionError(f"{name}; write a whole number above 0, or leave it out for no limit")
    return value


@dataclass(slots=True)
class Sent:
    """A request on its way."""

    used: int = 0
    """Tokens that the provider counted, once known; corrects the estimate."""


class Limiter:
    """Lets requests to one provider through.

    Args:
        name: Of the provider, for errors and spans.
        limits: What a user allows.
        clock: Seconds; the loop's when left out.
        sleep: Waits for some seconds.
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
        """Allow no more than these limits; the strictest of several planners' limits for a provider holds."""
        most = limits.concurrency
        if most is not None and (self._slots is None or most < self._slots.max_running):
            self._slots = ConcurrencyLimiter(most, name=self.name)
        if limits.tokens_per_minute is not None:
            self.allowance.limit(limits.tokens_per_minute)

    @asynccontextmanager
    async def request(self, tokens: float, model: str = "") -> AsyncGenerator[Sent]:
        """Wait until a request may be sent, then send it inside the block; what the block raises is learned from.

        Args:
            tokens: An estimate of what it will use.
            model: The model's name, for the error.

        Raises:
            ModelRateLimitError: it would have to wait for over 30 s; `retry_after` says how long.
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
        """Wait until fewer requests are in flight than may be."""
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await slots.acquire(f"model:{model}")
        except TimeoutError:
            raise self._later(LONGEST_WAIT, tokens, model) from None

    async def _admitted(self, tokens: float, model: str) -> None:
        """Wait for its turn, and for tokens."""
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
        """Return the error that hands a request to Temporal: such requests come back in turn, as fast as tokens do."""
        now = self._clock()
        wait = max(wait, self._handed_over - now)
        rate = self.allowance.rate
        self._handed_over = now + wait + (tokens / rate * 60 if rate else 0.0)
        return ModelRateLimitError(
            model or self.name, f"the requests to {self.name} stay under its rate limit", retry_after=wait
        )


_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[Any, ...], Limiter]] = WeakKeyDictionary()


def limiter_for(model: Model, limits: RateLimits | None = None) -> Limiter:
    """The limiter of a model's provider, address and key, in the running event loop."""
    key: object = getattr(getattr(model, "client", None), "api_key", None)
    whose = (model.system, model.base_url, key if isinstance(key, str) else None)
    known = _limiters.setdefault(asyncio.get_running_loop(), {})
    if whose not in known:
        known[whose] = Limiter(model.system)
    if limits:
        known[whose].limit(limits)
    return known[whose]
