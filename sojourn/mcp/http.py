"""HTTP to an untrusted server, with bounded answers.

When one connection fails, the SDK ends the whole session with every call in flight, and it reads answers of
any size. So its HTTP client uses a transport of this module. Import this module lazily: it loads the SDK.
"""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast
from urllib.request import getproxies, proxy_bypass

import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from sojourn.errors import SojournError
from sojourn.mcp.caller import Caller, Credentials
from sojourn.mcp.errors import EXCHANGE, UNAUTHORIZED, Exchange
from sojourn.mcp.lenient_messages import for_request, mend_event
from sojourn.mcp.limits import MAX_MESSAGE_BYTES
from sojourn.mcp.streams import Lines, Link, Overlong
from sojourn.network import http_client, http_transport, retry_after_of
from sojourn.values.json_value import is_object

__all__ = ["http_streams", "sse_streams"]

_TIMEOUT = httpx2.Timeout(10.0, read=None, write=30.0, pool=None)
"""Seconds. Reading has no limit: the tool's time-out limits a call, and a stream of events may be silent."""

_NOTICE_TIMEOUT = 10.0
"""Seconds to read the answer to a notification, for which the SDK delays the next message."""

_LIMITS = httpx2.Limits(max_connections=512, max_keepalive_connections=64)
_NOTIFICATION = re.compile(rb'"method":\s*"notifications/')
_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
_MAX_EVENT_END = 4
_TRACE = TraceContextTextMapPropagator()


@asynccontextmanager
async def http_streams(
    url: str, headers: Mapping[str, str], credentials: Credentials | None, link: Link
) -> AsyncGenerator[Any]:
    address = httpx2.URL(url)
    client = _client(address, headers, credentials, link, ends_on_failed_post=False)
    async with (
        client,
        streamable_http_client(
            str(_bare(address)), http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
        ) as streams,
    ):
        yield streams


def sse_streams(
    url: str, headers: Mapping[str, str], credentials: Credentials | None, link: Link
) -> AbstractAsyncContextManager[Any]:
    address = httpx2.URL(url)

    def factory(**_options: Any) -> httpx2.AsyncClient:
        return _client(address, headers, credentials, link, ends_on_failed_post=True)

    streams: Any = sse_client(str(_bare(address)), httpx_client_factory=cast("Any", factory))
    return cast("AbstractAsyncContextManager[Any]", streams)


def _bare(address: httpx2.URL) -> httpx2.URL:
    """Return the address without user and password, sent in a header, and fragment."""
    return address.copy_with(userinfo=b"", fragment=None)


def _client(
    address: httpx2.URL,
    headers: Mapping[str, str],
    credentials: Credentials | None,
    link: Link,
    *,
    ends_on_failed_post: bool,
) -> httpx2.AsyncClient:
    return http_client(
        # The size of an answer is counted as received, so compression would evade the limit.
        headers={**headers, "accept-encoding": "identity"},
        auth=httpx2.BasicAuth(address.username, address.password) if address.userinfo else None,
        timeout=_TIMEOUT,
        transport=_Guard(address, credentials, link, ends_on_failed_post=ends_on_failed_post),
    )


def _proxy(url: httpx2.URL) -> str | None:
    """Return the proxy for an address, or None for a direct connection.

    The proxy comes from the environment.
    """
    if proxy_bypass(f"{url.host}:{url.port}" if url.port else url.host):
        return None
    proxies = getproxies()
    return proxies.get(url.scheme) or proxies.get("all")


class _Guard(httpx2.AsyncBaseTransport):
    """A transport that records each request in its `Exchange`.

    A failed connection becomes HTTP 503. Over SSE a failed POST ends the session: the answer comes on
    another stream, so the call would wait for it without end.
    """

    def __init__(
        self,
        address: httpx2.URL,
        credentials: Credentials | None,
        link: Link,
        *,
        ends_on_failed_post: bool,
    ) -> None:
        self._inner = http_transport(limits=_LIMITS, proxy=_proxy(address))
        self._credentials = credentials
        self._link = link
        self._ends_on_failed_post = ends_on_failed_post

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        # The end of a session is no part of the request that failed, whose context it has.
        exchange = (EXCHANGE.get() if request.method != "DELETE" else None) or Exchange()
        try:
            response = await self._send(request, exchange)
        except SojournError as error:
            exchange.error = error
            response = httpx2.Response(503)
        except httpx2.TransportError as error:
            exchange.fault = _clause(error)
            exchange.was_refused = isinstance(
                error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
            )
            response = httpx2.Response(503)
        else:
            response = self._note_response(request, response, exchange)
        if self._ends_on_failed_post and request.method == "POST" and response.status_code >= 400:
            self._link.lose()
        return response

    async def _send(self, request: httpx2.Request, exchange: Exchange) -> httpx2.Response:
        if self._credentials is None:
            return await self._inner.handle_async_request(self._outgoing(request, {}))
        caller = exchange.caller or self._link.caller
        exchange.uses_own_credentials = True
        own = await self._credentials.headers(caller)
        response = await self._inner.handle_async_request(self._outgoing(request, own))
        try:
            if response.status_code == UNAUTHORIZED and await self._credentials.renew(
                caller, own, response.headers
            ):
                # A request with HTTP 401 was not carried out, so any may be sent once more.
                await response.aclose()
                own = await self._credentials.headers(caller)
                response = await self._inner.handle_async_request(self._outgoing(request, own))
            if await self._is_outdated(caller, own, response):
                await response.aclose()
                own = await self._credentials.headers(caller)
                response = await self._inner.handle_async_request(self._outgoing(request, own))
                await self._is_outdated(caller, own, response)
        except SojournError:
            await response.aclose()
            raise
        return response

    async def _is_outdated(self, caller: Caller, own: Mapping[str, str], response: httpx2.Response) -> bool:
        """Return whether a request was refused for credentials that have changed since.

        Raises:
            SojournError: The refusal says more than its status.
        """
        return (
            self._credentials is not None
            and response.status_code in (UNAUTHORIZED, 403)
            and await self._credentials.refuse(caller, own, response.status_code, response.headers)
        )

    def _outgoing(self, request: httpx2.Request, own: Mapping[str, str]) -> httpx2.Request:
        headers = request.headers.copy()
        headers.update(own)
        carrier: dict[str, str] = {}
        _TRACE.inject(carrier)
        headers.update(carrier)
        extensions = dict(request.extensions)
        if request.method == "POST" and _NOTIFICATION.search(request.content[:300]):
            extensions["timeout"] = {**extensions.get("timeout", {}), "read": _NOTICE_TIMEOUT}
        return httpx2.Request(
            request.method, request.url, headers=headers, stream=request.stream, extensions=extensions
        )

    def _note_response(
        self, request: httpx2.Request, response: httpx2.Response, exchange: Exchange
    ) -> httpx2.Response:
        kind = response.headers.get("content-type", "").lower()
        # A GET over streamable HTTP only resumes the answer to a request that the server has accepted.
        if request.method == "POST" or self._ends_on_failed_post:
            exchange.status = response.status_code
            exchange.retry_after = retry_after_of(response.headers.get("retry-after"))
            exchange.is_json = kind.startswith("application/json")
            exchange.is_stream = kind.startswith("text/event-stream")
            exchange.in_session = "mcp-session-id" in request.headers
            exchange.is_about_request = False
        encoding = response.headers.get("content-encoding", "identity").lower()
        stream = cast("httpx2.AsyncByteStream", response.stream)
        if kind.startswith("text/event-stream"):
            body: _BoundedBody = _Events(exchange)
        elif request.method == "POST" and response.status_code in (400, 404):
            body = _Refusal(exchange, request.content)
        elif request.method == "POST" and exchange.is_json and response.status_code < 300:
            body = _BoundedAnswer(exchange, request.content)
        else:
            body = _BoundedBody(exchange)
        response.stream = _Bounded(stream, exchange, body, is_plain=encoding == "identity")
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedBody:
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._size = 0

    def add(self, part: bytes) -> bytes:
        self._size += len(part)
        if self._size > MAX_MESSAGE_BYTES:
            self._exchange.oversize = self._size
            raise httpx2.StreamError("too large")
        return part

    def end(self) -> bytes:
        return b""


class _Events(_BoundedBody):
    """A stream of events, without a limit on its whole length.

    An event with a message is passed on in the form that the SDK reads. The SDK ends the stream at one that
    is too large.
    """

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self._lines = Lines(1, edge=1)  # only the sizes of lines count, and whether one is empty
        self._kept = bytearray()

    def add(self, part: bytes) -> bytes:
        for line in self._lines.feed(part):
            if line in (b"", b"\r"):
                self._size = 0
            elif not isinstance(line, Overlong):
                self._size += 1
            elif line.head != b":":  # the SDK skips comments too
                self._size += line.size
            self._check()
        self._check(self._lines.pending)
        start = max(0, len(self._kept) - _MAX_EVENT_END)
        self._kept += part
        if self._exchange.oversize or len(self._kept) > 2 * MAX_MESSAGE_BYTES:
            return self.end()
        done, events = 0, bytearray()
        for found in _EVENT_END.finditer(self._kept, start):
            events += mend_event(bytes(self._kept[done : found.end()]))
            done = found.end()
        del self._kept[:done]
        return bytes(events)

    def end(self) -> bytes:
        rest = bytes(self._kept)
        self._kept.clear()
        return rest

    def _check(self, pending: int = 0) -> None:
        if self._size + pending > MAX_MESSAGE_BYTES:
            self._exchange.oversize = self._size + pending


class _BoundedAnswer(_BoundedBody):
    def __init__(self, exchange: Exchange, request: bytes) -> None:
        super().__init__(exchange)
        self._request = request
        self._kept = bytearray()

    def add(self, part: bytes) -> bytes:
        self._kept += super().add(part)
        return b""

    def end(self) -> bytes:
        sent: Any = json.loads(self._request)
        request_id: Any = sent.get("id") if is_object(sent) else None
        text = bytes(self._kept)
        return text if request_id is None else for_request(text, request_id)


class _Refusal(_BoundedBody):
    """The body of the answer to a refused request.

    Servers that do not know a session answer before they read the request, with an id of null, or with the
    request's id and a message about the session.
    """

    def __init__(self, exchange: Exchange, request: bytes) -> None:
        super().__init__(exchange)
        self._request = request
        self._kept = bytearray()

    def add(self, part: bytes) -> bytes:
        self._kept += super().add(part)
        return part

    def end(self) -> bytes:
        try:
            answer, sent = json.loads(self._kept), json.loads(self._request)
        except (ValueError, RecursionError):
            return b""
        error: Any = answer.get("error") if is_object(answer) else None
        if is_object(answer) and is_object(error) and is_object(sent):
            is_own = answer.get("id") is not None and str(answer["id"]) == str(sent.get("id"))
            self._exchange.is_about_request = is_own and "session" not in str(error.get("message")).lower()
        return b""


class _Bounded(httpx2.AsyncByteStream):
    """The stream of an answer, with a bounded size.

    An answer that is too large, compressed or cut off fails its request, not the session.
    """

    def __init__(
        self, inner: httpx2.AsyncByteStream, exchange: Exchange, body: "_BoundedBody", *, is_plain: bool
    ) -> None:
        self._inner = inner
        self._exchange = exchange
        self._body = body
        self._is_plain = is_plain

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if not self._is_plain:
            self._exchange.fault = "the server sent a compressed answer, which was not asked for"
            raise httpx2.StreamError("compressed")
        try:
            async for part in self._inner:
                if whole := self._body.add(part):
                    yield whole
            if rest := self._body.end():
                yield rest
        except httpx2.TransportError as error:
            self._exchange.fault = _clause(error)
            raise httpx2.StreamError("broken off") from None

    async def aclose(self) -> None:
        await self._inner.aclose()


def _clause(error: httpx2.TransportError) -> str:
    match error:
        case httpx2.ConnectError() | httpx2.ConnectTimeout():
            return "nothing answers at its address"
        case httpx2.TimeoutException():
            return "it did not answer in time"
        case httpx2.ProxyError():
            return "the proxy refused the connection"
        case _:
            return "the connection broke off"
