"""Outflow: answers are sent in pieces to whoever takes them in time, and what waits to be taken is bounded.

A server hands a whole message to the connection's buffer, and keeps it until the client has read it. So an answer is handed over piece by
piece, counts as bytes in flight meanwhile, and one whose client takes it too slowly is cut off.
"""

import asyncio
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.http.locks.limits import charge
from sojourn.http.locks.requests import refuse
from sojourn.http.locks.rooms import Room, Share
from sojourn.http.media_type import content_length
from sojourn.http.problems import Problem
from sojourn.http.quiet import cut

__all__ = ["PIECE", "Outflow", "fits"]

PIECE = 64 * 1024
"""Most bytes that are handed to the connection at once; as many make uvicorn wait for the client."""

STALL = 30.0
"""Seconds in which a client has to take a piece."""

SLOWEST = 100_000
"""Bytes a second that a client has to take of an answer whose length is known, on average, beside `STALL`."""

COST = 1_000_000
"""Bytes of an answer that cost its principal as much as one request."""

_KEY = "sojourn.outflow"
"""Where the scope of a request has its share of the room."""


class Outflow:
    """Sends answers in pieces, and drops clients that do not take them.

    Args:
        app: What is behind the lock.
        room: Where answers are in flight.
    """

    def __init__(self, app: ASGIApp, *, room: Room) -> None:
        self._app = app
        self._room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it with 429 or 503 if its answer has no room."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        share = scope[_KEY] = self._room.share(scope)
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


def fits(scope: Scope, more: int) -> bool:
    """Take room for a part of an answer before it is made; False if there is none, so that the answer ends before it.

    Args:
        scope: The request.
        more: Bytes.
    """
    share = scope.get(_KEY)
    return share.fits(more) if isinstance(share, Share) else True


class CutOff(TimeoutError):  # noqa: N818 - it is raised through the application, which takes it for a client that takes nothing
    """Ends an application whose answer is refused, or that sends to a client that takes nothing."""


class _Answer:
    """The answer to one request."""

    def __init__(self, scope: Scope, share: Share, send: Send) -> None:
        self.is_cut = False
        self.refused: Problem | None = None
        """Why the answer is replaced by a refusal."""
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
        if self._until is None:  # of a stream, only what is being sent is in flight
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
        cut(self._scope)
        raise CutOff
