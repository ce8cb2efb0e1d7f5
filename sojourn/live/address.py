"""The live transport of an app or a client, by object, address or default."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import cache

from sojourn.errors import DefinitionError
from sojourn.live.transport import Delta, LiveTransport, LocalTransport
from sojourn.live.unix import SCHEME, socket_at, socket_of

__all__ = ["NearbyTransport", "as_transport"]


class NearbyTransport:
    """Publishes within the process, and subscribes there and at a hub.

    A delta that comes from both comes twice.
    """

    def __init__(self, local: LiveTransport, hub: LiveTransport) -> None:
        self._local = local
        self._hub = hub

    def is_wanted(self, topic: str) -> bool:
        return self._local.is_wanted(topic)

    async def publish(self, topic: str, deltas: Sequence[Delta]) -> bool:
        return await self._local.publish(topic, deltas)

    async def subscribe(self, topic: str) -> AsyncGenerator[Sequence[Delta]]:
        news = asyncio.Queue[Sequence[Delta]](1)
        reading = [asyncio.create_task(_forward(each, topic, news)) for each in (self._local, self._hub)]
        try:
            while True:
                yield await news.get()
        finally:
            for task in reading:
                task.cancel()
            await asyncio.wait(reading)

    async def close(self) -> None:
        await self._local.close()
        await self._hub.close()


async def _forward(source: LiveTransport, topic: str, news: asyncio.Queue[Sequence[Delta]]) -> None:
    async with aclosing(source.subscribe(topic)) as deltas:
        async for new in deltas:
            await news.put(new)


def as_transport(setting: LiveTransport | str | None, *, server: str | None = None) -> LiveTransport:
    """Return the transport for an object, an address, or None."""
    if setting is None:
        return _without_setting(server)
    if not isinstance(setting, str):
        return setting
    scheme = setting.partition("://")[0]
    if setting.startswith(SCHEME):
        from sojourn.live.unix import UnixTransport  # noqa: PLC0415 - a worker without a setting needs none

        return UnixTransport(socket_at(setting))
    if scheme not in ("redis", "rediss", "redis+unix"):
        raise DefinitionError(
            "SOJOURN_LIVE is redis://HOST:PORT/DB, rediss://..., redis+unix:///PATH, or unix:///PATH of the socket "
            "of `sojourn dev`; its value is none of these"
        )
    try:
        from sojourn.live.redis import RedisTransport  # noqa: PLC0415 - the client is an extra
    except ImportError as error:
        raise DefinitionError(
            "live text over Redis needs its client: pip install 'sojourn[redis]'"
        ) from error
    return RedisTransport(setting.removeprefix("redis+") if scheme == "redis+unix" else setting)


def _without_setting(server: str | None) -> LiveTransport:
    path = socket_of(server) if server else None
    if path is None:
        return _share()

    from sojourn.live.unix import UnixTransport  # noqa: PLC0415

    return NearbyTransport(_share(), UnixTransport(path, is_expected=False))


@cache
def _share() -> LocalTransport:
    return LocalTransport()
