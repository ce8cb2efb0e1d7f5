from typing import Any

import pytest

from planners import advisor
from sojourn import Message, PlanInput, RunContext


@pytest.fixture
def advice(run: Any) -> Any:
    """A rehearsal of the advisor."""
    run.agent_id = "ops.advisor"
    return run


@pytest.mark.usefixtures("processes")
async def test_advice_is_the_best_runbook(advice: Any):
    """The advisor searches, reads the best runbook and answers with its steps, as text and as a typed result."""
    answer = await advice.finish("gateway battery flat after mains power failure")
    assert advice.steps == [["search_runbooks"], ["get_runbook"]]
    steps = advice.result("get_runbook")["steps"]
    assert advice.plans[-1].result == {
        "answer": "Runbook rb-01 fits: Gateway battery flat after a mains power failure.",
        "runbook_id": "rb-01",
        "steps": steps,
    }
    assert all(step in answer for step in steps)


async def test_no_runbook_fits(advice: Any):
    """When no runbook fits, the answer says so."""
    answer = await advice.finish("how to bake bread")
    assert answer == "No runbook fits this case."
    assert advice.plans[-1].result == {"answer": answer, "runbook_id": None, "steps": []}


async def test_last_turn(advice: Any):
    """In the last turn the advisor answers that it had to stop."""
    advice.stop_before_step = 1
    answer = await advice.finish("gateway battery flat")
    assert answer.startswith("I had to stop here")


async def test_without_a_question():
    """A run without a user message is answered."""
    turn = PlanInput(
        run=RunContext(run_id="r", agent_id="ops.advisor"), messages=[Message.system("You advise.")], tools=[]
    )
    plan = await advisor.plan.plan_start(turn)
    assert plan.final_response
    assert plan.result["steps"] == []
