"""The events that end runs, turns and waits, and their outcome in a word."""

from typing import TypeAlias, TypeGuard

from sojourn.contracts.event import (
    AwaitAnsweredEvent,
    BaseEvent,
    RunCanceledEvent,
    RunCompletedEvent,
    RunFailedEvent,
    RunTerminatedEvent,
    RunTimedOutEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    wait_in,
)
from sojourn.core.run.state import INTERRUPTED

__all__ = [
    "RUN_END_TYPES",
    "RunEnd",
    "TurnEnd",
    "is_interruption",
    "is_last_result",
    "is_run_end",
    "is_turn_end",
    "verdict_of",
    "wait_in",
]

RunEnd: TypeAlias = (
    RunCompletedEvent | RunFailedEvent | RunCanceledEvent | RunTerminatedEvent | RunTimedOutEvent
)
"""The event that ends a run. `RunStreamEndEvent` follows it, and only marks the end of the stream."""

TurnEnd: TypeAlias = TurnCompletedEvent | TurnFailedEvent
"""The event that ends a turn of a conversation."""

RUN_END_TYPES = frozenset({"run_canceled", "run_completed", "run_failed", "run_terminated", "run_timed_out"})
"""The `type` of each `RunEnd`."""


def is_run_end(event: BaseEvent) -> TypeGuard[RunEnd]:
    return isinstance(event, RunEnd)


def is_turn_end(event: BaseEvent) -> TypeGuard[TurnEnd]:
    return isinstance(event, TurnEnd)


def is_interruption(event: BaseEvent) -> bool:
    """Return whether an event ends a turn that a caller interrupted."""
    return isinstance(event, TurnFailedEvent) and event.error.code == INTERRUPTED


def is_last_result(event: AwaitAnsweredEvent) -> bool:
    """Return whether an event gives the last result of external calls."""
    return event.code is None and event.approved is None and event.text is None


def verdict_of(event: AwaitAnsweredEvent) -> str:
    """Return the outcome of a wait in one word."""
    return event.code or {True: "approved", False: "denied", None: "answered"}[event.approved]
