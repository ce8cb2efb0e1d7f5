"""Server-Sent Events: the events of a run as a stream, with our cursor as the id, that any process can resume."""

from collections.abc import Sequence

from sojourn.errors import SojournError
from sojourn.events import Cursor
from sojourn.http.metrics import Metrics
from sojourn.http.problems import Problem, problem_of
from sojourn.http.stream import BEAT, HEARTBEAT, Stream, Write
from sojourn.reader import Delivery, Feeds

__all__ = ["EventStream", "wants_stream"]

RETRY = b"retry: 1000\n\n"
"""How soon a browser connects again, in milliseconds."""


def wants_stream(accept: str | None) -> bool:
    """Whether a request asks for a stream, by its `Accept`."""
    return "text/event-stream" in (accept or "").lower()


class EventStream(Stream):
    """The events of a run after a cursor, to the run's end.

    A stream that ends before that ends with an event `problem`, whose data are problem details: the client connects again.

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
            return False  # the client takes nothing, so it is not told
        return True


def _frames(batch: Sequence[Delivery]) -> bytes:
    return "".join(
        f"id: {cursor}\ndata: {line}\n\n" if cursor else f"data: {line}\n\n" for cursor, _, line in batch
    ).encode()


def _problem_frame(problem: Problem) -> bytes:
    return b"event: problem\ndata: " + bytes(problem.response().body) + b"\n\n"
