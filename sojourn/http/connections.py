"""Limit the connections of a process, and the time and bytes that each may take.

The limits apply before a connection has sent a request, and while it does not read its response.
Uvicorn has no such limits: a connection that sends nothing, or one byte of a head each second, or
reads no response, would stay open forever.
"""

import asyncio
import ipaddress
import os
from collections import Counter
from typing import Any, ClassVar

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from sojourn.http.security.headers import MAX_CURSOR, MAX_HEAD, has_long_cursor
from sojourn.http.security.requests import network_of

__all__ = ["CONNECTIONS", "Connection", "Connections"]

CONNECTIONS = 2_000
"""Most connections of a process, if its limit of file descriptors allows as many."""

HEAD_SECONDS = 10.0
"""Seconds in which the head of a request must arrive.

They count from its first byte. For the first request, they count from the opening of the connection.
"""

DRAINED = 1.0
"""Seconds for which to read and drop the rest of a head that is too large.

Closing a connection with unread bytes resets it, and the client would not read the response.
"""

STALLED = 40.0
"""Seconds without a read by the client after which to abort a connection. Its streams end before."""

_LINE = 4_096
"""Bytes to keep of a request's start, to recognize a path that may have a long cursor."""

_LONG_HEAD = MAX_HEAD + 2 * MAX_CURSOR

_SLOW = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)


class Connections:
    """The connections of a process.

    Args:
        most: Most connections in total.
        proxies: Addresses of trusted proxies, which connect on behalf of many clients. Defaults to uvicorn's
            `FORWARDED_ALLOW_IPS`.
    """

    def __init__(self, most: int, proxies: str | None = None) -> None:
        self._most = most
        self._most_of_one = max(1, most // 2)
        named = os.environ.get("FORWARDED_ALLOW_IPS", "") if proxies is None else proxies
        self._proxies = [_network(each.strip()) for each in named.split(",") if each.strip()]
        self._of: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """Number of open connections."""
        return self._of.total()

    def admit(self, address: str) -> bool:
        """Return whether there is room for a connection of an address, and count it if so."""
        is_many = self._of[address] >= self._most_of_one and not self._is_proxy(address)
        if self._of.total() >= self._most or is_many:
            return False
        self._of[address] += 1
        return True

    def _is_proxy(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(each is not None and found in each for each in self._proxies)

    def leave(self, address: str) -> None:
        """Count one fewer."""
        self._of[address] -= 1
        if not self._of[address]:
            del self._of[address]


def _network(named: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return a network of trusted proxies, or None if the text is not an address.

    An example is `*`, which does not exempt any client from the limits.
    """
    try:
        return ipaddress.ip_network(named, strict=False)
    except ValueError:
        return None


class Connection(H11Protocol):
    """One connection of HTTP/1.1, by h11 whatever is installed: httptools bounds no head."""

    connections_of_process: ClassVar[Connections]

    @classmethod
    def of(cls, connections: Connections) -> "type[Connection]":
        """Return a protocol class whose connections are counted together."""
        return type("Connection", (cls,), {"connections_of_process": connections})

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.conn = h11.Connection(h11.SERVER, 2 * _LONG_HEAD)  # our own limit applies first
        self._address: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._begin = b""
        """How the request begins whose head is arriving."""
        self._head = 0
        """Bytes of it that have arrived."""
        self._is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or close it if there are too many."""
        super().connection_made(transport)
        address = network_of(self.client[0]) if self.client else ""
        if not self.connections_of_process.admit(address):
            self._refuse(_MANY)
            return
        self._address = address
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no longer."""
        for timer in (self._timer, self._stalled):
            if timer is not None:
                timer.cancel()
        if self._address is not None:
            self.connections_of_process.leave(self._address)
            self._address = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive bytes, unless they make a head too large."""
        if self._is_refused or self.transport.is_closing():
            return
        if is_head := self.conn.their_state is h11.IDLE:
            if not self._head:
                self._expect_head()
            self._head += len(data)
            if len(self._begin) < _LINE:
                self._begin = (self._begin + data)[:_LINE]
        super().data_received(data)
        if not is_head:
            return
        if self.conn.their_state is not h11.IDLE:
            self._has_head()
        elif self._head > (_LONG_HEAD if _is_of_events(self._begin) else MAX_HEAD):
            self._is_refused = True
            self.transport.write(_LARGE)
            self.loop.call_later(DRAINED, self.transport.close)

    def on_response_complete(self) -> None:
        """Continue with the next request of the connection."""
        self._has_head()
        super().on_response_complete()
        if (
            self.conn.their_state is h11.SEND_BODY
        ):  # the application no longer reads the body, and each byte would prolong it
            self._expect_head()

    def pause_writing(self) -> None:
        """Abort the connection if the client stalls.

        It must read most of the buffer within `STALLED` seconds.
        """
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(STALLED, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer, since the client has read most of the buffer."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _expect_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._refuse, _SLOW)

    def _has_head(self) -> None:
        self._head, self._begin = 0, b""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, answer: bytes) -> None:
        if not (self._is_refused or self.transport.is_closing()):
            self.transport.write(answer)
            self.transport.close()


def _is_of_events(begin: bytes) -> bool:
    """Return whether a request line may have a long cursor.

    An example is `GET /.../events?after=... HTTP/1.1`. The cursor may also be in a header.
    """
    method, _, rest = begin.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    return has_long_cursor(method.decode("latin-1"), path.decode("latin-1"))
