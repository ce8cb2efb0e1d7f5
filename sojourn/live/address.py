"""The live transport of an app or a client: an object, Redis at an address, or the transport that the process shares."""

from functools import cache

from sojourn.errors import DefinitionError
from sojourn.live.local import LocalTransport
from sojourn.live.transport import LiveTransport

__all__ = ["as_transport"]


def as_transport(setting: LiveTransport | str | None) -> LiveTransport:
    """Return the transport for a setting: an object as it is, Redis for an address, the process's own for None.

    Raises:
        DefinitionError: The address is not one of Redis, or `sojourn[redis]` is not installed.
    """
    if setting is None:
        return _shared()
    if not isinstance(setting, str):
        return setting
    if setting.partition("://")[0] not in ("redis", "rediss", "unix"):
        raise DefinitionError(
            "SOJOURN_LIVE is redis://HOST:PORT/DB, rediss://... or unix://PATH; its value is none of these"
        )
    try:
        from sojourn.live.redis import RedisTransport  # noqa: PLC0415 - the client is an extra
    except ImportError as error:
        raise DefinitionError(
            "live text over Redis needs its client: pip install 'sojourn[redis]'"
        ) from error
    return RedisTransport(setting)


@cache
def _shared() -> LocalTransport:
    return LocalTransport()
