from typing import Any

import pytest

from planners import advisor
from sojourn import Message, PlanInput, RunContext


@pytest.fixture
def advice(run: Any) -> Any:
    """Rehearse the advisor."""
    run.agent_id = "ops.advisor"
    return run


async def test_advice_is_the_best_runbook(advice: Any):
    """The advisor searches, reads the best runbook and gives its steps, as text and typed."""
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
    """A case that no runbook knows is told as such."""
    answer = await advice.finish("how to bake bread")
    assert answer == "No runbook fits this case."
    assert advice.plans[-1].result == {"answer": answer, "runbook_id": None, "steps": []}


async def test_final_turn(advice: Any):
    """In the final turn the advisor answers, with the typed answer its callers need."""
    advice.stop_before_step = 1
    answer = await advice.finish("gateway battery flat")
    assert answer.startswith("I had to stop here")


async def test_nothing_asked():
    """A run that asks nothing is answered, not failed."""
    turn = PlanInput(
        run=RunContext(run_id="r", agent_id="ops.advisor"), messages=[Message.system("You advise.")], tools=[]
    )
    plan = await advisor.plan(turn)
    assert plan.final_response
    assert plan.result["steps"] == []
