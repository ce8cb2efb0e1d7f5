"""When a listed run started, whatever memo somebody else has started it with."""

import pytest

from sojourn import Message, PlanResult
from sojourn.contracts import RunInput


async def answer(turn):
    return PlanResult.final("done")


@pytest.mark.parametrize("told", ["2999-01-01T00:00:00+00:00", "2020-01-01T00:00:00", "yesterday", 3, None])
async def test_a_made_up_start_lists_the_run_all_the_same(told, serve, until):
    """Such a memo is text of an outsider: the run is listed with the start that the server knows."""
    client = await serve(planner=answer)
    run_id = f"told-{told}"[:40].replace(":", "")
    handle = await client.temporal.start_workflow(
        "AgentRun",
        RunInput(agent_id="test.agent", messages=[Message.user("go")]),
        id=run_id,
        task_queue=client.task_queue,
        memo={"started_at": told},
    )
    await handle.result()
    began = (await handle.describe()).start_time

    async def listed() -> bool:
        found = [each async for each in client.list_runs() if each.run_id == run_id]
        return [each.started_at for each in found] == [began]

    assert await until(listed)
