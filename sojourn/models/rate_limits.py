"""Rate and concurrency limits for requests to a provider.

There is one limiter for each provider, base URL and key, shared by all planners and runs of a worker's
event loop. Its `Allowance` is in memory, or with `SOJOURN_MODEL_LIMITS` that of all workers.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from pydantic_ai.exceptions import ModelRateLimitError
from pydantic_ai.models import Model

from sojourn.connection import settings
from sojourn.errors import DefinitionError
from sojourn.models.allowance import Allowance
from sojourn.serving.fair_slots import FairSlots, running_tenant
from sojourn.values.fair_queue import FairQueue

if TYPE_CHECKING:
    from sojourn.models.shared_allowance import SharedAllowance

__all__ = ["LONGEST_WAIT", "Limiter", "RequestLimits", "SentRequest", "limiter_for"]

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
        settings.model_limits()  # raises here, and not in a run
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
        shared: "SharedAllowance | None" = None,
    ) -> None:
        self.name = name
        self._clock = clock or asyncio.get_running_loop().time
        self._sleep = sleep
        self._shared = shared
        self._own = Allowance()
        self._slots: FairSlots[str] | None = None
        self._queue: FairQueue[_QueuedRequest] = FairQueue()
        self._handed_over: dict[str, float] = {}
        """By tenant, when the last of the requests that Temporal repeats may be sent."""
        if limits:
            self.limit(limits)

    @property
    def allowance(self) -> Allowance:
        """What this worker knows of the rate."""
        return self._shared.last if self._shared else self._own

    def limit(self, limits: RequestLimits) -> None:
        """Apply a planner's limits, if they are stricter."""
        most = limits.concurrency
        if most is not None:
            self._slots = self._slots or FairSlots(most)
            self._slots.slots = min(self._slots.slots, most)
        if limits.tokens_per_minute is not None:
            (self._shared or self._own).limit(limits.tokens_per_minute)

    @asynccontextmanager
    async def request(self, tokens: float, model: str = "") -> AsyncGenerator[SentRequest]:
        """Wait until the block may send a request.

        A `ModelRateLimitError` in the block lowers the rate; one is raised instead of a wait of more than
        30 s.
        """
        request = _QueuedRequest(running_tenant(), tokens, model, self._clock())
        async with AsyncExitStack() as held:
            if self._shared:
                await held.enter_async_context(self._shared.connected())
            if self._slots:
                await self._take_slot(self._slots, request, held)
            await self._admit(request)
            began, sent = self._clock(), SentRequest()
            try:
                yield sent
            except ModelRateLimitError as error:
                wait = error.retry_after and min(error.retry_after, LONGEST_CLOSED)
                await self._count_refusal(began, wait)
                raise
            await self._count_success(request, sent.used and sent.used - tokens)

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
        elif self._shared and (wait := await self._shared.reserve(request.tokens, LONGEST_WAIT)) is not None:
            self._check(wait, request)
            await self._await_reserved(self._shared, request, wait)
            self._queue.pop(lambda each: each is request)
            return True
        elif (wait := self.allowance.wait(request.tokens, self._clock())) > 0:
            self._check(wait, request)
            await self._sleep(wait)
        else:
            self._queue.pop(lambda each: each is request)
            self.allowance.take(request.tokens, self._clock())
            return True
        return False

    async def _await_reserved(
        self, shared: "SharedAllowance", request: "_QueuedRequest", wait: float
    ) -> None:
        """Wait for reserved tokens, and while the provider refuses any worker."""
        try:
            while wait > 0:
                self._check(wait, request)
                await self._sleep(wait)
                wait = await shared.closed_for()
        except BaseException:
            await shared.give_back(request.tokens)
            raise

    async def _count_refusal(self, sent: float, retry_after: float | None) -> None:
        if not (self._shared and await self._shared.count_refusal(sent, retry_after)):
            self.allowance.count_refusal(self._clock(), sent=sent, retry_after=retry_after)

    async def _count_success(self, request: "_QueuedRequest", correction: float) -> None:
        """Raise the rate, and count what a request used beyond its estimate, or less."""
        if not (self._shared and await self._shared.count_success(correction)):
            self.allowance.count_success()
            self.allowance.take(correction, self._clock())
        self._queue.charge(request.tenant, correction)
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
        known[whose] = Limiter(model.system, shared=_share(repr(whose)))
    if limits:
        known[whose].limit(limits)
    return known[whose]


def _share(whose: str) -> "SharedAllowance | None":
    """Return the allowance that workers share, or None without the setting."""
    url = settings.model_limits()
    if url is None:
        return None
    try:
        from sojourn.models.shared_allowance import SharedAllowance  # noqa: PLC0415 - the client is an extra
    except ModuleNotFoundError as error:
        raise DefinitionError("SOJOURN_MODEL_LIMITS names a Redis; pip install 'sojourn[redis]'") from error
    try:
        return SharedAllowance(url.removeprefix("redis+"), whose)
    except ValueError:  # its text quotes the URL's faulty part, which may be the password
        raise DefinitionError("SOJOURN_MODEL_LIMITS is not a valid address of Redis") from None


def _key_of(model: Model) -> str | None:
    client = getattr(model, "client", None)
    keys = (getattr(each, "api_key", None) for each in (client, getattr(client, "_api_client", None)))
    return next((key for key in keys if isinstance(key, str)), None)
