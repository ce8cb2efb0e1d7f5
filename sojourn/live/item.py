"""Delta: a piece of what a planner is saying, as a worker tells it to subscribers."""

from datetime import datetime
from typing import Literal

from sojourn.contracts.record import Record

__all__ = ["Delta", "DeltaKind"]

DeltaKind = Literal["begun", "text", "thinking", "tool_call"]
"""`begun` says that an attempt begins; the others are pieces of what it says."""


class Delta(Record):
    """One piece of one attempt at one plan; within an attempt they are numbered from 0, without a gap."""

    kind: DeltaKind
    """What it is a piece of."""
    scheduled: datetime
    """When the plan was scheduled, by the server's clock: the `time` of its `plan_started`."""
    started: datetime
    """When the attempt started, by the server's clock: one that started later stands in its place."""
    plan: int = 1
    """Which plan of the run."""
    attempt: int = 1
    """Which attempt at it."""
    seq: int = 0
    """Its number in the attempt."""
    at: datetime
    """When it was told, by the worker's clock."""
    text: str = ""
    """The piece."""
    tool_name: str = ""
    """Of a call: its tool, as the model names it."""
    index: int = 0
    """Of a call: which of the plan, from 0."""
