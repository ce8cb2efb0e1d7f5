"""The entries of a timeline, in the order of their events, and its turns.

While the run is open, a `Timeline` changes entries in place, and then sets their versions. Renderers read
entries and never change them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeGuard

from sojourn.contracts.awaits import Await, AwaitConfirmation
from sojourn.contracts.event import (
    ApprovalGivenEvent,
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    BaseEvent,
    Event,
    LimitReachedEvent,
    MessageReceivedEvent,
    PolicyDecisionEvent,
    RetriesStoppedEvent,
    RunCanceledEvent,
    RunCompletedEvent,
    RunFailedEvent,
    RunTerminatedEvent,
    RunTimedOutEvent,
    ToolStartEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    UsageEvent,
    WaitOpenedEvent,
    wait_in,
)
from sojourn.contracts.message import Message, ThinkingPart
from sojourn.contracts.plan import Usage
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryHint, ToolError
from sojourn.contracts.tool_result import Artifact, Bounds, RunLink, ToolResult, ToolTelemetry
from sojourn.core.awaits.disclosure import disclose_changes
from sojourn.core.payload.unknown_outcome import Doubt, doubt_about
from sojourn.core.run.state import INTERRUPTED
from sojourn.timeline.draft import Attempt, Draft

__all__ = [
    "Call",
    "ChangeKind",
    "Delivery",
    "End",
    "Entry",
    "EntryChange",
    "Note",
    "OpenWait",
    "Plan",
    "RunEnd",
    "TokenUsage",
    "TurnEnd",
    "UserMessage",
    "UserTurn",
    "WaitEnd",
    "WaitEntry",
    "describe_verdict",
    "is_interruption",
    "is_last_result",
    "is_plan_end",
    "is_run_end",
    "is_turn_end",
    "wait_in",
]

RunEnd: TypeAlias = (
    RunCompletedEvent | RunFailedEvent | RunCanceledEvent | RunTerminatedEvent | RunTimedOutEvent
)
"""The event that ends a run. `RunStreamEndEvent` follows it, and only marks the end of the stream."""

TurnEnd: TypeAlias = TurnCompletedEvent | TurnFailedEvent
"""The event that ends a turn of a conversation."""


def is_run_end(event: BaseEvent) -> TypeGuard[RunEnd]:
    return isinstance(event, RunEnd)


_AFTER_PLAN = (
    AssistantMessageEvent | PolicyDecisionEvent | ToolStartEvent | UsageEvent | WaitOpenedEvent | RunEnd
)


def is_plan_end(event: BaseEvent) -> bool:
    """Return whether an event shows that the plan before it is complete."""
    return isinstance(event, _AFTER_PLAN)


def is_turn_end(event: BaseEvent) -> TypeGuard[TurnEnd]:
    return isinstance(event, TurnEnd)


def is_interruption(event: BaseEvent) -> bool:
    """Return whether an event ends a turn that a caller interrupted."""
    return isinstance(event, TurnFailedEvent) and event.error.code == INTERRUPTED


def is_last_result(event: AwaitAnsweredEvent) -> bool:
    """Return whether an event gives the last result of external calls."""
    return event.code is None and event.approved is None and event.text is None


def describe_verdict(event: AwaitAnsweredEvent) -> str:
    """Return the outcome of a wait in words, such as `approved with changes`."""
    words = _verdict_of(event).replace("_", " ")
    words = words if event.edited_arguments is None else f"{words} with changes"
    return f"{words}, and the sources no longer count" if event.lifted else words


def _verdict_of(event: AwaitAnsweredEvent) -> str:
    """Return the outcome of a wait in one word."""
    return event.code or {True: "approved", False: "denied", None: "answered"}[event.approved]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens and money that models used."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """US dollars; None while no cost is known."""

    @classmethod
    def of(cls, used: Usage | ToolTelemetry) -> "TokenUsage":
        """Return the tokens and the cost of a record."""
        return cls(used.input_tokens, used.output_tokens, used.cost)

    def plus(self, used: Usage | ToolTelemetry | None) -> "TokenUsage":
        """Return the sum with those of another record."""
        if used is None:
            return self
        cost = self.cost if used.cost is None else (self.cost or 0.0) + used.cost
        return TokenUsage(
            self.input_tokens + used.input_tokens, self.output_tokens + used.output_tokens, cost
        )

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """Something that happened in a run."""

    kind: ClassVar[str]
    """`message`, `plan`, `call`, `wait`, `note` or `end`."""
    key: str
    """Key that is unique in the timeline."""
    event_id: str
    """The event that added it."""
    at: datetime
    turn_id: str = ""
    turn: "UserTurn | None" = field(default=None, repr=False)
    """The turn of a conversation that has it."""
    version: int = 0
    """Version of the timeline that changed it last."""
    born: int = 0
    """Version of the timeline that added it."""


@dataclass(slots=True, kw_only=True, eq=False)
class UserMessage(Entry):
    """A message that opened, steered or resumed the run."""

    kind: ClassVar[str] = "message"
    message: Message
    message_id: str = ""
    """Empty outside a conversation."""
    mode: str = ""
    """In a conversation: `queue`, `steer` or `interrupt`."""
    by: str = ""
    """The sender: the name in the message, else the principal's subject."""
    identity: str = ""
    event: MessageReceivedEvent | None = None
    """In a conversation: the event that accepted the message."""
    is_in_turn: bool = True
    """Whether a turn has taken it."""
    is_behind: bool = False
    """Whether a turn was under way, or another message waited, when it was accepted."""


@dataclass(slots=True, kw_only=True, eq=False)
class Plan(Entry):
    """A plan, from its start to the planner's message."""

    kind: ClassVar[str] = "plan"
    number: int
    """Number of the plan in this timeline, from 1."""
    interim_for: str = ""
    """The message that it answers while approvals are open; empty for every other plan."""
    ended_at: datetime | None = None
    message: Message | None = None
    """The planner's message: its answer, or its calls."""
    message_event_id: str = ""
    usage: Usage | None = None
    is_answer: bool = False
    """Whether the message is the output of the `End` that follows."""
    is_partial: bool = False
    """Whether the message is only what was written before the turn, or the run, was stopped."""
    calls: list[str] = field(default_factory=list[str])
    """Ids of its calls that have begun."""
    draft: Draft = field(default_factory=Draft)
    progress: str = ""
    """The planner's last progress note, while the plan is open."""
    done: float | None = None
    total: float | None = None
    attempts: list[Attempt] = field(default_factory=list[Attempt])

    @property
    def is_open(self) -> bool:
        """Whether the plan is under way."""
        return self.ended_at is None

    @property
    def took(self) -> timedelta | None:
        """How long it took, once it has ended."""
        return self.ended_at - self.at if self.ended_at else None

    @property
    def text(self) -> str:
        """The text of its message."""
        return self.message.text if self.message else ""

    @property
    def unstarted_calls(self) -> list[ToolRequest]:
        """The calls of its message that have not begun."""
        parts = self.message.tool_calls if self.message else []
        return [part.request for part in parts if part.tool_call_id not in self.calls]

    @property
    def thinking(self) -> str:
        """The reasoning in its message."""
        parts = self.message.parts if self.message else []
        return "\n\n".join(part.text for part in parts if isinstance(part, ThinkingPart) and part.text)


@dataclass(frozen=True, slots=True)
class OpenWait:
    """A wait, since when it is open, and its place in the events."""

    run_id: str
    wait: Await
    since: datetime
    event_id: str
    before: str
    """Cursor before the event that opened it."""
    after: str
    """Cursor after that event."""
    asked: Mapping[str, Any] | None = None
    """The arguments as they were when it opened, once one of several approvers has edited them."""

    @property
    def changes(self) -> tuple[str, ...]:
        """How approvers have changed the arguments so far, one line for each value."""
        if self.asked is None or not isinstance(self.wait, AwaitConfirmation):
            return ()
        return disclose_changes(self.asked, self.wait.payload)


@dataclass(frozen=True, slots=True)
class WaitEnd:
    """A wait and how it ended."""

    event: AwaitAnsweredEvent
    opened: OpenWait | None
    """The wait; None if its event is not in the timeline."""

    @property
    def wait(self) -> Await | None:
        """The wait that ended, if its event is here."""
        return self.opened and self.opened.wait

    @property
    def verdict(self) -> str:
        """The outcome in a word, such as `approved`."""
        return _verdict_of(self.event)

    @property
    def words(self) -> str:
        """The outcome in words, such as `approved with changes`."""
        words, changed = describe_verdict(self.event), self.opened and self.opened.asked is not None
        is_told = self.event.edited_arguments is not None or not self.event.approved
        return f"{words} with changes" if changed and not is_told else words

    @property
    def arguments(self) -> Mapping[str, Any] | None:
        """The arguments of a decided call, as edited, or None for other waits."""
        if not isinstance(self.wait, AwaitConfirmation):
            return None
        edited = self.event.edited_arguments
        return self.wait.payload if edited is None else edited

    @property
    def changes(self) -> tuple[str, ...]:
        """How the approvers changed the arguments, one line for each value."""
        if self.opened is None or not isinstance(self.wait, AwaitConfirmation):
            return ()
        asked, edited = self.opened.asked, self.event.edited_arguments
        before = self.wait.payload if asked is None else asked
        return disclose_changes(before, self.wait.payload if edited is None else edited)

    @property
    def who(self) -> str:
        """The senders of the answer, by the names in it, else by their subjects."""
        last = self.event.by or (self.event.principal.subject if self.event.principal else "")
        given = self.wait.given if isinstance(self.wait, AwaitConfirmation) and self.event.approved else []
        return ", ".join(dict.fromkeys([*(each.name for each in given), *filter(None, [last])]))

    @property
    def at(self) -> datetime:
        """When it ended."""
        return self.event.time


@dataclass(slots=True, kw_only=True, eq=False)
class Call(Entry):
    kind: ClassVar[str] = "call"
    call: ToolRequest
    state: str = "running"
    """`running`, `waiting`, `done`, `failed`, `denied`, `not_executed` or `canceled`."""
    start_event_id: str = ""
    """Its `tool_start`, from which a fork repeats the call."""
    started_at: datetime | None = None
    """When it began to run; None if it has not, such as a denied call."""
    ended_at: datetime | None = None
    duration: timedelta | None = None
    """Time from its start to its end, without the time before it started; None until `tool_end`."""
    end_event_id: str = ""
    """Its `tool_end`, from which a fork can continue."""
    result: ToolResult | None = None
    opened: OpenWait | None = None
    """The approval that it needs or needed."""
    decision: WaitEnd | None = None
    closed_at: datetime | None = None
    """When the wait closed without an answer, with its turn or its run."""
    child: RunLink | None = None
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    progress: str = ""
    done: float | None = None
    total: float | None = None
    repaired_by: str = ""
    """The call that repeats it with other arguments."""
    repairs: str = ""
    """The failed call that it repeats."""

    @property
    def id(self) -> str:
        """The call's id."""
        return self.call.tool_call_id

    @property
    def is_waiting(self) -> bool:
        """Whether its wait is open."""
        return self.opened is not None and self.decision is None and self.closed_at is None

    @property
    def wait(self) -> Await | None:
        """The wait that it opened last."""
        return self.opened and self.opened.wait

    @property
    def took(self) -> timedelta | None:
        """How long it took, once it has ended."""
        return self.ended_at - self.at if self.ended_at else None

    @property
    def error(self) -> ToolError | None:
        """The error of its result."""
        return self.result.error if self.result else None

    @property
    def hint(self) -> RetryHint | None:
        """The hint of its result."""
        return self.result.retry_hint if self.result else None

    @property
    def doubt(self) -> Doubt:
        """Whether it may have taken effect although it failed."""
        return doubt_about(self.result) if self.result else ""

    @property
    def bounds(self) -> Bounds | None:
        """The bounds of its result."""
        return self.result.bounds if self.result else None

    @property
    def artifacts(self) -> list[Artifact]:
        """The artifacts of its result."""
        return self.result.artifacts if self.result else []

    @property
    def telemetry(self) -> ToolTelemetry | None:
        """The telemetry of its result."""
        return self.result.telemetry if self.result else None


@dataclass(slots=True, kw_only=True, eq=False)
class WaitEntry(Entry):
    """A question to a person, or calls that a program outside the run executes."""

    kind: ClassVar[str] = "wait"
    opened: OpenWait
    decision: WaitEnd | None = None
    closed_at: datetime | None = None
    """When it closed without an answer, with its turn or its run."""

    @property
    def wait(self) -> Await:
        """The record of the wait, with what the run compares."""
        return self.opened.wait

    @property
    def is_waiting(self) -> bool:
        """Whether it is open."""
        return self.decision is None and self.closed_at is None


@dataclass(slots=True, kw_only=True, eq=False)
class Note(Entry):
    """A note, a pause, a limit, a change of policy or memory, or a fork."""

    kind: ClassVar[str] = "note"
    event: Event

    @property
    def is_bad(self) -> bool:
        """Whether it tells that a limit or the retries ended something."""
        return isinstance(self.event, LimitReachedEvent | RetriesStoppedEvent)


@dataclass(slots=True, kw_only=True, eq=False)
class End(Entry):
    kind: ClassVar[str] = "end"
    event: RunEnd | TurnEnd

    @property
    def is_of_turn(self) -> bool:
        """Whether a turn ended, and the run continues."""
        return is_turn_end(self.event)

    @property
    def status(self) -> str:
        """`completed`, `failed`, `canceled`, `terminated` or `timed_out`."""
        return self.event.type.partition("_")[2]

    @property
    def output(self) -> RunOutput | None:
        """The output, if there is one."""
        return self.event.output if isinstance(self.event, RunCompletedEvent | TurnCompletedEvent) else None

    @property
    def error(self) -> ToolError | None:
        """The chain of causes of a failure."""
        if self.output is not None:
            return self.output.error
        return getattr(self.event, "error", None)

    @property
    def text(self) -> str:
        """The reason that the event of a run's end gives in one line."""
        return getattr(self.event, "text", None) or ""


ChangeKind = Literal[
    "added",
    "answered",
    "asked",
    "changed",
    "child_started",
    "ended",
    "progressed",
    "resolved",
    "retried",
    "spoken",
    "started",
    "taken",
]
"""What happened to an entry.

`spoken` gives a plan its message, `resolved` gives a call its result, just before `ended`, `taken` puts a
message into a turn, `asked` and `answered` are about the wait of a call or a `WaitEntry`. Anything else is
`changed`.
"""


class EntryChange(NamedTuple):
    entry: Entry
    kind: ChangeKind


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message or answer that a conversation accepted under a message id."""

    event: MessageReceivedEvent | AwaitAnsweredEvent | ApprovalGivenEvent
    """The message, or the answer to a wait if the message was one."""
    before: str
    """Cursor before the message. For an answer, the cursor after the event that opened the wait."""
    after: str
    """Cursor after the event."""
    opened: "OpenWait | None" = None
    """For an answer: its wait, or None if it was opened before the first event."""


@dataclass(slots=True, eq=False)
class UserTurn:
    key: str
    """The event_id of its first event in the timeline."""
    id: str
    at: datetime
    before: str = ""
    """Cursor before that event."""
    follows: str | None = None
    """The point after which it began: the event that ended the turn before it in its branch, or that started the run.

    None if the timeline does not have that event.
    """
    messages: list[UserMessage] = field(default_factory=list[UserMessage])
    """The messages that opened it, as far as the timeline has them."""
    missing: list[str] = field(default_factory=list[str])
    """Ids of the other messages that opened it."""
    entries: list[Entry] = field(default_factory=list[Entry])
    """Its messages, plans, calls, waits and notes in order. A steering message is at the point when it joined."""
    ids: set[str] = field(default_factory=set[str])
    """Ids of its user turns. An answer to a question begins another user turn."""
    end: End | None = None
    calls: int = 0
    """Calls that have started."""
    spent: TokenUsage = TokenUsage()
    """Tokens and cost of its plans and calls so far."""
    model: str = ""
    """The last model that it used."""
    dropped: int = 0
    """Number of entries that were dropped."""
    is_opened: bool = True
    """Whether the event that opened it is in the timeline."""
    has_start: bool = True
    """Whether the timeline has its beginning, with the messages that opened it."""
    is_over: bool = False
    """Whether it has ended, by itself or with its run."""
    version: int = 0
    """Version of the timeline that changed it last."""
    born: int = 0
    """Version of the timeline that added it."""

    @property
    def joined(self) -> list[UserMessage]:
        """The messages that steered it, or were answered beside a step."""
        opened = {each.message_id for each in self.messages}
        said = (each for each in self.entries if isinstance(each, UserMessage))
        return [each for each in said if each.message_id not in opened]

    @property
    def plan(self) -> Plan | None:
        """The plan under way."""
        last = next((each for each in reversed(self.entries) if isinstance(each, Plan)), None)
        return last if last is not None and last.is_open and not self.is_over else None

    @property
    def took(self) -> timedelta | None:
        """How long it took, once it has ended."""
        return self.end.at - self.at if self.end else None

    @property
    def waiting_time(self) -> timedelta:
        """Time from the arrival of its first message to its start."""
        return self.at - self.messages[0].at if self.messages else timedelta(0)

    @property
    def failure(self) -> TurnFailedEvent | None:
        """The event of its failure, if it failed."""
        return self.end.event if self.end and isinstance(self.end.event, TurnFailedEvent) else None
