"""The fold of calls that wait, go on elsewhere or are cut short: how each ends, and what the status says meanwhile."""

from datetime import timedelta

import pytest

from sojourn import (
    AwaitClarification,
    AwaitConfirmation,
    Event,
    Finalize,
    InputForm,
    InputRequired,
    Message,
    RunInput,
    RunOutput,
    RunPolicy,
    RunStatus,
    ToolError,
    ToolRequest,
    ToolResult,
    Usage,
)
from sojourn.contracts.dispatch import REPEATED, Dispatch
from sojourn.contracts.tasks import PlanOutcome, ToolTask
from sojourn.core.values.timers import TIME_BUDGET, expiry_of

from .written import RUN, History, only, request, types

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
    """A run whose first plan has one call for each dispatch, which takes a second."""
    history = History()
    history.plan(PlanOutcome(calls=CALLS[: len(dispatches)], dispatches=list(dispatches), policy=policy))
    return history


def supplied(history: History, call: ToolRequest, **given: object) -> int:
    """A result is sent from outside, and its check begins; returns the id of that."""
    result = {"tool_call_id": call.tool_call_id, "result": 1}
    history.add("sent", name="provide_tool_results", value=[{"results": [result], **given}], identity="cli")
    task = ToolTask(name=call.name, agent_id="a.b", given={"result": 1})
    return history.add("scheduled", name="ExecuteToolActivity", key=call.tool_call_id, value=task)


def ends(events: list[Event]) -> list[tuple[str, str]]:
    """How each call ended, in the order in which they did."""
    ended = [event for event in events if event.type == "tool_end"]
    return [(event.tool_call_id, event.error.code or "" if event.error else "ok") for event in ended]


def status(history: History) -> RunStatus:
    return history.folded()[0].status()


def shown(history: History) -> dict[str, str]:
    """How the calls stand."""
    return {call.tool_call_id: call.state for call in status(history).calls}


def notes(history: History) -> list[str]:
    return [event.text for event in history.events() if event.type == "planner_note"]


# Results from outside.


def test_a_wait_for_results_that_expires_ends_all_calls_that_still_wait() -> None:
    """Each is answered as `timeout`, one that was answered before is not, and the step is over."""
    history = begun(OUTSIDE, OUTSIDE, OUTSIDE)
    history.add("completed", of=supplied(history, CALLS[0]), value=ToolResult(result=1))
    history.add("timer_fired", name=expiry_of("external-c1"))
    assert ends(history.events()) == [("c1", "ok"), ("c2", "timeout"), ("c3", "timeout")]
    assert status(history).tool_calls == 3


def test_a_result_that_is_checked_when_its_wait_expires_is_the_calls() -> None:
    """What was sent in time counts; the end of the wait is told once."""
    history = begun(OUTSIDE, OUTSIDE)
    of = supplied(history, CALLS[0])
    history.add("timer_fired", name=expiry_of("external-c1"))
    history.add("completed", of=of, value=ToolResult(result=1))
    assert ends(history.events()) == [("c2", "timeout"), ("c1", "ok")]
    assert only(history.events(), "await_answered").code == "expired"


def test_whoever_sends_the_last_result_has_answered() -> None:
    """Once that is checked; who it was, as they say and as Temporal knows them."""
    history = begun(OUTSIDE, OUTSIDE)
    for call, by in zip(CALLS, ("ana", "ben"), strict=False):
        history.add("completed", of=supplied(history, call, by=by), value=ToolResult(result=1))
    answered = only(history.events(), "await_answered")
    assert (answered.await_id, answered.by, answered.identity) == ("external-c1", "ben", "cli")
    assert status(history).awaits == []


# Local calls.


def test_a_local_call_that_goes_on_as_an_ordinary_one_begins_once() -> None:
    """Its worker was lost; it lasts from its first beginning."""
    history = begun(LOCAL)
    history.add("local_ended", key="c1", error=ToolError.new("lost", code=REPEATED))
    history.add("completed", of=history.call(CALLS[0]), value=ToolResult(result=1))
    events = history.events()
    assert types(events)[3:] == ["tool_start", "tool_end"]
    assert only(events, "tool_end").duration == timedelta(seconds=3)


@pytest.mark.parametrize("kind", ["run_failed", "run_terminated"])
def test_a_local_call_that_the_end_finds_at_work_ends_with_it(kind: str) -> None:
    """Nothing in a history tells that one was cut off."""
    history = begun(LOCAL)
    history.add(kind, error=ToolError.new("why"))
    assert ends(history.events()) == [("c1", kind)]


def test_a_request_to_cancel_gives_up_what_waits_and_not_what_is_at_work() -> None:
    """A local call may still answer, and so may an activity; a call that a person was asked about cannot."""
    history = begun(LOCAL, confirm("c2"), Dispatch())
    of = history.call(CALLS[2])
    history.add("cancel_requested", value="enough")
    assert shown(history) == {"c1": "running", "c2": "failed", "c3": "running"}
    assert status(history).awaits == []
    history.add("local_ended", key="c1", value=ToolResult(result=1))
    history.add("completed", of=of, value=ToolResult(result=1))
    history.add("run_canceled")
    assert ends(history.events()) == [("c1", "ok"), ("c3", "ok"), ("c2", "canceled")]


# Tools that ask.


@pytest.mark.parametrize("kind", ["activity", "local"])
def test_a_call_asks_for_input_twenty_times_at_most(kind: str) -> None:
    """Each answer lets it go on the way it began; then it is answered, and nobody is asked any more."""
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
    """The call ends with what its tool asks."""
    if kind == "local":
        history.add("local_ended", key="c1", value=NEEDY)
    else:
        history.add("completed", of=history.call(CALLS[0]), value=NEEDY)


def test_where_nobody_may_be_asked_a_tool_that_asks_is_answered() -> None:
    """Its call ends with an error, and no question is open."""
    history = begun(Dispatch())
    needs_input(history, "activity")
    assert ends(history.events()) == [("c1", "input_required")]
    assert "await_clarification" not in types(history.events())


# Approvals.


def test_a_call_that_is_denied_without_a_reason_ends() -> None:
    """It starts and ends at once, and the run goes on."""
    history = begun(confirm("c1"), confirm("c2"), policy=ASKING)
    history.add("sent", name="provide_confirmation", value=[{"id": "confirm-c1", "approved": False}])
    denial = {"id": "confirm-c2", "approved": False, "reason": "no"}
    history.add("sent", name="provide_confirmation", value=[denial])
    assert ends(history.events()) == [("c1", "denied"), ("c2", "denied")]
    assert shown(history) == {"c1": "denied", "c2": "denied"}


@pytest.mark.parametrize("judged", [True, False])
def test_what_the_run_accepted_once_is_accepted_for_ever(judged: bool) -> None:
    """A decision by update was judged by the rules of its time; one by signal names the arguments it is about."""
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
    """What the run did meanwhile itself passed at the same time; child runs that follow one another add up."""
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
    """They share the time in which they run, and the parent only waits for them."""
    history = begun(CHILD, CHILD, policy=RunPolicy(time_budget=BUDGET))
    both = [history.add("child_initiated", name=f"r/{call.tool_call_id}", value=RUN) for call in CALLS[:2]]
    for of, seconds in zip(both, (7, 5), strict=True):
        history.add("child_completed", of=of, value=output("r", seconds))
    assert status(history).caps.time == BUDGET - timedelta(seconds=8)


def output(run_id: str, seconds: int) -> RunOutput:
    """How a child run ended that was active for so long."""
    return RunOutput(
        run_id=run_id,
        agent_id="a.child",
        final=Message.assistant("x"),
        active_time=timedelta(seconds=seconds),
    )


@pytest.mark.parametrize("is_known", [True, False])
def test_only_a_child_run_that_lives_tells_what_it_spent(is_known: bool) -> None:
    """It does so by a signal before it ends as canceled; anybody may send one."""
    history = begun(CHILD, policy=RunPolicy(max_tool_calls=20))
    told = {"run_id": "r/c1", "spent": {"children_count": 4, "telemetry": {"input_tokens": 9}}}
    if not is_known:
        history.add("sent", name="child_spent", value=[told])
    of = history.add("child_initiated", name="r/c1", value=RUN)
    if is_known:
        history.add("sent", name="child_spent", value=[told])
    history.add("child_failed", of=of)
    end = only(history.events(), "tool_end").result
    assert end.children_count == (4 if is_known else 0)
    assert status(history).caps.tool_calls == (15 if is_known else 19)


def test_an_answer_of_an_agent_that_states_its_bounds_has_them() -> None:
    """Where its tool is declared as bounded; else what it says of `returned` is a field like any other."""
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


def test_what_a_person_says_with_a_resume_begins_a_turn() -> None:
    """The resume belongs to the turn that was paused, what follows to the next."""
    history = History()
    history.add("sent", name="pause", value=["wait"])
    history.add("sent", name="resume", value=[{"note": "go", "messages": ["Look."], "by": "ana"}])
    history.plan(PlanOutcome(final=Message.assistant("done")))
    resumed = only(history.events(), "run_resumed")
    assert (resumed.text, resumed.messages, resumed.by, resumed.turn_id) == ("go", ["Look."], "ana", "t1")
    assert history.events()[-1].turn_id == "t2"


def test_a_resume_of_a_run_that_is_not_paused_is_refused() -> None:
    """It is noted, and what it says begins no turn."""
    history = History()
    history.add("sent", name="resume", value=[{"messages": ["Look."]}])
    assert notes(history) == ["resume refused: the run is not paused"]
    assert status(history).turn_id == "t1"


def lifted() -> History:
    """A run whose last plan was refused, and which a person then told to go on."""
    history = History()
    history.plan(PlanOutcome(fault="no", policy=RunPolicy(time_budget=BUDGET)), finalize=ROUNDS)
    history.add("sent", name="pause", value=["wait"])
    history.add("sent", name="resume", value=[{"messages": ["Go on."]}])
    return history


def test_a_limit_that_a_person_lifted_is_told_again() -> None:
    """Each turn has its own last plan, though the limit says the same."""
    history = lifted()
    history.plan(PlanOutcome(calls=CALLS[:1], refused="max_tool_rounds"))
    history.plan(PlanOutcome(final=Message.assistant("done")), finalize=ROUNDS)
    told = [event.turn_id for event in history.events() if event.type == "limit_reached"]
    assert told == ["t1", "t2"]


def test_a_plan_that_is_cut_off_in_a_turn_without_a_limit_is_passed_over() -> None:
    """A limit that was lifted makes no plan the last: another follows, and there is nothing to tell."""
    history = lifted()
    before = notes(history)
    history.plan(PlanOutcome(overtime=True))
    assert notes(history) == before
    assert status(history).phase == "finalizing"


def test_a_last_plan_that_holds_nothing_is_refused() -> None:
    """Overtime excuses a plan only where another follows; the next is told why."""
    history = History()
    history.plan(PlanOutcome(overtime=True))
    history.plan(PlanOutcome(overtime=True), finalize=OVERTIME)
    (note,) = notes(history)
    assert note.startswith("planner fault: the plan was completed by hand")


def test_a_fault_of_the_last_plan_is_told_when_time_is_over() -> None:
    """Only a plan that was cut off by the time budget is passed over."""
    history = History()
    history.plan(PlanOutcome(wait_=timedelta(1), policy=RunPolicy(time_budget=BUDGET)))
    history.add("timer_fired", name=TIME_BUDGET)
    history.plan(PlanOutcome(fault="no answer"), finalize=OVERTIME)
    assert notes(history) == ["planner fault: no answer"]


def test_a_sleep_that_counts_stops_counting_when_it_is_cut_short() -> None:
    """What follows it is active or not by itself: a run that waits for a person spends nothing."""
    history = History()
    policy = RunPolicy(time_budget=BUDGET, interrupts_allowed=True)
    history.plan(PlanOutcome(wait_=timedelta(hours=1), wait_counts=True, policy=policy))
    history.plan(PlanOutcome(await_=AwaitClarification(question="?")))
    left = status(history).caps.time
    history.add("later")
    assert status(history).caps.time == left == BUDGET - timedelta(seconds=3)


def test_figures_that_are_none_count_as_nothing() -> None:
    """Anybody may complete an activity by hand: neither a plan nor a call gives back what was spent."""
    history = begun(Dispatch(), policy=RunPolicy(max_tool_calls=10, max_tokens=100))
    history.add("completed", of=history.call(CALLS[0]), value=ToolResult(result=1, children_count=-5))
    history.plan(PlanOutcome(fault="no", usage=Usage(input_tokens=-50, output_tokens=7)))
    left = status(history).caps
    assert (left.tool_calls, left.tokens) == (9, 93)


def test_a_run_that_was_reset_is_told_anew_under_later_ids() -> None:
    """Whoever follows it misses nothing of what it does again, and is told who reset it and why."""
    history = begun(Dispatch())
    history.add("reset", value="a wrong turn", identity="ops")
    history.add("completed", of=99, value=ToolResult(result=1))
    first, *_, last = history.events()
    assert first.event_id < last.event_id
    assert last.event_id.startswith("1-")
    assert (last.text, last.identity) == ("the run was reset to this point: a wrong turn", "ops")
