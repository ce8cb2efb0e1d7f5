"""Bound the bytes in flight, and drop clients that read too slowly.

The bounds are for the process and for each principal. A server hands a whole message to the
connection's buffer, which holds it until the client has read it. So a response is sent in pieces,
counts as bytes in flight meanwhile, and is cut off if its client reads it too slowly.
"""

import asyncio
import time
from collections.abc import Hashable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.http.event_streams import mark_aborted
from sojourn.http.media_type import content_length
from sojourn.http.problems import Problem
from sojourn.http.security.limits import charge
from sojourn.http.security.principals import LOCAL, principal_of
from sojourn.http.security.requests import address_of, refuse

__all__ = ["PIECE", "ByteBudget", "ByteShare", "ResponseLimits", "client_key", "reserve"]


class ByteBudget:
    """Bytes that all requests share.

    Args:
        most: Most bytes of all requests.
        most_of_one: Most bytes of one principal. It may have one request with more.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        self.most = most
        self.most_of_one = most_of_one
        self.taken = 0
        """Bytes that are in flight."""
        self._by: dict[Hashable, int] = {}

    def share(self, scope: Scope) -> "ByteShare":
        """Return an empty share for a request."""
        return ByteShare(self, client_key(scope))

    def fault(self, by: Hashable, more: int, own: int) -> Problem | None:
        """Return the problem if this many more bytes do not fit, or None.

        Args:
            by: The client, or None for a local one, which only the budget as a whole bounds.
            more: The bytes.
            own: Bytes that the same request has.
        """
        others = self._by.get(by, 0) - own
        if by is not None and others and others + own + more > self.most_of_one:
            return _wait(429, "too_many_bytes", f"requests of yours have {others:,} bytes in flight")
        if self.taken - own and self.taken + more > self.most:
            return _wait(503, "busy", "the service has too many bytes in flight")
        return None

    def change(self, by: Hashable, bytes_: int) -> None:
        """Add to the bytes in flight, or subtract from them."""
        self.taken += bytes_
        self._by[by] = self._by.get(by, 0) + bytes_
        if not self._by[by]:
            del self._by[by]


class ByteShare:
    """The bytes of one request.

    Args:
        budget: The budget.
        by: The client.
    """

    def __init__(self, budget: ByteBudget, by: Hashable) -> None:
        self._budget = budget
        self._by = by
        self.bytes = 0
        """Bytes that it has."""

    def fits(self, more: int) -> bool:
        """Take this many more bytes, if the budget has them."""
        if self._budget.fault(self._by, more, self.bytes):
            return False
        self._add(more)
        return True

    def reach(self, whole: int) -> None:
        """Take bytes up to a total.

        Raises:
            Problem: The budget does not have them (429 for this client, 503 for all).
        """
        if (more := whole - self.bytes) <= 0:
            return
        if fault := self._budget.fault(self._by, more, self.bytes):
            raise fault
        self._add(more)

    def give_back(self, bytes_: int) -> None:
        """Release some of the bytes."""
        self._add(-bytes_)

    def close(self) -> None:
        """Release all bytes."""
        self._add(-self.bytes)

    def _add(self, more: int) -> None:
        self.bytes += more
        self._budget.change(self._by, more)


def client_key(scope: Scope) -> Hashable:
    """Return the key that a request is counted by.

    It is the principal, or the address if there is none. None for a local client.
    """
    asking = principal_of(scope)
    if asking is LOCAL:
        return None
    return address_of(scope) if asking is None else (asking.tenant, asking.subject)


def _wait(status: int, code: str, detail: str) -> Problem:
    return Problem(
        status,
        code,
        detail,
        then="Send it again after the seconds of Retry-After.",
        headers={"Retry-After": "1", "Connection": "close"},
    )


PIECE = 64 * 1024
"""Most bytes to hand to the connection at once. As many make uvicorn wait for the client."""

STALL = 30.0
"""Seconds in which a client must read a piece."""

SLOWEST = 100_000
"""Average bytes a second at which a client must read a response of known length, in addition to `STALL`."""

COST = 1_000_000
"""Bytes of a response that cost its principal as much as one request."""

_KEY = "sojourn.response_bytes"
"""Scope key of the request's `ByteShare`."""


class ResponseLimits:
    """Send responses in pieces, and drop clients that read too slowly.

    Args:
        app: The application.
        budget: The bytes of responses in flight.
    """

    def __init__(self, app: ASGIApp, *, budget: ByteBudget) -> None:
        self._app = app
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it with 429 or 503 if the budget is used up."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        share = scope[_KEY] = self._budget.share(scope)
        answer = _Answer(scope, share, send)
        try:
            await self._app(scope, receive, answer.send)
        except Exception:
            if not answer.is_cut:
                raise
        finally:
            share.close()
        if answer.refused is not None:
            await refuse(answer.refused, scope, receive, send)


def reserve(scope: Scope, more: int) -> bool:
    """Reserve bytes for a part of a response before it is made.

    Returns False if the budget does not have them.

    Args:
        scope: The request.
        more: Bytes.
    """
    share = scope.get(_KEY)
    return share.fits(more) if isinstance(share, ByteShare) else True


class CutOff(TimeoutError):  # noqa: N818 - it passes through the application, which treats it as a client that reads nothing
    """Ends an application whose response was refused or whose client reads nothing."""


class _Answer:
    """The response to one request."""

    def __init__(self, scope: Scope, share: ByteShare, send: Send) -> None:
        self.is_cut = False
        self.refused: Problem | None = None
        """Why a refusal replaces the response."""
        self._scope = scope
        self._share = share
        self._send = send
        self._until: float | None = None

    async def send(self, message: Message) -> None:
        """Send a message of the application."""
        if self.is_cut:
            raise CutOff
        if message["type"] == "http.response.start":
            self._begin(message)
            await self._send(message)
        elif message["type"] == "http.response.body" and (body := message.get("body", b"")):
            await self._pieces(body, message)
        else:
            await self._within(message)

    def _begin(self, start: Message) -> None:
        length = content_length(start)
        if length is None:
            return
        try:
            self._share.reach(length)
        except Problem as problem:
            self.refused, self.is_cut = problem, True
            raise CutOff from problem
        self._until = time.monotonic() + STALL + length / SLOWEST
        charge(self._scope, length / COST)

    async def _pieces(self, body: bytes, message: Message) -> None:
        more = message.get("more_body", False)
        if self._until is None:  # a stream has only what is being sent in flight
            before = self._share.bytes
            if not self._share.fits(len(body)):
                self._cut()
            await self._all(body, more=more)
            self._share.give_back(self._share.bytes - before)
        else:
            await self._all(body, more=more)

    async def _all(self, body: bytes, *, more: bool) -> None:
        whole = memoryview(body)
        for begin in range(0, len(body), PIECE):
            is_last = begin + PIECE >= len(body)
            piece: dict[str, Any] = {"body": bytes(whole[begin : begin + PIECE])}
            await self._within({"type": "http.response.body", **piece, "more_body": more or not is_last})

    async def _within(self, message: Message) -> None:
        left = STALL if self._until is None else min(STALL, self._until - time.monotonic())
        try:
            async with asyncio.timeout(left):
                await self._send(message)
        except TimeoutError:
            self._cut()

    def _cut(self) -> None:
        self.is_cut = True
        mark_aborted(self._scope)
        raise CutOff
