"""Which live transport an app or a client uses: the one it is given, one by its address, or its process's own."""

from functools import cache

from sojourn.errors import DefinitionError
from sojourn.live.local import LocalTransport
from sojourn.live.transport import LiveTransport

__all__ = ["as_transport"]


def as_transport(given: LiveTransport | str | None) -> LiveTransport:
    """A transport: as given, by its address, or the one that all of this process share.

    Raises:
        DefinitionError: the address is none, or its client is not installed.
    """
    if given is None:
        return _shared()
    if not isinstance(given, str):
        return given
    if given.partition("://")[0] not in ("redis", "rediss", "unix"):
        raise DefinitionError(
            "SOJOURN_LIVE is redis://HOST:PORT/DB, rediss://... or unix://PATH; its value is none of these"
        )
    try:
        from sojourn.live.redis import RedisTransport  # noqa: PLC0415 - the client is an extra
    except ImportError as error:
        raise DefinitionError(
            "live text over Redis needs its client: pip install 'sojourn[redis]'"
        ) from error
    return RedisTransport(given)


@cache
def _shared() -> LocalTransport:
    return LocalTransport()
