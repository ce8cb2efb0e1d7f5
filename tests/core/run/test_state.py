"""A run's state: what each transition changes, and what it keeps."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sojourn import (
    Artifact,
    AwaitClarification,
    Caps,
    Finalize,
    Message,
    PolicyDecision,
    RunInput,
    RunLink,
    RunPolicy,
    ToolError,
    ToolRequest,
    ToolResult,
)
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.tasks import PlanOutcome
from sojourn.core.awaits.clarification import Clarified
from sojourn.core.awaits.steering import Paused, Resumed
from sojourn.core.run.spent import MAX_ARTIFACTS
from sojourn.core.run.state import MAX_CALLS_SHOWN, MAX_NOTES, RunState, call_status
from sojourn.core.run.status import status_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LINK = RunLink(run_id="r/c1", agent_id="a.child", parent_run_id="r", parent_tool_call_id="c1")
CALLS = [ToolRequest(name="a.b.c", tool_call_id=id) for id in ("c1", "c2")]
STEP = PlanOutcome(calls=CALLS, dispatches=[Dispatch(tool_call_id="c1"), Dispatch(tool_call_id="c2")])
QUESTION = PlanOutcome(await_=AwaitClarification(id="q", question="Which?"))


def begun(**fields: object) -> RunState:
    return RunState.opened(RunInput(agent_id="a.b", messages=[Message.user("Go.")], session_id="s", **fields))


def settled(state: RunState, *results: ToolResult, plan: PlanOutcome = STEP, at: datetime = NOW) -> RunState:
    executed = [
        result.model_copy(update={"tool_call_id": call.tool_call_id, "name": call.name})
        for call, result in zip(plan.calls, results, strict=False)
    ]
    return state.settled(plan, executed, state.safeguards.settle(plan.calls, executed, at), at)


def test_a_run_begins_with_what_its_caller_said() -> None:
    """The first plan is given the opening; nothing is counted yet, and the status says who and where."""
    state = begun(turn_id="mine")
    assert [message.text for message in state.new] == ["Go."]
    status = status_of(state, "r", NOW)
    assert (status.agent_id, status.session_id, status.turn_id) == ("a.b", "s", "mine")
    assert (status.status, status.phase, status.tool_calls) == ("running", "planning", 0)


def test_admitted_calls_run_and_refused_ones_show_when_the_step_is_settled() -> None:
    """A call without a dispatch was not admitted: it is answered with the step, and is not counted."""
    plan = STEP.model_copy(update={"dispatches": STEP.dispatches[:1], "refused": "max_tool_calls"})
    running = begun().step_begun(plan.calls, plan.dispatches)
    assert [(call.tool_call_id, call.state) for call in running.calls.values()] == [("c1", "running")]
    state = settled(running, ToolResult(result=1), plan=plan)
    assert state.calls["c2"].state == "not_executed"
    assert (state.totals.tool_calls, state.totals.rounds) == (1, 1)
    assert [result.tool_call_id for result in state.new[0].tool_results] == ["c1", "c2"]
    assert state.limit is not None
    assert state.limit.reason == "max_tool_calls"


@pytest.mark.parametrize(
    ("result", "state"),
    [
        (ToolResult(result=1), "done"),
        (ToolResult(error=ToolError.new("x" * 500)), "failed"),
        (ToolResult(error=ToolError.new("no", code="denied")), "denied"),
        (ToolResult(error=ToolError.new("no", code="not_executed")), "not_executed"),
        (ToolResult(error=ToolError.new("no", code="canceled")), "failed"),
    ],
)
def test_the_status_of_an_answered_call_is_its_results(result: ToolResult, state: str) -> None:
    """One call's place in the tree is made of its result alone; a long error is cut."""
    shown = call_status(result.model_copy(update={"tool_call_id": "c1", "run_link": LINK}))
    assert (shown.tool_call_id, shown.state, shown.run_link) == ("c1", state, LINK)
    assert len(shown.error or "") <= 200


def test_only_the_last_calls_notes_and_artifacts_are_kept() -> None:
    """A status is small, however long the run: 100 calls, 20 notes; the oldest go."""
    state = begun().with_notes(*(str(n) for n in range(MAX_NOTES + 5)))
    for n in range(MAX_CALLS_SHOWN + 5):
        state = state.with_call(call_status(ToolResult(name="a.b.c", tool_call_id=f"c{n}")))
    assert state.notes == tuple(str(n) for n in range(5, MAX_NOTES + 5))
    assert list(state.calls) == [f"c{n}" for n in range(5, MAX_CALLS_SHOWN + 5)]


def test_a_note_is_taken_back_by_itself() -> None:
    """Another note of the same words stays."""
    note, other = "refused", f"ref{'used'!s}"
    assert begun().with_notes(note, other).without_note(note).notes == (other,)


def test_the_limit_that_ends_a_run_is_told_once() -> None:
    """The planner is given the notice, the status one note; the same limit again is no second note."""
    limit = Finalize(reason="max_cost", message="No money.")
    state = begun().limited(limit)
    assert state.new[-1].text == limit.notice
    assert state.limited(limit).notes == state.notes == ("limit reached: max_cost",)
    assert state.planning().phase == "finalizing"
    assert state.limited(None).limit is None


def test_an_answer_begins_a_turn_and_an_expiry_does_not() -> None:
    """Rounds count anew with what a person says; a limit on rounds is lifted, another stays."""
    rounds = Finalize(reason="max_tool_rounds", message="Enough.")
    state = settled(begun(), ToolResult(result=1), ToolResult(result=2)).limited(rounds)
    answered = state.answered(QUESTION, Clarified("q", "s-1", None))
    assert (answered.turn, answered.turn_id, answered.totals.turn_rounds) == (2, "t2", 0)
    assert (answered.totals.rounds, answered.limit) == (1, None)
    assert [message.text for message in answered.new] == ["s-1"]
    expired = state.answered(QUESTION, None)
    assert (expired.turn, expired.limit) == (1, rounds)
    assert expired.new[0].role == "system"
    money = Finalize(reason="max_cost", message="No money.")
    assert state.limited(money).turn_begun().limit == money


def test_a_limit_that_is_lifted_leaves_no_notice() -> None:
    """A person's message lifts `max_tool_rounds`: the next planner is not asked to answer at once, nor is the phase `finalizing`."""
    rounds = Finalize(reason="max_tool_rounds", message="Enough.")
    state = settled(begun(), ToolResult(result=1), ToolResult(result=2)).limited(rounds)
    paused, _ = state.planning().steered(Paused("wait", "ana"), NOW)
    resumed, _ = paused.steered(Resumed("go", "ana", ("Look at s-2.",)), NOW)
    assert (paused.phase, resumed.phase, resumed.limit) == ("finalizing", "planning", None)
    assert [message.role for message in resumed.new] == ["tool"]
    money = state.limited(Finalize(reason="max_cost", message="No money.")).planning()
    kept = money.turn_begun()
    assert (kept.limit, kept.new, kept.phase) == (money.limit, money.new, "finalizing")


def test_a_question_of_the_policy_has_the_planner_told_again() -> None:
    """The plan that was discarded for it is told from where it was given."""
    asked = QUESTION.model_copy(update={"asked_by_policy": True})
    state = begun().plan_begun(7)
    assert state.answered(asked, Clarified("q", "s-1", None)).unseen == 7
    assert state.answered(QUESTION, Clarified("q", "s-1", None)).unseen is None


def test_a_plan_that_came_says_which_attempt_made_it_and_leaves_nothing_unseen() -> None:
    """A worker's memory of another attempt is stale; what a discarded plan was given is told once more, not for ever."""
    cut_off = begun().plan_begun(7).out_of_time()
    assert (cut_off.accepted_attempt, cut_off.unseen) == (1, 7)
    planned = cut_off.planned(PlanOutcome(attempt=4), NOW)
    assert (planned.accepted_attempt, planned.unseen) == (4, None)


def test_only_the_last_artifacts_are_kept() -> None:
    """As many as a parent reads; in the order in which they were made."""
    state = begun()
    for n in range(MAX_ARTIFACTS + 5):
        made = ToolResult(result=1, artifacts=[Artifact(kind=f"k{n}")])
        state = settled(state, made, plan=STEP.model_copy(update={"calls": CALLS[:1]}))
    assert [one.kind for one in state.artifacts] == [f"k{n}" for n in range(5, MAX_ARTIFACTS + 5)]


@pytest.mark.parametrize(("seconds", "reason"), [(2, None), (3, "time_budget")])
def test_a_sleep_that_used_up_the_time_makes_the_next_turn_the_last(seconds: int, reason: str | None) -> None:
    """Where it counts; the planner is told of the sleep first, then of the limit."""
    state, now = begun().planned(PlanOutcome(policy=RunPolicy(time_budget=timedelta(seconds=3))), NOW), NOW
    state, now = replace(state, active=state.active.begun(NOW)), NOW + timedelta(seconds=seconds)
    woken = state.slept(timedelta(seconds=seconds), now, is_over=True)
    assert (woken.limit and woken.limit.reason) == reason
    assert woken.new[0].text == f"Waited {seconds} s."
    assert len(woken.new) == (2 if reason else 1)


def test_what_a_person_says_does_not_set_back_what_a_parent_numbers() -> None:
    """An older word of the parent stays overtaken, whoever paused or resumed in between."""
    state = begun().steered(Paused("", None, 3), NOW)[0].steered(Resumed("", "ana", ()), NOW)[0]
    assert (state.last_steering, state.paused) == (3, None)
    assert state.steered(Paused("", None, 2), NOW) == (state, False)


def test_a_new_turn_counts_its_rounds_anew_and_nothing_else() -> None:
    """Calls, rounds of the run and steps that failed go on; the status tells the turn's rounds."""
    failed = ToolResult(error=ToolError.new("no"))
    before = settled(settled(begun(), failed, failed), failed, failed)
    after = before.turn_begun()
    assert after.totals == replace(before.totals, turn_rounds=0)
    assert (after.totals.failed_steps, after.totals.rounds) == (2, 2)
    once = settled(after, ToolResult(result=1), ToolResult(result=2))
    assert (status_of(once, "r", NOW).rounds, once.totals.rounds) == (1, 3)


def test_a_pause_is_heeded_once_and_in_order() -> None:
    """What a parent told before is overtaken; a resume of a run that is not paused changes nothing else."""
    paused, is_applied = begun().steered(Paused("wait", "ana", 3), NOW)
    assert is_applied
    assert status_of(paused, "r", NOW).status == "paused"
    assert paused.steered(Resumed("", None, (), 2), NOW) == (paused, False)
    resumed, is_applied = paused.steered(Resumed("go", "ana", ("Look at s-2.",), 4), NOW)
    assert is_applied
    assert (resumed.paused, resumed.turn, [message.text for message in resumed.resume_messages]) == (
        None,
        2,
        ["Look at s-2."],
    )
    idle, is_applied = begun().steered(Resumed("", None, ("Hello",), 5), NOW)
    assert (is_applied, idle.turn, idle.last_steering, idle.resume_messages) == (False, 1, 5, ())


def test_a_used_up_time_budget_comes_before_other_limits() -> None:
    """The step whose calls all failed for want of time is told as that."""
    policy = RunPolicy(time_budget=timedelta(seconds=1), max_consecutive_failed_tool_calls=1)
    state = begun().planned(PlanOutcome(policy=policy), NOW)
    failed = ToolResult(error=ToolError.new("no"))
    active = state.active.begun(NOW).ended(NOW + timedelta(seconds=1))

    late = settled(replace(state, active=active), failed, failed)
    assert late.limit is not None
    assert late.limit.reason == "time_budget"
    in_time = settled(state, failed, failed)
    assert in_time.limit is not None
    assert in_time.limit.reason == "failure_streak"


@pytest.mark.parametrize("budget", [timedelta(seconds=100), None], ids=str)
def test_time_that_a_policy_engine_takes_away_is_gone_at_once(budget: timedelta | None) -> None:
    """The clock counts against the lowered budget from then on; a budget that leaves more changes nothing."""
    second, later = timedelta(seconds=1), NOW + timedelta(seconds=20)
    state = begun().planned(PlanOutcome(policy=RunPolicy(time_budget=budget)), NOW)
    state = replace(state, active=state.active.begun(NOW).ended(later))
    lowered = state.planned(PlanOutcome(decision=PolicyDecision(caps=Caps(time=5 * second))), later)
    assert lowered.caps(later).time == lowered.active.left(later) == 5 * second
    assert lowered.active.budget == 25 * second
    more = lowered.planned(PlanOutcome(decision=PolicyDecision(caps=Caps(time=9 * second))), later)
    assert more.active == lowered.active


def test_an_ended_run_waits_for_nothing() -> None:
    """The end closes what is open, and leaves what happened."""
    waits, _ = begun().waits.opened(AwaitClarification(id="q", question="?"))

    state = replace(begun().waiting(), waits=waits)
    assert (status_of(state, "r", NOW).status, state.phase) == ("waiting", "waiting")
    ended = state.steered(Paused("", None), NOW)[0].ended()
    status = status_of(ended, "r", NOW)
    assert (status.phase, status.awaits, status.paused) == ("", [], None)
