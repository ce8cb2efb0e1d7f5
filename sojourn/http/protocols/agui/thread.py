"""Rebuild the messages of a thread for a page that was loaded again.

They are the messages that an AG-UI client has built from the streams of the thread's turns. Such a page
knows only its thread. Its messages have the ids that they had in the streams, so that the page can continue
from them. A turn in progress is left out, since the page reads its events.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import (
    BaseEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageStartEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from sojourn.authoring.app import App
from sojourn.client.run import Run
from sojourn.contracts.event import (
    Event,
    MessageReceivedEvent,
    TurnStartedEvent,
    TurnSteeredEvent,
)
from sojourn.contracts.message import DocumentPart, ImagePart, Message
from sojourn.errors import SojournError
from sojourn.http.problems import Problem
from sojourn.http.protocols.agui.stream import Encoder, Opened
from sojourn.http.protocols.reply import FREE
from sojourn.http.protocols.turn import Begin, Seen, Turn
from sojourn.http.protocols.turn_events import TurnEvents, status_snapshot
from sojourn.http.redaction import redact
from sojourn.http.security.limits import heavy_read
from sojourn.reader import Feeds
from sojourn.timeline import is_run_end, is_turn_end

__all__ = ["Thread", "frames", "read"]

MOST = 2_000
"""Most messages of a thread that a page gets. The oldest turns are dropped first."""


@dataclass
class Thread:
    """The messages of a conversation so far, folded from its events."""

    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The messages, in the form of AG-UI."""
    begin: Begin | None = None
    """Start of the current turn, or else of the next one; None if there is neither."""
    _before: str = ""
    """The id of the last event."""
    _waiting: dict[str, tuple[str, dict[str, Any]]] = field(
        default_factory=dict[str, tuple[str, dict[str, Any]]]
    )
    """Queued messages by message_id, each with the id of the event before it."""
    _kept: int = 0
    """Number of messages before the current turn."""
    _by_id: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    _calls: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    @property
    def is_begun(self) -> bool:
        """Whether the conversation exists."""
        return bool(self._before)

    def take(self, event: Event) -> None:
        """Fold an event of the conversation's run."""
        if isinstance(event, MessageReceivedEvent):
            self._waiting[event.message_id] = (self._before, _of_user(event.message_id, event.message))
        elif isinstance(event, (TurnStartedEvent, TurnSteeredEvent)):
            self._move(event.message_ids)
            if isinstance(event, TurnStartedEvent) and event.message_ids:
                self.begin = Begin(self._before, event.message_ids[0])
                self._trim()
        elif is_turn_end(event) or is_run_end(event):
            self.begin = None
        self._before = event.event_id

    def fold(self, event: BaseEvent) -> None:
        """Fold an event of a stream, as a client does."""
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
            case _:
                pass

    def end(self) -> None:
        """Drop what the page reads from the turn in progress, and add queued messages."""
        if self.begin is None and self._waiting:
            message_id, (before, _) = next(iter(self._waiting.items()))
            self.begin = Begin(before, message_id)
        elif self.begin is not None:
            joined = [each for each in self.messages[self._kept :] if each["role"] == "user"]
            self.messages = self.messages[: self._kept] + joined
        self._move(list(self._waiting))
        self._trim()

    def _move(self, message_ids: Iterable[str]) -> None:
        self.messages += [self._waiting.pop(each)[1] for each in message_ids if each in self._waiting]

    def _trim(self) -> None:
        """Keep only the newest messages.

        They begin with a message of the user. In a long turn they begin with one of the assistant.
        """
        most = len(self.messages) - MOST
        if most > 0:
            rest = list(enumerate(self.messages))[most:]
            users = [index for index, each in rest if each["role"] == "user"]
            others = [index for index, each in rest if each["role"] == "assistant"]
            self.messages = self.messages[[*users, *others, most][0] :]
        self._kept = len(self.messages)

    def _message(self, message_id: str, role: str) -> dict[str, Any]:
        """Return the message with this id, and create it if there is none."""
        if message_id not in self._by_id:
            self._by_id[message_id] = {"id": message_id, "role": role, "content": ""}
            self.messages.append(self._by_id[message_id])
        return self._by_id[message_id]


async def read(run: Run, app: App, feeds: Feeds) -> Thread:
    """Read the messages of a conversation.

    Raises:
        RunNotFound: There is no such run.
        SojournError: The events cannot be read.
    """
    thread = Thread()
    encoder: Any = Encoder(TurnEvents(Turn(feeds, run, Begin("", None))), app, run.id, run.id, [])
    faults: list[Exception] = []
    async with aclosing(encoder.transform_stream(_past(run, thread, encoder, faults))) as events:
        async for event in events:
            thread.fold(event)
    if faults:
        raise faults[0]
    thread.end()
    return thread


async def _past(run: Run, thread: Thread, encoder: Encoder, faults: list[Exception]) -> AsyncGenerator[Any]:
    """Yield the native events of all turns so far.

    Errors are appended to `faults`, since the encoder would turn a raised error into an event.
    """
    native = encoder.turn_events.native
    try:
        async with heavy_read(begins_free=True) as take_turn, aclosing(run.events(follow=False)) as events:
            count = 0
            async for event in events:
                if (count := count + 1) == FREE:
                    await take_turn()
                thread.take(event)
                if isinstance(event, TurnStartedEvent):
                    encoder.begin_turn()
                for each in native.take(Seen(redact(event), is_shown=True)):
                    yield each
    except (Problem, SojournError) as error:
        faults.append(error)


def _of_user(message_id: str, message: Message) -> dict[str, Any]:
    """Return a message of the user without its text documents.

    A page sends its context beside the message as such documents.
    """
    content: Any = message.text
    if files := [part for part in message.parts if isinstance(part, (ImagePart, DocumentPart))]:
        shown_files = [_file(part) for part in files if part.media_type != "text/plain"]
        content = [{"type": "text", "text": content}, *shown_files] if shown_files else content
    return {"id": message_id, "role": "user", "content": content}


def _file(part: ImagePart | DocumentPart) -> dict[str, Any]:
    kind, value = ("data", part.data) if part.data else ("url", part.url or "")
    return {"type": part.type, "source": {"type": kind, "value": value, "mimeType": part.media_type}}


async def frames(thread: Thread, turn: Turn, app: App, thread_id: str, run_id: str) -> AsyncGenerator[str]:
    """Yield the frames of a reloaded page: its messages, then the turn in progress.

    Raises:
        StreamCut: As the frames of a turn.
    """
    turn_events = TurnEvents(turn)
    encoder = Encoder(turn_events, app, thread_id, run_id, [])
    async with aclosing(encoder.frames(_opened(thread, turn_events))) as found:
        async for frame in found:
            yield frame


async def _opened(thread: Thread, turn_events: TurnEvents) -> AsyncGenerator[Any]:
    yield Opened(messages=thread.messages)
    if thread.begin is not None:
        async with aclosing(turn_events.events()) as events:
            async for native in events:
                yield native
    elif thread.is_begun:
        yield status_snapshot(await turn_events.turn.run.status())
