"""The rate of requests to a provider, shared by all workers over Redis.

An `Allowance` is one JSON value in Redis, and times are by the clock of Redis. A worker changes it by
compare-and-set before and after each request. A request *reserves* its tokens before it waits for them, so
that the requests of all workers go in the order in which they were first on their worker. A refusal on one
worker is known to the others before they send.
"""

import asyncio
import hashlib
import json
import random
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from sojourn.models.allowance import Allowance

__all__ = ["SharedAllowance"]

PREFIX: Final = "sojourn:limits:"
"""Prefix of the keys; a digest of the provider, the URL and the API key follows."""

KEPT: Final = 600.0
"""Seconds for which Redis keeps an allowance that no worker changes, or a minute longer than a `Retry-After`."""

SEEN: Final = 60.0
"""Seconds after its last change for which a worker counts."""

PATIENCE: Final = 1.0
"""Seconds for connecting to Redis, and for a response."""

PAUSE: Final = 15.0
"""Seconds after a failure of Redis in which the worker limits itself."""

LONGEST_BACK_OFF: Final = 0.1
"""Longest wait before a change is tried again, in seconds, since another worker was faster."""

_COMPARE_AND_SET: Final = """
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""

_log = structlog.get_logger("sojourn.models")


class SharedAllowance:
    """An allowance in Redis, of one event loop.

    While Redis is away, each change returns None, and `last` is this worker's share of the last rate.

    Args:
        url: The address of Redis.
        whose: The provider, URL and API key, as any text.
        clock: The clock of `last`, and of the times that methods take.

    Raises:
        ValueError: The address is not valid.
    """

    def __init__(self, url: str, whose: str, *, clock: Callable[[], float] | None = None) -> None:
        self._key = PREFIX + hashlib.sha256(whose.encode()).hexdigest()[:32]
        _open(url)  # raises here for an invalid address; it does not connect yet
        self._url = url
        self._clock = clock or asyncio.get_running_loop().time
        self._worker = uuid.uuid4().hex[:12]
        self._rate: float | None = None
        self._client: Any = None
        self._users = 0
        self._ahead = 0.0
        """Seconds that the clock of Redis is ahead of this one."""
        self._workers = 1
        self._waiting: list[_Change] = []
        self._turn = asyncio.Lock()
        self._paused_until: float | None = None
        self.last = Allowance()
        """The allowance as this worker has last seen it, by its own clock."""

    def limit(self, rate: float) -> None:
        """Apply the rate of a planner of this worker, if it is stricter."""
        self._rate = min(rate, self._rate or rate)
        self.last.limit(rate)

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[None]:
        """Share a connection with the other requests that are under way."""
        if not self._users:
            self._client = _open(self._url)
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                client, self._client = self._client, None
                await client.aclose()

    async def reserve(self, tokens: float, longest: float) -> float | None:
        """Take tokens, and return the seconds until they are there.

        If these are more than `longest`, this takes nothing.
        """

        def take(allowance: Allowance, now: float) -> float:
            wait = allowance.wait(tokens, now)
            if wait <= longest:
                allowance.take(tokens, now)
            return wait

        return await self._try(take)

    async def give_back(self, tokens: float) -> None:
        await self._try(lambda allowance, now: allowance.take(-tokens, now))

    async def closed_for(self) -> float:
        """Return the seconds in which no worker may send, by a `Retry-After`."""
        closed = await self._try(lambda allowance, now: allowance.closed_until - now)
        return max(closed or 0.0, 0.0)

    async def count_refusal(self, sent: float, retry_after: float | None) -> bool:
        def lower(allowance: Allowance, now: float) -> bool:
            allowance.count_refusal(now, sent=sent + self._ahead, retry_after=retry_after)
            return True

        return await self._try(lower) is True

    async def count_success(self, correction: float) -> bool:
        def raise_(allowance: Allowance, now: float) -> bool:
            allowance.count_success()
            allowance.take(correction, now)
            return True

        return await self._try(raise_) is True

    async def _try(self, change: Callable[[Allowance, float], Any]) -> Any:
        """Make a change, together with those that came meanwhile.

        The result is None while Redis is away.
        """
        mine = _Change(change)
        self._waiting.append(mine)
        try:
            async with self._turn:
                if not mine.is_made:
                    together, self._waiting = self._waiting, []
                    try:
                        await self._make(together)
                    finally:
                        self._waiting[:0] = [each for each in together if not each.is_made]
        finally:
            if not mine.is_made and mine in self._waiting:
                self._waiting.remove(mine)
        return mine.result

    async def _make(self, changes: list["_Change"]) -> None:
        if self._paused_until is None or self._clock() >= self._paused_until:
            try:
                await self._write(changes)
            except (RedisError, OSError) as error:
                self._begin_pause(error)
            else:
                if self._paused_until is not None:
                    self._paused_until = None
                    _log.info("model_limits_shared_again")
                return
        for each in changes:
            each.is_made, each.result = True, None

    def _begin_pause(self, error: Exception) -> None:
        if self._paused_until is None:
            _log.warning("model_limits_alone", reason=type(error).__name__, workers=self._workers)
            rate, full = self.last.rate, self.last.full_rate
            share = rate / self._workers if rate else None
            self.last = replace(self.last, rate=share, full_rate=full / self._workers)
        self._paused_until = self._clock() + PAUSE

    async def _write(self, changes: list["_Change"]) -> None:
        """Change the allowance by compare-and-set, until no other worker was faster."""
        attempt = 0
        while True:
            found, (seconds, micros) = (
                await self._client.pipeline(transaction=False).get(self._key).time().execute()
            )
            now = seconds + micros / 1e6
            allowance, workers = _read(found)
            workers[self._worker] = (now, self._rate)
            workers = {name: each for name, each in workers.items() if now - each[0] < SEEN}
            allowance.set_to(min((rate for _, rate in workers.values() if rate), default=None))
            for each in changes:
                each.result = each.change(allowance, now)
            state = json.dumps({"allowance": allowance.to_json(), "workers": workers})
            kept = max(KEPT, allowance.closed_until - now + 60)
            if await self._client.eval(
                _COMPARE_AND_SET, 1, self._key, found or b"", state, round(kept * 1000)
            ):
                break
            attempt += 1
            longest = min(0.001 * 2**attempt, LONGEST_BACK_OFF)
            await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 - spreads load
        for each in changes:
            each.is_made = True
        self._ahead = now - self._clock()
        self._workers = len(workers)
        self.last = allowance.moved_by(-self._ahead)


@dataclass(slots=True, eq=False)
class _Change:
    change: Callable[[Allowance, float], Any]
    result: Any = None
    is_made: bool = False


def _read(found: bytes | None) -> tuple[Allowance, dict[str, tuple[float, float | None]]]:
    """Return an allowance and its workers, new ones if another version wrote them."""
    try:
        state = json.loads(found or b"")
        return Allowance(**state["allowance"]), {
            name: (at, rate) for name, (at, rate) in state["workers"].items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return Allowance(), {}


def _open(url: str) -> Redis:
    return Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - the client leaves out types
        url,
        protocol=2,
        socket_timeout=PATIENCE,
        socket_connect_timeout=PATIENCE,
        retry=Retry(NoBackoff(), 0),
    )
