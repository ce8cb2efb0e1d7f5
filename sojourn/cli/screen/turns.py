"""Turns of a conversation, as its events tell them: what opened each, how it ended, and what it used; and the messages that wait."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sojourn.contracts.event import (
    AssistantMessageEvent,
    AwaitClarificationEvent,
    AwaitConfirmationEvent,
    AwaitExternalToolsEvent,
    Event,
    MessageReceivedEvent,
    PlanStartedEvent,
    ToolEndEvent,
    ToolStartEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStartedEvent,
    TurnSteeredEvent,
    UsageEvent,
)

__all__ = ["Turn", "Turns"]

_OF_TURNS = (MessageReceivedEvent, TurnStartedEvent, TurnSteeredEvent, TurnCompletedEvent, TurnFailedEvent)
_WORK = (
    AssistantMessageEvent,
    AwaitClarificationEvent,
    AwaitConfirmationEvent,
    AwaitExternalToolsEvent,
    PlanStartedEvent,
    ToolStartEvent,
)
"""Events that a turn alone has."""


@dataclass
class Turn:
    """A turn so far."""

    turn_id: str
    began: datetime
    opening: list[MessageReceivedEvent] = field(default_factory=list[MessageReceivedEvent])
    """The messages that opened it, as far as the events have them."""
    missing: list[str] = field(default_factory=list[str])
    """Ids of the other messages that opened it, whose events are gone."""
    names: set[str] = field(default_factory=set[str])
    """The ids of the user turns in it: an answer to a question begins another one."""
    end: TurnCompletedEvent | TurnFailedEvent | None = None
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    @property
    def waited(self) -> timedelta:
        """How long its first message waited for it."""
        return self.began - self.opening[0].time if self.opening else timedelta(0)

    def add(self, event: Event) -> None:
        """Count an event of the conversation itself; what a child run used is in the end of its call."""
        self.names.add(event.turn_id)
        used = None
        if isinstance(event, ToolStartEvent):
            self.calls += 1
        elif isinstance(event, UsageEvent):
            used = event.usage
        elif isinstance(event, ToolEndEvent):
            used = event.result.telemetry
        if used is not None:
            self.tokens += used.input_tokens + used.output_tokens
            self.cost += used.cost or 0.0


class Turns:
    """Reads the events of a run in order, and tells which turn is under way; a run that is no conversation has none.

    Args:
        is_conversation: Whether the run is known to be a conversation, so that events can begin in the middle of a turn.
    """

    def __init__(self, *, is_conversation: bool = False) -> None:
        self._is_conversation = is_conversation
        self.present: Turn | None = None
        """The turn under way."""
        self.waiting: dict[str, MessageReceivedEvent] = {}
        """The messages that have no turn yet, by id, in the order of acceptance."""

    @property
    def is_idle(self) -> bool:
        """Whether the run is a conversation, and between two turns."""
        return self._is_conversation and self.present is None

    def feed(self, event: Event) -> Turn | None:
        """Take an event; return the turn that it belongs to, also the one that it ends."""
        if event.parent_tool_call_id is not None:
            return self.present
        self._is_conversation = self._is_conversation or isinstance(event, _OF_TURNS)
        if isinstance(event, MessageReceivedEvent):
            self.waiting[event.message_id] = event
        elif isinstance(event, TurnStartedEvent):
            self.present = Turn(event.turn_id, event.time)
            self.present.opening = self.taken(event)
            known = [message.message_id for message in self.present.opening]
            self.present.missing = [each for each in event.message_ids if each not in known]
        elif self.present is None and self._is_conversation and isinstance(event, _WORK):
            self.present = Turn(event.turn_id, event.time)
        turn = self.present
        if turn is not None:
            turn.add(event)
            if isinstance(event, TurnCompletedEvent | TurnFailedEvent):
                turn.end, self.present = event, None
        return turn

    def taken(self, event: TurnStartedEvent | TurnSteeredEvent) -> list[MessageReceivedEvent]:
        """The messages that a turn takes now; they wait no longer."""
        found = [self.waiting.pop(each, None) for each in event.message_ids]
        return [message for message in found if message is not None]
