"""Frozen workers: a worker that stood still executes nothing that others have done meanwhile.

`SOJOURN_CASES=50 pytest -s tests/durability/test_freezes.py --timeout 3600` freezes as many workers, each for 22 s.
"""

import asyncio
import json
import os
import random
import signal
from collections import Counter
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from sojourn import Run, data_converter
from sojourn.events.history import HistoryReader

from .sojourn_process import SojournProcess
from .stage import Stage
from .until import until

CASES = int(os.environ.get("SOJOURN_CASES", "3"))

AT_ONCE = 5
"""Most workers that are frozen together; another one goes on."""

FROZEN = 22.0
"""Seconds: more than the heartbeat time-out, after which another worker attempts a call."""

CLOSING = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED: "activity_task_completed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED: "activity_task_failed_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT: "activity_task_timed_out_event_attributes",
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED: "activity_task_canceled_event_attributes",
}


@pytest.mark.timeout(240 + 12 * CASES)
async def test_a_frozen_worker_executes_nothing_late(stage):
    """After 22 s in SIGSTOP no call, plan, local call or notice begins whose run had its answer by then."""
    dice = random.Random(CASES)
    await stage.worker("frozen_app:app")
    frozen = [await stage.worker("frozen_app:app") for _ in range(min(AT_ONCE, CASES))]
    runs: list[Run] = []
    for first in range(0, CASES, AT_ONCE):
        runs += await freeze(stage, frozen[: CASES - first], dice)
    late = [line for line in began(stage) if line["time"] > (await answers(stage, line["run"]))(line)]
    refused = sum(worker.log().count('"late_start_refused"') for worker in frozen)
    print(
        f"{CASES} freezes, {len(runs)} runs, {dict(Counter(line['what'] for line in began(stage)))} began, "
        f"{refused} refused, {len(late)} late: {late}"
    )
    assert late == []
    assert refused or CASES < 20  # three frozen workers may have had nothing to begin


async def freeze(stage: Stage, workers: list[SojournProcess], dice: random.Random) -> list[Run]:
    """Freeze workers while runs begin, some before and some in the meantime; return the runs, which have ended."""
    runs = [await stage.client.start("frozen.agent", "go") for _ in range(3 * len(workers))]
    for worker in workers:
        await asyncio.sleep(dice.random() / 20)
        worker.signal(signal.SIGSTOP)
    thaw = asyncio.get_running_loop().time() + FROZEN
    for _ in range(9 * len(workers)):
        runs.append(await stage.client.start("frozen.agent", "go"))
        await asyncio.sleep(0.1)
    await asyncio.sleep(thaw - asyncio.get_running_loop().time())
    for worker in workers:
        worker.signal(signal.SIGCONT)
    for run in runs:
        await run.result()
    await until("the end of every run is told", lambda: is_told(stage, runs))
    return runs


def is_told(stage: Stage, runs: list[Run]) -> bool:
    """Whether a notice of each run's end has begun."""
    return sum(line["what"] == "notice end" for line in began(stage)) >= len(runs)


def began(stage: Stage) -> list[dict[str, Any]]:
    """The executions so far."""
    path = stage.folder / "began.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def answers(stage: Stage, workflow_id: str) -> Any:
    """A function that returns when a workflow had the answer of an execution; much later than now if it has none."""
    reader, scheduled, ended = HistoryReader(data_converter), dict[int, str](), dict[str, float]()
    handle = stage.client.temporal.get_workflow_handle(workflow_id)
    async for event in handle.fetch_history_events():
        if event.HasField("activity_task_scheduled_event_attributes"):
            scheduled[event.event_id] = event.activity_task_scheduled_event_attributes.activity_id
            continue
        if field := CLOSING.get(EventType.ValueType(event.event_type)):
            of = getattr(event, field).scheduled_event_id
            ended[scheduled[of]] = event.event_time.ToNanoseconds() / 1e9
            continue
        record = await reader.record(event)
        if record and record.kind == "local_ended" and record.error is None:
            ended[record.key] = record.time.timestamp()
    return lambda line: ended.get(line["activity"], float("inf"))
