"""What a page that is loaded again gets of its thread: which messages, and where the turn that it follows begins."""

from datetime import UTC, datetime
from typing import Any

from ag_ui.core import TextMessageContentEvent, TextMessageStartEvent

from sojourn import Message
from sojourn.contracts.event import (
    MessageReceivedEvent,
    TurnCompletedEvent,
    TurnStartedEvent,
    TurnSteeredEvent,
)
from sojourn.contracts.message import DocumentPart, ImagePart
from sojourn.contracts.run import RunOutput
from sojourn.http.protocols.agui import stream
from sojourn.http.protocols.agui.stream import Thread
from sojourn.http.protocols.turn import Begin
from sojourn.timeline import Timeline

COMMON: dict[str, Any] = {"run_id": "r", "time": datetime.now(UTC)}
OUTPUT = RunOutput(run_id="r", agent_id="a.b", final=Message.assistant("x"))


def told(*steps: str) -> Thread:
    """A thread after steps: `+a` receives a message, `[a` begins its turn, `~a` steers with it, `says` is written, and `]` ends the turn."""
    thread = Thread(Timeline("r"))
    for number, step in enumerate(steps):
        common, name = {**COMMON, "event_id": f"0-{number:06d}-00000"}, step[1:]
        if step[0] == "+":
            thread.take(MessageReceivedEvent(**common, message_id=name, message=Message.user(name)))
        elif step[0] == "[":
            thread.take(TurnStartedEvent(**common, turn_id="t", message_ids=[name]))
        elif step[0] == "~":
            thread.take(TurnSteeredEvent(**common, turn_id="t", message_ids=[name]))
        elif step == "]":
            thread.take(TurnCompletedEvent(**common, turn_id="t", output=OUTPUT))
        else:
            thread.fold(TextMessageStartEvent(message_id=step, role="assistant"))
            thread.fold(TextMessageContentEvent(message_id=step, delta=step))
    thread.end()
    return thread


def contents(thread: Thread) -> list[str]:
    """The texts of the messages."""
    return [each["content"] for each in thread.messages]


def test_a_turn_that_goes_on_is_read_and_not_told():
    """Of it the page gets the messages of the user alone, and those that wait; it begins after the event before it."""
    thread = told("+a", "[a", "one", "]", "+b", "[b", "two", "+c", "~c", "+d")
    assert contents(thread) == ["a", "one", "b", "c", "d"]
    assert thread.begin == Begin("0-000004-00000", "b")


def test_a_thread_without_an_open_turn_is_whole():
    """All is told, and nothing is followed."""
    thread = told("+a", "[a", "one", "]")
    assert (contents(thread), thread.begin) == (["a", "one"], None)


def test_a_message_whose_turn_has_not_begun_is_followed():
    """A page that is loaded just after a message was sent reads its turn, from before the message."""
    thread = told("+a", "[a", "one", "]", "+b")
    assert contents(thread) == ["a", "one", "b"]
    assert thread.begin == Begin("0-000003-00000", "b")


def test_the_oldest_turns_go_first(monkeypatch):
    """A long thread begins with the message of a turn, and a turn that is too long alone with a message of the agent."""
    monkeypatch.setattr(stream, "MAX_MESSAGES", 4)
    assert contents(told("+a", "[a", "1", "2", "]", "+b", "[b", "3", "4", "5", "]")) == ["b", "3", "4", "5"]
    assert contents(told("+a", "[a", "1", "2", "]", "+b", "[b", "3", "4", "]")) == ["b", "3", "4"]
    assert contents(told("+a", "[a", "1", "2", "3", "4", "5", "]")) == ["2", "3", "4", "5"]


def test_files_are_told_and_what_a_page_said_beside_a_message_is_not():
    """A picture is a part of the message, a text that came as a document is not."""
    picture = ImagePart(type="image", media_type="image/png", data="eA==")
    beside = DocumentPart(type="document", media_type="text/plain", data="eA==")
    thread = Thread(Timeline("r"))
    for number, (name, parts) in enumerate((("a", [picture, beside]), ("b", [beside]))):
        whole = Message.user(name).model_copy(update={"parts": [*Message.user(name).parts, *parts]})
        common = {**COMMON, "event_id": f"0-{number:06d}-00000"}
        thread.take(MessageReceivedEvent(**common, message_id=name, message=whole))
    thread.end()
    source = {"type": "data", "value": "eA==", "mimeType": "image/png"}
    assert contents(thread) == [[{"type": "text", "text": "a"}, {"type": "image", "source": source}], "b"]
