"""A changed app is deployed while runs are under way, and no run breaks."""

import asyncio
import signal

from temporalio.api.enums.v1 import EventType

KINDS = ("tool", "plan", "wait", "question")


async def test_twenty_runs_outlive_a_deploy(stage):
    """20 runs under way meet a renamed tool, another policy and another planner, and every run ends."""
    for kind in KINDS:
        stage.hold(kind)
    old = await stage.worker("deploy_app:v1")
    runs = {kind: [await stage.client.start("ops.counter", kind) for _ in range(5)] for kind in KINDS}
    everyone = [run for some in runs.values() for run in some]

    # Every run has counted its first shelf, and stops where its kind does.
    parked = [
        *(stage.happened(run, "ACTIVITY_TASK_COMPLETED", 2) for run in runs["plan"]),
        *(stage.happened(run, "ACTIVITY_TASK_COMPLETED", 3) for run in runs["tool"]),
        *(stage.happened(run, "TIMER_STARTED") for run in runs["wait"]),
        *(stage.asks(run) for run in runs["question"]),
    ]
    await asyncio.gather(*parked)

    # Both versions serve.
    new = await stage.worker("deploy_app:v2")
    stage.release("wait")
    await asyncio.gather(*(run.answer("go", "yes") for run in runs["question"][:3]))

    # The old worker drains: it ends what it has begun, and the new worker executes what it has planned.
    old.signal(signal.SIGTERM)
    await old.says("worker_draining")
    stage.release("plan")
    stage.release("tool")
    assert await old.ends() == 0
    await asyncio.gather(*(run.answer("go", "yes") for run in runs["question"][3:]))

    async with asyncio.timeout(60):
        outputs = await asyncio.gather(*(run.result() for run in everyone))
    assert {output.text for output in outputs} <= {"counted", "tallied"}
    assert [output.reason for output in outputs] == ["answered"] * 20

    broken = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    histories = [await stage.history(run) for run in everyone]
    assert [run.id for run, events in zip(everyone, histories, strict=True) if broken in types(events)] == []

    # Runs were planned by both versions, and the tool of the old plan was not there any more.
    versions = {run.id: planned_by(stage, run) for run in everyone}
    assert all(versions[run.id] == {"v1", "v2"} for run in runs["plan"] + runs["question"][3:])
    for run in runs["plan"]:
        refused = [e.result async for e in run.events() if e.type == "tool_end" and not e.result.ok]
        assert [result.retry_hint.reason for result in refused] == ["tool_unavailable"]
        assert "ops.shelves.tally" in refused[0].retry_hint.message
    assert new.is_running


def types(events) -> set[int]:
    """The types of history events."""
    return {event.event_type for event in events}


def planned_by(stage, run) -> set[str]:
    """The versions that have planned a run."""
    return {
        line["version"] for line in stage.records() if (line["point"], line["run_id"]) == ("plan", run.id)
    }
