"""Stream: an answer of Server-Sent Events, which ends when the client leaves, and does not wait for one that takes nothing."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

__all__ = ["BEAT", "HEARTBEAT", "STALL", "Stream", "Write", "until_one_ends"]

HEARTBEAT = 15.0
"""Seconds without an event after which a comment is sent, so that nobody on the way takes the connection for dead."""

BEAT = b": heartbeat\n\n"
"""That comment."""

STALL = 30.0
"""Seconds in which a client has to take what is sent; after that it is dropped, and can resume."""

Write = Callable[[bytes], Awaitable[None]]
"""Sends a part of the stream.

Raises:
    TimeoutError: The client takes nothing.
"""


class Stream(Response, ABC):
    """A stream of Server-Sent Events.

    Args:
        headers: Further headers.
    """

    media_type = "text/event-stream"

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})})
        del self.headers["content-length"]

    @abstractmethod
    async def stream(self, write: Write) -> bool:
        """Send the stream; returns whether it is whole: else the connection is closed without an end, and the client comes back."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, until the stream ends or the client leaves."""
        del scope
        start: dict[str, Any] = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        streaming = asyncio.create_task(self._streamed(send), name="stream")
        leaving = asyncio.create_task(_left(receive))
        await until_one_ends(streaming, leaving)
        if not streaming.cancelled():
            streaming.result()

    async def _streamed(self, send: Send) -> None:
        async def write(data: bytes, *, more: bool = True) -> None:
            async with asyncio.timeout(STALL):
                await send({"type": "http.response.body", "body": data, "more_body": more})

        if await self.stream(write):
            await write(b"", more=False)


async def until_one_ends(*tasks: asyncio.Task[None]) -> None:
    """Wait until one of the tasks has ended, and cancel the others; raises nothing of theirs."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _left(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
