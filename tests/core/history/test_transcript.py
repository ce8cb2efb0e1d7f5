"""The transcript that a history tells: what the planner was given, and what no planner has been told yet."""

import pytest

from sojourn import Finalize, Message, RunOutput, ToolError, ToolResult
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.tasks import PlanOutcome
from sojourn.core.history.fold import Fold
from sojourn.core.history.transcript import TranscriptProjection

from .written import RUN, History, request

CALLS = [request("c1"), request("c2")]
STEP = PlanOutcome(calls=CALLS, dispatches=[Dispatch(), Dispatch()])
ANSWERS = [
    ToolResult(name=call.name, tool_call_id=call.tool_call_id, result=n) for n, call in enumerate(CALLS)
]
DONE = Message.assistant("done")


def told(history: History) -> list[Message]:
    """The transcript, record by record, with the events that each told."""
    fold, projection = Fold("r"), TranscriptProjection()
    for record in history.records:
        projection.feed(record, fold.feed(record))
    return projection.messages_so_far()


def stepped() -> History:
    """A run whose first step has ended, the last call first; no planner was told of it."""
    history = History()
    history.plan(STEP, new=RUN.messages)
    opened = [history.call(call) for call in CALLS]
    for of, answer in reversed([*zip(opened, ANSWERS, strict=True)]):
        history.add("completed", of=of, value=ToolResult(result=answer.result))
    return history


def test_the_answers_of_a_step_are_told_in_call_order_before_a_planner_is() -> None:
    """The opening, the message that asks, then all answers as one."""
    assert told(stepped()) == [*RUN.messages, Message.calls(CALLS), Message.results(ANSWERS)]


def test_of_a_step_that_goes_on_the_answers_so_far_are_told() -> None:
    """A call that is still at work has none."""
    history = History()
    history.plan(STEP, new=RUN.messages)
    history.call(CALLS[0])
    history.add("completed", of=history.call(CALLS[1]), value=ToolResult(result=1))
    assert told(history)[-1] == Message.results(ANSWERS[1:])


@pytest.mark.parametrize("is_large", [False, True])
def test_what_was_too_large_to_be_recorded_twice_is_told_all_the_same(is_large: bool) -> None:
    """A plan's input holds what is new, or only how many messages there are; the transcript is one."""
    history = stepped()
    new = [Message.results(ANSWERS)]
    task = {"until": len(RUN.messages) + 2} if is_large else {"new": new}
    history.plan(PlanOutcome(final=DONE), plan=2, after=len(RUN.messages) + 1, **task)
    assert told(history) == [*RUN.messages, Message.calls(CALLS), *new, DONE]


def test_the_notice_of_a_last_turn_stands_after_large_answers() -> None:
    """As the planner was given it."""
    limit = Finalize(reason="max_tool_calls", message="Used up.")
    history = stepped()
    after = len(RUN.messages) + 1
    history.plan(PlanOutcome(final=DONE), plan=2, after=after, until=after + 2, finalize=limit)
    assert told(history)[after:] == [Message.results(ANSWERS), Message.system(limit.notice), DONE]


def test_why_a_plan_was_refused_is_told_at_once() -> None:
    """A run that ends with it has told no planner; with the next plan it stands there once."""
    refusal = Message.system("The last plan was refused: no.")
    history = History()
    history.plan(PlanOutcome(fault="no"), new=RUN.messages)
    assert told(history) == [*RUN.messages, refusal]
    history.plan(PlanOutcome(final=DONE), plan=2, after=len(RUN.messages), new=[refusal])
    assert told(history) == [*RUN.messages, refusal, DONE]


@pytest.mark.parametrize("is_known", [True, False], ids=["of its planner", "made by the run"])
def test_the_answer_of_a_run_is_told_once(is_known: bool) -> None:
    """A planner's stands there already; one that the run gives in its place comes with the end."""
    history = History()
    history.plan(PlanOutcome(final=DONE) if is_known else PlanOutcome(fault="no"), new=RUN.messages)
    history.add("run_completed", value=RunOutput(run_id="r", agent_id="a.b", final=DONE))
    assert [message.text for message in told(history)].count("done") == 1
    assert told(history)[-1] == DONE


def test_a_failed_run_has_told_all_that_it_had() -> None:
    """The answers of calls that its end cut off are among it."""
    history = History()
    history.plan(STEP, new=RUN.messages)
    history.call(CALLS[0])
    history.add("run_failed", error=ToolError.new("why"))
    results = told(history)[-1].tool_results
    assert [result.error and result.error.code for result in results] == ["run_failed", "run_failed"]
