"""Per-principal rate and concurrency limits, in memory and per process.

Without authentication there is one principal, and nothing is counted. Requests without a principal, to open paths or with invalid
credentials, are counted by their address.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from contextvars import ContextVar

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.contracts.principal import Principal
from sojourn.http.problems import Problem
from sojourn.http.security.principals import LOCAL, principal_of
from sojourn.http.security.requests import address_of, is_stream, refuse
from sojourn.reader import Cache
from sojourn.serving.fair_slots import FairSlots

__all__ = [
    "RateLimitMiddleware",
    "TokenBuckets",
    "bind_address_buckets",
    "charge",
    "count_anonymous",
    "count_stream",
    "heavy_read",
    "is_unlogged",
]

_KEY = "sojourn.stream_slot"

_ADDRESS_BUCKETS = "sojourn.address_buckets"

_UNLOGGED = "sojourn.unlogged"
"""Scope key of the mark that the refusal is one of many, and is not logged."""

_Whose = tuple[str, str]

MAX_KNOWN = 100_000
"""Most principals, or addresses, to count. The least recently seen is dropped first."""

READINGS = 8
"""Most concurrent heavy reads: histories, lists by labels, transcripts, artifacts."""

READINGS_OF_TENANT = 4
"""Most concurrent heavy reads of the principals of one tenant."""

READINGS_OF_ONE = 1
"""Most concurrent heavy reads of one principal, since all principals share one processor."""

PATIENCE = 10.0
"""Seconds for which a heavy read waits for its turn."""

COST = 20.0
"""Requests that a second of a heavy read costs its principal."""


class TokenBuckets:
    """Token buckets, one for each client.

    The library `limits` has fixed and moving windows, but no debt. The additional cost of a request (`charge`) is known only
    after the request (`test_what_a_request_costs_is_counted` of `tests/http/security/test_limits.py`).
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._left: Cache[Hashable, tuple[float, float]] = Cache(MAX_KNOWN, 2 * burst / rate, clock=clock)
        """The tokens that are left, and when they were counted. By then the deepest debt is paid, and a new bucket is as full."""

    def __len__(self) -> int:
        return len(self._left)

    def take(self, by: Hashable) -> float:
        """Take a token and return 0.0, or return the seconds until there is one."""
        left = self._count(by)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._keep(by, left if wait else left - 1)
        return wait

    def charge(self, by: Hashable, cost: float) -> None:
        """Take the further cost of a request. A client owes a burst at most."""
        self._keep(by, max(self._count(by) - cost, -float(self._burst)))

    def _count(self, by: Hashable) -> float:
        now = self._clock()
        left, since = self._left.peek(by) or (float(self._burst), now)
        return min(self._burst, left + (now - since) * self._rate)

    def _keep(self, by: Hashable, left: float) -> None:
        self._left.put(by, (left, self._clock()))


class RateLimitMiddleware:
    """Per-principal rate and concurrency limits (in memory, per process).

    The rate limits requests. The concurrency limits streams and waiting requests.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        requests: float,
        burst: int,
        streams: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._requests = requests
        self._most_streams = streams
        self._buckets = TokenBuckets(requests, burst, clock)
        self._streams: dict[_Whose, int] = {}
        self._readings = _HeavyReads()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asking = principal_of(scope) if scope["type"] == "http" else None
        if asking is None or asking is LOCAL:
            await self._app(scope, receive, send)
        elif wait := self._buckets.take((asking.tenant, asking.subject)):
            detail = f"{asking.subject} sends more than {self._requests:g} requests a second"
            await refuse(_too_many("too_many_requests", detail, wait), scope, receive, send)
        else:
            await self._serve(asking, scope, receive, send)

    async def _serve(self, asking: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on. A refusal replaces a stream beyond the limit."""
        slot = scope[_KEY] = _StreamSlot(
            self._streams, (asking.tenant, asking.subject), self._most_streams, self._buckets, self._readings
        )
        _slot.set(slot)
        is_cut = False

        async def forward(message: Message) -> None:
            nonlocal is_cut
            if is_cut:
                return  # a library that has handled the exception sends a response of its own
            if message["type"] == "http.response.start" and is_stream(message):
                try:
                    slot.open()
                except Problem as problem:
                    is_cut = True
                    raise _TooManyStreams from problem
            await send(message)

        try:
            await self._app(scope, receive, forward)
        except Exception:
            if not is_cut:
                raise
        finally:
            slot.close()
        if is_cut:
            await refuse(slot.refusal(), scope, receive, send)


class _TooManyStreams(Exception):  # noqa: N818 - it passes through the application, which does not know it
    """Ends an application that starts a stream beyond the limit."""


class _StreamSlot:
    """A request's slot among its principal's streams, from when it streams or waits."""

    def __init__(
        self,
        places: dict[_Whose, int],
        whose: _Whose,
        most: int,
        buckets: TokenBuckets,
        readings: "_HeavyReads",
    ) -> None:
        self._places = places
        self._whose = whose
        self._most = most
        self._buckets = buckets
        self._readings = readings
        self._is_open = False
        self.is_reading = False

    def open(self) -> None:
        if self._is_open:
            return
        if self._places.get(self._whose, 0) >= self._most:
            raise self.refusal()
        self._is_open = True
        self._places[self._whose] = self._places.get(self._whose, 0) + 1

    def charge(self, cost: float) -> None:
        self._buckets.charge(self._whose, cost)

    def reading(self) -> contextlib.AbstractAsyncContextManager[None]:
        return self._readings.turn(self._whose)

    def refusal(self) -> Problem:
        detail = f"{self._whose[1]} has {self._most} open streams and requests that wait"
        return _too_many("too_many_streams", detail, 1)

    def close(self) -> None:
        if not self._is_open:
            return
        self._places[self._whose] -= 1
        if not self._places[self._whose]:
            del self._places[self._whose]


def count_stream(scope: Scope) -> None:
    """Count a request as a stream before it has an effect, or raise a 429."""
    slot = scope.get(_KEY)
    if isinstance(slot, _StreamSlot):
        slot.open()


_slot: ContextVar[_StreamSlot | None] = ContextVar("sojourn.slot", default=None)
"""The current request, also in tasks that start here."""


def charge(scope: Scope, cost: float) -> None:
    """Charge a principal for further requests. A local client pays nothing."""
    slot = scope.get(_KEY)
    if isinstance(slot, _StreamSlot) and cost > 0:
        slot.charge(cost)


@contextlib.asynccontextmanager
async def heavy_read(*, begins_free: bool = False) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Limit the concurrent heavy reads, per principal and in total.

    Nested reads of a request are part of its turn. A local client has no limit.

    Args:
        begins_free: Whether the request reads without a turn until it calls the yielded function, once it has read much.

    Raises:
        Problem: The turn does not come in time (429, or 503 if all principals together read too much).
    """
    slot = _slot.get()
    async with contextlib.AsyncExitStack() as stack:

        async def take() -> None:
            if slot is not None and not slot.is_reading:
                await stack.enter_async_context(_turn(slot))

        if not begins_free:
            await take()
        yield take


@contextlib.asynccontextmanager
async def _turn(slot: _StreamSlot) -> AsyncGenerator[None]:
    async with slot.reading():
        begin, slot.is_reading = time.monotonic(), True
        try:
            yield
        finally:
            slot.is_reading = False
            slot.charge(COST * (time.monotonic() - begin))


class _HeavyReads(FairSlots[_Whose]):
    def __init__(self) -> None:
        super().__init__(READINGS)

    def is_free(self, tenant: str, name: _Whose) -> bool:
        return super().is_free(tenant, name) and self._busy(name) is None

    def _busy(self, whose: _Whose) -> str | None:
        """Return who reads as much as they may, the principal or its tenant, or None."""
        tenant, subject = whose
        if self.by_name[whose] >= READINGS_OF_ONE:
            return subject
        return f"tenant {tenant}" if tenant and self.by_tenant[tenant] >= READINGS_OF_TENANT else None

    @contextlib.asynccontextmanager
    async def turn(self, whose: _Whose) -> AsyncGenerator[None]:
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(PATIENCE):
                    await stack.enter_async_context(self.slot(whose[0], whose))
            except TimeoutError:
                busy = self._busy(whose)
                detail = f"{busy or 'all clients together'} reads too much at once: no turn came within {PATIENCE:g} s"
                raise _too_many("too_many_readings", detail, 1, 429 if busy else 503) from None
            yield


def count_anonymous(scope: Scope) -> None:
    """Count a request without a principal by its address, or raise a problem (429)."""
    buckets = scope.get(_ADDRESS_BUCKETS)
    if isinstance(buckets, TokenBuckets) and (wait := buckets.take(address_of(scope))):
        scope[_UNLOGGED] = True
        raise _too_many("too_many_requests", "this address sends too many requests without a key", wait)


def bind_address_buckets(scope: Scope, buckets: TokenBuckets) -> None:
    scope[_ADDRESS_BUCKETS] = buckets


def is_unlogged(scope: Scope) -> bool:
    """Return whether a refusal is one of many of its address."""
    return scope.get(_UNLOGGED, False)


def _too_many(code: str, detail: str, wait: float, status: int = 429) -> Problem:
    return Problem(
        status,
        code,
        detail,
        then="Send it again after the seconds of Retry-After.",
        headers={"Retry-After": str(math.ceil(wait))},
    )
