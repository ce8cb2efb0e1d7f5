"""The live transport of an app or a client: an object, the one at an address, or what needs no setting."""

from functools import cache

from sojourn.errors import DefinitionError
from sojourn.live.local import LocalTransport
from sojourn.live.place import SCHEME, socket_at, socket_of
from sojourn.live.transport import LiveTransport

__all__ = ["as_transport"]


def as_transport(setting: LiveTransport | str | None, *, server: str | None = None) -> LiveTransport:
    """Return the transport for a setting: an object as it is, Redis or a hub for an address, the process's own for None.

    Args:
        setting: A transport, `redis://...`, `rediss://...`, `redis+unix:///PATH` of Redis, `unix:///PATH` of a hub; or None.
        server: `host:port` of the Temporal server of a client. Without a setting the client also reads from the hub of the
            `sojourn dev` that serves there, if there is one.

    Raises:
        DefinitionError: The address is none of these, or `sojourn[redis]` is not installed.
    """
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
        return _shared()
    from sojourn.live.nearby import NearbyTransport  # noqa: PLC0415 - only clients need them
    from sojourn.live.unix import UnixTransport  # noqa: PLC0415

    return NearbyTransport(_shared(), UnixTransport(path, is_expected=False))


@cache
def _shared() -> LocalTransport:
    return LocalTransport()
