"""Around a wait: what happened in its run before it, the last approved call of its tool, and how it ended."""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sojourn.console.views.steps import Step, step_of
from sojourn.contracts.awaits import Await, AwaitConfirmation
from sojourn.contracts.event import AwaitAnsweredEvent, Event, RunStartedEvent
from sojourn.core.awaits.kinds import wait_in

__all__ = ["Approved", "Around", "Surroundings"]

MOST_STEPS = 8
"""Steps before a wait that are told."""


@dataclass(frozen=True, slots=True)
class Approved:
    """A call that somebody approved."""

    payload: dict[str, Any]
    at: datetime
    by: str


@dataclass(slots=True)
class Around:
    """What is around a wait."""

    wait: Await | None = None
    """As it was asked; None where the history does not have it."""
    event_id: str = ""
    """The event by which it was asked."""
    since: datetime | None = None
    steps: list[Step] = field(default_factory=list[Step])
    """The last ones before it."""
    earlier: int = 0
    """How many there were before those, in what was read."""
    approved: Approved | None = None
    """The last approved call of the same tool."""
    answered: AwaitAnsweredEvent | None = None
    """How it ended."""
    asked: str = ""
    """What the run was asked."""
    for_whom: str = ""
    """Of a child run: what the run at the top was asked."""


class Surroundings:
    """Takes the events of a run in their order, and knows then what is around one of its waits.

    Args:
        await_id: The wait.
    """

    def __init__(self, await_id: str) -> None:
        self.found = Around()
        self._await_id = await_id
        self._steps = deque[Step](maxlen=MOST_STEPS)
        self._count = 0
        self._calls: dict[str, AwaitConfirmation] = {}
        self._approved: dict[str, Approved] = {}

    def take(self, event: Event) -> None:
        """Take the next event."""
        found, wait = self.found, wait_in(event)
        if wait is not None and wait.id == self._await_id:
            found.wait, found.since, found.answered = wait, event.time, None
            found.event_id = event.event_id or ""
            found.steps, found.earlier = list(self._steps), max(self._count - MOST_STEPS, 0)
            found.approved = self._approved.get(wait.tool) if isinstance(wait, AwaitConfirmation) else None
        elif isinstance(wait, AwaitConfirmation):
            self._calls[wait.id] = wait
        if isinstance(event, RunStartedEvent) and event.message:
            found.asked = event.message.text
        if isinstance(event, AwaitAnsweredEvent):
            self._answered(event)
        if step := step_of(event, self._calls):
            self._steps.append(step)
            self._count += 1

    def _answered(self, event: AwaitAnsweredEvent) -> None:
        if event.await_id == self._await_id:
            self.found.answered = event
        elif event.approved and (call := self._calls.get(event.await_id)):
            by = event.by or event.identity or ""
            self._approved[call.tool] = Approved(call.payload, event.time, by)
