"""Map changes of a timeline to the events that pydantic-ai's encoders take.

Beside the timeline there is only the state of the client's stream: which part and step are open, and what
was sent of the present plan.
"""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
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
from sojourn.contracts.attachment import AttachmentRecord, attachment_path
from sojourn.contracts.event import AwaitAnsweredEvent, Event
from sojourn.contracts.message import Message
from sojourn.contracts.message import TextPart as Text
from sojourn.contracts.message import ThinkingPart as Thinking
from sojourn.contracts.run import RunStatus
from sojourn.contracts.tool_result import ToolResult
from sojourn.errors import RunFailed, RunNotFound, SojournError
from sojourn.http.event_streams import StreamCut
from sojourn.http.problems import Problem, redact
from sojourn.http.protocols.reply import SentText
from sojourn.http.protocols.reply_token import MarkFilter
from sojourn.http.protocols.turn import Blocked, SeenEvent, TurnStream
from sojourn.http.protocols.waits import ClientWait, client_waits
from sojourn.timeline import Call, ChangeKind, End, Note, Plan, Timeline, WaitEntry, is_interruption
from sojourn.values.numbers import write_exact

__all__ = [
    "DENIED",
    "CallRepeated",
    "CallSettled",
    "FileMade",
    "Interrupts",
    "NativeEvents",
    "PlanStep",
    "RunEvent",
    "StatusSnapshot",
    "Stopped",
    "TurnEncoder",
    "status_snapshot",
]

DENIED = "denied"
"""Code of a call that no principal may run, or that a person did not approve."""

_FORWARDED = {
    "agent_run_started",
    "approval_escalated",
    "approval_given",
    "tool_retry",
    "tool_update",
    "turn_steered",
}
"""Types of events that change a call or a turn, and that no protocol has a term for."""

_NOT_FORWARDED = {"await_answered", "run_continued", "run_started"}
"""Types of events that add a note to a timeline, and that a protocol does not need beside its own terms."""


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
class Stopped(CustomEvent, name="sojourn_stopped"):
    """The turn was interrupted. What it had written is whole."""

    turn_id: str


@dataclass(kw_only=True)
class StatusSnapshot(CustomEvent, name="sojourn_stated"):
    status: dict[str, Any]


@dataclass(kw_only=True)
class Interrupts(CustomEvent, name="sojourn_asked"):
    """The open waits of the turn, at the end of a stream."""

    waits: list[ClientWait]


@dataclass(kw_only=True)
class CallRepeated(CustomEvent, name="sojourn_called"):
    """A call that an earlier stream had, or that was edited. Its result follows."""

    part: ToolCallPart
    is_new: bool = True
    """Whether this stream does not have it yet."""
    is_edited: bool = False
    """Whether its arguments are those of its approver."""


@dataclass(kw_only=True)
class CallSettled(CustomEvent, name="sojourn_settled"):
    """The result of a call of a child run, or of one that came before the first event."""

    run_id: str
    result: ToolResult


@dataclass(kw_only=True)
class FileMade(CustomEvent, name="sojourn_file"):
    """A file that a call of the conversation made."""

    file: AttachmentRecord


class NativeEvents:
    """Maps the changes of a timeline, which takes each event first.

    Events of its child runs are in the result of their call.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.id_base = ""
        """The event_id that ids of what comes now are made of; of a message and its draft, that of the plan."""
        self.started = set[str]()
        """The calls that this stream has."""
        self._index = -1
        self._part: TextPart | ThinkingPart | None = None
        self._sent = {"text": SentText(), "thinking": SentText()}
        self._step = ""
        self._marks = MarkFilter()
        """Removes from texts the marks that another protocol would read as ours."""

    def take(self, seen: SeenEvent) -> list[AgentStreamEvent]:
        if not seen.is_shown:  # no client has received the start of a part
            self._part, self._step, self._marks = None, "", MarkFilter()
            self._begin_texts()
            return []
        if seen.event.run_id != self.timeline.run_id:
            return self._of_child(seen)
        return list(self._of_changes(seen))

    @staticmethod
    def _of_child(seen: SeenEvent) -> list[AgentStreamEvent]:
        results = [
            entry.result for entry, kind in seen.changes if isinstance(entry, Call) and kind == "resolved"
        ]
        if seen.event.type in ("tool_update", "tool_retry"):
            return [_run_event(seen.event)]
        return [CallSettled(run_id=seen.event.run_id, result=result) for result in results if result]

    def _of_changes(self, seen: SeenEvent) -> Iterator[AgentStreamEvent]:
        event, plan, is_ended = seen.event, self.timeline.plan, False
        for entry, kind in seen.changes:
            is_of_plan = isinstance(entry, Plan | WaitEntry)
            self.id_base = plan.event_id if plan is not None and is_of_plan else event.event_id
            if isinstance(entry, Plan):
                yield from self._of_plan(entry, kind)
                is_ended = is_ended or not entry.is_open
            elif isinstance(entry, Call) and kind == "resolved":
                yield from self._of_result(entry)
            elif isinstance(entry, WaitEntry) and kind == "added":
                yield from self._of_wait(entry)
            elif isinstance(entry, End) and entry.is_of_turn and entry.output:
                text = entry.output.text
                if text and text != self.timeline.last_assistant_text:
                    yield from self._of_message(Message.assistant(text))
            elif isinstance(entry, End) and is_interruption(entry.event):
                yield from self.close()
                yield Stopped(turn_id=entry.turn_id)
        is_note = any(isinstance(entry, Note) for entry, _ in seen.changes)
        is_edit = isinstance(event, AwaitAnsweredEvent) and event.edited_arguments is not None
        if event.type in _FORWARDED or is_edit or (is_note and event.type not in _NOT_FORWARDED):
            yield _run_event(event)
        if is_ended:
            yield from self.close()

    def _of_plan(self, plan: Plan, kind: ChangeKind) -> Iterator[AgentStreamEvent]:
        if kind == "added":
            yield from self.close()
            self._begin_texts()
            self._step = "" if plan.message else f"plan {plan.event_id}"
            if self._step:
                yield PlanStep(step=self._step, is_begin=True)
        elif kind == "spoken" and plan.message:
            is_sent = plan.is_partial and self._sent["text"].text.startswith(plan.text)
            yield from self._end_part() if is_sent else self._of_message(plan.message)
        elif plan.is_open:
            draft = plan.draft
            yield from self._add(
                "thinking", *self._sent["thinking"].grow(draft.thinking, draft.thinking_start)
            )
            yield from self._add("text", *self._sent["text"].grow(draft.text, draft.text_start))

    def _of_wait(self, entry: WaitEntry) -> Iterator[AgentStreamEvent]:
        view = wait_view(entry.wait, self.timeline.run_id)
        if view.takes_words and not self.timeline.plan_of(view.tool_call_id or ""):
            (question,) = client_waits(view, self.timeline.run_id)
            yield from self._of_message(Message.assistant(question.prompt))

    def _begin_texts(self) -> None:
        for text in self._sent.values():
            text.begin()

    def close(self) -> Iterator[AgentStreamEvent]:
        """End the open part and step, with a plan or with the stream."""
        yield from self._end_part()
        if self._step:
            yield PlanStep(step=self._step, is_begin=False)
            self._step = ""

    def _add(self, kind: str, text: str, is_other: bool) -> Iterator[AgentStreamEvent]:
        if is_other:
            yield from self._end_part()
        text = self._marks.take(text) if kind == "text" else text
        if text:
            yield from self._emit(kind, text)

    def _emit(self, kind: str, text: str) -> Iterator[AgentStreamEvent]:
        wanted = TextPart if kind == "text" else ThinkingPart
        if not isinstance(self._part, wanted):
            yield from self._end_part()
            self._index += 1
            self._part = wanted(content=text)
            yield PartStartEvent(index=self._index, part=wanted(content=text))
            return
        self._part.content += text
        delta = TextPartDelta(content_delta=text) if kind == "text" else ThinkingPartDelta(content_delta=text)
        yield PartDeltaEvent(index=self._index, delta=delta)

    def _end_part(self) -> Iterator[AgentStreamEvent]:
        if held := self._marks.end():
            yield from self._emit("text", held)
        if self._part is not None:
            part, self._part = self._part, None
            yield PartEndEvent(index=self._index, part=part)

    def _of_message(self, message: Message) -> Iterator[AgentStreamEvent]:
        thinking = "".join(part.text for part in message.parts if isinstance(part, Thinking))
        text = "".join(part.text for part in message.parts if isinstance(part, Text))
        if not self._sent["text"].text or not text:
            yield from self._add("thinking", *self._sent["thinking"].finish(thinking))
        yield from self._add("text", *self._sent["text"].finish(text))
        yield from self._end_part()
        parts = _call_parts(message)
        for part in parts:
            self._index += 1
            self.started.add(part.tool_call_id)
            yield PartStartEvent(index=self._index, part=part)
            yield PartEndEvent(index=self._index, part=part)
        for part in parts:
            yield FunctionToolCallEvent(part=part, args_valid=True)

    def call(self, call_id: str) -> ToolCallPart | None:
        """Return a call as its plan's message has it, or None without that message."""
        plan = self.timeline.plan_of(call_id)
        parts = _call_parts(plan.message) if plan and plan.message else []
        return next((part for part in parts if part.tool_call_id == call_id), None)

    def _of_result(self, entry: Call) -> Iterator[AgentStreamEvent]:
        assert entry.result is not None
        result, call = entry.result, self.call(entry.id)
        made = [FileMade(file=each.attachment) for each in result.artifacts if each.attachment]
        if call is None:
            yield CallSettled(run_id=self.timeline.run_id, result=result)
            yield from made
            return
        is_edited = result.edited_arguments is not None
        if is_edited:
            call = replace(call, args=json.dumps(write_exact(entry.call.payload)))
        is_new = entry.id not in self.started
        if is_new or is_edited:
            self.started.add(entry.id)
            yield CallRepeated(part=call, is_new=is_new, is_edited=is_edited)
        outcome = "success"
        content: Any = write_exact(result.result)
        if result.error:
            outcome = "denied" if result.error.code == DENIED else "failed"
            content = str(result.error)
        yield FunctionToolResultEvent(
            part=ToolReturnPart(
                tool_name=call.tool_name, content=content, tool_call_id=entry.id, outcome=outcome
            )
        )
        yield from made


def _run_event(event: Event) -> RunEvent:
    return RunEvent(event=write_exact(event.model_dump(mode="json")))


def _call_parts(message: Message) -> list[ToolCallPart]:
    return [
        ToolCallPart(
            tool_name=call.name,
            args=json.dumps(write_exact(call.payload if (raw := _object(call.raw)) is None else raw)),
            tool_call_id=call.tool_call_id,
        )
        for call in message.tool_calls
    ]


def _object(raw: str | None) -> dict[str, Any] | None:
    """Return the arguments of a call as a model wrote them, if they are an object."""
    try:
        found: Any = json.loads(raw or "")
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def status_snapshot(status: RunStatus) -> StatusSnapshot:
    """Return the event of a status, with integers that JavaScript rounds as digits."""
    fields = status_view(redact(status)).model_dump(mode="json")
    for wait in (*fields["awaits"], *chain.from_iterable(fields["child_awaits"].values())):
        for call in (wait, *wait["calls"]):
            call["payload"] = write_exact(call["payload"])
    return StatusSnapshot(status=fields)


class TurnEncoder:
    """Mixin for the model layer's encoders, which encodes a turn.

    An id is the same in every stream of a turn. A turn that is cut has no end.
    """

    turn: TurnStream
    native: NativeEvents
    message_id: str
    prefix: str = ""
    """The prefix of the service's paths, with which addresses of files begin."""
    cut: StreamCut | None = None
    """Set if the events end before the turn does. The client gets nothing of what the encoder makes of it."""

    def bind(self, turn: TurnStream, prefix: str) -> None:
        self.turn, self.native, self.prefix = turn, NativeEvents(turn.tree.top), prefix
        self._numbers: dict[str, int] = {}

    def new_message_id(self) -> str:
        """Return the id of the next message: the id of its event, and a number."""
        base = self.native.id_base
        self._numbers[base] = self._numbers.get(base, 0) + 1
        self.message_id = f"{base}-{self._numbers[base]}"
        return self.message_id

    def address(self, file: AttachmentRecord) -> str:
        """Return the address of a file of the conversation."""
        return self.prefix + attachment_path(self.turn.run.id, file.id)

    async def native_events(self) -> AsyncGenerator[AgentStreamEvent]:
        """Yield the native events of the turn."""
        try:
            yield status_snapshot(await self.turn.run.status())
            async with aclosing(self.turn.events()) as events:
                async for each in events:
                    if isinstance(each, Blocked):
                        for native in self.native.close():
                            yield native
                        yield status_snapshot(each.status)
                        yield Interrupts(waits=each.waits)
                        return
                    for native in self.native.take(each):
                        yield native
                    if self.turn.is_withdrawn:
                        raise RunFailed(
                            "the message was withdrawn", run_id=self.turn.run.id, code="withdrawn"
                        )
                    if self.turn.is_ended and (failure := _failure(self.native.timeline)):
                        raise failure
            yield status_snapshot(await self.turn.run.status())
        except RunFailed:
            raise
        except RunNotFound:
            raise
        except (Problem, SojournError) as error:
            self.cut = StreamCut(str(error))
            raise self.cut from error

    async def frames(
        self, native_events: AsyncGenerator[AgentStreamEvent] | None = None
    ) -> AsyncGenerator[str]:
        """Encode the turn, or these native events."""
        encoder: Any = self
        events = native_events or self.native_events()
        async with aclosing(events), aclosing(encoder.transform_stream(events)) as encoded:
            async for each in encoded:
                if self.cut is not None:
                    raise self.cut
                yield encoder.encode_event(each)


def _failure(timeline: Timeline) -> RunFailed | None:
    (end,) = timeline.last(1)
    if not isinstance(end, End) or (end.is_of_turn and end.status == "completed"):
        return None
    run_id = timeline.run_id
    if end.is_of_turn and end.error:
        return RunFailed(str(end.error), run_id=run_id, code=end.error.code, error=end.error)
    text = end.text or f"the conversation ended: {end.event.type}"
    return RunFailed(text, run_id=run_id, code=getattr(end.event, "code", None) or end.event.type)
