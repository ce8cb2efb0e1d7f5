"""Server-Sent Events that end on disconnect and drop slow clients.

A stream that cannot continue here, such as one whose key was revoked, is aborted: the connection
closes without an end, so that its client connects again and resumes by its cursor. sse-starlette
can abort a stream only by an exception, which the server logs as a fault of the application. Its
heartbeat is a task beside the stream, while these streams know when they are idle.

`tests/http/security/test_disconnect.py` and `tests/http/protocols/test_sent_again.py` show that a
stream is aborted, and resumed.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from contextvars import ContextVar
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sojourn.errors import SojournError
from sojourn.events import Cursor
from sojourn.http.media_type import is_stream
from sojourn.http.metrics import Metrics
from sojourn.http.problems import Problem, problem_of
from sojourn.reader import Feeds, SubscriberItem

__all__ = [
    "BEAT",
    "HEARTBEAT",
    "STALL",
    "AbortedStreams",
    "DisconnectCallback",
    "FrameResponse",
    "RunEventResponse",
    "SseResponse",
    "StreamCut",
    "Write",
    "filter_server_log",
    "mark_aborted",
    "until_one_ends",
    "wants_stream",
]

HEARTBEAT = 15.0
"""Seconds without an event after which to send a comment, so that no proxy closes the connection as idle."""

BEAT = b": heartbeat\n\n"
"""The comment to send."""

STALL = 30.0
"""Seconds in which a client must read what is sent. Otherwise it is dropped, and can resume."""

Write = Callable[[bytes], Awaitable[None]]
"""Sends a part of the stream.

Raises:
    TimeoutError: The client reads nothing.
"""


class SseResponse(Response, ABC):
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
        """Send the stream, and return whether it is complete.

        If it is not, the connection is closed without an end, so that the client connects again.
        """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, until the stream ends or the client disconnects."""
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
    """Wait until one of the tasks has ended, and cancel the others.

    Their exceptions are not raised.
    """
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _left(receive: Receive) -> None:
    """Wait until the client disconnects."""
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

    Args:
        feeds: The live feeds of the process.
        metrics: Counts what is sent.
        run_id: The run.
        cursor: How far the client has read.
        children: Include the events of child runs.
        deltas: Include what planners are writing.
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
        """Send the events, to the run's end."""
        try:
            await write(RETRY)
            with self._feeds.subscribe(self._run_id, self._cursor, **self._options) as subscription:
                async for batch in subscription.batches(HEARTBEAT):
                    await write(_frames(batch) if batch else BEAT)
                    self._metrics.sent += len(batch)
        except (Problem, SojournError) as error:
            problem = problem_of(error)
            self._metrics.dropped += problem.code == "slow_subscriber"
            await write(_problem_frame(problem))
        except TimeoutError:
            self._metrics.dropped += 1
            return False  # a client that reads nothing gets no problem either
        return True


def _frames(batch: Sequence[SubscriberItem]) -> bytes:
    return "".join(
        f"id: {cursor}\ndata: {line}\n\n" if cursor else f"data: {line}\n\n" for cursor, _, line in batch
    ).encode()


def _problem_frame(problem: Problem) -> bytes:
    return b"event: problem\ndata: " + bytes(problem.response().body) + b"\n\n"


DisconnectCallback = Callable[[], Awaitable[None]]
"""Called if the client disconnects before the end of a stream."""

_leaving: set[asyncio.Task[None]] = set()


class StreamCut(Exception):  # noqa: N818 - it is not an error of the turn
    """The stream ends before its turn does.

    The connection closes without the protocol's end, so that the client connects again.
    """


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
        """Answer the request, then call `left` if the client disconnected early."""
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


LOGGER = "uvicorn.error"

_INCOMPLETE = "ASGI callable returned without completing response"

_NOISE = ("Invalid HTTP request received.", "Unsupported upgrade request.", "No supported WebSocket library")
"""Prefixes of log lines that any client can cause without credentials, in any number."""

_KEY = "sojourn.cut"
"""Scope key of the mark that the response was aborted on purpose."""

_is_cut: ContextVar[bool] = ContextVar("sojourn.is_cut", default=False)
"""Whether the response was a stream that ended without an exception, or was aborted on purpose.

Such a stream may stop before its end on purpose. Uvicorn logs from the task of the request, so the log
filter sees this value.
"""


class AbortedStreams:
    """Middleware that notes which responses were aborted on purpose.

    The server then logs no error for them.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        was_stream = False

        async def sent(message: Message) -> None:
            nonlocal was_stream
            if message["type"] == "http.response.start":
                was_stream = is_stream(message)
            await send(message)

        await self._app(scope, receive, sent)
        _is_cut.set(was_stream or scope.get(_KEY, False))


def mark_aborted(scope: Scope) -> None:
    """Mark the response to a request as aborted on purpose."""
    scope[_KEY] = True


def filter_server_log() -> None:
    """Keep aborted streams, and lines that any client can cause, out of uvicorn's log."""
    logging.getLogger(LOGGER).addFilter(_is_logged)


def _is_logged(record: logging.LogRecord) -> bool:
    told = record.getMessage()
    return not (told.startswith(_NOISE) or (_is_cut.get() and told.startswith(_INCOMPLETE)))
