"""What a response comes to, where no run is needed to see it: what each call is told, what a type itself refuses."""

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


def judged(given: Reply, expected: Expected | None = None) -> PlanResult | Correction:
    return plan_of(given, NAMES, expected=expected, may_ask=True)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("ask_user", {"question": " "}), ("final_result", {"n": "two"})],
    ids=["question", "typed answer"],
)
def test_only_the_wrong_call_is_told_what_is_wrong(name: str, wrong: dict[str, Any]) -> None:
    """The calls beside it learn that they were not executed, and why: they need no correction themselves."""
    calls = [
        call("c1", "test.tools.add", a=1),
        call("c2", name, **wrong),
        call("c3", "test.tools.add", a=2),
    ]
    correction = judged(reply(*calls), Expected.of(Even))
    assert isinstance(correction, Correction)
    assert correction.answers["c2"] == correction.text
    beside = f"not executed: `{name}` beside it was not right"
    assert (correction.answers["c1"], correction.answers["c3"]) == (beside, beside)


@pytest.mark.parametrize("is_called", [True, False], ids=["called", "written"])
def test_what_the_type_itself_refuses_is_corrected(is_called: bool) -> None:
    """No schema tells what a validator refuses; an answer that only the schema takes is none."""

    def answer(n: int) -> PlanResult | Correction:
        given = reply(call("c1", "final_result", n=n)) if is_called else reply(text=json.dumps({"n": n}))
        return judged(given, Expected.of(Even))

    correction, plan = answer(3), answer(4)
    assert isinstance(correction, Correction)
    assert correction.code == "MalformedAnswer"
    assert "it is odd" in correction.text
    assert isinstance(plan, PlanResult)
    assert plan.result == {"n": 4}


def test_a_schema_without_a_type_is_judged_by_itself() -> None:
    """As an agent that asks another sends it: nothing but the schema is known of what it wants."""
    expected = Expected(Expected.of(Even).answer)
    plan = judged(reply(call("c1", "final_result", n=3)), expected)
    assert isinstance(plan, PlanResult)
    assert plan.result == {"n": 3}
