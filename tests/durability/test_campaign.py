"""Workers are killed one after the other, and now and then the server, while errands run, pause and are canceled.

`SOJOURN_CASES=600 pytest -s tests/durability/test_campaign.py --timeout 3600` kills 600 workers and prints the figures.
"""

import asyncio
import contextlib
import json
import os
import random
import time
from collections import Counter
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus

from sojourn import Run
from sojourn.errors import RunError
from sojourn.server import Server
from tests.failed_tasks import failed_tasks

from .stage import Stage

KILLS = int(os.environ.get("SOJOURN_CASES", "10"))
"""Number of workers to kill. The server is killed with every 120th, and once midway through the first 120."""

WORKERS = 3
AT_ONCE = 10
"""Number of errands under way at a time."""

DONE = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
SCHEDULED = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED


@pytest.fixture
async def server(tmp_path):
    """A server that a test may kill."""
    async with Server(db_filename=tmp_path / "temporal.db", port=0, ui=False, attach=False) as server:
        yield server


class Campaign:
    """The runs of a campaign, and the figures of what became of them."""

    def __init__(self, stage: Stage, server: Server) -> None:
        self.stage, self.server = stage, server
        self.runs: list[Run] = []
        self.canceled: set[str] = set()
        self.is_over = False
        self.figures: Counter[str] = Counter()

    async def kill(self) -> None:
        """Kill workers one after the other, each once the last one's successor serves."""
        dice = random.Random(1)
        serving = [await self.stage.worker("campaign_app:app") for _ in range(WORKERS)]
        for number in range(1, KILLS + 1):
            serving.pop(dice.randrange(WORKERS)).kill()
            if number % 120 == 0 or number == min(KILLS, 120) // 2:
                self.server.kill()
                await asyncio.sleep(dice.uniform(0, 2))
                await self.server.restart()
                self.figures["server killed"] += 1
            serving.append(await self.stage.worker("campaign_app:app"))
            self.figures["workers killed"] += 1
        self.is_over = True

    async def employ(self, number: int) -> None:
        """Start errands one after the other; cancel a tenth of them, and pause a fifth for up to 2 seconds."""
        dice = random.Random(number)
        while not self.is_over:
            run = await self.despite_outages(self.stage.client.start, "campaign.errand", "Go")
            self.runs.append(run)
            what = dice.random()
            await asyncio.sleep(dice.uniform(0, 3))
            if what < 0.1:
                self.canceled.add(run.id)
                await self.despite_outages(run.cancel, "enough")
            elif what < 0.3:
                await self.despite_outages(run.pause, "look")
                await asyncio.sleep(dice.uniform(0, 2))
                await self.despite_outages(run.resume)
            await self.end_of(run)

    async def despite_outages(self, request: Any, *args: Any) -> Any:
        """Repeat a request while the server is away; None if the request came too late for the run."""
        while True:
            try:
                return await request(*args)
            except RunError as error:
                if type(error).__name__ in ("AwaitClosed", "RunNotFound", "RunFailed"):
                    return None
                await asyncio.sleep(0.5)

    async def end_of(self, run: Run) -> None:
        handle = self.stage.client.temporal.get_workflow_handle(run.id)
        async with asyncio.timeout(240):
            while True:
                with contextlib.suppress(Exception):
                    if (await handle.describe()).close_time:
                        return
                await asyncio.sleep(0.3)


async def test_a_campaign_of_kills(stages, server, capsys):
    """Every errand ends, all completed ones have one transcript, no finished call is repeated, and no workflow task fails."""
    stage = await stages(server.address)
    campaign = Campaign(stage, server)
    began = time.monotonic()
    await asyncio.gather(campaign.kill(), *[campaign.employ(number) for number in range(AT_ONCE)])
    figures = campaign.figures
    executions = executions_of(stage)
    transcripts = set()
    for run in campaign.runs:
        handle = stage.client.temporal.get_workflow_handle(run.id)
        status = (await handle.describe()).status
        figures[f"runs {status.name.lower() if status else 'unknown'}"] += 1
        await examine(stage, run.id, executions, figures)
        if status == WorkflowExecutionStatus.COMPLETED:
            transcripts.add(comparable([m.model_dump(mode="json") for m in await run.transcript()], figures))
        else:
            assert run.id in campaign.canceled
    figures["executions"] = sum(len(starts) for starts in executions.values())
    figures["calls executed"] = len(executions)
    with capsys.disabled():
        print(f"\n{json.dumps(figures)} in {time.monotonic() - began:.0f} s")
    assert len(transcripts) == 1
    assert figures["finished calls repeated"] == 0
    assert figures["workflow tasks failed"] == 0


def executions_of(stage: Stage) -> dict[tuple[str, str], list[float]]:
    """The start times of each call's executions, by run id and `tool_call_id`."""
    found: dict[tuple[str, str], list[float]] = {}
    for line in stage.records():
        if line["event"] == "start":
            found.setdefault((line["run_id"], line["tool_call_id"]), []).append(line["at"])
    return found


async def examine(
    stage: Stage, run_id: str, executions: dict[tuple[str, str], list[float]], figures: Counter[str]
) -> None:
    """Count failed workflow tasks, and finished calls that were repeated, in a run and its child runs."""
    handle = stage.client.temporal.get_workflow_handle(run_id)
    names: dict[int, str] = {}
    events = [event async for event in handle.fetch_history_events()]
    figures["workflow tasks failed"] += len(failed_tasks(events))
    for event in events:
        if event.event_type == SCHEDULED:
            names[event.event_id] = event.activity_task_scheduled_event_attributes.activity_id
        elif event.event_type == DONE:
            call_id = names[event.activity_task_completed_event_attributes.scheduled_event_id]
            starts = executions.get((run_id, call_id), [])
            figures["finished calls repeated"] += sum(
                at > event.event_time.ToNanoseconds() / 1e9 for at in starts
            )
        elif event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
            child = event.child_workflow_execution_started_event_attributes.workflow_execution.workflow_id
            await examine(stage, child, executions, figures)


def comparable(messages: list[dict[str, Any]], figures: Counter[str]) -> str:
    """A transcript without ids and times, in which a call of unknown outcome reads as an answered one."""
    lines: list[str] = []
    for message in messages:
        for part in message["parts"]:
            result = part.get("result") if part["type"] == "tool_result" else None
            if isinstance(result, dict):
                error = result.get("error")
                lost = bool(error) and "outcome is unknown" in error["message"]
                figures["outcomes unknown"] += lost
                lines.append(f"{result['name']}: {'answered' if lost or not error else error['message']}")
            else:
                lines.append(f"{message['role']} {part['type']} {part.get('text') or part.get('name')}")
    return "\n".join(lines)
