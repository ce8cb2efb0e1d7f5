"""The last line of `sojourn chat`: what is waited for, and what the next line does."""

from datetime import UTC, datetime

from sojourn import AwaitClarification, AwaitExternalTools, ExternalCall
from sojourn.cli.chat_view import ChatBar
from sojourn.contracts.event import EVENT_CLASSES, Event

ABOUT = {"run_id": "a.b@s", "time": datetime(2026, 3, 2, tzinfo=UTC)}
BELOW = {**ABOUT, "run_id": "a.b@s/c1", "parent_tool_call_id": "c1"}
BUSY = " working · Ctrl-C ends the turn · a line that is sent now waits for the next one"


def event(kind: str, **fields: object) -> Event:
    return EVENT_CLASSES[kind](**{**ABOUT, **fields})


def asked(await_id: str, **about: object) -> Event:
    return event("await_clarification", question=AwaitClarification(id=await_id, question="Which?"), **about)


def bar(*events: Event) -> ChatBar:
    made = ChatBar()
    for each in (event("turn_started"), *events):
        made.feed(each)
    return made


def test_the_next_line_answers_the_oldest_question():
    """Others are counted; what the agent writes meanwhile does not hide it."""
    both = bar(asked("q1"), asked("q2", **BELOW), event("plan_started"), event("text_delta", text="so far"))
    assert both.text.startswith(" question: your next line answers it · 1 more waits after it · /say TEXT")
    both.feed(event("await_answered", await_id="q1"))
    assert both.asked == ("a.b@s/c1", AwaitClarification(id="q2", question="Which?"))
    assert "after it" not in both.text
    both.feed(event("await_answered", await_id="q2", **BELOW))
    assert (both.asked, both.text, both.prompt) == (None, " so far", "> ")


def test_results_from_outside_are_waited_for():
    """A line is no answer to that: it waits for the next turn."""
    calls = [ExternalCall(tool="a.b.c", tool_call_id="c1", payload={})]
    outside = bar(event("await_external_tools", external=AwaitExternalTools(id="out", items=calls)))
    assert outside.text.startswith(" waits for results from outside · Ctrl-C ends the turn · a line that")
    outside.feed(event("await_answered", await_id="out"))
    assert outside.text == BUSY


def test_a_question_ends_with_its_run_and_with_its_turn():
    """A child run that was cut short asks nobody any more, and a turn that has ended neither."""
    cut = bar(asked("q1", **BELOW))
    cut.feed(event("run_stream_end", **BELOW))
    assert (cut.asked, cut.text) == (None, BUSY)
    over = bar(asked("q1"))
    over.feed(event("turn_failed", error={"message": "the turn was interrupted"}))
    assert (over.asked, over.text) == (None, " idle · Ctrl-D leaves")


def test_a_pause_is_that_of_the_conversation():
    """A pause that was passed on to a child run, and its end there, change nothing."""
    paused = bar(event("run_paused"), event("run_paused", **BELOW), event("run_resumed", **BELOW))
    assert paused.text.startswith(" paused; it goes on with: sojourn resume a.b@s")
    paused.feed(event("run_resumed"))
    assert paused.text == BUSY
