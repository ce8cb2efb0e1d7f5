"""Rate and concurrency limits for requests to a provider (in memory).

The bucket holds at most the tokens of a minute. A refusal halves the rate, and a success adds 5 % of the
full rate; the rate stays between 10 % and 100 % of it. When no rate is set, there is no limit before the
first refusal. Then the full rate is what was sent in the last minute, and when it is reached again, the
limit ends.

There is one limiter for each provider, base URL and key, shared by all planners and runs of a worker's
event loop. Methods take the time, in seconds of any clock.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from pydantic_ai.exceptions import ModelRateLimitError
from pydantic_ai.models import Model

from sojourn.errors import DefinitionError
from sojourn.serving.fair_slots import FairSlots, running_tenant
from sojourn.values.fair_queue import FairQueue

__all__ = ["LONGEST_WAIT", "Allowance", "Limiter", "RequestLimits", "SentRequest", "limiter_for"]

BACK_OFF: Final = 0.5
RECOVERY: Final = 0.05
LOWEST: Final = 0.1

LEAST_KNOWN: Final = 60_000.0
"""Least full rate assumed at the first refusal, in tokens a minute: other programs may use the same account."""

_MINUTE = 60.0

_INSTANT = 0.001


@dataclass(slots=True)
class Allowance:
    set_rate: float | None = None
    rate: float | None = None
    """Tokens a minute; None while there is no limit."""
    full_rate: float = 0.0
    closed_until: float = 0.0
    _level: float = 0.0
    """Tokens in the bucket; negative when more was used than estimated."""
    _at: float | None = None
    _backed_off: float | None = None
    _recent: float = 0.0
    """Tokens sent in about the last minute, as a decaying sum."""

    def limit(self, rate: float) -> None:
        if self.set_rate is not None and rate >= self.set_rate:
            return
        self._level = rate if self.rate is None else min(self._level, rate)
        self.rate = min(self.rate or rate, rate)
        self.set_rate = self.full_rate = rate

    def wait(self, tokens: float, now: float, ahead: float = 0.0) -> float:
        """Return the seconds until a request may be sent after those `ahead`.

        A request larger than the bucket waits for a full bucket.
        """
        self._advance(now)
        wait = self.closed_until - now
        if self.rate is not None:
            missing = ahead + min(tokens, self.rate) - self._level
            wait = max(wait, missing / self.rate * _MINUTE)
        return wait if wait > _INSTANT else 0.0

    def take(self, tokens: float, now: float) -> None:
        """Take tokens out of the bucket, or put back an overestimate."""
        self._advance(now)
        self._recent += tokens
        if self.rate is not None:
            self._level -= tokens

    def count_refusal(self, now: float, *, sent: float, retry_after: float | None) -> None:
        """Lower the rate, unless the refused request was sent before the last halving."""
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

    def count_success(self) -> None:
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
"""Longest wait of a request in this process, in seconds, since it holds an activity's slot."""

LONGEST_CLOSED: Final = 3600.0
"""Longest `Retry-After` that stops the requests of the whole worker, in seconds."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    concurrency: int | None = None
    tokens_per_minute: int | None = None

    @classmethod
    def from_environment(
        cls, concurrency: int | None = None, tokens_per_minute: int | None = None
    ) -> "RequestLimits":
        """Return the given limits, or else those of the environment."""
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
    used: int = 0
    """Tokens that the provider counted, which correct the estimate; 0 while unknown."""


class Limiter:
    """Delays the requests to one provider so that they stay within its limits.

    Requests that wait go by tenant in turn: the queue of one delays and refuses no request of another.
    """

    def __init__(
        self,
        name: str,
        limits: RequestLimits | None = None,
        *,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = name
        self.allowance = Allowance()
        self._clock = clock or asyncio.get_running_loop().time
        self._sleep = sleep
        self._slots: FairSlots[str] | None = None
        self._queue: FairQueue[_QueuedRequest] = FairQueue()
        self._handed_over: dict[str, float] = {}
        """By tenant, when the last of the requests that Temporal repeats may be sent."""
        if limits:
            self.limit(limits)

    def limit(self, limits: RequestLimits) -> None:
        """Apply a planner's limits, if they are stricter."""
        most = limits.concurrency
        if most is not None:
            self._slots = self._slots or FairSlots(most)
            self._slots.slots = min(self._slots.slots, most)
        if limits.tokens_per_minute is not None:
            self.allowance.limit(limits.tokens_per_minute)

    @asynccontextmanager
    async def request(self, tokens: float, model: str = "") -> AsyncGenerator[SentRequest]:
        """Wait until the block may send a request.

        A `ModelRateLimitError` in the block lowers the rate; one is raised instead of a wait of more than
        30 s.
        """
        request = _QueuedRequest(running_tenant(), tokens, model, self._clock())
        async with AsyncExitStack() as held:
            if self._slots:
                await self._take_slot(self._slots, request, held)
            await self._admit(request)
            began, sent = self._clock(), SentRequest()
            try:
                yield sent
            except ModelRateLimitError as error:
                wait = error.retry_after and min(error.retry_after, LONGEST_CLOSED)
                self.allowance.count_refusal(self._clock(), sent=began, retry_after=wait)
                raise
            self.allowance.count_success()
            if sent.used:
                self._correct(request, sent.used - tokens)

    async def _take_slot(
        self, slots: FairSlots[str], request: "_QueuedRequest", held: AsyncExitStack
    ) -> None:
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await held.enter_async_context(slots.slot(request.tenant, request.model))
        except TimeoutError:
            raise self._later(LONGEST_WAIT, request) from None

    async def _admit(self, request: "_QueuedRequest") -> None:
        """Wait for the request's turn, and then for its tokens.

        While the first request waits for tokens, one of another tenant may go before it.
        """
        ahead = self._queue.ahead(request.tenant)
        self._check(self.allowance.wait(request.tokens, self._clock(), ahead), request)
        self._queue.push(request.tenant, request, request.tokens)
        try:
            while not await self._is_sent(request):
                pass
        except BaseException:
            self._queue.remove(request.tenant, request)
            raise
        finally:
            self._wake_first()

    async def _is_sent(self, request: "_QueuedRequest") -> bool:
        """Send a request whose turn it is, or wait for what may change."""
        if self._queue.first() is not request:
            request.turn.clear()
            try:
                async with asyncio.timeout(LONGEST_WAIT - (self._clock() - request.began)):
                    await request.turn.wait()
            except TimeoutError:  # requests of other tenants came and went first
                raise self._later(LONGEST_WAIT, request) from None
        elif (wait := self.allowance.wait(request.tokens, self._clock())) > 0:
            self._check(wait, request)
            await self._sleep(wait)
        else:
            self._queue.pop()
            self.allowance.take(request.tokens, self._clock())
            return True
        return False

    def _correct(self, request: "_QueuedRequest", tokens: float) -> None:
        """Count what a request used beyond its estimate, or less."""
        self.allowance.take(tokens, self._clock())
        self._queue.charge(request.tenant, tokens)
        self._wake_first()

    def _wake_first(self) -> None:
        if first := self._queue.first():
            first.turn.set()

    def _check(self, wait: float, request: "_QueuedRequest") -> None:
        if wait > LONGEST_WAIT:
            raise self._later(wait, request)

    def _later(self, wait: float, request: "_QueuedRequest") -> ModelRateLimitError:
        """Return the error that makes Temporal repeat a request in its turn.

        Each tenant has turns of its own, as far apart as its share of the rate allows.
        """
        now = self._clock()
        self._handed_over = {tenant: until for tenant, until in self._handed_over.items() if until > now}
        wait = max(wait, self._handed_over.get(request.tenant, now) - now)
        rate = self.allowance.rate
        sharing = len({*self._handed_over, request.tenant})
        self._handed_over[request.tenant] = (
            now + wait + (request.tokens / rate * 60 * sharing if rate else 0.0)
        )
        return ModelRateLimitError(
            request.model or self.name,
            f"the requests to {self.name} stay under its rate limit",
            retry_after=wait,
        )


@dataclass(slots=True, eq=False)
class _QueuedRequest:
    tenant: str
    tokens: float
    model: str
    began: float
    turn: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the request is first."""


_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[Any, ...], Limiter]] = WeakKeyDictionary()


def limiter_for(model: Model, limits: RequestLimits | None = None) -> Limiter:
    """Return the limiter of a model's provider, URL and key, on this event loop."""
    whose = (model.system, model.base_url, _key_of(model))
    known = _limiters.setdefault(asyncio.get_running_loop(), {})
    if whose not in known:
        known[whose] = Limiter(model.system)
    if limits:
        known[whose].limit(limits)
    return known[whose]


def _key_of(model: Model) -> str | None:
    client = getattr(model, "client", None)
    keys = (getattr(each, "api_key", None) for each in (client, getattr(client, "_api_client", None)))
    return next((key for key in keys if isinstance(key, str)), None)
