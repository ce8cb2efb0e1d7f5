"""Encode a turn as AG-UI events, with the model layer's encoder.

The encoder's ids and the outcome of the run are replaced by Sojourn's own. `Thread` folds the encoder's events
as a client does, since the messages of a reloaded page need the ids that they had in the streams.
"""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    Interrupt,
    MessagesSnapshotEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageStartEvent,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    StateSnapshotEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pydantic_ai import CustomEvent as NativeCustomEvent
from pydantic_ai.messages import ToolCallPart
from pydantic_ai.ui.ag_ui import AGUIEventStream

from sojourn.authoring.app import App
from sojourn.client.run import Run
from sojourn.contracts.event import Event
from sojourn.contracts.ids import place_of
from sojourn.contracts.message import DocumentPart, ImagePart, Message
from sojourn.errors import RunFailed, SojournError
from sojourn.http.problems import Problem
from sojourn.http.protocols.agui.request import EDITED, file_content
from sojourn.http.protocols.turn import Begin, TurnStream, replay
from sojourn.http.protocols.turn_events import (
    CallRepeated,
    FileMade,
    Interrupts,
    PlanStep,
    RunEvent,
    StatusSnapshot,
    Stopped,
    TurnEncoder,
    status_snapshot,
)
from sojourn.http.protocols.waits import ClientWait
from sojourn.reader import Feeds
from sojourn.timeline import Call, EntryChange, Timeline, UserMessage
from sojourn.values.numbers import write_exact

__all__ = ["AguiEncoder", "Thread", "ThreadMessages", "open_thread", "read_thread"]

APPROVAL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "scope": {"enum": ["call", "tool", "sources"]},
    },
    "required": ["approved"],
    "additionalProperties": False,
}
"""JSON Schema of the answer to an approval."""

_EDITED = {"type": "object", "description": "All arguments of the call, edited. It runs with these."}

STOPPED = "sojourn.stopped"
"""The event of a turn that was interrupted."""

_MADE = re.compile(r"^(\d+-\d+-\d+)-\d+$")
"""An id that this module made for a message: the event_id of its plan or result, and a number."""


@dataclass(kw_only=True)
class ThreadMessages(NativeCustomEvent, name="sojourn_opened"):
    """The messages of the thread, for a client that has none of them."""

    messages: list[dict[str, Any]]
    stopped: list[dict[str, Any]]
    """The values of `sojourn.stopped` of its turns."""


class AguiEncoder(TurnEncoder, AGUIEventStream[Any, Any]):
    """Encodes a turn for a client that has these messages."""

    def __init__(
        self,
        turn: TurnStream,
        app: App,
        thread_id: str,
        run_id: str,
        messages: list[dict[str, Any]],
        prefix: str = "",
    ) -> None:
        super().__init__(run_input=None, thread_id=thread_id, run_id=run_id, message_id=f"{run_id}-0")
        self.bind(turn, prefix)
        self._app = app
        self._messages = messages
        self._random: dict[str, str] = {}
        self._interrupts: list[Interrupt] = []
        self._is_begun = False

    def begin_turn(self) -> None:
        """Start a new message for the next events, as a new stream would."""
        self._turn = None

    async def handle_event(self, event: Any) -> AsyncIterator[BaseEvent]:
        """Send a snapshot of the messages that the client keeps before the first event."""
        if not self._is_begun and not isinstance(event, (StatusSnapshot, ThreadMessages)):
            self._is_begun = True
            if snapshot := self._snapshot():
                yield snapshot
        async for each in super().handle_event(event):
            for name in ("message_id", "entity_id"):
                if str(getattr(each, "type", "")).rpartition(".")[2].startswith("REASONING"):
                    self._settle_id(each, name)
            yield each

    def _settle_id(self, event: BaseEvent, name: str) -> None:
        """Replace the random id of a reasoning message by one of its position."""
        given = getattr(event, name, None)
        if isinstance(given, str) and not _MADE.match(given):
            if given not in self._random:
                before = self.message_id
                self._random[given] = self.new_message_id()
                self.message_id = before
            setattr(event, name, self._random[given])

    def _snapshot(self) -> MessagesSnapshotEvent | None:
        """Return the client's messages without those that this stream sends again.

        Return None if the client has none of them.
        """
        begin = place_of(self.turn.first)

        def comes(message: dict[str, Any]) -> bool:
            made = _MADE.match(str(message.get("id")))
            return bool(made) and message.get("role") != "user" and place_of(made[1]) >= begin

        if not any(comes(each) for each in self._messages):
            return None
        messages = [
            {**each, "content": ""} if comes(each) else each
            for each in self._messages
            if not comes(each)
            or each.get("role") == "reasoning"  # clients keep reasoning that a snapshot leaves out
        ]
        return MessagesSnapshotEvent.model_validate({"messages": messages, "type": "MESSAGES_SNAPSHOT"})

    async def handle_custom_event(self, event: NativeCustomEvent) -> AsyncIterator[BaseEvent]:
        if own := self._own_event(event):
            yield own
        elif isinstance(event, StatusSnapshot):
            yield StateSnapshotEvent(snapshot=event.status)
        elif isinstance(event, ThreadMessages):
            yield MessagesSnapshotEvent.model_validate(
                {"messages": event.messages, "type": "MESSAGES_SNAPSHOT"}
            )
            for value in event.stopped:
                yield CustomEvent(name=STOPPED, value=value)
        elif isinstance(event, PlanStep):
            yield (
                StepStartedEvent(step_name=event.step)
                if event.is_begin
                else StepFinishedEvent(step_name=event.step)
            )
        elif isinstance(event, CallRepeated) and event.is_new:
            for each in self._repeat(event.part):
                yield each
        elif isinstance(event, Interrupts):
            self._interrupts = [self._interrupt(each) for each in event.waits]

    def _own_event(self, event: NativeCustomEvent) -> CustomEvent | None:
        """Return the event of a name that only Sojourn has."""
        match event:
            case Stopped():
                return CustomEvent(
                    name=STOPPED, value={"turnId": event.turn_id, "messageId": self.message_id}
                )
            case RunEvent():
                return CustomEvent(name=f"sojourn.{event.event['type']}", value=event.event)
            case FileMade(file=file):
                fields = file.model_dump(include={"id", "name", "media_type", "size"})
                return CustomEvent(name="sojourn.file", value={**fields, "path": self.address(file)})
            case _:
                return None

    def _repeat(self, call: ToolCallPart) -> list[BaseEvent]:
        """Send a call that an earlier stream had.

        Its arguments are left out if the client has them, since it would append them.
        """
        had = [part.get("id") for each in self._messages for part in each.get("toolCalls") or ()]
        id, given = call.tool_call_id, call.args_as_json_str()
        return [
            ToolCallStartEvent(tool_call_id=id, tool_call_name=call.tool_name),
            *([] if id in had else [ToolCallArgsEvent(tool_call_id=id, delta=given)]),
            ToolCallEndEvent(tool_call_id=id),
        ]

    def _interrupt(self, wait: ClientWait) -> Interrupt:
        return Interrupt(
            id=wait.id,
            reason="input_required" if wait.view.takes_words else "tool_call",
            message=wait.prompt or None,
            tool_call_id=wait.call_id,
            response_schema=self._schema(wait),
            expires_at=_expiry(wait, self.turn.since(wait)),
            metadata=wait.json,
        )

    def _schema(self, wait: ClientWait) -> dict[str, Any] | None:
        if wait.view.kind == "approval":
            edited = {EDITED: _EDITED} if wait.view.allows_edits else {}
            return APPROVAL | {"properties": {**APPROVAL["properties"], **edited}}
        if wait.view.kind == "tool_results":
            spec = self._app.tool_spec(wait.view.calls[0].tool)
            return spec.result.json_schema if spec and spec.result else None
        return wait.view.form or {"type": "string"}

    async def after_stream(self) -> AsyncIterator[BaseEvent]:
        async for each in super().after_stream():
            if self._interrupts and isinstance(each, RunFinishedEvent):
                each.outcome = RunFinishedInterruptOutcome(interrupts=self._interrupts)
            yield each

    async def on_error(self, error: Exception) -> AsyncIterator[BaseEvent]:
        async for each in super().on_error(error):
            if isinstance(each, RunErrorEvent) and isinstance(error, RunFailed):
                each.code = error.code
            yield each


def _expiry(wait: ClientWait, since: datetime | None) -> str | None:
    after = wait.view.expires_after
    return (since + after).isoformat() if since and after else None


MAX_MESSAGES = 2_000
"""Most messages of a thread that a page gets. The oldest turns are dropped first."""


Address = Callable[[ImagePart | DocumentPart], str]
"""Returns the address of a file of the thread."""


def _no_address(_: ImagePart | DocumentPart) -> str:
    return ""


class Thread:
    """The messages of a conversation so far, as an AG-UI client has them."""

    def __init__(self, timeline: Timeline, address: Address = _no_address) -> None:
        self.messages: list[dict[str, Any]] = []
        """The messages, in the form of AG-UI."""
        self.stopped: list[dict[str, Any]] = []
        """The turns that were interrupted, each with its last message."""
        self.begin: Begin | None = None
        """Start of the current turn, or else of the next one; None if there is neither."""
        self._timeline = timeline
        self._address = address
        self._finished = 0
        """Number of messages before the current turn."""
        self._by_id: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, dict[str, str]] = {}

    @property
    def is_begun(self) -> bool:
        return bool(self._timeline.last_event_id)

    def take(self, event: Event) -> Sequence[EntryChange]:
        """Feed the timeline an event, and add the messages that a turn takes with it."""
        changes = self._timeline.feed(event)
        for change in changes:
            if isinstance(change.entry, UserMessage) and change.kind == "taken":
                self._add(change.entry)
            elif isinstance(change.entry, Call) and change.kind == "answered":
                self._edit(change.entry)
        if (turn := self._timeline.turn) and turn.key == event.event_id and turn.messages:
            self._trim()
        return changes

    def fold(self, event: BaseEvent) -> None:
        match event:
            case TextMessageStartEvent():
                self._message(event.message_id, "assistant")
            case ReasoningMessageStartEvent():
                self._message(event.message_id, "reasoning")
            case TextMessageContentEvent() | ReasoningMessageContentEvent():
                self._message(event.message_id, "assistant")["content"] += event.delta
            case ToolCallStartEvent():
                call = {"name": event.tool_call_name, "arguments": ""}
                self._calls[event.tool_call_id] = call
                parent = self._message(event.parent_message_id or event.tool_call_id, "assistant")
                calls = parent.setdefault("toolCalls", [])
                calls.append({"id": event.tool_call_id, "type": "function", "function": call})
            case ToolCallArgsEvent():
                if event.tool_call_id in self._calls:
                    self._calls[event.tool_call_id]["arguments"] += event.delta
            case ToolCallResultEvent():
                self.messages.append(
                    {
                        "id": event.message_id,
                        "role": "tool",
                        "toolCallId": event.tool_call_id,
                        "content": event.content,
                    }
                )
            case CustomEvent(name="sojourn.stopped", value=value):
                self.stopped.append(value)
            case _:
                pass

    def end(self) -> None:
        """Drop what the page reads from the turn in progress, and add queued messages."""
        queued = list(self._timeline.queued.values())
        if (turn := self._timeline.turn) and turn.messages:
            self.begin = Begin(turn.before, turn.messages[0].message_id)
            joined = [each for each in self.messages[self._finished :] if each["role"] == "user"]
            self.messages = self.messages[: self._finished] + joined
        elif queued:
            message_id = queued[0].message_id
            self.begin = Begin(self._timeline.delivered[message_id].before, message_id)
        for entry in queued:
            self._add(entry)
        self._trim()

    def _edit(self, entry: Call) -> None:
        """Show the arguments that an approver gave a call."""
        shown = self._calls.get(entry.id)
        if shown is not None and entry.decision and entry.decision.changes:
            shown["arguments"] = json.dumps(write_exact(entry.call.payload))

    def _add(self, entry: UserMessage) -> None:
        self.messages.append(_of_user(entry.message_id, entry.message, self._address))

    def _trim(self) -> None:
        """Keep only the newest messages.

        They begin with a message of the user. In a long turn they begin with one of the assistant.
        """
        most = len(self.messages) - MAX_MESSAGES
        if most > 0:
            rest = list(enumerate(self.messages))[most:]
            users = [index for index, each in rest if each["role"] == "user"]
            others = [index for index, each in rest if each["role"] == "assistant"]
            self.messages = self.messages[[*users, *others, most][0] :]
        self._finished = len(self.messages)
        ids = {each["id"] for each in self.messages}
        self.stopped = [each for each in self.stopped if each["messageId"] in ids]

    def _message(self, message_id: str, role: str) -> dict[str, Any]:
        if message_id not in self._by_id:
            self._by_id[message_id] = {"id": message_id, "role": role, "content": ""}
            self.messages.append(self._by_id[message_id])
        return self._by_id[message_id]


async def read_thread(run: Run, app: App, feeds: Feeds, address: Address) -> Thread:
    turn = TurnStream(feeds, run, Begin("", None))
    thread, faults = Thread(turn.tree.top, address), list[Exception]()
    encoder: Any = AguiEncoder(turn, app, run.id, run.id, [])
    async with aclosing(encoder.transform_stream(_replay_turns(run, thread, encoder, faults))) as events:
        async for event in events:
            thread.fold(event)
    if faults:
        raise faults[0]
    thread.end()
    return thread


async def _replay_turns(
    run: Run, thread: Thread, encoder: AguiEncoder, faults: list[Exception]
) -> AsyncGenerator[Any]:
    """Yield the native events of all turns so far.

    The encoder would turn a raised error into an event, so errors are appended to `faults`.
    """
    native, turn_key = encoder.native, ""
    try:
        async with aclosing(replay(run, thread.take)) as events:
            async for seen in events:
                if (turn := native.timeline.turn) and turn.key != turn_key:
                    turn_key = turn.key
                    encoder.begin_turn()
                for each in native.take(seen):
                    yield each
    except (Problem, SojournError) as error:
        faults.append(error)


def _of_user(message_id: str, message: Message, address: Address) -> dict[str, Any]:
    """Return a message without the context of the page, which is its text documents."""
    content: Any = message.text
    if files := [part for part in message.parts if isinstance(part, (ImagePart, DocumentPart))]:
        shown_files = [file_content(part, address) for part in files if part.media_type != "text/plain"]
        content = [{"type": "text", "text": content}, *shown_files] if shown_files else content
    return {"id": message_id, "role": "user", "content": content}


async def open_thread(thread: Thread, encoder: AguiEncoder) -> AsyncGenerator[Any]:
    """Yield the native events of a reloaded page: its messages, then the open turn."""
    yield ThreadMessages(messages=thread.messages, stopped=thread.stopped)
    if thread.begin is not None:
        async with aclosing(encoder.native_events()) as events:
            async for native in events:
                yield native
    elif thread.is_begun:
        yield status_snapshot(await encoder.turn.run.status())
