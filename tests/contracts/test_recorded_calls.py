"""A recorded plan: calls that its message holds, and default dispatches, are not written twice, and are read back."""

import pytest

from sojourn import AwaitClarification, Message, ToolRequest
from sojourn.contracts.dispatch import Dispatch
from sojourn.contracts.tasks import PlanOutcome
from sojourn.values.wire import encode_readable

ONE = ToolRequest(name="a.b.c", payload={"x": 1}, tool_call_id="c1")
TWO = ToolRequest(name="a.b.d", raw='{"x": ', tool_call_id="c2")


def through_history(outcome: PlanOutcome) -> PlanOutcome:
    return PlanOutcome.model_validate_json(encode_readable(outcome.recorded()))


def test_usual_dispatches_are_not_written():
    """Default dispatches are written only where a call has another one or the step is refused."""
    usual = PlanOutcome(calls=[ONE, TWO], dispatches=[Dispatch(), Dispatch()])
    assert b'"dispatches"' not in encode_readable(usual.recorded())
    assert through_history(usual) == usual
    for other in (
        PlanOutcome(calls=[ONE, TWO], dispatches=[Dispatch(), Dispatch(kind="local")]),
        PlanOutcome(calls=[ONE, TWO], dispatches=[Dispatch()], refused="max_tool_calls"),
        PlanOutcome(calls=[ONE], refused="max_tool_calls"),
    ):
        assert through_history(other) == other


def test_calls_of_a_message_are_written_once():
    """Calls that the message holds are left out, and read back with their arguments, ids and order."""
    outcome = PlanOutcome(calls=[ONE, TWO], dispatches=[Dispatch()] * 2, message=Message.calls([ONE, TWO]))
    assert b'"calls"' not in encode_readable(outcome.recorded())
    assert through_history(outcome) == outcome


@pytest.mark.parametrize(
    "outcome",
    [
        PlanOutcome(calls=[ONE], dispatches=[Dispatch()]),
        PlanOutcome(calls=[TWO, ONE], dispatches=[Dispatch()] * 2, message=Message.calls([ONE, TWO])),
        PlanOutcome(
            dispatches=[Dispatch()],
            calls=[ONE.model_copy(update={"payload": {"omitted": True}})],
            message=Message.calls([ONE]),
        ),
        PlanOutcome(await_=AwaitClarification(question="?"), message=Message.calls([ONE]), asking="c1"),
        PlanOutcome(final=Message.assistant("done")),
    ],
    ids=["no message", "another order", "arguments left out", "a question", "an answer"],
)
def test_an_outcome_whose_calls_differ_from_its_message_is_read_back(outcome):
    """Calls that the message does not hold are written, and the message of a question is not read as calls."""
    assert through_history(outcome) == outcome
