"""Server-Sent Events: the events of a run as a stream, with our cursor as the id, that any process can resume."""

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sojourn.errors import SojournError
from sojourn.events import Cursor
from sojourn.http.drafts import Delivery
from sojourn.http.hub import Hub
from sojourn.http.metrics import Metrics
from sojourn.http.problems import Problem, problem_of

__all__ = ["HEARTBEAT", "STALL", "EventStream", "left", "wants_stream"]

HEARTBEAT = 15.0
"""Seconds without an event after which a comment is sent, so that nobody on the way takes the connection for dead."""

STALL = 30.0
"""Seconds in which a client has to take what is sent; after that it is dropped, and can resume."""

RETRY = b"retry: 1000\n\n"
"""How soon a browser connects again, in milliseconds."""


def wants_stream(accept: str | None) -> bool:
    """Whether a request asks for a stream, by its `Accept`."""
    return "text/event-stream" in (accept or "").lower()


class EventStream(Response):
    """The events of a run after a cursor, to the run's end.

    A stream that ends before that ends with an event `problem`, whose data are problem details: the client connects again.

    Args:
        hub: Follows the run.
        metrics: Counts what is sent.
        run_id: The run.
        cursor: How far the client has read.
        children: Include the events of child runs.
        deltas: Include what planners are writing.
    """

    media_type = "text/event-stream"

    def __init__(
        self, hub: Hub, metrics: Metrics, run_id: str, cursor: Cursor, *, children: bool, deltas: bool
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._hub = hub
        self._metrics = metrics
        self._run_id = run_id
        self._cursor = cursor
        self._options = {"children": children, "deltas": deltas}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, until the run ends or the client leaves."""
        del scope
        start: dict[str, Any] = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        streaming = asyncio.create_task(self._stream(send), name=f"stream of {self._run_id}")
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

        try:
            await write(RETRY)
            with self._hub.subscribe(self._run_id, self._cursor, **self._options) as subscription:
                async for batch in subscription.batches(HEARTBEAT):
                    await write(_frames(batch) if batch else b": heartbeat\n\n")
                    self._metrics.sent += len(batch)
        except (Problem, SojournError) as error:
            problem = problem_of(error)
            self._metrics.dropped += problem.code == "slow_subscriber"
            await write(_problem_frame(problem))
        except TimeoutError:
            self._metrics.dropped += 1
            return  # the server closes the connection of an answer without an end; the client takes nothing, so it is not told
        await write(b"", more=False)


def _frames(batch: Sequence[Delivery]) -> bytes:
    return "".join(
        f"id: {cursor}\ndata: {line}\n\n" if cursor else f"data: {line}\n\n" for cursor, _, line in batch
    ).encode()


def _problem_frame(problem: Problem) -> bytes:
    return b"event: problem\ndata: " + bytes(problem.response().body) + b"\n\n"


async def left(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
