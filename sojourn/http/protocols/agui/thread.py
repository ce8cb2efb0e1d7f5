"""Rebuild the messages of a thread for a page that was loaded again.

They are the messages that an AG-UI client has built from the streams of the thread's turns. Such a page
knows only its thread. Its messages have the ids that they had in the streams, so that the page can continue
from them. A turn in progress is left out, since the page reads its events.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
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
from sojourn.contracts.event import Event
from sojourn.contracts.message import DocumentPart, ImagePart, Message
from sojourn.errors import SojournError
from sojourn.http.problems import Problem
from sojourn.http.protocols.agui.stream import AguiEncoder, ThreadMessages
from sojourn.http.protocols.reply import FREE
from sojourn.http.protocols.turn import Begin, SeenEvent, TurnStream
from sojourn.http.protocols.turn_events import status_snapshot
from sojourn.http.redaction import redact
from sojourn.http.security.limits import heavy_read
from sojourn.reader import Feeds
from sojourn.timeline import Change, Timeline, UserMessage

__all__ = ["Thread", "opening", "read"]

MOST = 2_000
"""Most messages of a thread that a page gets. The oldest turns are dropped first."""


class Thread:
    """The messages of a conversation so far, as an AG-UI client has them.

    Args:
        timeline: The timeline of the conversation's run, to which nothing was fed yet.
    """

    def __init__(self, timeline: Timeline) -> None:
        self.messages: list[dict[str, Any]] = []
        """The messages, in the form of AG-UI."""
        self.begin: Begin | None = None
        """Start of the current turn, or else of the next one; None if there is neither."""
        self._timeline = timeline
        self._finished = 0
        """Number of messages before the current turn."""
        self._by_id: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, dict[str, str]] = {}

    @property
    def is_begun(self) -> bool:
        """Whether the conversation exists."""
        return bool(self._timeline.last_event_id)

    def take(self, event: Event) -> Sequence[Change]:
        """Feed the timeline an event, and add the user's messages that a turn takes with it."""
        changes = self._timeline.feed(event)
        for change in changes:
            if isinstance(change.entry, UserMessage) and change.kind == "taken":
                self._add(change.entry)
        if (turn := self._timeline.turn) and turn.key == event.event_id and turn.messages:
            self._trim()
        return changes

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

    def _add(self, entry: UserMessage) -> None:
        self.messages.append(_of_user(entry.message_id, entry.message))

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
        self._finished = len(self.messages)

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
    turn = TurnStream(feeds, run, Begin("", None))
    thread, faults = Thread(turn.tree.top), list[Exception]()
    encoder: Any = AguiEncoder(turn, app, run.id, run.id, [])
    async with aclosing(encoder.transform_stream(_past(run, thread, encoder, faults))) as events:
        async for event in events:
            thread.fold(event)
    if faults:
        raise faults[0]
    thread.end()
    return thread


async def _past(
    run: Run, thread: Thread, encoder: AguiEncoder, faults: list[Exception]
) -> AsyncGenerator[Any]:
    """Yield the native events of all turns so far.

    Errors are appended to `faults`, since the encoder would turn a raised error into an event.
    """
    native, turn_key = encoder.native, ""
    try:
        async with heavy_read(begins_free=True) as take_turn, aclosing(run.events(follow=False)) as events:
            count = 0
            async for event in events:
                if (count := count + 1) == FREE:
                    await take_turn()
                shown = redact(event)
                changes = thread.take(shown)
                if (turn := native.timeline.turn) and turn.key != turn_key:
                    turn_key = turn.key
                    encoder.begin_turn()
                for each in native.take(SeenEvent(shown, is_shown=True, changes=changes)):
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


async def opening(thread: Thread, encoder: AguiEncoder) -> AsyncGenerator[Any]:
    """Yield the native events of a reloaded page: its messages, then the turn in progress."""
    yield ThreadMessages(messages=thread.messages)
    if thread.begin is not None:
        async with aclosing(encoder.native_events()) as events:
            async for native in events:
                yield native
    elif thread.is_begun:
        yield status_snapshot(await encoder.turn.run.status())
