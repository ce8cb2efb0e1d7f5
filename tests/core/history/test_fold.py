"""The fold: the events that it derives from a run's history."""

import copy
import itertools
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn import (
    AwaitClarification,
    Message,
    RunOutput,
    RunPolicy,
    ToolError,
    ToolRequest,
    ToolResult,
    Usage,
)
from sojourn.contracts import Finalize, RunInput, RunLink
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.tasks import PlanOutcome, PlanTask, ToolTask
from sojourn.contracts.wire_names import READ_BRANCH
from sojourn.core.history.fold import END, Fold, HistoryRecord
from sojourn.core.run import outcomes
from sojourn.core.run.branches import UNUSABLE, drop_branch
from sojourn.core.run.continuation import Continuation
from sojourn.events import Event, RunStartedEvent

from .written import RUN, START, History, only, request, types

# The events of each record.


def test_a_run_begins_with_the_users_message() -> None:
    """`run_started` has the run, agent, session and turn, and the last user message of the opening."""
    (event,) = History().events()
    assert event == RunStartedEvent(
        run_id="r",
        session_id="s",
        turn_id="t1",
        event_id="0-000001-00000",
        time=START,
        agent_id="a.b",
        message=Message.user("hi"),
    )


@pytest.mark.parametrize("value", [None, {"messages": "x"}], ids=["nothing", "something else"])
def test_a_run_with_an_invalid_input_has_events(value: object) -> None:
    """A run that was started without a valid RunInput has the events of its start and its failure."""
    history = History(value)
    history.add("run_failed", error=ToolError(message="no input", code="InvalidInput"))
    assert types(history.events()) == ["run_started", "run_failed", END]


def test_a_plan_has_events_for_notes_usage_and_answer() -> None:
    """The notes, the usage and the answer of a plan's result become events, in this order."""
    history = History()
    history.plan(
        PlanOutcome(final=Message.assistant("done"), notes=["one", "two"], usage=Usage(input_tokens=3))
    )
    events = history.events()[1:]
    assert types(events) == ["plan_started", "planner_note", "planner_note", "usage", "assistant_message"]
    assert [event.text for event in events[1:3]] == ["one", "two"]
    assert events[3].usage == Usage(input_tokens=3)
    assert events[4].message == Message.assistant("done")


def test_a_planner_fault_is_a_note() -> None:
    """A refused plan becomes a `planner_note` with the reason."""
    history = History()
    history.plan(PlanOutcome(fault="a plan holds exactly one"))
    assert only(history.events(), "planner_note").text == "planner fault: a plan holds exactly one"


def test_a_turn_ends_once() -> None:
    """A turn that a plan has answered is not ended again by a memo about it, and a message that interrupted it waits."""
    history = History(RUN.model_copy(update={"conversation": True, "messages": []}))
    history.add("sent", name="send", value=[{"text": "hi", "message_id": "m1"}], judged=True)
    history.plan(PlanOutcome(final=Message.assistant("done")))
    history.add(
        "sent", name="send", value=[{"text": "no", "message_id": "m2", "mode": "interrupt"}], judged=True
    )
    error = ToolError.new("the turn was interrupted", code="interrupted")
    history.add("turn_ended", key="t1", error=error)
    fold, events = history.folded()
    assert types(events)[-3:] == ["assistant_message", "turn_completed", "message_received"]
    status = fold.status()
    assert (status.status, status.turns, status.queued) == ("idle", 1, 1)


CUT = ToolError.new("the turn was interrupted", code="interrupted")


def sent(history: History, id: str, mode: str = "queue") -> None:
    """A message to the conversation, whose text is its id."""
    history.add("sent", name="send", value=[{"text": id, "message_id": id, "mode": mode}], judged=True)


def test_a_turn_of_which_only_the_end_is_recorded_is_told_with_its_messages() -> None:
    """It begins with the messages that the memo names, not with those that wait first, and the next plan gets them."""
    history = History(RUN.model_copy(update={"conversation": True, "messages": []}))
    for id, mode in (("m1", "queue"), ("m2", "steer"), ("m3", "queue"), ("m4", "interrupt")):
        sent(history, id, mode)
    history.add("turn_ended", key="t1", error=CUT, message_ids=("m1", "m2"))
    fold, events = history.folded()
    told = [(event.type, event.message_ids) for event in events if event.type.startswith("turn_")]
    assert told == [("turn_started", ["m1", "m2"]), ("turn_failed", ["m1", "m2"])]
    state = fold.state
    assert (state.is_idle, state.turns, state.plans, state.interrupted) == (True, 1, 0, None)
    assert [each.message_id for each in state.inbox.waiting] == ["m4", "m3"]
    assert [message.text for message in state.new[:2]] == ["m1", "m2"]


def test_a_message_that_joined_a_plan_of_which_nothing_is_recorded_is_told() -> None:
    """The messages of the turn that are known are not told again."""
    history = History(RUN.model_copy(update={"conversation": True, "messages": []}))
    sent(history, "m1")
    history.plan(PlanOutcome(fault="a plan holds exactly one"))
    sent(history, "m2", "steer")
    history.add("sent", name="interrupt", value=["stop"], judged=True)
    history.add("turn_ended", key="t1", error=CUT, message_ids=("m1", "m2"))
    fold, events = history.folded()
    told = [(event.type, event.message_ids) for event in events if event.type.startswith("turn_")]
    assert told == [("turn_started", ["m1"]), ("turn_steered", ["m2"]), ("turn_failed", ["m1", "m2"])]
    assert fold.state.inbox.waiting == ()


def test_an_interrupted_turn_whose_messages_are_known_is_told_once() -> None:
    """Where the plan that was cut off had no new message, the memo tells nothing new."""
    history = History(RUN.model_copy(update={"conversation": True, "messages": []}))
    sent(history, "m1")
    history.plan(PlanOutcome(fault="a plan holds exactly one"))
    history.add("sent", name="interrupt", value=["stop"], judged=True)
    history.add("turn_ended", key="t1", error=CUT, message_ids=("m1",))
    told = [event.type for event in history.events() if event.type.startswith("turn_")]
    assert told == ["turn_started", "turn_failed"]


@pytest.mark.parametrize("after", ["continued", "run_completed"])
def test_a_branch_that_a_run_could_not_begin_is_noted_where_it_goes_on_or_ends(after: str) -> None:
    """The note is there, and the next branch is read as the run has read it."""
    history = History(RUN.model_copy(update={"conversation": True, "messages": []}))
    sent(history, "m1")
    history.plan(PlanOutcome(final=Message.assistant("done")))
    edit = {"text": "new", "message_id": "m1", "at": "0-000001-00000", "number": 0}
    history.add("sent", name="branch", value=[edit], judged=True)
    of = history.add("scheduled", name=READ_BRANCH)
    history.add("completed", name=READ_BRANCH, of=of)
    state = drop_branch(history.folded()[0].state)
    if after == "run_completed":
        history.add(after, value=RunOutput(run_id="r", agent_id="a.b", final=Message.assistant("")))
    else:
        history.add(after)
        history.add("started", value=Continuation(state.continued(START)))
        history.add("sent", name="branch", value=[{**edit, "text": "newer"}], judged=True)
    fold, events = history.folded()
    assert only(events, "planner_note").text == f"branch refused: {UNUSABLE}"
    assert [each.message.text for each in events if each.type == "message_received"][1:] == (
        ["new", "newer"] if after == "continued" else ["new"]
    )
    assert fold.state.branches == (1 if after == "continued" else 0)


def test_who_decided_is_a_field_of_the_note(subtests: pytest.Subtests) -> None:
    """What ends a turn, a conversation or the asking has who sent it, by name and by Temporal's identity, apart from the text."""
    rows = [
        ("interrupt", {"reason": "wrong shop"}, "interrupted: wrong shop"),
        ("interrupt", {}, "interrupted"),
        ("close", {"reason": "done"}, "closed: done"),
        ("close", {}, "closed"),
        ("stop_asking", {"tools": ["a.b.c"]}, "a.b.c: approved for the rest of the run"),
    ]
    for name, sent, text in rows:
        with subtests.test(name=name, sent=sent, text=text):
            history = History(RUN.model_copy(update={"conversation": True, "messages": []}))
            history.add("sent", name="send", value=[{"text": "hi", "message_id": "m1"}], judged=True)
            history.add("scheduled", name="PlanActivity", value=PlanTask(agent_id="a.b"))
            history.add("sent", name=name, value=[{**sent, "by": "ana"}], judged=True, identity="1@host")
            note = only(history.events(), "planner_note")
            assert (note.text, note.by, note.identity) == (text, "ana", "1@host")


def test_a_wait_is_no_event() -> None:
    """A plan that waits for a time adds no event after `plan_started`."""
    history = History()
    history.plan(PlanOutcome(wait_=timedelta(hours=1)))
    assert types(history.events()) == ["run_started", "plan_started"]


def test_limit_reached_comes_before_the_final_turns_first_plan() -> None:
    """`limit_reached` has the limit of the final turn; the next plan of that turn does not repeat it."""
    finalize = Finalize(reason="max_tool_calls", message="used up")
    history = History()
    history.plan(PlanOutcome(final=Message.assistant("x")), finalize=finalize)
    history.plan(PlanOutcome(fault="this turn may only answer"), finalize=finalize)
    assert types(history.events())[1:3] == ["limit_reached", "plan_started"]
    assert only(history.events(), "limit_reached").limit == finalize


def test_a_call_starts_and_ends() -> None:
    """`tool_start` has the call, `tool_end` its result, the call's id and the duration (SR-66, SR-133)."""
    call = request("c1", site="s-1")
    history = History()
    history.plan(PlanOutcome(calls=[call], dispatches=[Dispatch()]))
    of = history.call(call)
    history.add("completed", name="ExecuteToolActivity", of=of, value=ToolResult(result=3))
    events = history.events()
    assert only(events, "assistant_message").message == Message.calls([call])
    assert only(events, "tool_start").call == call
    end = only(events, "tool_end")
    assert end.result == ToolResult(name="a.b.c", tool_call_id="c1", result=3)
    assert end.duration == timedelta(seconds=1)


def test_a_models_own_message_becomes_the_assistant_message() -> None:
    """A plan's own message takes the place of the message that is made from its calls."""
    message = Message.calls([request("c1")]).model_copy(update={"role": "assistant"})
    said = Message(role="assistant", parts=[*Message.assistant("hm").parts, *message.parts])
    history = History()
    history.plan(PlanOutcome(calls=[request("c1")], dispatches=[Dispatch()], message=said))
    assert only(history.events(), "assistant_message").message == said


def test_a_call_whose_activity_failed_ends_with_the_error() -> None:
    """The error of a failed activity becomes the error of the call's result (SR-133)."""
    history = History()
    error = ToolError.with_cause("boundary", KeyError("x"))
    history.add("failed", of=history.call(request("c1")), error=error)
    assert only(history.events(), "tool_end").result == ToolResult(
        name="a.b.c", tool_call_id="c1", error=error
    )


@pytest.mark.parametrize(
    ("timeout", "said"),
    [
        ("schedule-to-start", "task queue gpu within 30 s: none runs there"),
        ("heartbeat", "outcome is unknown"),
    ],
)
def test_a_call_whose_activity_timed_out_ends_as_in_the_run(timeout: str, said: str) -> None:
    """An activity's time-out becomes the error and the hint that the planner receives."""
    history = History()
    task = ToolTask(name="a.b.c", agent_id="a.b")
    of = history.add("scheduled", key="c1", value=task, queue="gpu", waits="30 s")
    history.add("failed", of=of, error=ToolError.new("activity timed out"), timeout=timeout)
    result = only(history.events(), "tool_end").result
    assert said in result.error.message
    assert result.retry_hint.reason == "tool_unavailable"


@pytest.mark.parametrize("reason", ["too slow", None], ids=str)
def test_cancelled_calls_end_with_the_reason(reason: str | None) -> None:
    """Calls and child runs that are cancelled with the run end with the run's own result, which has the reason."""
    history = History()
    call, child = history.call(request("c1")), history.add("child_initiated", name="r/c2", value=RUN)
    history.add("cancel_requested", value=reason)
    history.add("failed", of=call)
    history.add("child_failed", of=child)
    first, second = [event.result for event in history.events() if event.type == "tool_end"]
    assert first == outcomes.cancellation_result(request("c1"), reason)
    assert (second.error, second.run_link.run_id) == (first.error, "r/c2")


def test_a_plan_that_failed_ends_no_call() -> None:
    """The failure of a PlanActivity becomes no `tool_end`."""
    history = History()
    of = history.add("scheduled", name="PlanActivity", value=PlanTask(agent_id="a.b"))
    history.add("failed", of=of, error=ToolError.new("no plan"))
    assert types(history.events()) == ["run_started", "plan_started"]


def test_calls_that_need_no_activity_start_and_end_with_the_plan() -> None:
    """An answered call ends with the dispatch's result, a refused one as `not_executed` (SR-130)."""
    calls = [request("c1"), request("c2"), request("c3")]
    answer = ToolResult(name="a.b.c", tool_call_id="c1", error=ToolError.new("unknown"))
    plan = PlanOutcome(
        calls=calls,
        dispatches=[Dispatch(kind="answered", result=answer), Dispatch()],
        refused="max_calls_per_step",
        policy=RunPolicy(max_calls_per_step=2),
    )
    history = History()
    history.plan(plan)
    events = history.events()[3:]
    assert [event.type for event in events] == ["tool_start", "tool_result_received", "tool_end"] * 2
    assert [event.call for event in events[::3]] == [calls[0], calls[2]]
    assert events[1].result == events[2].result == answer
    assert events[4].error == events[5].error
    assert events[5].error.code == "not_executed"
    assert "at most 2 calls" in events[5].error.message


def test_the_first_plans_policy_holds_for_later_plans() -> None:
    """Later plans have no policy, so refusals name the limits of the first plan's policy."""
    history = History()
    history.plan(PlanOutcome(wait_=timedelta(1), policy=RunPolicy(max_calls_per_step=2)))
    history.plan(PlanOutcome(calls=[request("c1")], refused="max_calls_per_step"))
    assert "at most 2 calls" in only(history.events(), "tool_end").result.error.message


def test_a_child_run_is_linked() -> None:
    """`agent_run_started`, between a call's start and end, has the link by which a client follows the child (SR-54)."""
    link = RunLink(run_id="r/c1", agent_id="a.child", parent_run_id="r", parent_tool_call_id="c1")
    call = request("c1", topic="x")
    history = History()
    history.plan(PlanOutcome(calls=[call], dispatches=[Dispatch(kind="child")]))
    child = RunInput(agent_id="a.child", messages=[Message.user("x")])
    of = history.add("child_initiated", name="r/c1", value=child)
    history.add("child_started", of=of)
    output = RunOutput(run_id="r/c1", agent_id="a.child", final=Message.assistant("42"), children_count=2)
    history.add("child_completed", of=of, value=output)
    events = history.events()[3:]
    assert types(events) == ["tool_start", "agent_run_started", "tool_end"]
    start, linked, _, end = events
    assert start.call == linked.call == call
    assert linked.run_link == end.result.run_link == link
    assert (end.result.result, end.result.children_count) == ("42", 2)
    assert end.duration == timedelta(seconds=2)


def test_a_child_that_failed_ends_its_call() -> None:
    """The call's error has the child's failure as its cause, and the result keeps the link (SR-87)."""
    error = ToolError.with_cause("gone", KeyError("x"))
    history = History()
    of = history.add("child_initiated", name="r/c1", value=None)
    history.add("child_failed", of=of, error=error)
    result = only(history.events(), "tool_end").result
    assert result.error.message == "the agent run r/c1 failed"
    assert result.error.cause == error
    assert result.run_link == RunLink(run_id="r/c1", agent_id="", parent_run_id="r", parent_tool_call_id="c1")


def test_a_question_has_its_final_id() -> None:
    """`await_clarification` has the question's id as the run made it, unique in the run."""
    question = AwaitClarification(question="?", restrict_to_tool="a.b.c")
    history = History()
    for _ in range(2):
        history.plan(PlanOutcome(await_=question))
        history.add("sent", name="provide_clarification", value=[{"answer": "x"}])
    asked = [event.question.id for event in history.events() if event.type == "await_clarification"]
    assert asked == ["fix-a.b.c", "fix-a.b.c#2"]


def test_an_answer_begins_a_new_turn() -> None:
    """An answer belongs to the turn that asked, and later events to the next (SR-65, ME-20)."""
    history = History()
    history.plan(PlanOutcome(await_=AwaitClarification(id="q", question="?")))
    history.add("sent", name="provide_clarification", value=[{"id": "q", "answer": "s-1", "by": "ana"}])
    history.plan(PlanOutcome(final=Message.assistant("done")))
    events = history.events()
    answered = only(events, "await_answered")
    assert (answered.await_id, answered.text, answered.by, answered.turn_id) == ("q", "s-1", "ana", "t1")
    assert events[-1].turn_id == "t2"


def test_an_answer_that_is_refused_is_a_note() -> None:
    """A signal that answers no wait becomes a `planner_note` and changes nothing."""
    history = History()
    history.add("sent", name="provide_clarification", value=[{"answer": "x"}])
    history.plan(PlanOutcome(await_=AwaitClarification(id="q", question="?")))
    history.add("sent", name="provide_clarification", value=["x"])
    events = history.events()
    notes = [event.text for event in events if event.type == "planner_note"]
    assert notes[0] == "answer refused: the run waits for nothing of this kind"
    assert notes[1].startswith("answer refused: an answer is an object")
    assert {event.turn_id for event in events} == {"t1"}


def test_a_completed_run_ends_with_its_output() -> None:
    """`run_completed` has the output, and the stream ends after it."""
    output = RunOutput(run_id="r", agent_id="a.b", final=Message.assistant("done"))
    history = History()
    history.add("run_completed", value=output)
    events = history.events()
    assert types(events) == ["run_started", "run_completed", END]
    assert events[1].output == output


@pytest.mark.parametrize("kind", ["run_failed", "run_canceled", "run_terminated", "run_timed_out"])
def test_any_other_end_has_the_reason(kind: str) -> None:
    """The event of a failed, canceled, terminated or timed-out run has the error's text and code."""
    history = History()
    history.add(kind, error=ToolError(message="why", code="Kind", cause=ToolError.new("because")))
    end = history.events()[-2]
    assert (end.type, end.text, end.code) == (kind, "why: because", "Kind")


def test_open_calls_end_with_the_run() -> None:
    """Termination ends the open calls and child runs as `run_terminated`; the plan in flight has no such event."""
    history = History()
    history.call(request("c1"))
    history.add("child_initiated", name="r/c2", value=RUN)
    history.add("scheduled", name="PlanActivity", value=PlanTask(agent_id="a.b"))
    history.add("run_terminated", error=ToolError.new("by ana"))
    ends = [event.result for event in history.events() if event.type == "tool_end"]
    assert [(end.tool_call_id, end.error.code) for end in ends] == [
        ("c1", "run_terminated"),
        ("c2", "run_terminated"),
    ]
    assert ends[1].run_link.run_id == "r/c2"


def test_an_unknown_record_is_ignored(subtests: pytest.Subtests) -> None:
    """A record of a later version, or the end of something that was never started, makes no event."""
    rows = [
        {"kind": "later", "value": 1},
        {"kind": "scheduled", "name": "AnotherActivity", "value": None},
        {"kind": "completed", "of": 99, "value": ToolResult()},
        {"kind": "completed", "of": 99, "value": None},
        {"kind": "failed", "of": 99, "error": ToolError.new("x")},
        {"kind": "child_started", "of": 99},
        {"kind": "child_completed", "of": 99},
        {"kind": "child_failed", "of": 99},
    ]
    for record in rows:
        with subtests.test(str(f"{record['kind']}-{len(record)}-{record.get('value')}")):
            history = History()
            history.add(**record)
            assert types(history.events()) == ["run_started"]


# Invariants over generated runs.

ENDS = ["ok", "error", "timeout", "answered", "refused", "child", "child_failed", "child_unstarted", "cut"]


def played(steps: list[Any], end: str) -> list[HistoryRecord]:
    """The history of a run; a step is a list of its calls' ends, or one of `ask`, `wait` and `fault`."""
    history, count = History(), 0
    for step in steps:
        if step == "ask":
            history.plan(PlanOutcome(await_=AwaitClarification(question="?")))
            history.add("answer", value={"answer": ""})
            history.add("sent", name="provide_clarification", value=[{"answer": "x"}])
        elif step == "wait":
            history.plan(PlanOutcome(wait_=timedelta(1), notes=["zzz"]))
        elif step == "fault":
            history.plan(PlanOutcome(fault="no", usage=Usage(input_tokens=1)))
        else:
            step.sort(key=lambda how: how == "refused")
            calls = [request(f"c{count + n}") for n in range(len(step))]
            count += len(step)
            play_step(history, calls, step, cut_short=end == "run_terminated")
    error = None if end == "run_completed" else ToolError.new("x")
    value = RunOutput(run_id="r", agent_id="a.b", final=Message.assistant("x")) if error is None else None
    history.add(end, value=value, error=error)
    return history.records


def play_step(history: History, calls: list[ToolRequest], ends: list[str], *, cut_short: bool) -> None:
    dispatches = [
        Dispatch(kind="answered", result=ToolResult(name=call.name, tool_call_id=call.tool_call_id))
        if how == "answered"
        else Dispatch(kind="child" if how.startswith("child") else "activity")
        for call, how in zip(calls, ends, strict=True)
        if how != "refused"
    ]
    history.plan(PlanOutcome(calls=calls, dispatches=dispatches, refused="max_tool_calls"))
    open_calls: list[tuple[str, int]] = []
    for call, how in zip(calls, ends, strict=True):
        if how.startswith("child"):
            of = history.add("child_initiated", name=f"r/{call.tool_call_id}", value=RUN)
            if how != "child_unstarted":
                history.add("child_started", of=of)
            open_calls.append((how, of))
        elif how not in ("answered", "refused"):
            open_calls.append((how, history.call(call)))
    for how, of in reversed(open_calls):
        if how == "ok" or (how == "cut" and not cut_short):
            history.add("completed", name="ExecuteToolActivity", of=of, value=ToolResult(result=1))
        elif how == "child":
            output = RunOutput(run_id="x", agent_id="a.b", final=Message.assistant("x"))
            history.add("child_completed", of=of, value=output)
        elif how.startswith("child"):
            history.add("child_failed", of=of, error=ToolError.new("x"))
        elif how != "cut":
            history.add("failed", of=of, error=ToolError.new("x"), timeout="heartbeat" * (how == "timeout"))


RUNS = st.builds(
    played,
    st.lists(
        st.sampled_from(["ask", "wait", "fault"]) | st.lists(st.sampled_from(ENDS), min_size=1, max_size=6),
        max_size=5,
    ),
    st.sampled_from(["run_completed", "run_failed", "run_canceled", "run_terminated", "run_timed_out"]),
)


def folded(fold: Fold, records: list[HistoryRecord]) -> list[Event]:
    return [event for record in records for event in fold.feed(record)]


@given(RUNS)
def test_event_ids_are_strictly_increasing(records: list[HistoryRecord]) -> None:
    """Event ids increase as texts, so that a stream that resumes after an id neither misses nor repeats an event."""
    ids = [event.event_id for event in folded(Fold("r"), records)]
    assert ids == sorted(set(ids))


def test_event_ids_increase_within_a_plan_of_thousands_of_calls() -> None:
    """The largest plan makes more than 20,000 events of one record, with increasing ids."""
    calls = [request(f"c{n}") for n in range(10_000)]
    history = History()
    history.plan(PlanOutcome(calls=calls, refused="max_calls_per_step"))
    ids = [event.event_id for event in history.events()]
    assert ids == sorted(set(ids))
    assert len(ids) > 20_000


@given(RUNS)
def test_every_call_starts_once_and_ends_once(records: list[HistoryRecord]) -> None:
    """In a run that ended, each tool_start has exactly one tool_end, after it (SR-130)."""
    state: dict[str, str] = {}
    for event in folded(Fold("r"), records):
        if event.type == "tool_start":
            assert event.call.tool_call_id not in state
            state[event.call.tool_call_id] = "running"
        elif event.type == "tool_end":
            assert state[event.result.tool_call_id] == "running"
            assert event.duration >= timedelta(0)
            state[event.result.tool_call_id] = "ended"
    assert set(state.values()) <= {"ended"}


@given(RUNS, st.data())
def test_a_copied_fold_continues_from_its_state(records: list[HistoryRecord], data: st.DataObject) -> None:
    """Feeding a history in two parts, with a copy of the fold for the second, gives the same events as at once."""
    cut = data.draw(st.integers(0, len(records)))
    first = Fold("r")
    events = folded(first, records[:cut])
    events += folded(copy.deepcopy(first), records[cut:])
    assert events == folded(Fold("r"), records)


@given(RUNS)
def test_a_stream_begins_and_ends(records: list[HistoryRecord]) -> None:
    """The first event is the run's start, the last the end of the stream, each once, and times never decrease."""
    events = folded(Fold("r"), records)
    assert types(events).count("run_started") == types(events).count(END) == 1
    assert (events[0].type, events[-1].type) == ("run_started", END)
    assert all(one.time <= other.time for one, other in itertools.pairwise(events))
