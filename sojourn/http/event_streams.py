"""Server-Sent Events that end on disconnect and drop slow clients.

A stream that cannot continue here, such as one whose key was revoked, is aborted: the connection closes without an end, so that
its client connects again and resumes by its cursor. sse-starlette can abort a stream only by an exception, which the server logs
as a fault of the application, and its heartbeat is a task beside the stream, while these streams know when they are idle.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sojourn.errors import SojournError
from sojourn.events import Cursor
from sojourn.http.metrics import Metrics
from sojourn.http.problems import Problem, problem_of
from sojourn.reader import Feeds, SubscriberItem

__all__ = [
    "BEAT",
    "HEARTBEAT",
    "STALL",
    "DisconnectCallback",
    "FrameResponse",
    "RunEventResponse",
    "SseResponse",
    "StreamCut",
    "Write",
    "frame",
    "until_one_ends",
    "wants_stream",
]

HEARTBEAT = 10.0
"""Longest silence of a stream of any face, in seconds, before a comment is sent.

Some proxies close a connection that is idle for 15 seconds.
"""

BEAT = b": heartbeat\n\n"
"""The comment to send."""

STALL = 30.0
"""Seconds in which a client must read what is sent. Otherwise it is dropped, and can resume."""

_LINE_ENDS = re.compile(r"\r\n|\r|\n")


def frame(data: str, *, event: str = "", id: str = "") -> str:
    """Return one event of a stream. Data of several lines are a field for each."""
    fields = [f"id: {id}\n"] if id else []
    if event:
        fields.append(f"event: {event}\n")
    lines = _LINE_ENDS.split(data) if "\n" in data or "\r" in data else (data,)
    return "".join([*fields, *(f"data: {line}\n" for line in lines), "\n"])


Write = Callable[[bytes], Awaitable[None]]
"""Sends a part of the stream.

Raises:
    TimeoutError: The client reads nothing.
"""


class SseResponse(Response, ABC):
    """A stream of Server-Sent Events."""

    media_type = "text/event-stream"

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})})
        del self.headers["content-length"]

    @abstractmethod
    async def stream(self, write: Write) -> bool:
        """Send the stream, and return whether to end it.

        Otherwise the connection closes without an end, so that the client connects again.
        """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        start: dict[str, Any] = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        streaming = asyncio.create_task(self._send_stream(send), name="stream")
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        await until_one_ends(streaming, leaving)
        if not streaming.cancelled():
            streaming.result()

    async def _send_stream(self, send: Send) -> None:
        async def write(data: bytes, *, more: bool = True) -> None:
            async with asyncio.timeout(STALL):
                await send({"type": "http.response.body", "body": data, "more_body": more})

        if await self.stream(write):
            await write(b"", more=False)


async def until_one_ends(*tasks: asyncio.Task[None]) -> None:
    """Wait until one task has ended, and cancel the others. Their errors are lost."""
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


RETRY = b"retry: 1000\n\n"
"""Milliseconds after which a browser reconnects."""


def wants_stream(accept: str | None) -> bool:
    """Return whether the `Accept` header of a request asks for a stream."""
    return "text/event-stream" in (accept or "").lower()


class RunEventResponse(SseResponse):
    """The events of a run after a cursor, to the run's end.

    A stream that ends before that ends with an event `problem`, whose data are problem details. The client then connects again.
    """

    def __init__(
        self, feeds: Feeds, metrics: Metrics, run_id: str, cursor: Cursor, *, children: bool, deltas: bool
    ) -> None:
        super().__init__()
        self._feeds = feeds
        self._metrics = metrics
        self._run_id = run_id
        self._cursor = cursor
        self._options = {"children": children, "deltas": deltas}

    async def stream(self, write: Write) -> bool:
        try:
            await write(RETRY)
            with self._feeds.subscribe(self._run_id, self._cursor, **self._options) as subscription:
                async for batch in subscription.batches(HEARTBEAT):
                    await write(_frames(batch) if batch else BEAT)
                    self._metrics.sent += len(batch)
        except (Problem, SojournError) as error:
            problem = problem_of(error)
            self._metrics.dropped += problem.code == "slow_subscriber"
            await write(frame(bytes(problem.response().body).decode(), event="problem").encode())
        except TimeoutError:
            self._metrics.dropped += 1
            return False  # a client that reads nothing gets no problem either
        return True


def _frames(batch: Sequence[SubscriberItem]) -> bytes:
    return "".join(frame(line, id=cursor) for cursor, _, line in batch).encode()


DisconnectCallback = Callable[[], Awaitable[None]]
"""Called if the client disconnects before the end of a stream."""

_leaving: set[asyncio.Task[None]] = set()


class StreamCut(Exception):  # noqa: N818 - it is not an error of the turn
    """The stream ends before its turn, so that the client connects again."""


class FrameResponse(SseResponse):
    """A protocol's stream.

    Args:
        frames: The frames of the stream; raises `StreamCut` if it ends early and can be resumed.
        headers: The protocol's headers.
        left: Called if the client disconnects before the end, but not if the server ends the stream.
    """

    def __init__(
        self,
        frames: AsyncGenerator[str],
        headers: Mapping[str, str] | None = None,
        *,
        left: DisconnectCallback | None = None,
    ) -> None:
        super().__init__(headers)
        self._frames = frames
        self._left = left
        self._has_ended = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().__call__(scope, receive, send)
        if self._left is not None and not self._has_ended:
            task = asyncio.ensure_future(self._left())
            _leaving.add(task)
            task.add_done_callback(_leaving.discard)

    async def stream(self, write: Write) -> bool:
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
