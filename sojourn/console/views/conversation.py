"""Conversation: the events of a conversation as what a person reads: turns, the messages that wait, and what is being written."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from sojourn.console.views.attachments import attachments_of
from sojourn.console.views.markdown import MOST, pieces_of
from sojourn.console.views.text import lines_of
from sojourn.console.views.turns import Answer, Asked, Call, Draft, Item, Note, Said, Turn
from sojourn.contracts.event import (
    AgentRunStartedEvent,
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    BaseEvent,
    Event,
    LimitReachedEvent,
    MemoryChangedEvent,
    MessageReceivedEvent,
    PlannerNoteEvent,
    PlanStartedEvent,
    RetriesStoppedEvent,
    RunCanceledEvent,
    RunCompletedEvent,
    RunFailedEvent,
    RunPausedEvent,
    RunResumedEvent,
    RunStartedEvent,
    RunTerminatedEvent,
    RunTimedOutEvent,
    StreamRestartedEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolCallDeltaEvent,
    ToolEndEvent,
    ToolResultReceivedEvent,
    ToolRetryEvent,
    ToolStartEvent,
    ToolUpdateEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStartedEvent,
    TurnSteeredEvent,
    UsageEvent,
)
from sojourn.contracts.ids import place_of
from sojourn.contracts.message import ThinkingPart
from sojourn.contracts.plan import Usage
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.core.awaits.kinds import wait_in
from sojourn.core.payload.unknown_outcome import doubt_about
from sojourn.core.values.json_text import memory_after
from sojourn.core.values.visible import one_line

__all__ = ["MOST_CALLS", "Conversation", "items_shown", "json_text", "markdown_of"]

MOST_TEXT = 4_000
"""Most characters that are shown of a call's arguments, and of its result."""

MOST_DRAFT = 60_000
"""Most characters of what is being written; of a longer draft the last half is kept."""

MOST_CALLS = 60
"""Most calls of a turn that are shown, the last ones; the page of the run has all."""

_NOT_EXECUTED = ("canceled", "interrupted", "not_executed", "history_full")


def json_text(value: Any, most: int = MOST_TEXT) -> tuple[str, bool]:
    """A value as JSON, or a text as it is; its beginning, and whether that is all."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return lines_of(text, most)


class Conversation:
    """What a conversation has said so far; it is told by events, in their order.

    Args:
        run_id: Its run.
        memory: What it knows beside its transcript, before the first event.
    """

    def __init__(self, run_id: str, memory: Mapping[str, Any] | None = None) -> None:
        self.run_id = run_id
        self.turns: list[Turn] = []
        self.queued: dict[str, Said] = {}
        """The messages that no turn has taken, by id."""
        self.memory: Mapping[str, Any] = memory or {}
        self.forked_from = ""
        """The run that it was forked from, where it begins here."""
        self.is_begin = False
        """Whether its beginning is here."""
        self.last_event_id = ""
        self.ended = ""
        """How it ended, in words; empty while it goes on."""
        self.tokens = 0
        """Of the whole conversation, where the events begin with it or `spent` says what was before."""
        self.cost: float | None = None
        self.version = 0
        self._calls: dict[str, tuple[Turn, Call]] = {}
        """Those of turns that have not ended."""
        self._asked: dict[str, tuple[Turn, Asked]] = {}
        """The open ones."""
        self._readers: dict[type[BaseEvent], Callable[[Any], None]] = {
            RunStartedEvent: self._started,
            MessageReceivedEvent: self._received,
            TurnStartedEvent: self._turn_started,
            TurnSteeredEvent: self._steered,
            TurnCompletedEvent: self._turn_completed,
            TurnFailedEvent: self._turn_failed,
            PlanStartedEvent: self._plan_started,
            UsageEvent: self._used,
            AssistantMessageEvent: self._answered,
            ToolStartEvent: self._call_started,
            AgentRunStartedEvent: self._call_started,
            ToolResultReceivedEvent: self._result,
            ToolEndEvent: self._call_ended,
            ToolRetryEvent: self._again,
            ToolUpdateEvent: self._progress,
            AwaitAnsweredEvent: self._settled,
            PlannerNoteEvent: lambda event: self._note(event, event.text, by=event.by),
            RunPausedEvent: lambda event: self._note(event, _with("paused", event.text), by=event.by),
            RunResumedEvent: self._resumed,
            LimitReachedEvent: lambda event: self._note(event, event.limit.message, is_bad=True),
            RetriesStoppedEvent: lambda event: self._note(event, event.limit.message, is_bad=True),
            MemoryChangedEvent: self._remembered,
            TextDeltaEvent: self._writing,
            ThinkingDeltaEvent: self._writing,
            ToolCallDeltaEvent: self._writing,
            StreamRestartedEvent: self._rewriting,
            RunCompletedEvent: lambda _: self._over("closed"),
            RunFailedEvent: lambda event: self._over(_with("failed", event.text)),
            RunCanceledEvent: lambda event: self._over(_with("canceled", event.text)),
            RunTerminatedEvent: lambda event: self._over(_with("terminated", event.text)),
            RunTimedOutEvent: lambda _: self._over("timed out"),
        }

    @property
    def present(self) -> Turn | None:
        """The turn that is under way."""
        return self.turns[-1] if self.turns and not self.turns[-1].is_over else None

    @property
    def asked(self) -> list[Asked]:
        """What is asked and not answered, oldest first."""
        return [asked for _, asked in self._asked.values()]

    def feed(self, event: Event) -> None:
        """Take the next event; those of child runs say nothing here."""
        if event.run_id != self.run_id:
            return
        if event.event_id:
            self.last_event_id = event.event_id
        self.version += 1
        wait = wait_in(event)
        if wait is not None:
            turn = self._turn(event)
            asked = Asked(wait, event.time)
            turn.items.append(asked)
            turn.draft = None
            self._asked[wait.id] = turn, asked
            known = self._calls.get(getattr(wait, "tool_call_id", None) or "")
            if known:
                known[1].state = "waiting"
            self._touch(turn)
        elif reader := self._readers.get(type(event)):
            reader(event)

    def spent(self, telemetry: ToolTelemetry) -> None:
        """Take what was spent so far, by the records of the run; what comes from now on is added."""
        self.tokens, self.cost = telemetry.input_tokens + telemetry.output_tokens, telemetry.cost

    def _spend(self, used: Usage | ToolTelemetry) -> None:
        self.tokens += used.input_tokens + used.output_tokens
        if used.cost is not None:
            self.cost = (self.cost or 0.0) + used.cost

    def keep_last(self, most: int) -> None:
        """Keep only so many turns, the last ones; and none without its beginning, unless it is the only one."""
        if len(self.turns) > most:
            del self.turns[:-most]
            self.is_begin = False
        if len(self.turns) > 1 and not self.turns[0].is_whole:
            del self.turns[0]

    @property
    def earlier(self) -> str:
        """The event before which the turns before these are; empty where these begin with the conversation."""
        return "" if self.is_begin or not self.turns else self.turns[0].key

    def reach_back(self, other: "Conversation") -> None:
        """Take the turns of another part of the same conversation that are before those here."""
        first = self.turns[0]
        before = [
            turn
            for turn in other.turns
            if place_of(turn.key) < place_of(first.key) and turn.turn_id != first.turn_id
        ]
        for turn in before:
            turn.version = turn.born = 0
        self.turns[:0] = before
        self.is_begin, self.forked_from = other.is_begin, other.forked_from

    # Turns.

    def _touch(self, turn: Turn) -> None:
        turn.version = self.version

    def _turn(self, event: BaseEvent) -> Turn:
        """The turn that an event is of; where its beginning is not here, one without it."""
        if self.turns and (not self.turns[-1].is_over or not event.turn_id):
            return self.turns[-1]
        if self.turns and self.turns[-1].turn_id == event.turn_id:
            return self.turns[-1]
        turn = Turn(event.event_id, event.turn_id, event.time, is_whole=False, born=self.version)
        self.turns.append(turn)
        return turn

    def _started(self, event: RunStartedEvent) -> None:
        self.is_begin = True
        if event.forked_from:
            self.forked_from = event.forked_from.run_id

    def _received(self, event: MessageReceivedEvent) -> None:
        self.queued[event.message_id] = Said(
            event.message.text,
            event.time,
            event.by or "",
            event.mode,
            event.message_id,
            attachments_of(event.message),
        )

    def _turn_started(self, event: TurnStartedEvent) -> None:
        turn = Turn(event.event_id, event.turn_id, event.time, born=self.version)
        self._take(turn, event.message_ids)
        self.turns.append(turn)
        self._calls.clear()
        self._touch(turn)

    def _steered(self, event: TurnSteeredEvent) -> None:
        turn = self._turn(event)
        self._take(turn, event.message_ids)
        self._touch(turn)

    def _take(self, turn: Turn, message_ids: list[str]) -> None:
        for message_id in message_ids:
            said = self.queued.pop(message_id, None)
            if said is None:
                turn.is_whole = False
            else:
                turn.items.append(said)

    def _turn_completed(self, event: TurnCompletedEvent) -> None:
        turn = self._turn(event)
        self._end(turn, event)
        turn.state = "completed"
        _count(turn, event.output)
        if event.output.error is not None:
            turn.error = event.output.error

    def _turn_failed(self, event: TurnFailedEvent) -> None:
        turn = self._turn(event)
        self._end(turn, event)
        turn.state, turn.error = "failed", event.error

    def _end(self, turn: Turn, event: BaseEvent) -> None:
        turn.ended_at, turn.draft = event.time, None
        for item in turn.items:
            if isinstance(item, Asked) and item.is_open:
                item.is_open, item.outcome = False, item.outcome or "closed with the turn"
                self._asked.pop(item.wait.id, None)
            elif isinstance(item, Call) and item.state in ("requested", "running", "waiting"):
                item.state = "not_executed"
        self._touch(turn)

    def _over(self, how: str) -> None:
        self.ended = how
        for turn in self.turns[-1:]:
            if not turn.is_over:
                turn.state, turn.draft = "failed", None
                self._touch(turn)
        for turn, asked in self._asked.values():
            asked.is_open, asked.outcome = False, "closed"
            self._touch(turn)
        self._asked.clear()

    def _note(self, event: BaseEvent, text: str, *, by: str | None = None, is_bad: bool = False) -> None:
        if not self.turns:
            return
        turn = self.turns[-1]
        turn.items.append(Note(text, event.time, by or "", is_bad))
        self._touch(turn)

    def _resumed(self, event: RunResumedEvent) -> None:
        self._note(event, _with("resumed", event.text), by=event.by)
        for text in event.messages:
            turn = self._turn(event)
            turn.items.append(Said(text, event.time, event.by or "", "steer"))

    def _remembered(self, event: MemoryChangedEvent) -> None:
        self.memory = memory_after(self.memory, event.patch)
        names = ", ".join(one_line(name, 40) for name in list(event.patch)[:6])
        self._note(event, f"remembers: {names}")

    # Plans.

    def _plan_started(self, event: PlanStartedEvent) -> None:
        turn = self._turn(event)
        turn.draft = Draft()
        self._touch(turn)

    def _used(self, event: UsageEvent) -> None:
        turn, used = self._turn(event), event.usage
        self._spend(used)
        if turn.is_over:
            return
        turn.tokens += used.input_tokens + used.output_tokens
        turn.model = used.model or turn.model
        if used.cost is not None:
            turn.cost = (turn.cost or 0.0) + used.cost
        self._touch(turn)

    def _writing(self, event: TextDeltaEvent | ThinkingDeltaEvent | ToolCallDeltaEvent) -> None:
        turn = self.present
        if turn is None:
            return
        draft = turn.draft = turn.draft or Draft()
        if isinstance(event, TextDeltaEvent):
            draft.text = _grown(draft.text, event.text)
        elif isinstance(event, ThinkingDeltaEvent):
            draft.thinking = _grown(draft.thinking, event.text)
        elif event.index >= len(draft.tools):
            draft.tools.append(event.tool_name)
        self._touch(turn)

    def _rewriting(self, event: StreamRestartedEvent) -> None:
        del event
        if turn := self.present:
            turn.draft = Draft()
            self._touch(turn)

    def _answered(self, event: AssistantMessageEvent) -> None:
        turn, message = self._turn(event), event.message
        turn.draft = None
        thinking = "\n\n".join(part.text for part in message.parts if isinstance(part, ThinkingPart))
        if message.text.strip() or thinking.strip():
            turn.items.append(Answer(message.text, event.time, thinking))
        for part in message.tool_calls:
            self._call(turn, part.request, event)
        self._touch(turn)

    # Calls.

    def _call(self, turn: Turn, request: ToolRequest, event: BaseEvent) -> Call:
        known = self._calls.get(request.tool_call_id)
        if known:
            return known[1]
        arguments, is_whole = json_text(request.payload or request.raw or {})
        call = Call(
            request.tool_call_id,
            request.name,
            event.time,
            arguments=arguments if request.payload or request.raw else "",
            line=_line(request.payload),
            is_cut=not is_whole,
        )
        turn.items.append(call)
        turn.calls += 1
        self._calls[request.tool_call_id] = turn, call
        return call

    def _call_started(self, event: ToolStartEvent | AgentRunStartedEvent) -> None:
        turn = self._turn(event)
        call = self._call(turn, event.call, event)
        call.state, call.at, turn.draft = "running", event.time, None
        if isinstance(event, AgentRunStartedEvent):
            call.run_id = event.run_link.run_id
        self._touch(turn)

    def _result(self, event: ToolResultReceivedEvent) -> None:
        turn = self._turn(event)
        call = self._call(turn, ToolRequest(name=event.result.name, tool_call_id=event.tool_call_id), event)
        _settle(call, event.result)
        if event.result.telemetry:
            self._spend(event.result.telemetry)
        self._touch(turn)

    def _call_ended(self, event: ToolEndEvent) -> None:
        if known := self._calls.get(event.tool_call_id):
            known[1].took = event.duration
            self._touch(known[0])

    def _again(self, event: ToolRetryEvent) -> None:
        words = (
            f"attempt {event.attempt}: {one_line(event.error)}" if event.error else f"attempt {event.attempt}"
        )
        if known := self._calls.get(event.tool_call_id):
            known[1].progress = words
            self._touch(known[0])
        elif turn := self.present:
            turn.draft = turn.draft or Draft()
            turn.draft.again = words
            self._touch(turn)

    def _progress(self, event: ToolUpdateEvent) -> None:
        if known := self._calls.get(event.tool_call_id):
            done = f"{event.done:g} of {event.total:g}" if event.done is not None and event.total else ""
            known[1].progress = ", ".join(filter(None, (one_line(event.note), done)))
            self._touch(known[0])

    # Waits.

    def _settled(self, event: AwaitAnsweredEvent) -> None:
        known = self._asked.pop(event.await_id, None)
        if known is None:
            return
        turn, asked = known
        asked.is_open, asked.by, asked.answer = False, event.by or "", event.text or ""
        if event.code == "expired":
            asked.outcome = "nobody answered in time"
        elif event.code == "declined":
            asked.outcome = "declined"
        elif event.approved is not None:
            asked.outcome = "approved" if event.approved else "denied"
        else:
            asked.outcome = "answered"
        self._touch(turn)


def _grown(text: str, piece: str) -> str:
    """A draft with its next piece; of one that is too long its last half, so that its beginning seldom changes."""
    text += piece
    return text if len(text) <= MOST_DRAFT else text[-MOST_DRAFT // 2 :]


def markdown_of(turn: Turn) -> list[str]:
    """The texts of a turn that are rendered as Markdown, as its template has them."""
    answers = [lines_of(item.text, MOST)[0] for item in turn.items if isinstance(item, Answer)]
    return [*answers, *(pieces_of(turn.draft.text) if turn.draft else ())]


def _count(turn: Turn, output: RunOutput) -> None:
    used = output.total_usage
    turn.tokens = used.input_tokens + used.output_tokens
    turn.cost, turn.model = used.cost, used.model or turn.model
    turn.calls = max(output.children_count, output.tool_calls, turn.calls)
    turn.reason = "" if output.reason == "answered" else output.reason


def _settle(call: Call, result: ToolResult) -> None:
    call.progress = ""
    if result.run_link:
        call.run_id = result.run_link.run_id
    call.artifacts = [one_line(artifact.kind or artifact.ref, 60) for artifact in result.artifacts[:10]]
    if result.retry_hint:
        hint = result.retry_hint
        call.hint = hint.message or hint.clarifying_question or hint.reason.replace("_", " ")
    if result.error is not None:
        call.error = f"{'Outcome unknown: ' if doubt_about(result) == 'unknown' else ''}{result.error}"
        code = result.error.code or ""
        call.state = "denied" if code == "denied" else "not_executed" if code in _NOT_EXECUTED else "failed"
        return
    call.state = "done"
    call.result, is_whole = json_text(result.result) if result.result is not None else ("", True)
    said, is_all = lines_of("\n".join(result.remarks), MOST_TEXT)
    call.result = "\n".join(filter(None, (call.result, said)))
    call.is_cut = call.is_cut or not (is_whole and is_all)


def _line(payload: Mapping[str, Any]) -> str:
    """Arguments on one line: `name: value, ...`."""
    known = [f"{name}: {_short(value)}" for name, value in list(payload.items())[:6]]
    return one_line(", ".join(known), 120)


def _short(value: Any) -> str:
    if isinstance(value, str):
        return value[:120]
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 120 else "…"


def _with(word: str, text: str | None) -> str:
    return f"{word}: {one_line(text)}" if text else word


def items_shown(turn: Turn) -> tuple[list[Item], int]:
    """What is shown of a turn, and how many calls are left out, the first ones."""
    extra = sum(isinstance(item, Call) for item in turn.items) - MOST_CALLS
    if extra <= 0:
        return turn.items, 0
    kept: list[Item] = []
    left = extra
    for item in turn.items:
        if isinstance(item, Call) and left:
            left -= 1
            continue
        kept.append(item)
    return kept, extra
