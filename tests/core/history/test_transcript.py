"""The transcript from a history: the planner's messages, and those that no planner has received yet."""

import pytest

from sojourn import Message, RunOutput, ToolError, ToolResult
from sojourn.contracts import Finalize
from sojourn.contracts.dispatch import WRONG_WORKER, Dispatch
from sojourn.contracts.tasks import PlanOutcome, PlanTask
from sojourn.core.history.fold import Fold
from sojourn.core.history.transcript import TranscriptProjection

from .written import RUN, History, request

CALLS = [request("c1"), request("c2")]
STEP = PlanOutcome(calls=CALLS, dispatches=[Dispatch(), Dispatch()])
ANSWERS = [
    ToolResult(name=call.name, tool_call_id=call.tool_call_id, result=n) for n, call in enumerate(CALLS)
]
DONE = Message.assistant("done")


def transcript(history: History) -> list[Message]:
    """The transcript of a history, which the projection reads record by record with the events of each."""
    fold = Fold("r")
    projection = TranscriptProjection(fold)
    for record in history.records:
        projection.feed(record, fold.feed(record))
    return projection.messages_so_far()


def stepped() -> History:
    """A run whose first step has ended, the last call first; no planner has received its results."""
    history = History()
    history.plan(STEP, new=RUN.messages)
    opened = [history.call(call) for call in CALLS]
    for of, answer in reversed([*zip(opened, ANSWERS, strict=True)]):
        history.add("completed", of=of, value=ToolResult(result=answer.result))
    return history


def test_the_results_of_a_step_are_in_call_order_before_a_planner_receives_them() -> None:
    """The transcript is the opening, the message with the calls, and one message with all results."""
    assert transcript(stepped()) == [*RUN.messages, Message.calls(CALLS), Message.results(ANSWERS)]


def test_the_results_so_far_of_an_open_step_are_in_the_transcript() -> None:
    """A call in flight has no result in the transcript."""
    history = History()
    history.plan(STEP, new=RUN.messages)
    history.call(CALLS[0])
    history.add("completed", of=history.call(CALLS[1]), value=ToolResult(result=1))
    assert transcript(history)[-1] == Message.results(ANSWERS[1:])


@pytest.mark.parametrize("is_large", [False, True])
def test_messages_that_a_plans_input_leaves_out_are_in_the_transcript(is_large: bool) -> None:
    """A plan's input holds the new messages, or only their number if they are large; the transcript is the same."""
    history = stepped()
    new = [Message.results(ANSWERS)]
    task = {"until": len(RUN.messages) + 2} if is_large else {"new": new}
    history.plan(PlanOutcome(final=DONE), plan=2, after=len(RUN.messages) + 1, **task)
    assert transcript(history) == [*RUN.messages, Message.calls(CALLS), *new, DONE]


def test_a_plan_that_moves_to_another_worker_gets_large_messages_once() -> None:
    """A plan that reached a worker without the agent is scheduled again, and names the same messages."""
    after = len(RUN.messages) + 1
    task = {"plan": 2, "after": after, "until": after + 1}
    history = stepped()
    of = history.add("scheduled", name="PlanActivity", value=PlanTask(agent_id="a.b", **task))
    history.add("failed", of=of, error=ToolError.new("no such agent here", code=WRONG_WORKER))
    history.plan(PlanOutcome(final=DONE), **task)
    assert transcript(history) == [*RUN.messages, Message.calls(CALLS), Message.results(ANSWERS), DONE]


@pytest.mark.parametrize("is_large", [False, True])
def test_messages_of_a_plan_that_was_cut_off_before_its_record_stay(is_large: bool) -> None:
    """The next plan comes after messages of which the history has no plan."""
    after = len(RUN.messages) + 2
    limit = Finalize(reason="time_budget", message="Used up.")
    notice = Message.system(limit.notice)
    task = {"until": after + 1} if is_large else {"new": [notice]}
    history = stepped()
    history.plan(PlanOutcome(final=DONE), plan=3, after=after, finalize=limit, **task)
    assert transcript(history) == [
        *RUN.messages,
        Message.calls(CALLS),
        Message.results(ANSWERS),
        notice,
        DONE,
    ]


@pytest.mark.parametrize("is_large", [False, True])
def test_the_message_that_opens_a_turn_is_in_the_transcript_once(is_large: bool) -> None:
    """A message to a conversation is there from its arrival in a plan on, whether the plan's input holds it or names it."""
    history = History(RUN.model_copy(update={"conversation": True, "messages": []}))
    messages = [Message.user("one"), Message.user("two")]
    for n, message in enumerate(messages):
        history.add("sent", name="send", value=[{"message_id": f"m{n}", "text": message.text}], judged=True)
        task = {"until": 2 * n + 1} if is_large else {"new": [message]}
        history.plan(PlanOutcome(final=DONE), plan=n + 1, after=2 * n, **task)
    assert transcript(history) == [messages[0], DONE, messages[1], DONE]


def test_the_notice_of_a_final_turn_comes_after_large_results() -> None:
    """The limit's notice is in the place where the planner received it, after results that its input left out."""
    limit = Finalize(reason="max_tool_calls", message="Used up.")
    history = stepped()
    after = len(RUN.messages) + 1
    history.plan(PlanOutcome(final=DONE), plan=2, after=after, until=after + 2, finalize=limit)
    assert transcript(history)[after:] == [Message.results(ANSWERS), Message.system(limit.notice), DONE]


def test_a_call_that_was_not_executed_is_among_large_results() -> None:
    """Its result has no event of its own in the history: the next plan's input implies it."""
    history, calls = History(), [*CALLS, request("c3")]
    plan = STEP.model_copy(update={"calls": calls, "refused": "max_tool_calls"})
    history.plan(plan, new=RUN.messages)
    for call in CALLS:
        history.add("completed", of=history.call(call), value=ToolResult(result=1))
    after = len(RUN.messages) + 1
    history.plan(PlanOutcome(final=DONE), plan=2, after=after, until=after + 1)
    ids = [result.tool_call_id for result in transcript(history)[after].tool_results]
    assert ids == ["c1", "c2", "c3"]


def test_the_refusal_of_a_plan_is_in_the_transcript_at_once() -> None:
    """The refusal is there before a planner has received it, and once after the next plan."""
    refusal = Message.system("The last plan was refused: no.")
    history = History()
    history.plan(PlanOutcome(fault="no"), new=RUN.messages)
    assert transcript(history) == [*RUN.messages, refusal]
    history.plan(PlanOutcome(final=DONE), plan=2, after=len(RUN.messages), new=[refusal])
    assert transcript(history) == [*RUN.messages, refusal, DONE]


@pytest.mark.parametrize("is_known", [True, False], ids=["of its planner", "made by the run"])
def test_the_answer_of_a_run_is_there_once(is_known: bool) -> None:
    """The end of the run adds the answer only if no plan has given it."""
    history = History()
    history.plan(PlanOutcome(final=DONE) if is_known else PlanOutcome(fault="no"), new=RUN.messages)
    history.add("run_completed", value=RunOutput(run_id="r", agent_id="a.b", final=DONE))
    assert [message.text for message in transcript(history)].count("done") == 1
    assert transcript(history)[-1] == DONE


def test_a_failed_runs_transcript_ends_with_its_results() -> None:
    """The last message has the result `run_failed` for each call that was open."""
    history = History()
    history.plan(STEP, new=RUN.messages)
    history.call(CALLS[0])
    history.add("run_failed", error=ToolError.new("why"))
    results = transcript(history)[-1].tool_results
    assert [result.error and result.error.code for result in results] == ["run_failed", "run_failed"]
