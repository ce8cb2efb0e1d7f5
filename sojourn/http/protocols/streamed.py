"""Streamed: a protocol's stream as the answer of a request, with a comment as heartbeat; one that is cut can be resumed."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sojourn.http.sse import HEARTBEAT, STALL, left

__all__ = ["StreamCut", "Streamed"]


class StreamCut(Exception):  # noqa: N818 - it is no error of the turn
    """The stream ends before its turn does: the connection closes without the protocol's end, so that a client comes back."""


class Streamed(Response):
    """A protocol's stream.

    Args:
        frames: The frames of the stream; raises `StreamCut` where it can be resumed.
        headers: The protocol's headers.
    """

    media_type = "text/event-stream"

    def __init__(self, frames: AsyncGenerator[str], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})})
        del self.headers["content-length"]
        self._frames = frames

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, until the turn ends or the client leaves."""
        del scope
        start: dict[str, Any] = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        streaming = asyncio.create_task(self._stream(send), name="stream of a protocol")
        leaving = asyncio.create_task(left(receive))
        tasks = {streaming, leaving}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if not streaming.cancelled():
            streaming.result()

    async def _stream(self, send: Send) -> None:
        async def write(data: bytes, *, more: bool = True) -> None:
            async with asyncio.timeout(STALL):
                await send({"type": "http.response.body", "body": data, "more_body": more})

        with suppress(
            StreamCut, TimeoutError
        ):  # the server closes the connection of an answer without an end
            async with aclosing(self._frames) as frames:
                following = asyncio.ensure_future(_next(frames))
                try:
                    while True:
                        await asyncio.wait({following}, timeout=HEARTBEAT)
                        if not following.done():
                            await write(b": heartbeat\n\n")
                            continue
                        if (frame := following.result()) is None:
                            break
                        await write(frame.encode())
                        following = asyncio.ensure_future(_next(frames))
                finally:
                    following.cancel()
                    with suppress(asyncio.CancelledError, Exception):
                        await following
            await write(b"", more=False)


async def _next(frames: AsyncGenerator[str]) -> str | None:
    return await anext(frames, None)
