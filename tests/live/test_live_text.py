"""Deltas among events: none twice and none obsolete, in whatever order deltas and events arrive."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import AwaitClarification, Message, ToolRequest, Usage
from sojourn.contracts.event import (
    AssistantMessageEvent,
    AwaitClarificationEvent,
    PlanStartedEvent,
    RunCanceledEvent,
    RunCompletedEvent,
    RunFailedEvent,
    RunTerminatedEvent,
    RunTimedOutEvent,
    ToolStartEvent,
    UsageEvent,
)
from sojourn.events.live_text import DeltaPlacement, LiveText
from sojourn.live import Delta

START = datetime(2027, 1, 4, tzinfo=UTC)
CHUNKS = st.lists(st.text("abc", min_size=1, max_size=3), max_size=4)
STORIES = st.lists(st.lists(CHUNKS, min_size=1, max_size=3), min_size=1, max_size=3)
"""The attempts of each plan, and the pieces of each attempt."""


def time_of(plan: int) -> datetime:
    return START + timedelta(minutes=plan)


def deltas_of(plan: int, attempt: int, chunks: list[str]) -> list[Delta]:
    begun = [("begun", "")] if attempt else []
    return [
        Delta(
            kind=kind,
            scheduled=time_of(plan),
            started=time_of(plan) + timedelta(seconds=attempt),
            plan=plan,
            attempt=attempt,
            seq=seq,
            at=START,
            text=text,
        )
        for seq, (kind, text) in enumerate([*begun, *(("text", chunk) for chunk in chunks)])
    ]


def history_of(plan: int) -> list:
    message = Message.assistant("whole")
    return [
        PlanStartedEvent(run_id="r", event_id=f"{plan}-0", time=time_of(plan)),
        AssistantMessageEvent(run_id="r", event_id=f"{plan}-1", time=time_of(plan), message=message),
    ]


def stream_of(order: list) -> list:
    """Return the stream of events for history events and deltas that arrive in this order."""
    preview, stream = DeltaPlacement(), []
    for each in order:
        if isinstance(each, Delta):
            stream += preview.take(each)
        else:
            stream += [each, *preview.feed(each)]
    return stream


def shown(stream: list) -> list[tuple[int, list[str]]]:
    """Return the texts of each plan that a reader has seen: before each restart, and at the end."""
    plans, is_open = [], False
    for event in stream:
        match event.type:
            case "plan_started":
                plans.append((event, [""]))
                is_open = True
            case "assistant_message":
                is_open = False
            case "stream_restarted":
                assert is_open
                assert plans[-1][1][-1], "a restart, although no text was shown"
                plans[-1][1].append("")
            case "text_delta":
                assert is_open, "a delta outside of its plan"
                plans[-1][1][-1] += event.text
    return [(round((event.time - START) / timedelta(minutes=1)), texts) for event, texts in plans]


def merged(data: st.DataObject, streams: list[list]) -> list:
    """Return the streams merged in a drawn order, each in its own order."""
    rest, order = [list(stream) for stream in streams], []
    while any(rest):
        stream = data.draw(st.sampled_from([stream for stream in rest if stream]))
        order.append(stream.pop(0))
    return order


@given(STORIES, st.data())
def test_what_is_shown_is_always_the_beginning_of_an_attempt(story, data):
    """When deltas are mixed, repeated or lost, no text is doubled, mixed or shown after the message."""
    sent = [
        delta
        for plan, attempts in enumerate(story)
        for attempt, chunks in enumerate(attempts)
        for delta in deltas_of(plan, attempt, chunks)
    ]
    some = data.draw(st.lists(st.sampled_from(sent), max_size=2 * len(sent))) if sent else []
    history = [event for plan in range(len(story)) for event in history_of(plan)]
    for plan, texts in shown(stream_of(merged(data, [history, some]))):
        whole = ["".join(chunks) for chunks in story[plan]]
        attempt = 0
        for text in texts:
            fits = [n for n in range(attempt, len(whole)) if whole[n].startswith(text)]
            assert fits, (text, whole)
            attempt = fits[0]


@given(STORIES, st.data())
def test_deltas_in_order_are_shown_completely(story, data):
    """Whenever `plan_started` arrives among the deltas, no text is lost, and the last attempt's text is the final one."""
    for plan, attempts in enumerate(story):
        sent = [
            delta for attempt, chunks in enumerate(attempts) for delta in deltas_of(plan, attempt, chunks)
        ]
        begin, end = history_of(plan)
        again = data.draw(st.integers(0, len(sent)))
        stream = stream_of([*merged(data, [[begin], [*sent[:again], *sent]]), end])
        ((_, texts),) = shown(stream)
        assert texts[-1] == "".join(attempts[-1])
        assert len(texts) <= len(attempts)


@given(STORIES, st.data())
def test_attempts_that_write_at_once_end_with_the_latest(story, data):
    """The deltas of an abandoned attempt that still writes are ignored once a later attempt has begun."""
    for plan, attempts in enumerate(story):
        streams = [deltas_of(plan, attempt, chunks) for attempt, chunks in enumerate(attempts)]
        begin, end = history_of(plan)
        ((_, texts),) = shown(stream_of([begin, *merged(data, streams), end]))
        assert texts[-1] == "".join(attempts[-1])


def test_each_kind_becomes_its_event(delta):
    """Text, thinking and calls become events with the ids of the run's events, but without an event id."""
    preview = DeltaPlacement()
    begun = delta(kind="begun")
    preview.feed(
        PlanStartedEvent(
            run_id="r", session_id="s", turn_id="t1", agent_id="a.b", event_id="1", time=begun.scheduled
        )
    )
    pieces = [
        begun,
        delta("hm", seq=1, kind="thinking"),
        delta("yes", seq=2),
        delta('{"a"', seq=3, kind="tool_call", tool_name="x.y", index=1),
    ]
    events = [event for piece in pieces for event in preview.take(piece)]
    assert [event.type for event in events] == ["thinking_delta", "text_delta", "tool_call_delta"]
    assert (events[2].index, events[2].tool_name, events[2].text) == (1, "x.y", '{"a"')
    assert {(e.run_id, e.session_id, e.turn_id, e.agent_id, e.event_id) for e in events} == {
        ("r", "s", "t1", "a.b", "")
    }


def test_a_restart_names_the_attempt(delta):
    """`stream_restarted` has the number of the new attempt, and comes before its first piece."""
    preview = DeltaPlacement()
    preview.feed(PlanStartedEvent(run_id="r", event_id="1", time=delta(plan=3).scheduled))
    preview.take(delta("half of", plan=3))
    (event,) = preview.take(delta(plan=3, attempt=2, kind="begun"))
    assert (event.type, event.plan, event.attempt) == ("stream_restarted", 3, 2)


def test_a_model_that_begins_anew_restarts_the_stream(delta):
    """A `begun` within an attempt, such as that of a fallback model, gives `stream_restarted` where text was streamed before."""
    preview = DeltaPlacement()
    preview.feed(PlanStartedEvent(run_id="r", event_id="1", time=delta().scheduled))
    pieces = [
        delta(kind="begun"),
        delta(kind="begun", seq=1),
        delta("half of", seq=2),
        delta(kind="begun", seq=3),
        delta("the whole", seq=4),
    ]
    events = [event for piece in pieces for event in preview.take(piece)]
    assert [event.type for event in events] == ["text_delta", "stream_restarted", "text_delta"]


def test_the_deltas_of_the_next_plan_restart_nothing(delta):
    """`stream_restarted` is about deltas of its own plan; those of the plan before are complete."""
    preview = DeltaPlacement()
    for plan in (1, 2):
        piece = delta("whole", plan=plan)
        preview.feed(PlanStartedEvent(run_id="r", event_id=f"{plan}", time=piece.scheduled))
        (event,) = preview.take(piece)
        assert event.type == "text_delta"
        preview.feed(UsageEvent(run_id="r", event_id=f"{plan}-1", time=START, usage=Usage()))


def test_an_answer_without_its_beginning_is_not_shown(delta):
    """Deltas are ignored until one with the number 0 arrives, so that a reader never takes an end for the whole text."""
    preview = DeltaPlacement()
    preview.feed(PlanStartedEvent(run_id="r", event_id="1", time=delta().scheduled))
    assert preview.take(delta("end", seq=7)) == []
    assert preview.take(delta("s.", seq=8)) == []
    assert [event.text for event in preview.take(delta("be", seq=0))] == ["be"]


OUTCOMES = [
    (AssistantMessageEvent, {"message": Message.assistant("whole")}),
    (AwaitClarificationEvent, {"question": AwaitClarification(question="which?")}),
    (ToolStartEvent, {"call": ToolRequest(name="a.b.c")}),
    (UsageEvent, {"usage": Usage()}),
    (RunCanceledEvent, {}),
    (RunCompletedEvent, {}),
    (RunFailedEvent, {}),
    (RunTerminatedEvent, {}),
    (RunTimedOutEvent, {}),
]


@pytest.mark.parametrize(("kind", "content"), OUTCOMES, ids=lambda value: getattr(value, "__name__", ""))
def test_every_outcome_of_a_plan_ends_its_deltas(kind, content, delta):
    """Deltas after a plan's outcome are ignored: a text after the plan's question would seem to be the answer."""
    preview = DeltaPlacement()
    preview.feed(PlanStartedEvent(run_id="r", event_id="1", time=delta().scheduled))
    assert [event.text for event in preview.take(delta("half"))] == ["half"]
    preview.feed(kind(run_id="r", event_id="2", time=START, **content))
    assert preview.take(delta(" of it", seq=1)) == []
    assert preview.take(delta(attempt=2, kind="begun")) == []


class Silent:
    """A transport that brings nothing."""

    async def subscribe(self, _topic: str):
        await asyncio.Event().wait()
        yield []


async def test_what_a_subscriber_has_seen_is_not_delivered_again():
    """Of a stream that is resumed only new events are delivered; those before are read for what they say of the plan."""
    delivered = []

    async def deliver(event) -> None:
        delivered.append(event)

    text = LiveText(Silent(), "topic", deliver)
    begun, answered = history_of(1)
    await text.feed(begun, is_new=False)
    await text.feed(answered, is_new=True)
    await text.close()
    assert delivered == [answered]
