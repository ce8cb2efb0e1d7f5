"""The outcome of a response: the answers to its calls, and the validators of its type, tested without a run."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from sojourn import Message, PlanResult, ToolRequest
from sojourn.models.expected import Expected
from sojourn.models.names import Names
from sojourn.models.outcome import Correction, Reply, plan_of

NAMES = Names(["test.tools.add"])


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("it is odd")
        return value


def call(id: str, name: str, **payload: Any) -> ToolRequest:
    return ToolRequest(name=name, tool_call_id=id, payload=payload)


def reply(*calls: ToolRequest, text: str = "", finish: str | None = None) -> Reply:
    return Reply(Message.calls(list(calls)) if calls else Message.assistant(text), finish)


def outcome(given: Reply, expected: Expected | None = None) -> PlanResult | Correction:
    return plan_of(given, NAMES, expected=expected, may_ask=True)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("ask_user", {"question": " "}), ("final_result", {"n": "two"})],
    ids=["question", "typed answer"],
)
def test_only_the_wrong_call_gets_the_correction(name: str, wrong: dict[str, Any]) -> None:
    """The other calls of the response are answered as not executed, with the reason."""
    calls = [
        call("c1", "test.tools.add", a=1),
        call("c2", name, **wrong),
        call("c3", "test.tools.add", a=2),
    ]
    correction = outcome(reply(*calls), Expected.of(Even))
    assert isinstance(correction, Correction)
    assert correction.answers["c2"] == correction.text
    beside = f"not executed: the call of `{name}` in the same response was not valid"
    assert (correction.answers["c1"], correction.answers["c3"]) == (beside, beside)


@pytest.mark.parametrize("is_called", [True, False], ids=["called", "written"])
def test_an_answer_that_the_type_s_validator_refuses_is_corrected(is_called: bool) -> None:
    """An answer that fits the schema but not the type's own validator is corrected."""

    def answer(n: int) -> PlanResult | Correction:
        given = reply(call("c1", "final_result", n=n)) if is_called else reply(text=json.dumps({"n": n}))
        return outcome(given, Expected.of(Even))

    correction, plan = answer(3), answer(4)
    assert isinstance(correction, Correction)
    assert correction.code == "MalformedAnswer"
    assert "it is odd" in correction.text
    assert isinstance(plan, PlanResult)
    assert plan.result == {"n": 4}


def test_without_a_type_only_the_schema_applies() -> None:
    """An answer for a calling agent, of which only the schema is known, need only fit the schema."""
    expected = Expected(Expected.of(Even).answer)
    plan = outcome(reply(call("c1", "final_result", n=3)), expected)
    assert isinstance(plan, PlanResult)
    assert plan.result == {"n": 3}


def test_a_run_that_may_ask_nobody_has_no_question() -> None:
    """A call of `ask_user` is a question where the run may ask; elsewhere it is a call of a tool that does not exist."""
    given = reply(call("c1", "ask_user", question="Which site?"))
    asked, called = (plan_of(given, NAMES, expected=None, may_ask=may_ask) for may_ask in (True, False))
    assert isinstance(asked, PlanResult)
    assert (asked.await_ and asked.await_.question, asked.tool_calls) == ("Which site?", [])
    assert isinstance(called, PlanResult)
    assert (called.await_, [each.name for each in called.tool_calls]) == (None, ["ask_user"])
