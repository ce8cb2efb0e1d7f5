"""Turns: what stands in a conversation, one after the other: what was said, called, asked and noted."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from sojourn.contracts.awaits import Await
from sojourn.contracts.tool_error import ToolError

__all__ = ["Answer", "Asked", "Attachment", "Call", "Draft", "Item", "Note", "Said", "Turn"]


@dataclass(slots=True)
class Attachment:
    """An image or a document of a message."""

    title: str
    media_type: str
    size: int
    """In bytes; 0 where only a URL is known."""
    picture: str = ""
    """A data URL of a picture that a page may show."""


@dataclass(slots=True)
class Said:
    """What a person said."""

    text: str
    at: datetime
    by: str = ""
    mode: str = "queue"
    message_id: str = ""
    attachments: list[Attachment] = field(default_factory=list[Attachment])
    kind: Literal["said"] = "said"


@dataclass(slots=True)
class Answer:
    """What the agent said."""

    text: str
    at: datetime
    thinking: str = ""
    kind: Literal["answer"] = "answer"


@dataclass(slots=True)
class Call:
    """A call of a tool or of another agent."""

    tool_call_id: str
    name: str
    at: datetime
    state: str = "requested"
    """`requested`, `running`, `waiting`, `done`, `failed`, `denied` or `not_executed`."""
    arguments: str = ""
    """As JSON, its beginning."""
    line: str = ""
    """The arguments on one line."""
    result: str = ""
    """As JSON or text, its beginning."""
    is_cut: bool = False
    """Whether the arguments or the result are longer."""
    error: str = ""
    hint: str = ""
    """How the planner is told to repair it."""
    progress: str = ""
    """What it does, or why it is attempted again; while it runs."""
    took: timedelta | None = None
    run_id: str = ""
    """The child run that answers it."""
    artifacts: list[str] = field(default_factory=list[str])
    kind: Literal["call"] = "call"


@dataclass(slots=True)
class Asked:
    """A question, an approval, or results that are waited for."""

    wait: Await
    at: datetime
    is_open: bool = True
    outcome: str = ""
    """How it ended, in words."""
    answer: str = ""
    by: str = ""
    kind: Literal["asked"] = "asked"


@dataclass(slots=True)
class Note:
    """Something else that a person should know."""

    text: str
    at: datetime
    by: str = ""
    is_bad: bool = False
    kind: Literal["note"] = "note"


Item = Said | Answer | Call | Asked | Note
"""Anything in a turn."""


@dataclass(slots=True)
class Draft:
    """What a planner is writing."""

    text: str = ""
    thinking: str = ""
    tools: list[str] = field(default_factory=list[str])
    """The names of the calls that it is writing."""
    again: str = ""
    """Why it plans again."""


@dataclass(slots=True)
class Turn:
    """A message, and all that follows from it until the answer."""

    key: str
    """Its first event."""
    turn_id: str
    at: datetime
    items: list[Item] = field(default_factory=list[Item])
    state: str = "running"
    """`running`, `completed` or `failed`."""
    ended_at: datetime | None = None
    error: ToolError | None = None
    reason: str = ""
    """Why it ended, where that is not its answer."""
    tokens: int = 0
    cost: float | None = None
    calls: int = 0
    model: str = ""
    draft: Draft | None = None
    is_whole: bool = True
    """Whether its beginning is here."""
    version: int = 0
    """Of the conversation when it was changed last."""
    born: int = 0
    """Of the conversation when it began."""

    @property
    def took(self) -> timedelta | None:
        """How long it took; None while it is under way."""
        return self.ended_at - self.at if self.ended_at else None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state != "running"
