"""The fold of calls that wait, continue elsewhere or are cut short: their end events, and the status before."""

from datetime import timedelta

import pytest

from sojourn import (
    AwaitClarification,
    AwaitConfirmation,
    InputForm,
    InputRequired,
    Message,
    Principal,
    RunOutput,
    RunPolicy,
    RunStatus,
    ToolError,
    ToolRequest,
    ToolResult,
    Usage,
)
from sojourn.contracts import Finalize, RunInput
from sojourn.contracts.dispatch import REPEATED, Dispatch
from sojourn.contracts.tasks import ApproverTask, ApproverVerdict, PlanOutcome, ToolTask
from sojourn.core.history.record import HistoryRecord
from sojourn.events import Event
from sojourn.values.timers import TIME_BUDGET, expiry_timer

from .written import RUN, START, History, only, request, types

BUDGET = timedelta(seconds=100)
CHILD, LOCAL, OUTSIDE = (Dispatch(kind=kind) for kind in ("child", "local", "external"))
CALLS = [request(f"c{n}") for n in (1, 2, 3)]
ASKING = RunPolicy(interrupts_allowed=True)
NEEDY = ToolResult(input_required=InputRequired(forms=[InputForm(key="k", message="When?")]))
ROUNDS = Finalize(reason="max_tool_rounds", message="Enough.")
OVERTIME = Finalize(reason="time_budget", message="Too late.")


def confirm(call_id: str, **fields: object) -> Dispatch:
    return Dispatch(
        confirm=AwaitConfirmation(id=f"confirm-{call_id}", tool_call_id=call_id, tool="a.b.c", **fields)
    )


def begun(*dispatches: Dispatch, policy: RunPolicy | None = None) -> History:
    """A run whose first plan takes a second and has one call for each dispatch."""
    history = History()
    history.plan(PlanOutcome(calls=CALLS[: len(dispatches)], dispatches=list(dispatches), policy=policy))
    return history


def supplied(history: History, call: ToolRequest, **given: object) -> int:
    """Send the result of an external call and schedule its check; returns the id of the scheduled event."""
    result = {"tool_call_id": call.tool_call_id, "result": 1}
    history.add("sent", name="provide_tool_results", value=[{"results": [result], **given}], identity="cli")
    task = ToolTask(name=call.name, agent_id="a.b", given={"result": 1})
    return history.add("scheduled", name="ExecuteToolActivity", key=call.tool_call_id, value=task)


def ends(events: list[Event]) -> list[tuple[str, str]]:
    """The id and the outcome of each ended call, in the order of their ends."""
    ended = [event for event in events if event.type == "tool_end"]
    return [(event.tool_call_id, event.error.code or "" if event.error else "ok") for event in ended]


def status(history: History) -> RunStatus:
    return history.folded()[0].status()


def shown(history: History) -> dict[str, str]:
    """The state of each call in the status."""
    return {call.tool_call_id: call.state for call in status(history).calls}


def notes(history: History) -> list[str]:
    return [event.text for event in history.events() if event.type == "planner_note"]


# External calls.


def test_a_wait_for_results_that_expires_ends_all_calls_that_still_wait() -> None:
    """Unanswered calls end as `timeout`, a call that was answered before keeps its result, and the step is counted."""
    history = begun(OUTSIDE, OUTSIDE, OUTSIDE)
    history.add("completed", of=supplied(history, CALLS[0]), value=ToolResult(result=1))
    history.add("timer_fired", name=expiry_timer("external-c1"))
    assert ends(history.events()) == [("c1", "ok"), ("c2", "timeout"), ("c3", "timeout")]
    assert status(history).tool_calls == 3


def test_a_result_that_is_being_checked_when_its_wait_expires_counts() -> None:
    """A result that was sent in time answers its call, and the expired wait has one `await_answered`."""
    history = begun(OUTSIDE, OUTSIDE)
    of = supplied(history, CALLS[0])
    history.add("timer_fired", name=expiry_timer("external-c1"))
    history.add("completed", of=of, value=ToolResult(result=1))
    assert ends(history.events()) == [("c2", "timeout"), ("c1", "ok")]
    assert only(history.events(), "await_answered").code == "expired"


def test_the_sender_of_the_last_result_answers_the_wait() -> None:
    """`await_answered` follows the check of the last result, with its sender's own name and Temporal identity."""
    history = begun(OUTSIDE, OUTSIDE)
    for call, by in zip(CALLS, ("ana", "ben"), strict=False):
        history.add("completed", of=supplied(history, call, by=by), value=ToolResult(result=1))
    answered = only(history.events(), "await_answered")
    assert (answered.await_id, answered.by, answered.identity) == ("external-c1", "ben", "cli")
    assert status(history).awaits == []


# Local calls.


def test_a_local_call_that_continues_as_an_activity_starts_once() -> None:
    """A local call whose worker was lost has one `tool_start`, and its duration includes the first attempt."""
    history = begun(LOCAL)
    history.add("local_ended", key="c1", error=ToolError.new("lost", code=REPEATED))
    history.add("completed", of=history.call(CALLS[0]), value=ToolResult(result=1))
    events = history.events()
    assert types(events)[3:] == ["tool_start", "tool_end"]
    assert only(events, "tool_end").duration == timedelta(seconds=3)


@pytest.mark.parametrize("kind", ["run_failed", "run_terminated"])
def test_a_local_call_in_flight_ends_with_the_run(kind: str) -> None:
    """A local call without a marker in the history ends with the event that ends the run."""
    history = begun(LOCAL)
    history.add(kind, error=ToolError.new("why"))
    assert ends(history.events()) == [("c1", kind)]


def test_a_cancel_request_ends_waiting_calls_and_not_those_in_flight() -> None:
    """After a cancel request local calls and activities may still end with a result; a call under approval may not."""
    history = begun(LOCAL, confirm("c2"), Dispatch())
    of = history.call(CALLS[2])
    history.add("cancel_requested", value="enough")
    assert shown(history) == {"c1": "running", "c2": "failed", "c3": "running"}
    assert status(history).awaits == []
    history.add("local_ended", key="c1", value=ToolResult(result=1))
    history.add("completed", of=of, value=ToolResult(result=1))
    history.add("run_canceled")
    assert ends(history.events()) == [("c1", "ok"), ("c3", "ok"), ("c2", "canceled")]


# Tools that need input.


@pytest.mark.parametrize("kind", ["activity", "local"])
def test_a_call_asks_for_input_twenty_times_at_most(kind: str) -> None:
    """After 20 answers a further request for input ends the call with an error, and opens no question."""
    history = begun(Dispatch(kind=kind), policy=ASKING)
    for _ in range(20):
        needs_input(history, kind)
        history.add("sent", name="provide_clarification", value=[{"answer": {}}])
        assert shown(history) == {"c1": "running"}
    needs_input(history, kind)
    events = history.events()
    assert types(events).count("await_clarification") == 20
    assert types(events).count("tool_start") == 1
    assert ends(events) == [("c1", "input_required")]
    assert status(history).awaits == []


def needs_input(history: History, kind: str) -> None:
    """End the first call's attempt with a request for input."""
    if kind == "local":
        history.add("local_ended", key="c1", value=NEEDY)
    else:
        history.add("completed", of=history.call(CALLS[0]), value=NEEDY)


def test_a_request_for_input_fails_where_questions_are_not_allowed() -> None:
    """Without `interrupts_allowed` the call ends as `input_required`, and no question is asked."""
    history = begun(Dispatch())
    needs_input(history, "activity")
    assert ends(history.events()) == [("c1", "input_required")]
    assert "await_clarification" not in types(history.events())


# Approvals.


def test_a_denied_call_ends() -> None:
    """A denied call ends as `denied`, with and without a reason."""
    history = begun(confirm("c1"), confirm("c2"), policy=ASKING)
    history.add("sent", name="provide_confirmation", value=[{"id": "confirm-c1", "approved": False}])
    denial = {"id": "confirm-c2", "approved": False, "reason": "no"}
    history.add("sent", name="provide_confirmation", value=[denial])
    assert ends(history.events()) == [("c1", "denied"), ("c2", "denied")]
    assert shown(history) == {"c1": "denied", "c2": "denied"}


@pytest.mark.parametrize("end", ["run_canceled", "run_terminated", "run_timed_out"])
def test_a_run_that_has_ended_judges_no_decision(end: str) -> None:
    """A run may end while a worker judges, whose verdict the history then never has."""
    dispatch = confirm("c1", approver_check="judge")
    history = begun(dispatch, policy=ASKING)
    ana = Principal(subject="ana")
    sent = {"id": "confirm-c1", "approved": True, "principal": ana.model_dump()}
    history.add("sent", name="provide_confirmation", value=[sent])
    task = ApproverTask(agent_id="a.b", wait=dispatch.confirm, principal=ana, sent=sent)
    history.add("scheduled", name="JudgeApproverActivity", value=task)
    assert status(history).judging == ["confirm-c1"]
    history.add(end)
    assert status(history).judging == []


@pytest.mark.parametrize("came", ["before", "after"])
def test_a_verdict_after_the_end_of_the_time_comes_too_late(came: str) -> None:
    """A run of an earlier version read the end of a wait's time first if it came first in the same task."""
    dispatch = confirm("c1", approver_check="judge")
    history = begun(dispatch, policy=ASKING)
    ana = Principal(subject="ana")
    sent = {"id": "confirm-c1", "approved": True, "principal": ana.model_dump()}
    history.add("sent", name="provide_confirmation", value=[sent])
    task = ApproverTask(agent_id="a.b", wait=dispatch.confirm, principal=ana, sent=sent, by_signal=True)
    of = history.add("scheduled", name="JudgeApproverActivity", value=task)
    fired = HistoryRecord(1, START, "timer_fired", name=expiry_timer("confirm-c1"))
    due = {"due": (fired,)}
    history.add("completed", of=of, value=ApproverVerdict(allowed=True), **(due if came == "before" else {}))
    history.add("due", **(due if came == "after" else {}))
    assert shown(history) == {"c1": "denied" if came == "before" else "running"}
    assert only(history.events(), "await_answered").code == ("expired" if came == "before" else None)


@pytest.mark.parametrize("judged", [True, False])
def test_a_decision_that_the_run_accepted_stays_accepted(judged: bool) -> None:
    """A decision by update was checked when it was accepted; a signal without the digest of the arguments is refused."""
    history = begun(confirm("c1", binds=True, payload_digest="d"), policy=ASKING)
    history.add("sent", name="provide_confirmation", value=[{"approved": True}], judged=judged)
    assert shown(history) == {"c1": "running" if judged else "waiting"}
    assert len(notes(history)) == (0 if judged else 1)


# Child runs.


@pytest.mark.parametrize(
    ("first", "second", "own", "counted"),
    [(5, 0, 1, 5), (0, 0, 3, 3), (2, 0, 3, 3), (5, 7, 1, 12)],
    ids=["a child's is longer", "own alone", "own is longer", "one child after the other"],
)
def test_the_active_time_of_child_runs_is_counted_once(
    first: int, second: int, own: int, counted: int
) -> None:
    """Time in which run and child run were both active counts once; the times of consecutive child runs add up."""
    history = begun(CHILD, Dispatch(), CHILD, policy=RunPolicy(time_budget=BUDGET))
    before = status(history).caps.time
    of = history.add("child_initiated", name="r/c1", value=RUN)
    activity = history.call(CALLS[1])
    for _ in range(own - 1):
        history.add("later")
    history.add("completed", of=activity, value=ToolResult(result=1))
    history.add("child_completed", of=of, value=output("r/c1", first))
    of = history.add("child_initiated", name="r/c3", value=RUN)
    history.add("child_completed", of=of, value=output("r/c3", second))
    assert before == BUDGET - timedelta(seconds=1)  # the plan
    assert status(history).caps.time == before - timedelta(seconds=counted)


def test_the_active_time_of_child_runs_side_by_side_is_the_longest() -> None:
    """Of child runs in parallel, the longest active time counts."""
    history = begun(CHILD, CHILD, policy=RunPolicy(time_budget=BUDGET))
    both = [history.add("child_initiated", name=f"r/{call.tool_call_id}", value=RUN) for call in CALLS[:2]]
    for of, seconds in zip(both, (7, 5), strict=True):
        history.add("child_completed", of=of, value=output("r", seconds))
    assert status(history).caps.time == BUDGET - timedelta(seconds=8)


def output(run_id: str, seconds: int) -> RunOutput:
    """The output of a child run that was active for this many seconds."""
    return RunOutput(
        run_id=run_id,
        agent_id="a.child",
        final=Message.assistant("x"),
        active_time=timedelta(seconds=seconds),
    )


@pytest.mark.parametrize("is_known", [True, False])
def test_only_an_open_child_runs_spending_counts(is_known: bool) -> None:
    """A `child_spent` signal counts only while that child run is open, since any client may send one."""
    history = begun(CHILD, policy=RunPolicy(max_tool_calls=20))
    signal = {"run_id": "r/c1", "spent": {"children_count": 4, "telemetry": {"input_tokens": 9}}}
    if not is_known:
        history.add("sent", name="child_spent", value=[signal])
    of = history.add("child_initiated", name="r/c1", value=RUN)
    if is_known:
        history.add("sent", name="child_spent", value=[signal])
    history.add("child_failed", of=of)
    end = only(history.events(), "tool_end").result
    assert end.children_count == (4 if is_known else 0)
    assert status(history).caps.tool_calls == (15 if is_known else 19)


def test_a_child_runs_answer_has_bounds_if_its_tool_is_bounded() -> None:
    """The bounds are read from the answer only where the dispatch is bounded; else `returned` is an ordinary field."""
    history = begun(CHILD.model_copy(update={"bounded": True}), CHILD)
    child = RunInput(agent_id="a.child", messages=[], answer={"type": "object"})
    for call in CALLS[:2]:
        of = history.add("child_initiated", name=f"r/{call.tool_call_id}", value=child)
        answer = output("r", 1).model_copy(update={"result": {"returned": 1, "total": 5}})
        history.add("child_completed", of=of, value=answer)
    bounds = [event.bounds for event in history.events() if event.type == "tool_end"]
    assert bounds[0] is not None
    assert (bounds[0].returned, bounds[0].total, bounds[1]) == (1, 5, None)


# Turns, limits and time.


def test_messages_of_a_resume_begin_a_turn() -> None:
    """`run_resumed` belongs to the paused turn, and later events to the next."""
    history = History()
    history.add("sent", name="pause", value=["wait"])
    history.add("sent", name="resume", value=[{"note": "go", "messages": ["Look."], "by": "ana"}])
    history.plan(PlanOutcome(final=Message.assistant("done")))
    resumed = only(history.events(), "run_resumed")
    assert (resumed.text, resumed.messages, resumed.by, resumed.turn_id) == ("go", ["Look."], "ana", "t1")
    assert history.events()[-1].turn_id == "t2"


def test_a_resume_of_a_run_that_is_not_paused_is_refused() -> None:
    """The refusal becomes a note, and the messages begin no turn."""
    history = History()
    history.add("sent", name="resume", value=[{"messages": ["Look."]}])
    assert notes(history) == ["resume refused: the run is not paused"]
    assert status(history).turn_id == "t1"


def lifted() -> History:
    """A run whose last plan was refused, and which a person then resumed with a message."""
    history = History()
    history.plan(PlanOutcome(fault="no", policy=RunPolicy(time_budget=BUDGET)), finalize=ROUNDS)
    history.add("sent", name="pause", value=["wait"])
    history.add("sent", name="resume", value=[{"messages": ["Go on."]}])
    return history


def test_each_turn_has_its_own_limit_reached() -> None:
    """After a person's message has lifted a limit, the same limit is reported again in the next turn."""
    history = lifted()
    history.plan(PlanOutcome(calls=CALLS[:1], refused="max_tool_rounds"))
    history.plan(PlanOutcome(final=Message.assistant("done")), finalize=ROUNDS)
    turns = [event.turn_id for event in history.events() if event.type == "limit_reached"]
    assert turns == ["t1", "t2"]


def test_an_overtime_plan_after_a_lifted_limit_is_no_fault() -> None:
    """A lifted limit makes no plan the last: another plan follows one that was cut off, without a note."""
    history = lifted()
    before = notes(history)
    history.plan(PlanOutcome(overtime=True))
    assert notes(history) == before
    assert status(history).phase == "finalizing"


def test_an_empty_last_plan_is_refused() -> None:
    """An empty plan is excused by overtime only if it is not the last; the last one becomes a planner fault."""
    history = History()
    history.plan(PlanOutcome(overtime=True))
    history.plan(PlanOutcome(overtime=True), finalize=OVERTIME)
    (note,) = notes(history)
    assert note.startswith("planner fault: the plan was completed by hand")


def test_a_fault_of_the_last_plan_is_noted_after_the_time_budget() -> None:
    """Only a plan that the time budget cut off is without a note."""
    history = History()
    history.plan(PlanOutcome(wait_=timedelta(1), policy=RunPolicy(time_budget=BUDGET)))
    history.add("timer_fired", name=TIME_BUDGET)
    history.plan(PlanOutcome(fault="no answer"), finalize=OVERTIME)
    assert notes(history) == ["planner fault: no answer"]


def test_a_sleep_that_counts_stops_counting_when_it_is_cut_short() -> None:
    """After a sleep that counts as active time, a wait for a person does not count."""
    history = History()
    policy = RunPolicy(time_budget=BUDGET, interrupts_allowed=True)
    history.plan(PlanOutcome(wait_=timedelta(hours=1), wait_counts=True, policy=policy))
    history.plan(PlanOutcome(await_=AwaitClarification(question="?")))
    left = status(history).caps.time
    history.add("later")
    assert status(history).caps.time == left == BUDGET - timedelta(seconds=3)


def test_invalid_counts_count_as_zero() -> None:
    """A negative count, in an activity that was completed by hand, gives back none of the limits."""
    history = begun(Dispatch(), policy=RunPolicy(max_tool_calls=10, max_tokens=100))
    history.add("completed", of=history.call(CALLS[0]), value=ToolResult(result=1, children_count=-5))
    history.plan(PlanOutcome(fault="no", usage=Usage(input_tokens=-50, output_tokens=7)))
    left = status(history).caps
    assert (left.tool_calls, left.tokens) == (9, 93)


def test_events_after_a_reset_have_later_ids() -> None:
    """Events after a reset have later ids, so a follower gets them all, and a note with the operator and the reason."""
    history = begun(Dispatch())
    history.add("reset", value="a wrong turn", identity="ops")
    history.add("completed", of=99, value=ToolResult(result=1))
    first, *_, last = history.events()
    assert first.event_id < last.event_id
    assert last.event_id.startswith("1-")
    assert (last.text, last.identity) == ("the run was reset to this point: a wrong turn", "ops")
