"""Plans: those that a run can carry out, and the faults of the others."""

from datetime import timedelta

import pytest

from sojourn import AwaitClarification, AwaitExternalTools, ExternalCall, Message, PlanResult, ToolRequest
from sojourn.contracts.plan import Usage
from sojourn.core.run.plan_rules import MAX_QUESTION_CHARS, MAX_QUESTION_FIELDS, MAX_WAIT, fault_of
from sojourn.values.wire import MAX_PLAN_CALLS

CALL = ToolRequest(name="a.b.c", tool_call_id="c1")
ANSWER = Message.assistant("done")
QUESTION = AwaitClarification(question="?")
OUTSIDE = AwaitExternalTools(
    items=[ExternalCall(tool="a.b.c", tool_call_id="c1"), ExternalCall(tool="a.b.d")]
)


def fault(plan: object, *, interrupts: bool = True, final: bool = False) -> str | None:
    return fault_of(plan, interrupts_allowed=interrupts, final_turn=final)


@pytest.mark.parametrize(
    "plan",
    [
        PlanResult.calls(CALL, ToolRequest(name="a.b.c"), ToolRequest(name="a.b.c")),
        PlanResult.final("done"),
        PlanResult.final("", result=[]),
        PlanResult.ask(QUESTION),
        PlanResult.ask(OUTSIDE),
        PlanResult.wait(timedelta(microseconds=1)),
        PlanResult.wait(MAX_WAIT),
        PlanResult(tool_calls=[CALL], message=Message.calls([CALL])),
        PlanResult.fail("no"),
    ],
    ids=[
        "calls",
        "answer",
        "empty answer",
        "question",
        "calls outside",
        "short wait",
        "long wait",
        "message",
        "failure",
    ],
)
def test_each_of_the_five_variants_is_legal(plan: PlanResult) -> None:
    """A plan with calls, an answer, a question, a wait or a failure alone has no fault."""
    assert fault(plan) is None


@pytest.mark.parametrize("plan", [None, "done", {"final_response": "done"}, PlanResult], ids=str)
def test_the_fault_of_another_type_names_the_type(plan: object) -> None:
    """The fault of a value that is no PlanResult names its type."""
    assert f"a PlanResult, not {type(plan).__name__}" in str(fault(plan))


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (PlanResult(), "holds nothing"),
        (PlanResult(wait_=timedelta(0)), "holds nothing"),
        (PlanResult(tool_calls=[CALL], final_response=ANSWER), "tool_calls and final_response"),
        (PlanResult(await_=QUESTION, wait_=timedelta(1)), "await and wait"),
    ],
    ids=["empty", "no wait", "calls and answer", "question and wait"],
)
def test_a_plan_is_exactly_one_variant(plan: PlanResult, said: str) -> None:
    """A plan with two variants or none has a fault that names the variants by their wire names."""
    assert said in str(fault(plan))


@pytest.mark.parametrize(
    ("plan", "wire"),
    [
        (PlanResult.calls(CALL), "tool_calls"),
        (PlanResult.ask(QUESTION), "await"),
        (PlanResult.ask(OUTSIDE), "await"),
        (PlanResult.wait(timedelta(1)), "wait"),
    ],
    ids=["calls", "question", "calls outside", "wait"],
)
def test_the_final_turn_only_answers(plan: PlanResult, wire: str) -> None:
    """In the final turn a plan without an answer has a fault that names its variant."""
    assert str(fault(plan, final=True)) == f"this turn may only answer: return final_response, not {wire}"
    assert fault(PlanResult.final("x"), final=True) is None


def test_a_question_needs_the_policy() -> None:
    """A question or a wait for results has a fault where the policy does not allow interrupts (SR-74)."""
    for wait in (QUESTION, OUTSIDE):
        assert "interrupts_allowed=False" in str(fault(PlanResult.ask(wait), interrupts=False))


@pytest.mark.parametrize(
    ("question", "fits"),
    [
        ({"question": "x" * MAX_QUESTION_CHARS}, True),
        ({"question": "x" * (MAX_QUESTION_CHARS + 1)}, False),
        ({"question": "?", "clarifying_prompt": "x" * MAX_QUESTION_CHARS}, False),
        ({"question": "?", "missing_fields": ["x" * 200] * 40}, False),
        ({"question": "?", "missing_fields": ["x"] * MAX_QUESTION_FIELDS}, True),
        ({"question": "?", "missing_fields": ["x"] * (MAX_QUESTION_FIELDS + 1)}, False),
    ],
    ids=["long", "too long", "with its prompt", "with its fields", "many fields", "too many fields"],
)
def test_a_question_is_bounded(question: dict, fits: bool) -> None:
    """A question, with its prompt and field names, has at most 8,000 characters and 50 fields."""
    said = fault(PlanResult.ask(AwaitClarification(**question)))
    assert said == (None if fits else "a question has at most 8,000 characters in all and 50 fields")


def test_a_wait_for_results_names_a_call() -> None:
    """A wait for the results of no call has a fault: it would last for ever."""
    assert "names at least one call" in str(fault(PlanResult.ask(AwaitExternalTools(items=[]))))


def test_an_answer_has_the_role_assistant() -> None:
    """A final response with another role has a fault."""
    assert "not 'user'" in str(fault(PlanResult(final_response=Message.user("x"))))


@pytest.mark.parametrize(
    "wait", [timedelta(seconds=-1), MAX_WAIT + timedelta(seconds=1), timedelta.max], ids=str
)
def test_a_wait_has_a_valid_duration(wait: timedelta) -> None:
    """A negative wait, or one longer than Temporal's limit, has a fault: its timer would stop the run for ever."""
    assert "longer than zero and at most 3650 days" in str(fault(PlanResult.wait(wait)))


def test_a_plan_has_a_bounded_number_of_calls() -> None:
    """A plan has at most 10,000 calls, also in a wait for results."""
    call = ToolRequest(name="a.b.c")
    assert fault(PlanResult(tool_calls=[call] * MAX_PLAN_CALLS)) is None
    assert "at most 10,000 calls" in str(fault(PlanResult(tool_calls=[call] * (MAX_PLAN_CALLS + 1))))
    items = [ExternalCall(tool="a.b.c")] * (MAX_PLAN_CALLS + 1)
    assert "at most 10,000 calls" in str(fault(PlanResult.ask(AwaitExternalTools(items=items))))


def test_ids_are_unique_in_a_plan() -> None:
    """A plan that repeats ids has a fault, which names at most three of them, shortened (SR-66)."""
    calls = [ToolRequest(name="a.b.c", tool_call_id=str(n) * 1_000) for n in range(5)] * 2
    said = str(fault(PlanResult(tool_calls=calls)))
    assert "tool_call_ids are unique" in said
    assert len(said) < 400
    outside = AwaitExternalTools(items=[OUTSIDE.items[0]] * 2)
    assert "this plan repeats 'c1'" in str(fault(PlanResult.ask(outside)))


def test_a_message_has_the_same_calls_as_the_plan() -> None:
    """The message beside the calls has each of them and no other, as the transcript needs."""
    other = ToolRequest(name="a.b.c", tool_call_id="c2")
    for message in (Message.assistant("hm"), Message.calls([other]), Message.calls([CALL, other])):
        assert "same calls" in str(fault(PlanResult(tool_calls=[CALL], message=message)))
    outside = OUTSIDE.model_copy(update={"items": OUTSIDE.items[:1]})
    assert fault(PlanResult(await_=outside, message=Message.calls([CALL]))) is None
    assert "same calls" in str(fault(PlanResult(await_=outside, message=Message.calls([other]))))


def test_an_invalid_usage_is_a_fault(subtests: pytest.Subtests) -> None:
    """Tokens and cost of a plan's usage are finite numbers from 0 up, or absent."""
    figures = [-1, float("nan"), float("inf"), 2**60, "5", True]
    names = ["input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens", "cost"]
    for name in names:
        for figure in figures:
            with subtests.test(str((figure, name))):
                usage = Usage().model_copy(update={name: figure})
                plan = PlanResult.final("ok").model_copy(update={"usage": usage})
                assert f"`usage.{name}`" in str(fault(plan))
                for good in (None, Usage(), Usage(cost=0.5, input_tokens=7)):
                    assert fault(plan.model_copy(update={"usage": good})) is None


def test_a_message_beside_calls_has_the_role_assistant() -> None:
    """A message with calls and another role has a fault."""
    message = Message.calls([CALL]).model_copy(update={"role": "user" * 50})
    said = str(fault(PlanResult(tool_calls=[CALL], message=message)))
    assert "message has role 'assistant'" in said
    assert len(said) < 120
