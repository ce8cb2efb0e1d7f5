"""Streamed: a protocol's stream as the answer of a request, with a comment as heartbeat; one that is cut can be resumed."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress

from sojourn.http.stream import BEAT, HEARTBEAT, Stream, Write

__all__ = ["StreamCut", "Streamed"]


class StreamCut(Exception):  # noqa: N818 - it is no error of the turn
    """The stream ends before its turn does: the connection closes without the protocol's end, so that a client comes back."""


class Streamed(Stream):
    """A protocol's stream.

    Args:
        frames: The frames of the stream; raises `StreamCut` where it can be resumed.
        headers: The protocol's headers.
    """

    def __init__(self, frames: AsyncGenerator[str], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(headers)
        self._frames = frames

    async def stream(self, write: Write) -> bool:
        """Send the frames."""
        with suppress(StreamCut, TimeoutError):
            async with aclosing(self._frames) as frames:
                following = asyncio.ensure_future(_next(frames))
                try:
                    while True:
                        await asyncio.wait({following}, timeout=HEARTBEAT)
                        if not following.done():
                            await write(BEAT)
                            continue
                        if (frame := following.result()) is None:
                            return True
                        await write(frame.encode())
                        following = asyncio.ensure_future(_next(frames))
                finally:
                    following.cancel()
                    with suppress(asyncio.CancelledError, Exception):
                        await following
        return False


async def _next(frames: AsyncGenerator[str]) -> str | None:
    return await anext(frames, None)
