"""Native events: what was shown is shown once, whatever attempts there were, and what nobody saw begin does not end."""

from datetime import UTC, datetime
from typing import Any

from pydantic_ai.messages import PartDeltaEvent, PartEndEvent, PartStartEvent

from sojourn import Message
from sojourn.contracts.event import (
    AssistantMessageEvent,
    PlanStartedEvent,
    StreamRestartedEvent,
    TextDeltaEvent,
    ThinkingDeltaEvent,
)
from sojourn.http.protocols.turn import SeenEvent
from sojourn.http.protocols.turn_events import NativeEvents, PlanStep
from sojourn.timeline import Timeline

COMMON: dict[str, Any] = {"run_id": "r", "time": datetime.now(UTC)}
BEGIN = PlanStartedEvent(**COMMON, event_id="0-000009-00001")


def text(piece: str) -> TextDeltaEvent:
    return TextDeltaEvent(**COMMON, text=piece)


def answer(whole: str) -> AssistantMessageEvent:
    return AssistantMessageEvent(**COMMON, event_id="0-000011-00000", message=Message.assistant(whole))


def taken(native: NativeEvents, event: Any, *, is_shown: bool = True) -> list[Any]:
    """The native events of an event."""
    return native.take(SeenEvent(event, is_shown, native.timeline.feed(event)))


def shown(*events: Any) -> list[str]:
    """The texts of the parts that these events become; each part ends."""
    native, parts, ended = NativeEvents(Timeline("r")), list[str](), 0
    for event in events:
        for each in taken(native, event):
            if isinstance(each, PartStartEvent):
                parts.append(each.part.content)
            elif isinstance(each, PartDeltaEvent):
                parts[-1] += each.delta.content_delta
            elif isinstance(each, PartEndEvent):
                ended += 1
                assert each.part.content == parts[-1]
    assert ended == len(parts)
    return parts


def test_a_text_that_was_written_live_is_not_said_again():
    """The message adds the rest of what was shown, or nothing."""
    assert shown(BEGIN, text("The site "), text("is dark."), answer("The site is dark.")) == [
        "The site is dark."
    ]
    assert shown(BEGIN, text("The site "), answer("The site is dark.")) == ["The site is dark."]
    assert shown(BEGIN, answer("The site is dark.")) == ["The site is dark."]


def test_an_attempt_that_writes_the_same_again_doubles_nothing():
    """After a restart nothing is shown until the message; it goes on where it began in the same way, and otherwise follows."""
    again = StreamRestartedEvent(**COMMON, plan=1, attempt=2)
    same = (BEGIN, text("The site "), again, text("The "), text("site is dark."), answer("The site is dark."))
    assert shown(*same) == ["The site is dark."]
    other = (BEGIN, text("The site "), again, text("A site"), answer("A site is dark."))
    assert shown(*other) == ["The site ", "A site is dark."]


def test_thinking_and_text_are_parts_of_their_own():
    """A part ends where the other kind begins."""
    thought = ThinkingDeltaEvent(**COMMON, text="hm")
    assert shown(BEGIN, thought, text("dark"), answer("dark")) == ["hm", "dark"]


def test_what_was_not_shown_does_not_end():
    """A client that begins in the middle of a plan gets no end of a step that it has not seen begin."""
    native = NativeEvents(Timeline("r"))
    assert taken(native, BEGIN, is_shown=False) == []
    assert not [each for each in taken(native, answer("dark")) if isinstance(each, PlanStep)]
