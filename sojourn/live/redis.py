"""RedisTransport: deltas between processes, each run's present answer in a Redis Stream that expires.

A Redis that is away costs a run nothing: a line in the log reports it, and nothing is sent for 15 seconds.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Any

import structlog
from pydantic import ValidationError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from sojourn.errors import DefinitionError
from sojourn.live.transport import Delta

__all__ = ["RedisTransport"]

PREFIX = "sojourn:live:"
"""Before the namespace and the run id, in the keys."""

KEPT = timedelta(minutes=15)
"""How long an answer stays after its last delta."""

MAX_DELTAS = 20_000
"""About so many are kept of a run: the bound of one attempt, should two write at once."""

PATIENCE = 1.0
"""Seconds that Redis has for taking deltas."""

AWAY = 15.0
"""Seconds in which one that failed is not asked to take any."""

BLOCK = 10.0
"""Seconds that a subscriber's read waits for news."""

RETRY = 1.0
"""Seconds until a subscriber that lost its connection tries again."""

_FIELD = b"d"

_log = structlog.get_logger("sojourn.live")


class RedisTransport:
    """Carries deltas over Redis 5 or newer; needs `sojourn[redis]`.

    Workers share connections for writing; each subscriber holds one for reading, while it reads.

    Args:
        url: `redis://HOST:PORT/DB`, `rediss://...` for TLS, or `unix://PATH`.

    Raises:
        DefinitionError: the address is none.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._writer: tuple[asyncio.AbstractEventLoop, Redis] | None = None
        self._away_until = 0.0
        self._is_away = False
        try:
            self._open(PATIENCE)
        except ValueError:  # its text quotes what it cannot read, which may be a password
            raise DefinitionError(
                "the address of Redis is not valid; write it as redis://[USER:PASSWORD@]HOST:PORT/DB, where other "
                "characters of a password than letters and digits are written as %XX"
            ) from None

    def is_wanted(self, topic: str) -> bool:
        """Always, but for a while after Redis failed: who reads is not known here."""
        del topic
        return time.monotonic() >= self._away_until

    async def publish(self, topic: str, deltas: Sequence[Delta]) -> bool:
        """Append to the run's stream, within a second."""
        if not (deltas and self.is_wanted(topic)):
            return not deltas
        key = PREFIX + topic
        try:
            async with asyncio.timeout(PATIENCE), self._shared().pipeline() as pipe:
                if deltas[0].seq == 0:
                    pipe.xtrim(key, maxlen=0, approximate=False)
                for delta in deltas:
                    pipe.xadd(key, {_FIELD: delta.model_dump_json(exclude_defaults=True)}, maxlen=MAX_DELTAS)
                pipe.expire(key, KEPT)
                await pipe.execute()
        except (RedisError, OSError) as error:
            self._away_until = time.monotonic() + AWAY
            self._failed(error)
            return False
        self._answered()
        return True

    async def subscribe(self, topic: str) -> AsyncGenerator[Sequence[Delta]]:
        """The stream from its beginning, and what comes; a Redis that is away is waited for."""
        key, last = PREFIX + topic, "0"
        while True:
            reader = self._open(BLOCK + PATIENCE)
            try:
                while not _is_cancelled():
                    found: Any = await reader.xread({key: last}, count=500, block=round(BLOCK * 1000))
                    self._answered()
                    for _, entries in found:
                        last = entries[-1][0]
                        yield [delta for _, fields in entries if (delta := _read(fields))]
            except (RedisError, OSError) as error:
                self._failed(error)
            finally:
                await reader.aclose()
            if _is_cancelled():
                raise asyncio.CancelledError
            await asyncio.sleep(RETRY)

    async def close(self) -> None:
        """Close the connections for writing."""
        writer, self._writer = self._writer, None
        if writer and writer[0] is asyncio.get_running_loop():
            await writer[1].aclose()

    def _shared(self) -> Redis:
        loop = asyncio.get_running_loop()
        if self._writer is None or self._writer[0] is not loop:
            self._writer = (loop, self._open(PATIENCE))
        return self._writer[1]

    def _open(self, read_timeout: float) -> Redis:
        """A client with its own connections, none of which is made yet."""
        return Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - the client leaves out types
            self._url,
            protocol=2,
            socket_timeout=read_timeout,
            socket_connect_timeout=PATIENCE,
            retry=Retry(NoBackoff(), 0),
        )

    def _failed(self, error: Exception) -> None:
        if not self._is_away:
            self._is_away = True
            reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
            _log.warning("live_text_unavailable", reason=reason, effect="runs go on, without deltas")

    def _answered(self) -> None:
        if self._is_away:
            self._is_away = False
            _log.info("live_text_available")


def _is_cancelled() -> bool:
    """Whether this task is cancelled.

    The client waits by `asyncio.wait_for`, which before Python 3.12 loses a cancellation that meets a result.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _read(fields: dict[bytes, bytes]) -> Delta | None:
    """A delta, or None: Redis is open to others."""
    try:
        return Delta.model_validate_json(fields.get(_FIELD, b""))
    except ValidationError:
        return None
