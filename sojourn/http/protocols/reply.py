"""Reply: what the events after a token come to: pieces of text, then an answer, a question or a failure.

A reply ends at the first of these in the history, whatever came later. So it is the same for whoever reads it, whenever and at which process. A
task, which keeps its id from the first message to the answer, goes on after its questions: it is what the history says of it now.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, NamedTuple

from sojourn.contracts.event import (
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    AwaitClarificationEvent,
    AwaitConfirmationEvent,
    Event,
    MessageReceivedEvent,
    PlanStartedEvent,
    RunCompletedEvent,
    StreamRestartedEvent,
    TextDeltaEvent,
    ToolResultReceivedEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStartedEvent,
    TurnSteeredEvent,
    UsageEvent,
)
from sojourn.contracts.plan import Usage
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import Artifact
from sojourn.errors import RunNotFound
from sojourn.events import Cursor
from sojourn.events.stream import stream
from sojourn.http.protocols.asked import Asked
from sojourn.http.protocols.markup import Unmarked, closing, unmarked
from sojourn.http.protocols.reply_token import ReplyToken
from sojourn.http.redaction import redact
from sojourn.http.security.limits import heavy_read as turn_to_read
from sojourn.http.service import Service
from sojourn.http.stream import HEARTBEAT

__all__ = [
    "FREE",
    "MOST_SAID",
    "Reply",
    "Said",
    "Told",
    "cursor_of",
    "follow",
    "read",
    "read_to_end",
    "recorded",
]

MOST_SAID = 100
"""Most messages of a task that are kept, the newest."""

_ENDS = ("run_canceled", "run_failed", "run_terminated", "run_timed_out")
_GAP = "\n\n"


class Said(NamedTuple):
    """A message of a task."""

    role: Literal["user", "agent"]
    id: str
    text: str


@dataclass
class Reply:
    """A reply, as far as it was read."""

    token: ReplyToken
    """Where it begins."""
    is_task: bool = False
    """Whether it goes on once its questions are settled; its text then has none of them."""
    state: Literal["open", "answered", "asked", "failed"] = "open"
    """How it ends; `open` while it has not."""
    text: str = ""
    """What the agent has said: each of its messages, then what it asks, with an empty line between."""
    asked: Asked | None = None
    """With `asked`: what it asks, of a task what was asked first and is open."""
    waits: list[Asked] = field(default_factory=list[Asked])
    """Of a task: all that is asked and open."""
    answers: dict[str, AwaitAnsweredEvent] = field(default_factory=dict[str, AwaitAnsweredEvent])
    """Its answers, by the ids of the messages that they were."""
    said: list[Said] = field(default_factory=list[Said])
    """Of a task: its message, and its questions with their answers."""
    is_there: bool = False
    """Whether the events have anything of it: of its message, if it is the reply to one. A token that somebody has made up has nothing."""
    artifacts: list[Artifact] = field(default_factory=list[Artifact])
    """What the calls of the run have made, by reference."""
    cursor: str = ""
    """The cursor of the last event that was read."""
    at: datetime | None = None
    """When that was."""
    output: RunOutput | None = None
    """With `answered`: the output of the turn or of the run."""
    error: ToolError | None = None
    """With `failed`: why."""
    is_canceled: bool = False
    """With `failed`: whether somebody has canceled it."""
    usage: Usage = field(default_factory=Usage)
    """What the plans used, of child runs too."""
    end: str = ""
    """The cursor of the event that ends it: what follows an answer comes after it."""
    agent_id: str = ""
    """The agent."""
    turn_id: str = ""
    """Of a message: the turn that took it, once it has begun."""
    begun: float | None = None
    """When its first event was, as seconds of the epoch."""
    _draft: str = ""
    """What was said of the message that is being written."""
    _again: str | None = None
    """What a restarted draft has so far that may be the beginning of `_draft`, which cannot be taken back."""
    _is_mine: bool = False
    _unmarked: Unmarked = field(default_factory=Unmarked)
    """Takes out of what the agent writes what would be read as a mark of ours."""

    def __post_init__(self) -> None:
        self._is_mine = not self.token.message_id

    @property
    def is_begun(self) -> bool:
        """Whether the turn that it is of has begun."""
        return self._is_mine

    def take(self, event: Event, cursor: str) -> str:
        """Take an event in, and return what it adds to the text."""
        before = len(self.text)
        self.cursor, self.at = cursor or self.cursor, event.time
        is_own = event.run_id == self.token.run_id
        if self.is_task:
            self._note_said(event)
        if isinstance(event, AwaitAnsweredEvent) and event.message_id:
            self.answers.setdefault(event.message_id, event)
            self._is_mine = self._is_mine or self.token.message_id == event.message_id
        if is_own and isinstance(event, (TurnStartedEvent, TurnSteeredEvent)):
            self._begin(event)
        told = getattr(event, "message_id", None) == self.token.message_id
        self.is_there = self.is_there or self._is_mine or told
        if is_own and event.type in _ENDS:
            self._fail(event)
        elif is_own and isinstance(event, RunCompletedEvent) and not self._is_mine and event.output:
            self._fail(event, event.output.reason)
        elif self._is_mine:
            self._read(event, is_own=is_own)
        if is_own and not self.agent_id:
            self.agent_id, self.begun = event.agent_id, event.time.timestamp()
        if self.state != "open":
            self.end = cursor
        return self.text[before:]

    def _note_said(self, event: Event) -> None:
        """Keep what opened the task, and a question once it is answered: until then the status has it."""
        if isinstance(event, MessageReceivedEvent) and event.message_id == self.token.message_id:
            self.said.append(Said("user", event.message_id, event.message.text))
        elif isinstance(event, AwaitAnsweredEvent):
            for each in self.waits:
                if each.is_settled_by(event):
                    verdict = {True: "yes", False: "no", None: event.code or ""}[event.approved]
                    self.said.append(Said("agent", f"{event.event_id}-0", each.shown))
                    self.said.append(Said("user", event.message_id or event.event_id, event.text or verdict))
        del self.said[:-MOST_SAID]

    def _begin(self, event: TurnStartedEvent | TurnSteeredEvent) -> None:
        """Take in that messages got a turn, which is perhaps the one to read."""
        if not self._is_mine and self.token.message_id in event.message_ids:
            self._is_mine, self.turn_id = True, event.turn_id

    def _read(self, event: Event, *, is_own: bool) -> None:
        if isinstance(event, UsageEvent):
            self._use(event.usage)
        elif isinstance(event, AwaitClarificationEvent):
            self._ask(Asked(event.run_id, event.question))
        elif self.is_task and isinstance(event, AwaitAnsweredEvent):
            self._settle([each for each in self.waits if not each.is_settled_by(event)])
        elif isinstance(event, AwaitConfirmationEvent):
            self._ask(Asked(event.run_id, event.confirmation))
        elif is_own:
            self._read_own(event)

    def _read_own(self, event: Event) -> None:
        if isinstance(event, PlanStartedEvent):
            self.text += self._unmarked.end()
            self._draft, self._again = "", None
        elif isinstance(event, StreamRestartedEvent):
            self._again = "" if self._draft else None
        elif isinstance(event, TextDeltaEvent):
            self._write(event.text)
        elif isinstance(event, AssistantMessageEvent):
            self._write_whole(event.message.text)
        elif isinstance(event, ToolResultReceivedEvent):
            self.artifacts += event.result.artifacts
            below = f"{self.token.run_id}/{event.result.tool_call_id}"
            self._settle([each for each in self.waits if not f"{each.run_id}/".startswith(f"{below}/")])
        elif isinstance(event, (TurnCompletedEvent, RunCompletedEvent)) and event.output:
            self.state, self.output = "answered", event.output
            if not self.text.endswith(unmarked(event.output.text)):
                self._write_whole(event.output.text)
        elif isinstance(event, TurnFailedEvent):
            self.state, self.error = "failed", event.error
            self.is_canceled = event.error.code == "interrupted"

    def _write(self, piece: str) -> None:
        """Add a piece of a draft."""
        if self._again is not None:
            begin, self._again = len(self._again), self._again + piece
            if self._draft.startswith(piece, begin):
                return  # it says the same again
            whole, self._again = self._again, None
            self._write_whole(whole, is_draft=True)
            return
        if not self._draft and self.text and piece:
            self.text += _GAP
        self._draft += piece
        self.text += self._unmarked.take(piece)

    def _write_whole(self, whole: str, *, is_draft: bool = False) -> None:
        """Add what a whole message has beyond its draft; all of it where it is another one."""
        self._again = None
        if not whole.startswith(self._draft):
            self.text += self._unmarked.end()
            self._draft = ""
        self._write(whole[len(self._draft) :])
        if not is_draft:
            self.text += self._unmarked.end()
            self._draft = ""

    def _ask(self, asked: Asked) -> None:
        if self.is_task:
            self._settle([*self.waits, asked])
            return
        self.text += self._unmarked.end()
        if asked.code:  # whatever a text before it has opened must not hide a call
            self.text += closing(self.text)
        self.text += f"{_GAP}{asked.text}" if self.text else asked.text
        self.state, self.asked = "asked", asked

    def _settle(self, waits: list[Asked]) -> None:
        """Let these be what is asked and open."""
        self.waits = waits
        if self.is_task and self.state in ("open", "asked"):
            self.state, self.asked = ("asked", waits[0]) if waits else ("open", None)

    def _fail(self, event: Event, code: str = "") -> None:
        error, text = getattr(event, "error", None), getattr(event, "text", None)
        why = text or f"the run ended ({code or event.type.removeprefix('run_')})"
        self.state, self.is_canceled = "failed", event.type == "run_canceled"
        self.error = error or ToolError.new(why, code=code or getattr(event, "code", None))

    def _use(self, used: Usage) -> None:
        mine = self.usage
        known = mine.cost is not None or used.cost is not None
        self.usage = Usage(
            input_tokens=mine.input_tokens + used.input_tokens,
            output_tokens=mine.output_tokens + used.output_tokens,
            cached_tokens=mine.cached_tokens + used.cached_tokens,
            cache_write_tokens=mine.cache_write_tokens + used.cache_write_tokens,
            cost=(mine.cost or 0) + (used.cost or 0) if known else None,
            model=used.model or mine.model,
        )


FREE = 200
"""Events that are read before a request needs a turn among those that read much."""


class Told(NamedTuple):
    """One step of a reply."""

    event: Event
    """The event."""
    text: str
    """What it adds to the text of the reply."""
    is_past: bool = False
    """Of a task: whether it was there before the task was followed."""


async def follow(
    service: Service, reply: Reply, *, deltas: bool = True, to_end: bool = False
) -> AsyncGenerator[Told]:
    """Read a reply to its end, as it is made, from where it was read; a task also to what it asks now.

    Args:
        service: The service.
        reply: The reply; takes every event in before it is told.
        deltas: Whether what planners are writing is read too.
        to_end: Whether a task is followed beyond its questions.

    Raises:
        Problem: This process stops, or the reply is too slow.
        SojournError: The events cannot be read, or the token is none of the run's.
    """
    token, lasts = reply.token, ("open", "asked") if to_end else ("open",)
    if reply.is_task:  # an event of the past may ask what was answered since
        async with aclosing(recorded(service, replace(token, after=reply.cursor or token.after))) as past:
            async for event, cursor in past:
                yield Told(event, reply.take(event, cursor), is_past=True)
        _check_is_there(reply)
        if reply.state not in lasts:
            return
    cursor = cursor_of(replace(token, after=reply.cursor or token.after))
    with service.feeds.subscribe(token.run_id, cursor, children=True, deltas=deltas) as subscription:
        async with aclosing(subscription.batches(HEARTBEAT)) as batches:
            async for batch in batches:
                for delivery in batch:
                    yield Told(delivery.event, reply.take(delivery.event, delivery.cursor))
                    if reply.state not in lasts:
                        return


async def read_to_end(service: Service, reply: Reply) -> None:
    """Follow a reply to its end, and let the reply alone tell of it; raises as `follow`."""
    async with aclosing(follow(service, reply, deltas=False)) as told:
        async for _ in told:
            pass


async def read(service: Service, token: ReplyToken, *, is_task: bool = False) -> Reply:
    """What the histories have of a reply, or of a task; raises as `follow`."""
    reply = Reply(token, is_task=is_task)
    async with turn_to_read(begins_free=True) as take_turn, aclosing(recorded(service, token)) as events:
        count = 0
        async for event, cursor in events:
            if (count := count + 1) == FREE:
                await take_turn()
            reply.take(event, cursor)
            if reply.state not in ("open", "asked" if is_task else "open"):
                break
    _check_is_there(reply)
    return reply


def _check_is_there(reply: Reply) -> None:
    """Refuse a token that somebody has made up: nothing would ever follow it.

    Raises:
        RunNotFound: The events have nothing of it.
    """
    if not reply.is_there:
        run_id = reply.token.run_id
        raise RunNotFound(f"there is no such token in run {run_id!r}", run_id=run_id)


async def recorded(service: Service, token: ReplyToken) -> AsyncGenerator[tuple[Event, str]]:
    """The recorded events of a run and its child runs after a token, those of open child runs last, each with the cursor behind it.

    Raises:
        RunNotFound: There is no such run or token.
        SojournError: The events cannot be read.
    """
    client, cursor = service.client, cursor_of(token)
    events = stream(
        client.temporal,
        token.run_id,
        after=cursor.position,
        follow=False,
        children=True,
        storage=client.storage,
    )
    async with aclosing(events):
        async for event in events:
            yield redact(event), cursor.add(event)


def cursor_of(token: ReplyToken) -> Cursor:
    """The cursor of a token.

    Raises:
        RunNotFound: The token is none of a run: somebody has made it up.
    """
    try:
        return Cursor(token.run_id, token.after)
    except ValueError as error:
        raise RunNotFound(f"there is no such token in run {token.run_id!r}", run_id=token.run_id) from error
