"""Frames: a stream of Server-Sent Events of a protocol; a client that takes nothing is cut off."""

import asyncio
from collections.abc import AsyncIterator

from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

__all__ = ["HEARTBEAT", "IDLE", "Frames"]

IDLE = 15.0
"""Seconds without an event after which a comment is sent, so that nobody on the way takes the connection for dead."""

HEARTBEAT = ": heartbeat\n\n"

STALL = 30.0
"""Seconds in which a client has to take what is sent."""


class Frames(StreamingResponse):
    """An answer that is made while it is sent.

    Args:
        frames: Its frames.
    """

    def __init__(self, frames: AsyncIterator[str]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(frames, headers=headers, media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, until the frames end or the client leaves."""

        async def sent(message: Message) -> None:
            async with asyncio.timeout(STALL):
                await send(message)

        try:
            await super().__call__(scope, receive, sent)
        except TimeoutError:
            return  # the server closes the connection of an answer without an end
