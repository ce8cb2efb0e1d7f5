"""HTTP clients and their time-outs to connect, read and write, by provider.

All HTTP clients are made here (ME-16). Providers whose models think for long before they answer have longer
time-outs (ME-12).
"""

import functools
import ipaddress
import logging
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from sojourn.errors import DefinitionError

if TYPE_CHECKING:
    import ssl

    import httpx2

__all__ = [
    "PROVIDER_TIMEOUTS",
    "Timeouts",
    "check_timeouts",
    "hide_logs",
    "http_client",
    "http_transport",
    "is_local_url",
    "timeouts_for",
]

_PREFIX = "SOJOURN_TIMEOUT_"
_DEFAULT = "default"
_LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time-outs in seconds, each of a time without progress."""

    connect: float
    """Until a connection is open, TLS included; also the wait for a free connection of the pool."""
    read: float
    write: float


PROVIDER_TIMEOUTS: Final = {
    _DEFAULT: Timeouts(connect=10, read=120, write=120),
    "anthropic": Timeouts(connect=10, read=300, write=300),
    "claude": Timeouts(connect=10, read=300, write=300),
    "deepseek": Timeouts(connect=15, read=180, write=180),
    "local": Timeouts(connect=10, read=600, write=600),
    "ollama": Timeouts(connect=10, read=600, write=600),
    "vllm": Timeouts(connect=10, read=600, write=600),
}
"""The time-outs by provider, unless the environment sets others.

`local` is for a model at an address of this machine or of a private network: without a GPU, reading a long
conversation alone takes it minutes.
"""


def http_client(provider: str | None = None, **options: Any) -> "httpx2.AsyncClient":
    """Return an HTTP client with the time-outs of a provider.

    Close it, or use it as an async context manager.

    Args:
        provider: The provider of the API, such as `claude`; by default the default time-outs.
        **options: Options of `httpx2.AsyncClient`; `timeout` replaces the provider's time-outs.

    Raises:
        DefinitionError: A time-out that the environment sets cannot be read.
    """
    import httpx2  # noqa: PLC0415 - costs a quarter of a second

    if "timeout" not in options:
        seconds = timeouts_for(provider)
        options["timeout"] = httpx2.Timeout(
            connect=seconds.connect, read=seconds.read, write=seconds.write, pool=seconds.connect
        )
    return httpx2.AsyncClient(**_with_tls_context(options))


def hide_logs(loggers: Iterable[str], is_under_way: Callable[[], bool]) -> None:
    """Hide what libraries log during an exchange.

    Their other users keep their logs. httpx logs each address whole at level INFO, and an address may hold a secret.

    Args:
        loggers: The names of the loggers.
        is_under_way: Returns whether the calling task is in such an exchange.
    """
    for name in loggers:
        logging.getLogger(name).addFilter(lambda _: not is_under_way())


def http_transport(**options: Any) -> "httpx2.AsyncHTTPTransport":
    """Return a transport without retries, for a transport of your own to wrap."""
    import httpx2  # noqa: PLC0415

    return httpx2.AsyncHTTPTransport(**_with_tls_context(options), retries=0)


def _with_tls_context(options: dict[str, Any]) -> dict[str, Any]:
    if options.get("verify", True) is not True or options.get("cert") or options.get("http2"):
        return options
    return {**options, "verify": _tls_context(trust_env=options.get("trust_env", True))}


@functools.cache
def _tls_context(*, trust_env: bool) -> "ssl.SSLContext":
    """Return the default TLS context, shared since to read certificates takes 20 ms."""
    import httpx2  # noqa: PLC0415

    return httpx2.create_ssl_context(trust_env=trust_env)


def timeouts_for(provider: str | None = None, *, is_local: bool = False) -> Timeouts:
    """Return the time-outs of a provider, or the default for an unknown one.

    `SOJOURN_TIMEOUT_<PROVIDER>`, such as `SOJOURN_TIMEOUT_CLAUDE=10/600/300` (connect, read, write
    in seconds), has priority over `PROVIDER_TIMEOUTS`. `SOJOURN_TIMEOUT_DEFAULT` is for every
    provider that has neither.

    Args:
        provider: The name, in upper or lower case.
        is_local: Whether the server is local: without a variable of the provider's own, the row `local` applies if it is longer.

    Raises:
        DefinitionError: The setting cannot be read.
    """
    name = (provider or _DEFAULT).casefold()
    own = _set(name) or (_set(_LOCAL) if is_local else None)
    row = own or PROVIDER_TIMEOUTS.get(name) or _set(_DEFAULT)
    if is_local and not own and not _set(_DEFAULT):
        return max(row or PROVIDER_TIMEOUTS[_LOCAL], PROVIDER_TIMEOUTS[_LOCAL], key=lambda each: each.read)
    return row or PROVIDER_TIMEOUTS[_DEFAULT]


def is_local_url(url: str | None) -> bool:
    """Return whether a host is this machine, in a private network, or without a dot."""
    try:
        host = urlsplit(url or "").hostname or ""
    except ValueError:
        return False
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return bool(host) and ("." not in host or host.endswith((".local", ".internal", ".localhost")))
    return address.is_loopback or address.is_private or address.is_link_local


def check_timeouts() -> None:
    """Read every setting once, so that a wrong one fails at the start."""
    for variable, written in os.environ.items():
        if variable.startswith(_PREFIX) and written:
            _parse(variable, written)


def _set(name: str) -> Timeouts | None:
    variable = _PREFIX + re.sub(r"\W", "_", name.upper())
    written = os.environ.get(variable)
    return _parse(variable, written) if written else None


def _parse(variable: str, written: str) -> Timeouts:
    try:
        connect, read, write = (float(part) for part in written.split("/"))
    except ValueError:
        connect = read = write = 0.0
    if not all(0 < each < math.inf for each in (connect, read, write)):
        raise DefinitionError(
            f"{variable} is {written[:60]!r}; write it as connect/read/write, in seconds above 0, such as 10/300/300"
        )
    return Timeouts(connect, read, write)
