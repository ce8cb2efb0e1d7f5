"""The run state: the fields that each transition changes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sojourn import AwaitClarification, Message, RunPolicy, ToolError, ToolRequest, ToolResult
from sojourn.contracts import Artifact, Finalize, RunInput, RunLink
from sojourn.contracts.dispatch import CarriedEffect, Dispatch
from sojourn.contracts.run import CallStatus
from sojourn.contracts.tasks import PlanOutcome
from sojourn.core.awaits.clarification import Clarified
from sojourn.core.awaits.steering import PauseRequest, ResumeRequest
from sojourn.core.run.state import MAX_CALLS_CARRIED, MAX_CALLS_SHOWN, MAX_NOTES, RunState, call_status
from sojourn.core.run.status import status_of
from sojourn.core.run.totals import MAX_ARTIFACTS
from sojourn.policy import Caps, PolicyDecision
from sojourn.values.frozen import copy_with

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


def test_a_run_begins_with_its_opening() -> None:
    """The new messages are the opening's, and the status has agent, session and turn, and zero calls."""
    state = begun(turn_id="mine")
    assert [message.text for message in state.new] == ["Go."]
    status = status_of(state, "r", NOW)
    assert (status.agent_id, status.session_id, status.turn_id) == ("a.b", "s", "mine")
    assert (status.status, status.phase, status.tool_calls) == ("running", "planning", 0)


def test_a_refused_call_is_in_the_status_when_the_step_is_settled() -> None:
    """A call without a dispatch is answered as `not_executed` with the step, and is not counted."""
    plan = STEP.model_copy(update={"dispatches": STEP.dispatches[:1], "refused": "max_tool_calls"})
    running = begun().step_begun(plan.calls, plan.dispatches)
    assert [(call.tool_call_id, call.state) for call in running.calls.values()] == [("c1", "running")]
    state = settled(running, ToolResult(result=1), plan=plan)
    assert state.calls["c2"].state == "not_executed"
    assert (state.totals.tool_calls, state.totals.rounds) == (1, 1)
    assert [result.tool_call_id for result in state.new[0].tool_results] == ["c1", "c2"]
    assert state.limit is not None
    assert state.limit.reason == "max_tool_calls"


def test_the_status_of_an_answered_call_follows_from_its_result(subtests: pytest.Subtests) -> None:
    """A call's status has the state and the link of its result, and an error of at most 200 characters."""
    rows = [
        (ToolResult(result=1), "done"),
        (ToolResult(error=ToolError.new("x" * 500)), "failed"),
        (ToolResult(error=ToolError.new("no", code="denied")), "denied"),
        (ToolResult(error=ToolError.new("no", code="not_executed")), "not_executed"),
        (ToolResult(error=ToolError.new("no", code="canceled")), "failed"),
    ]
    for result, state in rows:
        with subtests.test(result=result, state=state):
            shown = call_status(result.model_copy(update={"tool_call_id": "c1", "run_link": LINK}))
            assert (shown.tool_call_id, shown.state, shown.run_link) == ("c1", state, LINK)
            assert len(shown.error or "") <= 200


def test_only_the_last_calls_and_notes_are_kept() -> None:
    """Of the calls the last 100 are kept, and of the notes the last 20."""
    state = begun().with_notes(*(str(n) for n in range(MAX_NOTES + 5)))
    for n in range(MAX_CALLS_SHOWN + 5):
        state = state.with_call(call_status(ToolResult(name="a.b.c", tool_call_id=f"c{n}")))
    assert state.notes == tuple(str(n) for n in range(5, MAX_NOTES + 5))
    assert list(state.calls) == [f"c{n}" for n in range(5, MAX_CALLS_SHOWN + 5)]


def test_the_next_execution_begins_with_calls_in_progress_and_the_last_finished_ones() -> None:
    """Of 99 finished calls 20 are carried over, and one that waits, however old."""
    state = begun().with_call(CallStatus(tool_call_id="open", name="a.b.c", state="waiting"))
    for n in range(MAX_CALLS_SHOWN - 1):
        state = state.with_call(call_status(ToolResult(name="a.b.c", tool_call_id=f"c{n}")))
    finished = [f"c{n}" for n in range(MAX_CALLS_SHOWN - 1)][-MAX_CALLS_CARRIED:]
    assert list(state.continued(datetime.now(UTC)).calls) == ["open", *finished]


def test_one_of_two_equal_notes_can_be_removed() -> None:
    """`unnoted` removes the note that is the same object, and an equal note stays."""
    note, other = "refused", f"ref{'used'!s}"
    assert begun().with_notes(note, other).without_note(note).notes == (other,)


def test_a_limit_that_was_reached_is_noted_once() -> None:
    """The planner gets the limit's notice, and the status one note, even if the same limit is set again."""
    limit = Finalize(reason="max_cost", message="No money.")
    state = begun().limited(limit)
    assert state.new[-1].text == limit.notice
    assert state.limited(limit).notes == state.notes == ("limit reached: max_cost",)
    assert state.planning().phase == "finalizing"
    assert state.limited(None).limit is None


def test_an_answer_begins_a_turn_and_an_expiry_does_not() -> None:
    """An answer begins a turn, resets the turn's rounds and lifts a limit on rounds; other limits stay."""
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
    paused, _ = state.planning().steered(PauseRequest("wait", "ana"), NOW)
    resumed, _ = paused.steered(ResumeRequest("go", "ana", ("Look at s-2.",)), NOW)
    assert (paused.phase, resumed.phase, resumed.limit) == ("finalizing", "planning", None)
    assert [message.role for message in resumed.new] == ["tool"]
    money = state.limited(Finalize(reason="max_cost", message="No money.")).planning()
    kept = money.turn_begun()
    assert (kept.limit, kept.new, kept.phase) == (money.limit, money.new, "finalizing")


def test_a_step_of_a_fork_is_another_effect_once_a_person_has_told_it_something() -> None:
    """A resume with a message, as an answer, ends that a named step with other arguments is the origin's payment; one without does not."""
    call = ToolRequest(name="a.b.pay", tool_call_id="pay")
    state = replace(begun(), carried=(CarriedEffect(call=call, step=True),))
    paused, _ = state.steered(PauseRequest("wait", "ana"), NOW)
    told, _ = paused.steered(ResumeRequest("", "ana", ("Pay B-2.",)), NOW)
    alone, _ = paused.steered(ResumeRequest("", "ana", ()), NOW)
    assert [each.carried[0].step for each in (paused, told, alone)] == [True, False, True]


def test_after_a_question_of_the_policy_the_planner_gets_its_messages_again() -> None:
    """The plan that the policy's question discarded leaves its messages unseen, from their first index on."""
    asked = QUESTION.model_copy(update={"asked_by_policy": True})
    state = begun().plan_begun(7)
    assert state.answered(asked, Clarified("q", "s-1", None)).unseen == 7
    assert state.answered(QUESTION, Clarified("q", "s-1", None)).unseen is None


def test_a_plan_records_its_attempt_and_leaves_no_message_unseen() -> None:
    """`planned` stores the attempt, by which a worker's cache is checked, and clears `unseen`."""
    cut_off = begun().plan_begun(7).out_of_time()
    assert (cut_off.accepted_attempt, cut_off.unseen) == (1, 7)
    planned = cut_off.planned(PlanOutcome(attempt=4), NOW)
    assert (planned.accepted_attempt, planned.unseen) == (4, None)


def test_only_the_last_artifacts_are_kept() -> None:
    """The last 100 artifacts are kept, as many as a parent run reads, in order."""
    state = begun()
    for n in range(MAX_ARTIFACTS + 5):
        made = ToolResult(result=1, artifacts=[Artifact(kind=f"k{n}")])
        state = settled(state, made, plan=STEP.model_copy(update={"calls": CALLS[:1]}))
    assert [one.kind for one in state.artifacts] == [f"k{n}" for n in range(5, MAX_ARTIFACTS + 5)]


@pytest.mark.parametrize(("seconds", "reason"), [(2, None), (3, "time_budget")])
def test_a_sleep_that_used_up_the_time_makes_the_next_turn_the_last(seconds: int, reason: str | None) -> None:
    """A sleep that counts as active time may use up the budget; the planner gets the sleep's notice before the limit's."""
    state, now = begun().planned(PlanOutcome(policy=RunPolicy(time_budget=timedelta(seconds=3))), NOW), NOW
    state, now = replace(state, active=state.active.begun(NOW)), NOW + timedelta(seconds=seconds)
    woken = state.slept(timedelta(seconds=seconds), now, is_over=True)
    assert (woken.limit and woken.limit.reason) == reason
    assert woken.new[0].text == f"Waited {seconds} s."
    assert len(woken.new) == (2 if reason else 1)


def test_a_persons_resume_keeps_the_number_of_the_parent_runs_signal() -> None:
    """An earlier signal of the parent run stays overtaken after a person has paused or resumed the run."""
    state = begun().steered(PauseRequest("", None, 3), NOW)[0].steered(ResumeRequest("", "ana", ()), NOW)[0]
    assert (state.last_steering, state.paused) == (3, None)
    assert state.steered(PauseRequest("", None, 2), NOW) == (state, False)


def test_a_new_turn_resets_only_its_rounds() -> None:
    """A new turn keeps the run's calls, rounds and failed steps; the status has the turn's rounds."""
    failed = ToolResult(error=ToolError.new("no"))
    before = settled(settled(begun(), failed, failed), failed, failed)
    after = before.turn_begun()
    assert after.totals == replace(before.totals, turn_rounds=0)
    assert (after.totals.failed_steps, after.totals.rounds) == (2, 2)
    once = settled(after, ToolResult(result=1), ToolResult(result=2))
    assert (status_of(once, "r", NOW).rounds, once.totals.rounds) == (1, 3)


def test_a_parent_runs_signals_are_applied_in_order() -> None:
    """An earlier signal is not applied; a resume of a run that is not paused only stores its number."""
    paused, is_applied = begun().steered(PauseRequest("wait", "ana", 3), NOW)
    assert is_applied
    assert status_of(paused, "r", NOW).status == "paused"
    assert paused.steered(ResumeRequest("", None, (), 2), NOW) == (paused, False)
    resumed, is_applied = paused.steered(ResumeRequest("go", "ana", ("Look at s-2.",), 4), NOW)
    assert is_applied
    assert (resumed.paused, resumed.turn, [message.text for message in resumed.resume_messages]) == (
        None,
        2,
        ["Look at s-2."],
    )
    idle, is_applied = begun().steered(ResumeRequest("", None, ("Hello",), 5), NOW)
    assert (is_applied, idle.turn, idle.last_steering, idle.resume_messages) == (False, 1, 5, ())


def test_a_used_up_time_budget_comes_before_other_limits() -> None:
    """A step whose calls all failed for lack of time reaches the time budget, not the failure streak."""
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
def test_a_policy_engines_cap_of_time_lowers_the_budget(budget: timedelta | None) -> None:
    """The cap counts from the time of the decision, and a later cap that leaves more time changes nothing."""
    second, later = timedelta(seconds=1), NOW + timedelta(seconds=20)
    state = begun().planned(PlanOutcome(policy=RunPolicy(time_budget=budget)), NOW)
    state = replace(state, active=state.active.begun(NOW).ended(later))
    lowered = state.planned(PlanOutcome(decision=PolicyDecision(caps=Caps(time=5 * second))), later)
    assert lowered.caps(later).time == lowered.active.time_left(later) == 5 * second
    assert lowered.active.budget == 25 * second
    more = lowered.planned(PlanOutcome(decision=PolicyDecision(caps=Caps(time=9 * second))), later)
    assert more.active == lowered.active


def test_an_ended_run_has_no_open_waits() -> None:
    """The end of the run clears its phase, its open waits and its pause."""
    waits, _ = begun().waits.opened(AwaitClarification(id="q", question="?"))

    state = replace(begun().waiting(), waits=waits)
    assert (status_of(state, "r", NOW).status, state.phase) == ("waiting", "waiting")
    ended = state.steered(PauseRequest("", None), NOW)[0].ended()
    status = status_of(ended, "r", NOW)
    assert (status.phase, status.awaits, status.paused) == ("", [], None)


def test_only_a_place_of_the_last_plan_is_given_up_for_lack_of_an_answer() -> None:
    """A run that had its place before keeps it."""
    state = copy_with(begun().plan_begun(7), place=1)
    assert state.without_new_place().place == 0
    assert state.plan_begun(9).without_new_place().place == 1
