"""One call in its activity: workers that were lost under it, and the tool's time."""

import time
from concurrent.futures import wait
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.execute_tool import ExecuteToolActivity
from sojourn import Agent, App, PlanResult, ToolResult, Toolset
from sojourn.contracts.dispatch import TIMEOUT_MARGIN
from sojourn.contracts.tasks import ToolTask
from sojourn.core.run.retry import MAX_LOST
from sojourn.serving import pace


async def answer_of(tools: Toolset, task: ToolTask, *, limit: float = 60) -> ToolResult:
    """Execute a call of `desk.clerk`, whose tool has `limit` seconds."""

    async def plan(_turn: Any) -> PlanResult:
        return PlanResult.final("done")

    app = App(agents=[Agent("desk.clerk", planner=plan, uses=[tools])])
    environment = ActivityEnvironment()
    environment.info = replace(
        environment.info, start_to_close_timeout=TIMEOUT_MARGIN + timedelta(seconds=limit)
    )
    return await environment.run(ExecuteToolActivity(app).execute_tool, task)


@pytest.mark.parametrize(("lost", "is_made"), [(0, True), (MAX_LOST - 1, True), (MAX_LOST, False)])
async def test_a_call_takes_down_three_workers_at_most(lost: int, is_made: bool) -> None:
    """A call under which as many workers were lost as may be is answered, with its outcome unknown."""
    made, tools = list[int](), Toolset("desk.tools")

    @tools.tool
    async def crash(n: int) -> int:
        """Crash."""
        made.append(n)
        return n

    task = ToolTask(name="desk.tools.crash", payload={"n": 1}, agent_id="desk.clerk", lost=lost)
    result = await answer_of(tools, task)
    assert made == [1] * is_made
    assert (result.error is None) is is_made
    assert is_made or "3 times" in str(result.error)


async def test_the_refusal_of_a_call_takes_no_time_of_its_tool() -> None:
    """Wrong arguments are refused as such, and not as a time-out, however long the check waits for a thread."""
    tools = Toolset("desk.tools")

    @tools.tool
    async def count(n: int) -> int:
        """Count."""
        raise AssertionError(n)

    busy = [pace._THREADS.submit(time.sleep, 0.3) for _ in range(2)]
    task = ToolTask(name="desk.tools.count", payload={"n": "many"}, agent_id="desk.clerk")
    result = await answer_of(tools, task, limit=0.05)
    wait(busy)
    assert result.retry_hint
    assert (result.retry_hint.reason, result.error and result.error.outcome_unknown) == (
        "invalid_arguments",
        False,
    )
