"""A reply is what the events after its token come to; none of this needs a server."""

from datetime import UTC, datetime
from typing import Any

from sojourn import Message
from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.event import (
    AssistantMessageEvent,
    AwaitAnsweredEvent,
    AwaitClarificationEvent,
    MessageReceivedEvent,
    MessageWithdrawnEvent,
    PlanStartedEvent,
    TextDeltaEvent,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStartedEvent,
)
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_error import ToolError
from sojourn.http.protocols.reply import AgentReply, SentText
from sojourn.http.protocols.reply_token import ReplyToken

TOKEN = ReplyToken("r", "", "m")


class History:
    """Events of the run `r`, with ids in order."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def add(self, kind: type[Any], **fields: Any) -> None:
        """Add an event."""
        event_id = f"0-{len(self.events) + 1:06}-00000"
        common = {"run_id": "r", "time": datetime.now(UTC), "agent_id": "shop.clerk", "event_id": event_id}
        self.events.append(kind(**common | fields))

    def read(self, *, is_task: bool = False) -> AgentReply:
        """The reply to `m`."""
        reply = AgentReply(TOKEN, is_task=is_task)
        for event in self.events:
            reply.take(event, event.event_id)
            if reply.state not in ("open", "asked" if is_task else "open"):
                break
        return reply


def begun() -> History:
    """A conversation with a turn for another message, and then one for `m`."""
    history = History()
    history.add(MessageReceivedEvent, message_id="other", message=Message.user("hi"), mode="queue")
    history.add(MessageReceivedEvent, message_id="m", message=Message.user("hello"), mode="queue")
    history.add(TurnStartedEvent, turn_id="t1", message_ids=["other"])
    history.add(TurnFailedEvent, turn_id="t1", error=ToolError.new("no"))
    history.add(TurnStartedEvent, turn_id="t2", message_ids=["m"])
    history.add(PlanStartedEvent, turn_id="t2", plan=1)
    return history


def test_a_reply_is_of_its_own_turn():
    """The end of the turn before is none of the reply's, and its own turn's answer is."""
    history = begun()
    history.add(TextDeltaEvent, event_id="", text="It is ")
    history.add(AssistantMessageEvent, turn_id="t2", message=Message.assistant("It is dark."))
    final = Message.assistant("It is dark.")
    output = RunOutput(run_id="r", agent_id="shop.clerk", final=final)
    history.add(TurnCompletedEvent, turn_id="t2", output=output)
    reply = history.read()
    assert (reply.state, reply.text, reply.turn_id) == ("answered", "It is dark.", "t2")


def test_a_reply_to_a_withdrawn_message_is_canceled():
    """The withdrawal of another message is nothing to it."""
    history = History()
    for message_id in ("other", "m"):
        history.add(MessageReceivedEvent, message_id=message_id, message=Message.user("hi"), mode="queue")
    history.add(MessageWithdrawnEvent, message_id="other")
    assert history.read().state == "open"
    history.add(MessageWithdrawnEvent, message_id="m")
    for is_task in (False, True):
        reply = history.read(is_task=is_task)
        assert (reply.state, reply.is_canceled, reply.error.code) == ("failed", True, "withdrawn")


def test_a_reply_ends_with_its_question_and_a_task_goes_on():
    """The first question ends a reply; a task has it among its open waits, then in its history with the answer."""
    history = begun()
    history.add(AwaitClarificationEvent, turn_id="t2", question=AwaitClarification(id="q", question="Which?"))
    asked = history.read()
    assert (asked.state, asked.text, asked.end) == ("asked", "Which?", history.events[-1].event_id)
    task = history.read(is_task=True)
    assert (task.state, [view.await_id for view in task.waits]) == ("asked", ["q"])
    history.add(AwaitAnsweredEvent, await_id="q", text="the left one", by="ana", message_id="a1")
    task = history.read(is_task=True)
    assert (task.state, task.waits, task.wait) == ("open", [], None)
    assert [each.text for each in task.history] == ["hello", "Which?", "the left one"]
    assert task.answer_to("a1")
    assert not task.answer_to("m")


def test_a_message_without_a_turn_has_no_reply_yet():
    """A token of a message that the run does not have is none; one that waits for its turn is open."""
    history = begun()
    del history.events[1:]
    assert not history.read().is_there
    history.add(MessageReceivedEvent, message_id="m", message=Message.user("hello"), mode="queue")
    waiting = history.read()
    assert (waiting.is_there, waiting.state) == (True, "open")


def test_an_attempt_that_writes_the_same_sends_nothing_twice():
    """What a restarted draft repeats is sent once; where it differs, it is a text of its own."""
    text = SentText()
    assert text.grow("The site ") == ("The site ", False)
    assert text.grow("") == ("", False)  # the draft was restarted
    assert text.grow("The ") == ("", False)
    assert text.grow("The site is") == ("is", False)
    assert text.finish("The site is dark.") == (" dark.", False)
    text.grow("The site")
    assert text.grow("A site") == ("A site", True)


def test_a_draft_that_was_cut_goes_on_where_it_was_sent():
    """A very long draft loses its beginning, which the client has."""
    text = SentText()
    assert text.grow("0123") == ("0123", False)
    assert text.grow("345", start=3) == ("45", False)
    assert text.finish("0123456") == ("6", False)
