"""A worker is killed while it plans and calls locally: another worker repeats what the workflow task had not recorded."""

import pytest

from sojourn import RunFailed


@pytest.mark.parametrize("point", ["shelver.file-two", "shelver.plan-3"])
async def test_a_killed_worker_repeats_one_workflow_task(stage, point):
    """Every local turn and call of the open workflow task runs again, with the same ids, and the run ends as an undisturbed one."""
    stage.hold(point)
    worker = await stage.worker()
    run = await stage.start("shelver")
    await stage.reached(point)
    worker.kill()
    await stage.worker()
    stage.release(point)
    story = await stage.story(run)
    again = await stage.start("shelver")
    story.assert_same_as(await stage.story(again))
    order = ["plan-1", "file-one", "plan-2", "file-two", "plan-3", "file-three", "plan-4"]
    last = order.index(point.removeprefix("shelver."))
    for place, name in enumerate(order):
        begun = [event for event, _ in story.executions(f"shelver.{name}")].count("start")
        assert begun == (2 if 0 < place <= last else 1), name  # the first turn was recorded
    assert len(story.calls) == 3


async def test_a_planner_that_kills_its_worker_fails_its_run(stage):
    """It kills one worker from a local activity and three from an ordinary one, which counts them."""
    workers = [await stage.worker()]
    run = await stage.start("dicer")
    for number in range(1, 5):
        await stage.until(f"worker {number} is dead", lambda number=number: len(deaths(stage)) == number)
        workers.append(await stage.worker())
    with pytest.raises(RunFailed, match="3 workers") as failed:
        await run.result()
    assert failed.value.code == "PlannerLost"
    assert len(deaths(stage)) == 4


def deaths(stage) -> list[str]:
    """The workers that were killed from the planner."""
    return [line["worker"] for line in stage.records() if line["point"] == "gambler.crash-plan"]
