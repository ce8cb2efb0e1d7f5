"""The one place where HTTP clients are made (ME-16).

They repeat nothing by themselves. `httpx2` is loaded with the first of them.
"""

from typing import TYPE_CHECKING, Any

from sojourn.network.timeouts import timeouts_for

if TYPE_CHECKING:
    import httpx2

__all__ = ["http_client", "http_transport"]


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
    """What carries a client's requests, for a transport of one's own to wrap.

    Args:
        **options: Those of `httpx2.AsyncHTTPTransport`, but for `retries`, which stays 0.
    """
    import httpx2  # noqa: PLC0415

    return httpx2.AsyncHTTPTransport(**options, retries=0)
