"""Keep values in Redis, for workers on several machines."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from weakref import WeakKeyDictionary

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from sojourn.live.redis import is_cancelled, redis_client

__all__ = ["RedisVault"]

_log = structlog.get_logger("sojourn.vault")
_PREFIX = "sojourn:vault:"
_PATIENCE = 2.0
_LOCK_MS = 30_000
"""Longest hold of a lock: more than a renewal may take. A process that is killed blocks the others for so long."""

_POLL = 0.05
_RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


class RedisVault:
    """Keeps values in Redis 5 or newer.

    The server has to write them to disk (`appendonly yes`).

    Args:
        url: `redis://HOST:PORT/DB`, `rediss://...` for TLS, or `unix://PATH`.

    Raises:
        DefinitionError: The URL is not valid.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._clients = WeakKeyDictionary[asyncio.AbstractEventLoop, Redis]()
        redis_client(url, _PATIENCE)

    async def get(self, key: str) -> bytes | None:
        found: Any = await self._client.get(_PREFIX + key)
        return found

    async def put(self, key: str, value: bytes, expires_in: timedelta | None = None) -> None:
        await self._client.set(_PREFIX + key, value, px=expires_in)

    async def delete(self, key: str) -> None:
        await self._client.delete(_PREFIX + key)

    async def close(self) -> None:
        if client := self._clients.pop(asyncio.get_running_loop(), None):
            await client.aclose()

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncGenerator[None]:
        """Hold the lock of a key, for at most 30 s."""
        name, mark = f"{_PREFIX}lock:{key}", secrets.token_hex(16)
        try:
            while not await self._client.set(name, mark, nx=True, px=_LOCK_MS):
                if is_cancelled():
                    raise asyncio.CancelledError
                await asyncio.sleep(_POLL)
            yield
        finally:
            # A canceled caller may have got it, and another process may have it by now.
            await asyncio.shield(self._release(name, mark))

    async def _release(self, name: str, mark: str) -> None:
        released: Any = self._client.eval(_RELEASE, 1, name, mark)
        try:
            await released
        except RedisError as error:
            # What the holder did is done; the lock ends by itself.
            _log.warning("vault_lock_not_released", reason=type(error).__name__)

    @property
    def _client(self) -> Redis:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = redis_client(self._url, _PATIENCE)
        return self._clients[loop]
