"""A call that blocks or kills its worker harms only itself.

`SOJOURN_BLOCKED=40 pytest tests/durability/test_neighbours.py` blocks for 40 seconds.
"""

import asyncio
import json
import os
import signal
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest

from sojourn import RunFailed
from sojourn.contracts.dispatch import HEARTBEAT
from tests.programs import Command

from .until import PATIENCE

BLOCKED = timedelta(seconds=float(os.environ.get("SOJOURN_BLOCKED", HEARTBEAT.total_seconds() + 5)))


async def test_the_calls_beside_a_blocked_loop_are_executed_once(stage):
    """A tool blocks the event loop for longer than the heartbeat time-out: every call is executed once."""
    beside = [f"hogger.write-beside-{number}" for number in range(5)]
    for point in ("hogger.hog-one-polite", "hogger.hog-one", *beside):
        stage.hold(point)
    worker = await stage.worker()
    run = await stage.start("hogger")
    for point in beside:
        await stage.reached(point)
    stage.release("hogger.hog-one-polite")
    await stage.reached("hogger.hog-one")
    behind = await stage.start("clerk")  # its plan waits until the loop is free
    handle = stage.client.temporal.get_workflow_handle(run.id)

    async def outlasted() -> bool:
        pending = (await handle.describe()).raw_description.pending_activities
        beaten = [
            each.last_heartbeat_time.ToDatetime(UTC) - each.last_started_time.ToDatetime(UTC)
            for each in pending
        ]
        assert [each.attempt for each in pending] == [1] * 6
        return min(beaten) > BLOCKED

    async with asyncio.timeout(60 + BLOCKED.total_seconds()):
        while not await outlasted():
            await asyncio.sleep(0.2)
    found = await _doctor(stage)
    assert (found["ok"], "call " in found["found"], found["mend"]) == (False, True, "sojourn list --stuck")
    assert f"{run.id} (call " in found["found"]
    assert "blocks its worker's event loop for " in found["found"]
    assert "durable_app.py:" in found["found"]
    stage.release("hogger.hog-one")
    for point in beside:
        stage.release(point)
    story = await stage.story(run)
    for point in ("hogger.hog-one", *beside):
        assert story.executions(point) == [("start", 1), ("end", 1)]
    later = await stage.story(behind)
    points = [line["point"] for line in later.records if line["event"] == "start"]
    assert len(points) == len(set(points))
    lines = [json.loads(line) for line in worker.log().splitlines() if "_blocks_loop" in line]
    assert [line["event"] for line in lines][:2] == ["tool_blocks_loop"] * 2
    assert {(line["tool"], line["run_id"]) for line in lines} == {("durable.desk.hog", run.id)}
    assert any(place.startswith("durable_app.py:") for place in lines[0]["stack"])


async def _doctor(stage) -> dict[str, Any]:
    """The check of `sojourn doctor` on the runs of the stage's task queue."""
    words = ("-m", "sojourn", "doctor", "--json", "--task-queue", stage.client.task_queue)
    env = {**os.environ, "TEMPORAL_ADDRESS": stage.address}
    with Path(os.devnull).open() as nothing:
        process = await Command.start(*words, stdin=nothing.fileno(), cwd=stage.folder, env=env)
    printed, _ = await process.communicate()
    checks = {check["check"]: check for check in json.loads(printed)["checks"]}
    return checks[f"runs on {stage.client.task_queue}"]


async def test_what_takes_its_worker_down_has_three_attempts(stages):
    """A call, local call or plan that takes its worker down has three attempts; then the call is answered, or the run fails."""

    async def played(agent, point):
        stage = await stages()
        run = await stage.client.start(f"durable.{agent}", "Write the notes", wait_for_worker=True)
        for _ in range(3):
            worker = await stage.worker(ready=False)
            assert await worker.ends() == -signal.SIGKILL
        await stage.worker()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(run.result(), return_exceptions=True)
        assert [line["point"] for line in stage.records() if "crash-" in line["point"]] == [point] * 3
        return run

    called, tripped, gambled, _ = await asyncio.gather(
        played("crasher", "crasher.crash-one"),
        played("tripper", "tripper.crash-one"),
        played("gambler", "gambler.crash-plan"),
        blocks_the_loop_for_ever(await stages()),
    )
    for run in (called, tripped):
        assert (await run.result()).text.count("(3 times); its outcome is unknown") == 1
        (answer,) = [event async for event in run.events(follow=False) if event.type == "tool_end"]
        assert answer.result.error.code == "tool_unavailable"
    with pytest.raises(RunFailed, match="each of 3 workers that ran it was lost"):
        await gambled.result()


async def blocks_the_loop_for_ever(stage):
    """Each worker whose loop the call blocks ends with 1; after the third the call is answered."""
    run = await stage.client.start("durable.endless", "go", wait_for_worker=True)
    for _ in range(3):
        worker = await stage.worker("endless_app:app", ready=False)
        assert await worker.ends() == 1
        assert "endless_app.py" in worker.log().split("worker_given_up", 1)[1]
    await stage.worker("endless_app:app")
    async with asyncio.timeout(PATIENCE):
        answer = (await run.result()).text
    assert "(3 times); its outcome is unknown" in answer
    assert [line["point"] for line in stage.records()] == ["spin"] * 3
