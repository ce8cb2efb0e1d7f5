"""Translate a turn's events into the model layer's own events.

The encoders of user interfaces take those.
"""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

from pydantic_ai.messages import (
    AgentStreamEvent,
    CustomEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolReturnPart,
)

from sojourn.answers import status_view, wait_view
from sojourn.contracts.event import (
    AssistantMessageEvent,
    AwaitClarificationEvent,
    Event,
    PlanStartedEvent,
    StreamRestartedEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
    ToolEndEvent,
    ToolResultReceivedEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
)
from sojourn.contracts.message import Message
from sojourn.contracts.message import TextPart as Text
from sojourn.contracts.message import ThinkingPart as Thinking
from sojourn.contracts.run import RunStatus
from sojourn.contracts.tool_result import ToolResult
from sojourn.errors import RunFailed, RunNotFound, SojournError
from sojourn.http.event_streams import StreamCut
from sojourn.http.problems import Problem
from sojourn.http.protocols.markup import Unmarked
from sojourn.http.protocols.reply import PlanText
from sojourn.http.protocols.turn import Blocked, Seen, Turn
from sojourn.http.protocols.waits import ClientWait, client_waits
from sojourn.http.redaction import redact
from sojourn.values.numbers import exact

__all__ = [
    "DENIED",
    "CallSettled",
    "NativeEvents",
    "OpenWaits",
    "PlanStep",
    "RunEvent",
    "StatusSnapshot",
    "TurnEvents",
    "status_snapshot",
]

DENIED = "denied"
"""Code of a call that no principal may run, or that a person did not approve."""

_NOTED = {
    "agent_run_started",
    "limit_reached",
    "memory_changed",
    "planner_note",
    "policy_decision",
    "retries_stopped",
    "run_paused",
    "run_resumed",
    "tool_retry",
    "tool_update",
    "turn_steered",
}
"""Types of events that no protocol has a term for. They are passed on unchanged."""

_PLAN_ENDS = (
    "assistant_message",
    "await_clarification",
    "await_external_tools",
    "turn_completed",
    "turn_failed",
)


@dataclass(kw_only=True)
class RunEvent(CustomEvent, name="sojourn_noted"):
    """An unchanged Sojourn event."""

    event: dict[str, Any]


@dataclass(kw_only=True)
class PlanStep(CustomEvent, name="sojourn_stepped"):
    """A plan began, or ended."""

    step: str
    is_begin: bool


@dataclass(kw_only=True)
class StatusSnapshot(CustomEvent, name="sojourn_stated"):
    """The status of the run."""

    status: dict[str, Any]


@dataclass(kw_only=True)
class OpenWaits(CustomEvent, name="sojourn_asked"):
    """The open waits of the turn, at the end of a stream."""

    waits: list[ClientWait]


@dataclass(kw_only=True)
class CallSettled(CustomEvent, name="sojourn_settled"):
    """A call that this stream did not start has its result.

    The call is one of a child run, or one that an earlier stream had.
    """

    run_id: str
    result: ToolResult


class NativeEvents:
    """Folds the events of a conversation's run.

    Events of its child runs are in the result of their call.

    Args:
        run_id: The conversation's run.
    """

    def __init__(self, run_id: str) -> None:
        self.id_base = ""
        """The event_id that ids of what comes now are made of; of a message and its draft, that of the plan's start."""
        self._run_id = run_id
        self._plan = ""
        self._index = -1
        self._part: TextPart | ThinkingPart | None = None
        self._texts = {"text": PlanText(), "thinking": PlanText()}
        self._is_stepping = False
        self.pending: dict[str, ToolCallPart] = {}
        """The calls without result, by their id."""
        self.ended: dict[str, ToolCallPart] = {}
        """The last calls with a result, by their id."""
        self._last_text = ""
        self._unmarked = Unmarked()
        """Takes out of texts what another protocol would read as a mark of ours."""

    def take(self, seen: Seen) -> list[AgentStreamEvent]:
        """Return the native events of an event."""
        event = seen.event
        if event.run_id != self._run_id:
            return self._of_child(event) if seen.is_shown else []
        made = list(self._events(event))
        if seen.is_shown:
            return made
        self._part, self._is_stepping = None, False  # no client has received their start
        self._unmarked = Unmarked()
        for text in self._texts.values():
            text.begin()
        return []

    @staticmethod
    def _of_child(event: Event) -> list[AgentStreamEvent]:
        if isinstance(event, (ToolResultReceivedEvent, ToolEndEvent)):
            return [CallSettled(run_id=event.run_id, result=event.result)]
        is_progress = event.type in ("tool_update", "tool_retry")
        return [RunEvent(event=exact(event.model_dump(mode="json")))] if is_progress else []

    def _events(self, event: Event) -> Iterator[AgentStreamEvent]:
        """Yield the native events of an event of the conversation's run, in their place."""
        is_of_plan = isinstance(event, (AssistantMessageEvent, AwaitClarificationEvent))
        self.id_base = self._plan if self._plan and (is_of_plan or not event.event_id) else event.event_id
        yield from self._of_draft(event)
        yield from self._of_outcome(event)
        if event.type in _NOTED:
            yield RunEvent(event=exact(event.model_dump(mode="json")))
        if event.type in _PLAN_ENDS:
            yield from self.close()

    def _of_draft(self, event: Event) -> Iterator[AgentStreamEvent]:
        if isinstance(event, PlanStartedEvent):
            yield from self._begin_plan(event)
        elif isinstance(event, StreamRestartedEvent):
            for text in self._texts.values():
                text.restart()
        elif isinstance(event, TextDeltaEvent):
            yield from self._add("text", *self._texts["text"].add(event.text))
        elif isinstance(event, ThinkingDeltaEvent):
            yield from self._add("thinking", *self._texts["thinking"].add(event.text))

    def _of_outcome(self, event: Event) -> Iterator[AgentStreamEvent]:
        if isinstance(event, AssistantMessageEvent):
            yield from self._message(event.message)
        elif isinstance(event, AwaitClarificationEvent):
            if event.question.tool_call_id not in self.pending:
                (question,) = client_waits(wait_view(event.question, event.run_id), self._run_id)
                yield from self._message(Message.assistant(question.prompt))
        elif isinstance(event, (ToolResultReceivedEvent, ToolEndEvent)):
            yield from self._result(event.result)
        elif isinstance(event, TurnCompletedEvent):
            text = event.output.text
            if text and text != self._last_text:
                yield from self._message(Message.assistant(text))

    def _begin_plan(self, event: PlanStartedEvent) -> Iterator[AgentStreamEvent]:
        yield from self.close()
        self._plan = event.event_id
        for text in self._texts.values():
            text.begin()
        self._is_stepping = True
        yield PlanStep(step=f"plan {event.event_id}", is_begin=True)

    def close(self) -> Iterator[AgentStreamEvent]:
        """End open parts, after the outcome of a plan or at the end of the stream."""
        yield from self._close()
        if self._is_stepping:
            self._is_stepping = False
            yield PlanStep(step=f"plan {self._plan}", is_begin=False)

    def _add(self, kind: str, text: str, is_other: bool) -> Iterator[AgentStreamEvent]:
        if is_other:
            yield from self._close()
        text = self._unmarked.take(text) if kind == "text" else text
        if text:
            yield from self._emit(kind, text)

    def _emit(self, kind: str, text: str) -> Iterator[AgentStreamEvent]:
        wanted = TextPart if kind == "text" else ThinkingPart
        if not isinstance(self._part, wanted):
            yield from self._close()
            self._index += 1
            self._part = wanted(content=text)
            yield PartStartEvent(index=self._index, part=wanted(content=text))
            return
        self._part.content += text
        delta = TextPartDelta(content_delta=text) if kind == "text" else ThinkingPartDelta(content_delta=text)
        yield PartDeltaEvent(index=self._index, delta=delta)

    def _close(self) -> Iterator[AgentStreamEvent]:
        if held := self._unmarked.end():
            yield from self._emit("text", held)
        if self._part is not None:
            part, self._part = self._part, None
            yield PartEndEvent(index=self._index, part=part)

    def _message(self, message: Message) -> Iterator[AgentStreamEvent]:
        thinking = "".join(part.text for part in message.parts if isinstance(part, Thinking))
        text = "".join(part.text for part in message.parts if isinstance(part, Text))
        if not self._texts["text"].sent or not text:
            yield from self._add("thinking", *self._texts["thinking"].finish(thinking))
        yield from self._add("text", *self._texts["text"].finish(text))
        yield from self._close()
        self._last_text = text or self._last_text
        calls = message.tool_calls
        parts = [
            ToolCallPart(
                tool_name=call.name,
                args=json.dumps(exact(call.payload if (raw := _object(call.raw)) is None else raw)),
                tool_call_id=call.tool_call_id,
            )
            for call in calls
        ]
        for part in parts:
            self._index += 1
            yield PartStartEvent(index=self._index, part=part)
            yield PartEndEvent(index=self._index, part=part)
        for part in parts:
            self.pending[part.tool_call_id] = part
            yield FunctionToolCallEvent(part=part, args_valid=True)

    def _result(self, result: ToolResult) -> Iterator[AgentStreamEvent]:
        call = self.pending.pop(result.tool_call_id, None)
        if call is None:
            yield CallSettled(run_id=self._run_id, result=result)
            return
        self.ended = {result.tool_call_id: call}
        outcome = "success"
        content: Any = exact(result.result)
        if result.error:
            outcome = "denied" if result.error.code == DENIED else "failed"
            content = str(result.error)
        yield FunctionToolResultEvent(
            part=ToolReturnPart(
                tool_name=call.tool_name, content=content, tool_call_id=result.tool_call_id, outcome=outcome
            )
        )


def _object(raw: str | None) -> dict[str, Any] | None:
    """Return the arguments of a call as a model wrote them, if they are an object."""
    try:
        found: Any = json.loads(raw or "")
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


class TurnEvents:
    """A turn that an encoder reads.

    Args:
        turn: The turn.
    """

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.native = NativeEvents(turn.run.id)
        self.cut: StreamCut | None = None
        """Set where the events end before the turn does; what the encoder makes of it is not the client's."""

    async def events(self) -> AsyncGenerator[AgentStreamEvent]:
        """Yield the native events of the turn.

        Raises:
            RunFailed: The turn failed.
            StreamCut: The events end before the turn does.
        """
        try:
            yield status_snapshot(await self.turn.run.status())
            async with aclosing(self.turn.events()) as events:
                async for each in events:
                    if isinstance(each, Blocked):
                        for native in self.native.close():
                            yield native
                        yield status_snapshot(each.status)
                        yield OpenWaits(waits=each.waits)
                        return
                    for native in self.native.take(each):
                        yield native
                    failure = _failure(each.event, self.turn)
                    if failure is not None:
                        raise failure
            yield status_snapshot(await self.turn.run.status())
        except RunFailed:
            raise
        except RunNotFound:
            raise
        except (Problem, SojournError) as error:
            self.cut = StreamCut(str(error))
            raise self.cut from error


def status_snapshot(status: RunStatus) -> StatusSnapshot:
    """Return the event of a status, with integers that JavaScript rounds as digits."""
    fields = status_view(redact(status)).model_dump(mode="json")
    for wait in (*fields["awaits"], *chain.from_iterable(fields["child_awaits"].values())):
        for call in (wait, *wait["calls"]):
            call["payload"] = exact(call["payload"])
    return StatusSnapshot(status=fields)


def _failure(event: Event, turn: Turn) -> RunFailed | None:
    if event.run_id != turn.run.id or not turn.is_ended:
        return None
    if isinstance(event, TurnFailedEvent):
        return RunFailed(str(event.error), run_id=event.run_id, code=event.error.code, error=event.error)
    if event.type == "turn_completed":
        return None
    text = getattr(event, "text", None) or f"the conversation ended: {event.type}"
    return RunFailed(text, run_id=event.run_id, code=getattr(event, "code", None) or event.type)


class StableEncoder:
    """Mixin for the model layer's encoders.

    An id is the same in every stream of a turn. A turn that is cut has no end.
    """

    turn_events: "TurnEvents"
    message_id: str

    def new_message_id(self) -> str:
        """Return the id of the next message: the id of its event, and a number."""
        base = self.turn_events.native.id_base
        numbers: dict[str, int] = self.__dict__.setdefault("_numbers", {})
        numbers[base] = numbers.get(base, 0) + 1
        self.message_id = f"{base}-{numbers[base]}"
        return self.message_id

    async def frames(self, native_events: AsyncGenerator[AgentStreamEvent]) -> AsyncGenerator[str]:
        """Encode native events.

        Raises:
            StreamCut: The events end before the turn does.
        """
        encoder: Any = self
        async with aclosing(native_events), aclosing(encoder.transform_stream(native_events)) as encoded:
            async for each in encoded:
                if self.turn_events.cut is not None:
                    raise self.turn_events.cut
                yield encoder.encode_event(each)
