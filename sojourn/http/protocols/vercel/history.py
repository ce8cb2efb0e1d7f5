"""Read the messages of a chat, as a page of the AI SDK has them.

The replies are folded from the encoder's chunks, as `useChat` does it, since a reloaded page needs the ids and parts
that the streams gave.
"""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Any

from pydantic_ai.ui.vercel_ai.response_types import (
    BaseChunk,
    DataChunk,
    FileChunk,
    ReasoningDeltaChunk,
    ReasoningStartChunk,
    StartStepChunk,
    TextDeltaChunk,
    TextStartChunk,
    ToolApprovalRequestChunk,
    ToolInputAvailableChunk,
    ToolOutputAvailableChunk,
    ToolOutputDeniedChunk,
    ToolOutputErrorChunk,
)

from sojourn.answers import wait_view
from sojourn.client.run import Run
from sojourn.contracts.event import AwaitAnsweredEvent, Event, PlanStartedEvent, TurnStartedEvent
from sojourn.contracts.message import DocumentPart, ImagePart, Message
from sojourn.errors import SojournError
from sojourn.http.problems import Problem
from sojourn.http.protocols.bodies import file_url
from sojourn.http.protocols.turn import Begin, SeenEvent, TurnStream, replay
from sojourn.http.protocols.turn_events import Interrupts
from sojourn.http.protocols.vercel.request import ANSWER
from sojourn.http.protocols.vercel.stream import VercelEncoder
from sojourn.http.protocols.waits import client_waits, waits_of_status
from sojourn.reader import Feeds
from sojourn.timeline import Timeline, UserMessage

__all__ = ["ChatHistory", "read_history"]

MAX_MESSAGES = 2_000
"""Most messages of a chat that a page gets, the newest ones."""


class ChatHistory:
    """The messages of a chat so far, in the form of `UIMessage`."""

    def __init__(self, run_id: str, prefix: str = "") -> None:
        self._run_id = run_id
        self._prefix = prefix
        self.messages: list[dict[str, Any]] = []
        self._reply: dict[str, Any] = {}
        """The reply under way."""
        self._texts: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, dict[str, Any]] = {}
        self._earlier: list[dict[str, Any]] = []
        """Calls that wait on in a later reply, which shows their cards."""

    def say(self, message_id: str, message: Message) -> None:
        """Add a message of the user.

        One that steers a turn comes before the reply under way.
        """
        parts = _parts(message, self._run_id, self._prefix)
        self.messages.append({"id": message_id, "role": "user", "parts": parts})

    def divide(self, message_id: str, calls: Collection[str]) -> None:
        """Begin the reply to a message that is answered while calls wait.

        It comes behind the reply that has had the cards of the calls.
        """
        said = [each for each in self.messages if each["id"] == message_id]
        self.messages = [each for each in self.messages if each["id"] != message_id]
        self.end()
        self.messages += said
        self.begin(f"{ANSWER}{message_id}")
        self._earlier += [self._calls.pop(call_id) for call_id in calls if call_id in self._calls]

    def begin(self, reply_id: str) -> None:
        """Begin a reply, once the one before has ended."""
        self._reply = {"id": reply_id, "role": "assistant", "parts": []}

    def finish(self) -> list[dict[str, Any]]:
        """Return the newest messages, from one of the user on."""
        self.end()
        rest = self.messages[-MAX_MESSAGES:]
        first = next((index for index, each in enumerate(rest) if each["role"] == "user"), 0)
        return rest[first:]

    def end(self) -> None:
        """End the reply under way. A reply without parts is none."""
        if self._reply.get("parts"):
            self.messages.append(self._reply)
        self._reply = {}

    def fold(self, chunk: BaseChunk) -> None:
        match chunk:
            case StartStepChunk():
                self._add({"type": "step-start"})
            case TextStartChunk(id=id):
                self._texts[id] = self._add({"type": "text", "text": "", "state": "done"})
            case ReasoningStartChunk(id=id):
                self._texts[id] = self._add({"type": "reasoning", "id": id, "text": "", "state": "done"})
            case TextDeltaChunk(id=id, delta=delta) | ReasoningDeltaChunk(id=id, delta=delta):
                self._texts[id]["text"] += delta
            case DataChunk(transient=None | False):
                self._add({"type": chunk.type, "id": chunk.id, "data": chunk.data})
            case FileChunk(url=url, media_type=media_type):
                self._add({"type": "file", "mediaType": media_type, "url": url})
            case _:
                self._fold_call(chunk)

    def _fold_call(self, chunk: BaseChunk) -> None:
        match chunk:
            case ToolInputAvailableChunk(tool_call_id=id, tool_name=name, input=given):
                call = {"type": f"tool-{name}", "toolCallId": id, "state": "input-available", "input": given}
                if id in self._calls:
                    self._calls[id].update(call)
                else:
                    self._calls[id] = self._add(call)
            case ToolApprovalRequestChunk(tool_call_id=id, approval_id=approval_id):
                self._settle(id, state="approval-requested", approval={"id": approval_id})
            case ToolOutputAvailableChunk(tool_call_id=id, output=output):
                self._settle(id, state="output-available", output=output)
            case ToolOutputErrorChunk(tool_call_id=id, error_text=text):
                self._settle(id, state="output-error", errorText=text)
            case ToolOutputDeniedChunk(tool_call_id=id):
                self._settle(id, state="output-denied")
            case _:
                pass

    def _add(self, part: dict[str, Any]) -> dict[str, Any]:
        self._reply.setdefault("parts", []).append(part)
        return part

    def _settle(self, call_id: str, **fields: Any) -> None:
        if call_id in self._calls:
            self._calls[call_id].update(fields)
        for call in self._earlier if "approval" not in fields else ():
            if call["toolCallId"] == call_id:
                call.update(fields)


async def read_history(run: Run, feeds: Feeds, prefix: str) -> list[dict[str, Any]]:
    """Return the messages of a chat. The prefix is that of the service's paths."""
    turn = TurnStream(feeds, run, Begin("", None))
    history, faults = ChatHistory(run.id, prefix), list[Exception]()
    encoder: Any = VercelEncoder(turn, "", frozenset[str](), prefix)
    async with aclosing(encoder.transform_stream(_replay(run, history, encoder, faults))) as chunks:
        async for chunk in chunks:
            history.fold(chunk)
    if faults:
        raise faults[0]
    return history.finish()


async def _replay(
    run: Run, history: ChatHistory, encoder: VercelEncoder, faults: list[Exception]
) -> AsyncGenerator[Any]:
    """Yield the native events of all replies so far.

    The encoder would turn a raised error into a chunk, so errors are appended to `faults`.
    """
    timeline = encoder.native.timeline
    try:
        async with aclosing(replay(run, timeline.feed)) as events:
            async for seen in events:
                if question := _answered_question(timeline, seen.event, run.id):
                    yield Interrupts(waits=question)
                _divide(history, encoder, seen, question[0].id if question else "")
                for each in encoder.native.take(seen):
                    yield each
            for each in encoder.native.close():
                yield each
            status = await run.status()
            if status.is_open and (waits := waits_of_status(status)):
                yield Interrupts(waits=waits)
    except (Problem, SojournError) as error:
        faults.append(error)


def _answered_question(timeline: Timeline, event: Event, root: str) -> list[Any]:
    """Return the wait that this event has answered in words, as the page had it."""
    if not isinstance(event, AwaitAnsweredEvent) or event.text is None or not timeline.decisions:
        return []
    wait = timeline.decisions[-1].wait
    view = wait and wait_view(wait, event.run_id)
    return list(client_waits(view, root)) if view and view.takes_words else []


def _divide(
    history: ChatHistory,
    encoder: VercelEncoder,
    seen: SeenEvent,
    question: str,
) -> None:
    """Add what people said, and begin the reply to it."""
    event = seen.event
    if isinstance(event, PlanStartedEvent) and event.interim_for:
        waiting = [call.id for call in encoder.native.timeline.calls if call.is_waiting]
        history.divide(event.interim_for, waiting)
        encoder.begin_reply(f"{ANSWER}{event.interim_for}")
        encoder.native.started.difference_update(waiting)
    said = [entry for entry, kind in seen.changes if isinstance(entry, UserMessage) and kind == "taken"]
    is_start = isinstance(event, TurnStartedEvent) and bool(event.message_ids)
    if question or is_start:
        history.end()
    for entry in said:
        history.say(entry.message_id, entry.message)
    answered = question
    if question and isinstance(event, AwaitAnsweredEvent):
        history.say(event.message_id or f"{event.event_id}-0", Message.user(event.text or ""))
    elif isinstance(event, TurnStartedEvent) and is_start:
        answered = event.message_ids[0]
    if answered:
        encoder.begin_reply(f"{ANSWER}{answered}")
        history.begin(f"{ANSWER}{answered}")


def _parts(message: Message, run_id: str, prefix: str) -> list[dict[str, Any]]:
    files = [part for part in message.parts if isinstance(part, (ImagePart, DocumentPart))]
    text = [{"type": "text", "text": message.text}] if message.text else []
    return [*text, *(_file(part, file_url(part, run_id, prefix)) for part in files)]


def _file(part: ImagePart | DocumentPart, address: str) -> dict[str, Any]:
    name = part.attachment.name if part.attachment else getattr(part, "title", None)
    return {
        "type": "file",
        "mediaType": part.media_type,
        "url": address or f"data:{part.media_type};base64,{part.data or ''}",
        **({"filename": name} if name else {}),
    }
