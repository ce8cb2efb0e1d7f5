"""What the planner is writing now, and its next attempt."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from sojourn.contracts.event import TextDeltaEvent, ThinkingDeltaEvent, ToolCallDeltaEvent

__all__ = ["Attempt", "DeltaEvent", "Draft"]

MAX_DRAFT = 60_000
"""Longest draft, in characters.

A longer draft is cut to its last half, so that its beginning changes seldom.
"""

MAX_TOOLS = 100
"""Most calls of a draft."""

DeltaEvent: TypeAlias = TextDeltaEvent | ThinkingDeltaEvent | ToolCallDeltaEvent


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt after a failed one."""

    number: int
    """Number of the attempt, from 2 on."""
    error: str
    """Why the attempt before it failed."""
    due: datetime | None
    """When it starts; None once it has started."""


@dataclass(slots=True)
class Draft:
    """Text and calls that the planner is writing now. Only live readers have it."""

    text: str = ""
    text_start: int = 0
    """Characters that were cut from the beginning of the text."""
    thinking: str = ""
    thinking_start: int = 0
    """Characters that were cut from the beginning of the thinking."""
    tools: list[str] = field(default_factory=list[str])
    """Tools of the calls that it is writing, by index."""
    retry: Attempt | None = None
    """The next attempt, while the plan waits for it."""

    def take(self, event: DeltaEvent) -> None:
        """Take the next piece."""
        if isinstance(event, TextDeltaEvent):
            self.text, cut = _grow(self.text, event.text)
            self.text_start += cut
        elif isinstance(event, ThinkingDeltaEvent):
            self.thinking, cut = _grow(self.thinking, event.text)
            self.thinking_start += cut
        elif len(self.tools) <= min(event.index, MAX_TOOLS - 1):
            self.tools.append(event.tool_name)


def _grow(text: str, piece: str) -> tuple[str, int]:
    """Return the longer text, and the number of characters cut from its beginning."""
    text += piece
    if len(text) <= MAX_DRAFT:
        return text, 0
    return text[-MAX_DRAFT // 2 :], len(text) - MAX_DRAFT // 2
