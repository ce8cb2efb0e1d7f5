"""A call whose workers were lost: after the third one it is answered, and made no more."""

from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.execute_tool import ExecuteToolActivity
from sojourn import Agent, App, PlanResult, Toolset
from sojourn.contracts.tasks import ToolTask
from sojourn.core.run.retry import MAX_LOST


@pytest.mark.parametrize(("lost", "is_made"), [(0, True), (MAX_LOST - 1, True), (MAX_LOST, False)])
async def test_a_call_takes_down_three_workers_at_most(lost: int, is_made: bool) -> None:
    """A call under which as many workers were lost as may be is answered, with its outcome unknown."""
    made, tools = list[int](), Toolset("desk.tools")

    @tools.tool
    async def crash(n: int) -> int:
        """Crash."""
        made.append(n)
        return n

    async def plan(_turn: Any) -> PlanResult:
        return PlanResult.final("done")

    app = App(agents=[Agent("desk.clerk", planner=plan, uses=[tools])])
    task = ToolTask(name="desk.tools.crash", payload={"n": 1}, agent_id="desk.clerk", lost=lost)
    result = await ActivityEnvironment().run(ExecuteToolActivity(app).execute_tool, task)
    assert made == [1] * is_made
    assert (result.error is None) is is_made
    assert is_made or "3 times" in str(result.error)
