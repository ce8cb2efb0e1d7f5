"""Streamed: a protocol's stream as the answer of a request, with a comment as heartbeat; one that is cut can be resumed."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress

from starlette.types import Receive, Scope, Send

from sojourn.http.stream import BEAT, HEARTBEAT, Stream, Write

__all__ = ["Left", "StreamCut", "Streamed"]

Left = Callable[[], Awaitable[None]]
"""Does what follows where a client leaves a stream before its end."""

_leaving: set[asyncio.Task[None]] = set()


class StreamCut(Exception):  # noqa: N818 - it is no error of the turn
    """The stream ends before its turn does: the connection closes without the protocol's end, so that a client comes back."""


class Streamed(Stream):
    """A protocol's stream.

    Args:
        frames: The frames of the stream; raises `StreamCut` where it can be resumed.
        headers: The protocol's headers.
        left: Called if the client leaves before the end; not where the server ends the stream.
    """

    def __init__(
        self,
        frames: AsyncGenerator[str],
        headers: Mapping[str, str] | None = None,
        *,
        left: Left | None = None,
    ) -> None:
        super().__init__(headers)
        self._frames = frames
        self._left = left
        self._has_ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request; then, if the client has left, do what follows from that."""
        await super().__call__(scope, receive, send)
        if self._left is not None and not self._has_ended:
            task = asyncio.ensure_future(self._left())
            _leaving.add(task)
            task.add_done_callback(_leaving.discard)

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
                        try:
                            frame = following.result()
                        except Exception:
                            self._has_ended = True
                            raise
                        if frame is None:
                            self._has_ended = True
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
