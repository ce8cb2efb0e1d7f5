"""A piece of a planner's answer, and its transport from workers to subscribers."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

import structlog

from sojourn.contracts.record import Record

__all__ = ["Delta", "DeltaKind", "LiveTransport", "Outage", "topic_of"]

_log = structlog.get_logger("sojourn.live")


class Outage:
    """Whether a transport is unavailable, for all its publishers and subscribers."""

    def __init__(self, *, is_logged: bool = True) -> None:
        self._is_logged = is_logged
        self._has_begun = False

    def begin(self, error: Exception) -> None:
        if not self._has_begun and self._is_logged:
            reason = f"{type(error).__name__}: {error}".partition("\n")[0][:200]
            _log.warning("live_text_unavailable", reason=reason, effect="runs go on, without deltas")
        self._has_begun = True

    def end(self) -> None:
        if self._has_begun and self._is_logged:
            _log.info("live_text_available")
        self._has_begun = False


DeltaKind = Literal["begun", "text", "thinking", "tool_call"]
"""`begun` marks that the answer begins again, in a later attempt or after a correction; the others are its pieces."""


class Delta(Record):
    """One piece of one attempt at one plan; the deltas of an attempt are numbered from 0, without a gap."""

    kind: DeltaKind
    """The part of the answer that the piece belongs to."""
    scheduled: datetime
    """When the plan was scheduled, by the server's clock: the `time` of its `plan_started`."""
    started: datetime
    """When the attempt started, by the server's clock: the deltas of a later attempt replace those of earlier ones."""
    plan: int = 1
    """The number of the plan in the run, from 1."""
    attempt: int = 1
    """The number of the attempt at the plan, from 1."""
    seq: int = 0
    """The number of the delta in the attempt, from 0."""
    at: datetime
    """When the worker sent the delta, by the worker's clock."""
    text: str = ""
    """The piece."""
    tool_name: str = ""
    """For `tool_call`: the tool, as the planner wrote it."""
    index: int = 0
    """For `tool_call`: the number of the call in the plan, from 0."""


@runtime_checkable
class LiveTransport(Protocol):
    """Holds the current answer of each followed run, and delivers its deltas.

    The deltas are delivered as they are written. A topic is a run in its namespace. Nothing here is
    durable, nor needs to be: the complete answer is in the history, as the event
    `assistant_message`.
    """

    def is_wanted(self, topic: str) -> bool:
        """Return whether a worker should publish this run's deltas.

        It is called for every plan, so it must not block.
        """
        ...

    async def publish(self, topic: str, deltas: Sequence[Delta]) -> bool:
        """Publish the next deltas of an attempt, without raising an error.

        An answer begins with the delta whose `seq` is 0, which replaces the answer so far.

        Returns:
            False when the deltas could not be published; the worker then sends no more of this attempt.
        """
        ...

    def subscribe(self, topic: str) -> AsyncGenerator[Sequence[Delta]]:
        """Yield the current answer from its beginning, then further deltas, until closed.

        A delta may come twice.
        """
        ...

    async def close(self) -> None:
        """Close the connections.

        The next use opens new ones.
        """
        ...


def topic_of(namespace: str, run_id: str) -> str:
    """Return the topic of a run, which is unique across namespaces."""
    return f"{namespace}/{run_id}"
