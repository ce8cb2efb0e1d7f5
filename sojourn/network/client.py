"""HTTP clients and their time-outs: how long a provider may take to connect, to answer and to be written to.

This is the one place where HTTP clients are made (ME-16). They repeat nothing by themselves, and `httpx2` is
loaded with the first of them. Models that think before they speak are slow without being away, so they have
more time (ME-12).
"""

import math
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sojourn.errors import DefinitionError

if TYPE_CHECKING:
    import httpx2

__all__ = [
    "PROVIDER_TIMEOUTS",
    "Timeouts",
    "check_timeouts",
    "http_client",
    "http_transport",
    "timeouts_for",
]

_PREFIX = "SOJOURN_TIMEOUT_"
_DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds; each is a time without progress, not the length of the whole request."""

    connect: float
    """Until there is a connection, TLS included; also the wait for a free one."""
    read: float
    """Until the next bytes of the answer."""
    write: float
    """Until the next bytes of the request are taken."""


PROVIDER_TIMEOUTS: Final = {
    _DEFAULT: Timeouts(connect=10, read=120, write=120),
    "anthropic": Timeouts(connect=10, read=300, write=300),
    "claude": Timeouts(connect=10, read=300, write=300),
    "deepseek": Timeouts(connect=15, read=180, write=180),
}
"""The time-outs where the environment sets none."""


def http_client(provider: str | None = None, **options: Any) -> "httpx2.AsyncClient":
    """An HTTP client with the timeouts of a provider; close it, or use it as an async context manager.

    Args:
        provider: Whose API it is for, such as `claude`; the default timeouts when left out.
        **options: Those of `httpx2.AsyncClient`, such as `base_url` and `headers`; a `timeout` wins.
    """
    import httpx2  # noqa: PLC0415 - costs a quarter of a second

    if "timeout" not in options:
        seconds = timeouts_for(provider)
        options["timeout"] = httpx2.Timeout(
            connect=seconds.connect, read=seconds.read, write=seconds.write, pool=seconds.connect
        )
    return httpx2.AsyncClient(**options)


def http_transport(**options: Any) -> "httpx2.AsyncHTTPTransport":
    """Return the transport of a client's requests, for a transport of your own to wrap.

    Args:
        **options: Those of `httpx2.AsyncHTTPTransport`, but for `retries`, which stays 0.
    """
    import httpx2  # noqa: PLC0415

    return httpx2.AsyncHTTPTransport(**options, retries=0)


def timeouts_for(provider: str | None = None) -> Timeouts:
    """Return the time-outs of a provider, in any case of letters; of an unknown provider, the default.

    `SOJOURN_TIMEOUT_<PROVIDER>`, such as `SOJOURN_TIMEOUT_CLAUDE=10/600/300` (connect, read, write),
    wins over the table; `SOJOURN_TIMEOUT_DEFAULT` is for every provider that has no line of its own.

    Raises:
        DefinitionError: the setting cannot be read.
    """
    name = (provider or _DEFAULT).casefold()
    own = _set(name) or PROVIDER_TIMEOUTS.get(name)
    return own or _set(_DEFAULT) or PROVIDER_TIMEOUTS[_DEFAULT]


def check_timeouts() -> None:
    """Read every setting once, so that a wrong setting fails at the start, not in the middle of a run.

    Raises:
        DefinitionError: names the setting that cannot be read.
    """
    for variable, written in os.environ.items():
        if variable.startswith(_PREFIX) and written:
            _parsed(variable, written)


def _set(name: str) -> Timeouts | None:
    """Return the time-outs that the environment sets for a provider; an empty setting counts as none."""
    variable = _PREFIX + re.sub(r"\W", "_", name.upper())
    written = os.environ.get(variable)
    return _parsed(variable, written) if written else None


def _parsed(variable: str, written: str) -> Timeouts:
    try:
        connect, read, write = (float(part) for part in written.split("/"))
    except ValueError:
        connect = read = write = 0.0
    if not all(0 < each < math.inf for each in (connect, read, write)):
        raise DefinitionError(
            f"{variable} is {written[:60]!r}; write it as connect/read/write, in seconds above 0, such as 10/300/300"
        )
    return Timeouts(connect, read, write)
