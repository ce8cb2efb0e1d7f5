"""Entries: what the tree of a run is made of, one after the other; each is changed in place while the run goes on."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sojourn.console.views.text import lines_of
from sojourn.contracts.awaits import Await, AwaitConfirmation
from sojourn.contracts.event import AwaitAnsweredEvent
from sojourn.contracts.message import Message, TextPart, ThinkingPart
from sojourn.contracts.plan import Usage
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryHint, ToolError
from sojourn.contracts.tool_result import Artifact, Bounds, RunLink, ToolResult, ToolTelemetry
from sojourn.core.payload.unknown_outcome import Doubt, doubt_about

__all__ = [
    "MOST_TEXT",
    "Attempt",
    "Call",
    "Decision",
    "End",
    "Entry",
    "Note",
    "Plan",
    "Question",
    "Said",
    "markdown_of",
    "markdown_of_message",
]


MOST_TEXT = 6_000
"""Most characters of a text among others."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """Something that happened."""

    key: str
    """The id of its place in the page."""
    event_id: str
    """Its first event; empty for what no event has told yet."""
    at: datetime
    version: int = 0
    """Of the tree when it was changed last."""
    born: int = 0
    """Of the tree when it came."""

    @property
    def kind(self) -> str:
        """Its name, by which a template is chosen."""
        return type(self).__name__.lower()


@dataclass(slots=True, kw_only=True)
class Said(Entry):
    """A message of a person, or of whoever started the run."""

    message: Message | None
    mode: str = ""
    """In a conversation: `queue`, `steer` or `interrupt`."""
    by: str = ""
    turn_id: str = ""
    is_taken: bool = True
    """Whether a turn has it."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt that failed, or what is being done."""

    number: int
    error: str
    due: datetime | None


@dataclass(slots=True, kw_only=True)
class Plan(Entry):
    """The planner's turn: from the question to it until its answer."""

    number: int
    """In what is shown, from 1."""
    turn_id: str = ""
    ended_at: datetime | None = None
    message: Message | None = None
    """What it says, or with which message it calls."""
    usage: Usage | None = None
    said_event_id: str = ""
    """The event of its message."""
    is_answer: bool = False
    """Whether its message is the answer, which stands where the run, or the turn, ends."""
    calls: list[str] = field(default_factory=list[str])
    """The ids of its calls."""
    draft: str = ""
    """What it is writing."""
    attempts: list[Attempt] = field(default_factory=list[Attempt])

    @property
    def is_open(self) -> bool:
        """Whether it is being made."""
        return self.ended_at is None

    @property
    def took(self) -> timedelta | None:
        """How long it took; None while it is being made."""
        return self.ended_at - self.at if self.ended_at else None

    @property
    def text(self) -> str:
        """What it says."""
        return self.message.text if self.message else ""

    @property
    def thinking(self) -> str:
        """The model's reasoning, as far as its provider gives it."""
        parts = self.message.parts if self.message else []
        return "\n\n".join(part.text for part in parts if isinstance(part, ThinkingPart) and part.text)


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody decided, and when."""

    word: str
    """Such as `approved`."""
    by: str
    """The name in the answer; empty where there is none."""
    identity: str
    """The client, as Temporal records it."""
    text: str
    at: datetime

    @classmethod
    def of(cls, event: AwaitAnsweredEvent) -> "Decision":
        """What an event tells."""
        word = event.code or {True: "approved", False: "denied", None: "answered"}[event.approved]
        return cls(word, event.by or "", event.identity or "", event.text or "", event.time)


@dataclass(slots=True, kw_only=True)
class Call(Entry):
    """A call of a tool."""

    call: ToolRequest
    state: str = "running"
    """`running`, `waiting`, `done`, `failed`, `denied`, `not_executed` or `canceled`."""
    ended_at: datetime | None = None
    end_event_id: str = ""
    """Its `tool_end`, from which a fork can go on."""
    result: ToolResult | None = None
    wait: AwaitConfirmation | None = None
    """What a person was asked about it."""
    waited_since: datetime | None = None
    decision: Decision | None = None
    child: RunLink | None = None
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    progress: str = ""
    done: float | None = None
    total: float | None = None
    mended_by: str = ""
    """The call that repeats it with other arguments."""
    mends: str = ""
    """The failed call that it repeats."""

    @property
    def id(self) -> str:
        """The id of the call."""
        return self.call.tool_call_id

    @property
    def took(self) -> timedelta | None:
        """From its start to its end; None while it is open."""
        return self.ended_at - self.at if self.ended_at else None

    @property
    def error(self) -> ToolError | None:
        """Why it failed."""
        return self.result.error if self.result else None

    @property
    def hint(self) -> RetryHint | None:
        """How it can be repaired."""
        return self.result.retry_hint if self.result else None

    @property
    def doubt(self) -> Doubt:
        """Whether it may have taken effect although it failed."""
        return doubt_about(self.result) if self.result else ""

    @property
    def bounds(self) -> Bounds | None:
        """How much of the whole its result has."""
        return self.result.bounds if self.result else None

    @property
    def artifacts(self) -> list[Artifact]:
        """What it returned beside its result."""
        return self.result.artifacts if self.result else []

    @property
    def telemetry(self) -> ToolTelemetry | None:
        """What it cost."""
        return self.result.telemetry if self.result else None


@dataclass(slots=True, kw_only=True)
class Question(Entry):
    """A question to a person, or calls that somebody outside executes."""

    wait: Await
    decision: Decision | None = None


@dataclass(slots=True, kw_only=True)
class Note(Entry):
    """A line about what happened: a note, a pause, a limit, a decision of the policy."""

    sign: str
    """Its sign in `icons.html`."""
    title: str
    text: str = ""
    by: str = ""
    is_bad: bool = False
    value: object = None
    """Data that belongs to it."""


@dataclass(slots=True, kw_only=True)
class End(Entry):
    """How the run, or a turn of a conversation, ended."""

    status: str
    """As in `views.states`."""
    title: str
    output: RunOutput | None = None
    error: ToolError | None = None
    text: str = ""


def markdown_of(entry: Entry) -> list[str]:
    """The texts of an entry that are rendered as Markdown, as its template has them."""
    if isinstance(entry, Said):
        return markdown_of_message(entry.message) if entry.message else []
    texts: tuple[str, ...] = ()
    if isinstance(entry, Plan):
        texts = entry.thinking, "" if entry.is_answer else entry.text
    elif isinstance(entry, End) and entry.output:
        texts = (entry.output.text,)
    return [lines_of(text, MOST_TEXT)[0] for text in texts if text]


def markdown_of_message(message: Message) -> list[str]:
    """The texts of a message that are rendered as Markdown, as its template has them."""
    texts = [part.text for part in message.parts if isinstance(part, TextPart | ThinkingPart)]
    return [lines_of(text, MOST_TEXT)[0] for text in texts if text]
