"""The last line of `sojourn chat`: what is waited for, and what the next line does."""

from datetime import UTC, datetime

from sojourn import AwaitClarification, AwaitConfirmation, AwaitExternalTools, ExternalCall
from sojourn.answers import wait_view
from sojourn.cli.chat_view import ChatBar
from sojourn.contracts.event import EVENT_CLASSES, Event
from sojourn.timeline import TimelineTree

ABOUT = {"run_id": "a.b@s", "time": datetime(2026, 3, 2, tzinfo=UTC)}
BELOW = {**ABOUT, "run_id": "a.b@s/c1", "parent_tool_call_id": "c1"}
BUSY = " working · Ctrl-C ends the turn · a line that is sent now waits for the next one"


def event(kind: str, **fields: object) -> Event:
    return EVENT_CLASSES[kind](**{**ABOUT, **fields})


def asked(await_id: str, **about: object) -> Event:
    return event("await_clarification", question=AwaitClarification(id=await_id, question="Which?"), **about)


class Conversation:
    """A conversation in its first turn, after some events, and its bar."""

    def __init__(self, *events: Event) -> None:
        self.timelines = TimelineTree("a.b@s")
        self.bar = ChatBar(self.timelines)
        for each in (event("turn_started"), *events):
            self.timelines.feed(each)


def test_the_next_line_answers_the_oldest_question():
    """Others are counted; what the agent writes meanwhile does not hide it."""
    both = Conversation(
        asked("q1"), asked("q2", **BELOW), event("plan_started"), event("text_delta", text="so far")
    )
    assert both.bar.text.startswith(
        " question: your next line answers it · 1 more waits after it · /say TEXT"
    )
    both.timelines.feed(event("await_answered", await_id="q1"))
    assert both.bar.first_wait == wait_view(AwaitClarification(id="q2", question="Which?"), "a.b@s/c1")
    assert "after it" not in both.bar.text
    both.timelines.feed(event("await_answered", await_id="q2", **BELOW))
    assert (both.bar.first_wait, both.bar.text, both.bar.prompt) == (None, " so far", "> ")


def test_a_question_is_not_asked_again_after_its_answer_was_sent():
    """The next line is a message then, although the event of the answer has not come yet."""
    waiting = Conversation(asked("q1"))
    assert waiting.bar.first_wait is not None
    waiting.bar.forget(waiting.bar.first_wait)
    assert (waiting.bar.first_wait, waiting.bar.prompt) == (None, "> ")


def test_a_message_reaches_no_call_of_a_child_run():
    """Only for a call of the conversation itself the bar says what any other line does."""

    def bar(rule: str, **about: object) -> str:
        call = AwaitConfirmation(id="c", tool_call_id="c1", tool="a.pay", on_message=rule)
        return Conversation(event("await_confirmation", confirmation=call, **about)).bar.text.split(" · ")[0]

    decides = " approval: your next line decides it: y, n or a"
    assert [bar(rule) for rule in ("wait", "answer", "deny")] == [
        decides,
        f"{decides}, and any other is a message",
        f"{decides}, and any other denies it",
    ]
    assert {bar(rule, **BELOW) for rule in ("wait", "answer", "deny")} == {decides}


def test_results_from_outside_are_waited_for():
    """A line is no answer to that: it waits for the next turn."""
    calls = [ExternalCall(tool="a.b.c", tool_call_id="c1", payload={})]
    outside = Conversation(event("await_external_tools", external=AwaitExternalTools(id="out", items=calls)))
    assert outside.bar.text.startswith(" waits for results from outside · Ctrl-C ends the turn · a line that")
    outside.timelines.feed(event("await_answered", await_id="out"))
    assert outside.bar.text == BUSY


def test_a_question_ends_with_its_run_and_with_its_turn():
    """A child run that was cut short asks nobody any more, and a turn that has ended neither."""
    cut = Conversation(asked("q1", **BELOW))
    cut.timelines.feed(event("run_stream_end", **BELOW))
    assert (cut.bar.first_wait, cut.bar.text) == (None, BUSY)
    over = Conversation(asked("q1"))
    over.timelines.feed(event("turn_failed", error={"message": "the turn was interrupted"}))
    assert (over.bar.first_wait, over.bar.text) == (None, " idle · Ctrl-D leaves")


def test_a_pause_is_that_of_the_conversation():
    """A pause that was passed on to a child run, and its end there, change nothing."""
    paused = Conversation(event("run_paused"), event("run_paused", **BELOW), event("run_resumed", **BELOW))
    assert paused.bar.text.startswith(" paused; it goes on with: sojourn resume a.b@s")
    paused.timelines.feed(event("run_resumed"))
    assert paused.bar.text == BUSY
