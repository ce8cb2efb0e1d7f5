"""Carry deltas between processes over Redis.

Each run's current answer is a Redis Stream that expires. When Redis is unavailable, a line in the
log reports it, nothing is sent for 15 seconds, and runs continue.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

from pydantic import ValidationError
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from sojourn.errors import DefinitionError
from sojourn.live.transport import Delta, Outage

__all__ = ["RedisTransport", "is_cancelled", "redis_client"]

PREFIX = "sojourn:live:"
"""Prefix of the keys; the run's topic follows."""

KEPT = timedelta(minutes=15)
"""The time to live of a stream after its last delta."""

MAX_DELTAS = 20_000
"""Most deltas that a stream keeps, as Redis approximates it; two attempts that write at the same time share it."""

PATIENCE = 1.0
"""Seconds for connecting to Redis, and for publishing deltas."""

PAUSE = 15.0
"""Seconds after a failure in which nothing is published."""

BLOCK = 10.0
"""Seconds that a subscriber's read blocks while there are no new deltas."""

RETRY = 1.0
"""Seconds until a subscriber reads again after a failure."""

_FIELD = b"d"


class RedisTransport:
    """Carries deltas over Redis 5 or newer.

    It needs `sojourn[redis]`. All runs of an event loop share the connections for publishing. Each
    subscriber has a connection of its own.

    Args:
        url: `redis://HOST:PORT/DB`, `rediss://...` for TLS, or `unix://PATH`, which a setting writes as
            `redis+unix://PATH`.

    Raises:
        DefinitionError: The URL is not valid.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._writers = WeakKeyDictionary[asyncio.AbstractEventLoop, Redis]()
        self._paused_until = 0.0
        self._outage = Outage()
        redis_client(url, PATIENCE)

    def is_wanted(self, topic: str) -> bool:
        """Return whether Redis did not fail within 15 s."""
        del topic
        return time.monotonic() >= self._paused_until

    async def publish(self, topic: str, deltas: Sequence[Delta]) -> bool:
        """Append deltas to the run's stream, for at most a second."""
        if not (deltas and self.is_wanted(topic)):
            return not deltas
        key = PREFIX + topic
        try:
            async with asyncio.timeout(PATIENCE), self._share().pipeline() as pipe:
                if deltas[0].seq == 0:
                    pipe.xtrim(key, maxlen=0, approximate=False)
                for delta in deltas:
                    pipe.xadd(key, {_FIELD: delta.model_dump_json(exclude_defaults=True)}, maxlen=MAX_DELTAS)
                pipe.expire(key, KEPT)
                await pipe.execute()
        except (RedisError, OSError) as error:
            self._paused_until = time.monotonic() + PAUSE
            self._outage.begin(error)
            return False
        self._outage.end()
        return True

    async def subscribe(self, topic: str) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the run's stream from its beginning, then new deltas.

        After a failure of Redis, read again each second.
        """
        key, last = PREFIX + topic, "0"
        while True:
            reader = redis_client(self._url, BLOCK + PATIENCE)
            try:
                while not is_cancelled():
                    found: Any = await reader.xread({key: last}, count=500, block=round(BLOCK * 1000))
                    self._outage.end()
                    for _, entries in found:
                        last = entries[-1][0]
                        yield [delta for _, fields in entries if (delta := _read(fields))]
            except (RedisError, OSError) as error:
                self._outage.begin(error)
            finally:
                await reader.aclose()
            if is_cancelled():
                raise asyncio.CancelledError
            await asyncio.sleep(RETRY)

    async def close(self) -> None:
        if writer := self._writers.pop(asyncio.get_running_loop(), None):
            await writer.aclose()

    def _share(self) -> Redis:
        loop = asyncio.get_running_loop()
        if loop not in self._writers:
            self._writers[loop] = redis_client(self._url, PATIENCE)
        return self._writers[loop]


def redis_client(url: str, read_timeout: float) -> Redis:
    """Return a client without retries, which connects when it is used.

    Raises:
        DefinitionError: The URL is not valid.
    """
    try:
        return Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - the client leaves out types
            url,
            protocol=2,
            socket_timeout=read_timeout,
            socket_connect_timeout=PATIENCE,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError:  # its text quotes the URL's faulty part, which may be the password
        raise DefinitionError(
            "the address of Redis is not valid; write it as redis://[USER:PASSWORD@]HOST:PORT/DB, where other "
            "characters of a password than letters and digits are written as %XX"
        ) from None


def is_cancelled() -> bool:
    """Return whether this task is cancelled.

    The client uses `asyncio.wait_for`, which before Python 3.12 loses a cancellation that coincides with a result.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _read(fields: dict[bytes, bytes]) -> Delta | None:
    """Return the delta of a stream entry, or None for one that another program wrote."""
    try:
        return Delta.model_validate_json(fields.get(_FIELD, b""))
    except ValidationError:
        return None
