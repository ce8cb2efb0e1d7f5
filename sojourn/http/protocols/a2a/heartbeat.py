"""Heartbeats for the library's own streams.

A stream is dropped if its client stops reading.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.http.event_streams import BEAT, HEARTBEAT, STALL, until_one_ends
from sojourn.http.media_type import is_stream

__all__ = ["answer_alive"]


async def answer_alive(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Call an application, and add heartbeats if its response is an event stream.

    Any other response passes through unchanged. Raises what the application raises.
    """
    answer = _Answer(send)
    answering = asyncio.create_task(_answered(app, scope, receive, answer), name="answer")
    beating = asyncio.create_task(answer.beat(), name="heartbeat")
    await until_one_ends(answering, beating)
    if not answer.is_dropped and not answering.cancelled():
        answering.result()


async def _answered(app: ASGIApp, scope: Scope, receive: Receive, answer: "_Answer") -> None:
    await app(scope, receive, answer.send)


class _Answer:
    """The response to a client."""

    def __init__(self, send: Send) -> None:
        self.is_dropped = False
        """Whether the client took nothing for too long."""
        self._to = send
        self._is_stream = self._is_begun = False
        self._told = asyncio.Event()
        self._sending = asyncio.Lock()

    async def send(self, message: Message) -> None:
        """Send an ASGI message of the application.

        Raises:
            TimeoutError: The message is part of a stream, and the client reads nothing.
        """
        if message["type"] == "http.response.start":
            self._is_stream = is_stream(message)
        await self._send(message)
        if message["type"] == "http.response.body":
            self._is_begun = message.get("more_body", False)
            self._told.set()

    async def beat(self) -> None:
        """Send a comment whenever the stream has been idle for `HEARTBEAT`.

        It begins after the first event of a stream, and returns when the client is dropped.
        """
        while not self.is_dropped:
            try:
                async with asyncio.timeout(HEARTBEAT):
                    await self._told.wait()
                self._told.clear()
            except TimeoutError:
                if self._is_stream and self._is_begun:
                    await self._beat()

    async def _beat(self) -> None:
        try:
            await self._send({"type": "http.response.body", "body": BEAT, "more_body": True})
        except TimeoutError:
            return

    async def _send(self, message: Message) -> None:
        try:
            async with self._sending, asyncio.timeout(STALL if self._is_stream else None):
                await self._to(message)
        except TimeoutError:
            self.is_dropped = True
            self._told.set()
            raise
