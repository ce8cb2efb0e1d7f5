"""Delta and LiveTransport: a piece of a planner's answer, and what carries it from workers to subscribers."""

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

from sojourn.contracts.record import Record

__all__ = ["Delta", "DeltaKind", "LiveTransport", "topic_of"]


DeltaKind = Literal["begun", "text", "thinking", "tool_call"]
"""`begun` marks the beginning of an attempt; the others are pieces of its answer."""


class Delta(Record):
    """One piece of one attempt at one plan; within an attempt they are numbered from 0, without a gap."""

    kind: DeltaKind
    """What it is a piece of."""
    scheduled: datetime
    """When the plan was scheduled, by the server's clock: the `time` of its `plan_started`."""
    started: datetime
    """When the attempt started, by the server's clock: a later attempt takes its place."""
    plan: int = 1
    """Which plan of the run."""
    attempt: int = 1
    """Which attempt at it."""
    seq: int = 0
    """Its number in the attempt."""
    at: datetime
    """When the worker sent the delta, by its clock."""
    text: str = ""
    """The piece."""
    tool_name: str = ""
    """Of a call: its tool, as the model names it."""
    index: int = 0
    """Of a call: which of the plan, from 0."""


@runtime_checkable
class LiveTransport(Protocol):
    """Keeps the present answer of each run that is followed, and hands it on as it grows.

    A topic is a run in its namespace. Nothing here is durable, or needed: the `assistant_message` of the
    history holds what is lost.
    """

    def is_wanted(self, topic: str) -> bool:
        """Whether a worker should publish this run's deltas; asked at each turn, so it does not wait."""
        ...

    async def publish(self, topic: str, deltas: Sequence[Delta]) -> bool:
        """Hand on the next deltas of an attempt.

        With the delta that is number 0 an answer begins, and what is kept of an earlier one is dropped.

        Returns:
            False when they could not be handed on; nothing more of this attempt is then sent. Raises nothing.
        """
        ...

    def subscribe(self, topic: str) -> AsyncGenerator[Sequence[Delta]]:
        """The present answer from its beginning, and what comes, until it is closed; deltas may come twice."""
        ...

    async def close(self) -> None:
        """Let connections go; they are made anew when it is used again."""
        ...


def topic_of(namespace: str, run_id: str) -> str:
    """The topic of a run: run ids are unique in a namespace."""
    return f"{namespace}/{run_id}"
