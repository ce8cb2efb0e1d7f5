"""Workers are killed one after the other, the server now and then, while errands run, pause and are cancelled.

`SOJOURN_CASES=600 pytest -s tests/durability/test_campaign.py --timeout 3600` kills as many and prints the figures.
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

from sojourn import Run, RunError
from sojourn.server import Server
from tests.failed_tasks import failed_tasks

from .stage import Stage

pytestmark = pytest.mark.durability

KILLS = int(os.environ.get("SOJOURN_CASES", "10"))
"""Workers that are killed; the server is at every 120th, and at least once."""

WORKERS = 3
AT_ONCE = 10
"""Errands under way at a time."""

DONE = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
SCHEDULED = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED


@pytest.fixture
async def server(tmp_path):
    """Give a server that may be killed."""
    async with Server(db_filename=tmp_path / "temporal.db", port=0, ui=False, attach=False) as server:
        yield server


class Campaign:
    """What is under way, and what became of it."""

    def __init__(self, stage: Stage, server: Server) -> None:
        self.stage, self.server = stage, server
        self.runs: list[Run] = []
        self.canceled: set[str] = set()
        self.is_over = False
        self.figures: Counter[str] = Counter()

    async def kill(self) -> None:
        """Kill workers one after the other, each when the last one's successor serves."""
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
        """Have errands done, one after the other; a tenth is cancelled, a fifth paused for a while."""
        dice = random.Random(number)
        while not self.is_over:
            run = await self.patiently(self.stage.client.start, "campaign.errand", "Go")
            self.runs.append(run)
            what = dice.random()
            await asyncio.sleep(dice.uniform(0, 3))
            if what < 0.1:
                self.canceled.add(run.id)
                await self.patiently(run.cancel, "enough")
            elif what < 0.3:
                await self.patiently(run.pause, "look")
                await asyncio.sleep(dice.uniform(0, 2))
                await self.patiently(run.resume)
            await self.end_of(run)

    async def patiently(self, deed: Any, *args: Any) -> Any:
        """Do it again while the server is away; what came too late is no matter."""
        while True:
            try:
                return await deed(*args)
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
    """Every errand ends, all tell one transcript, nothing finished is repeated, no workflow task fails."""
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
            transcripts.add(told([m.model_dump(mode="json") for m in await run.transcript()], figures))
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
    """When each call's executions began, by run and call."""
    found: dict[tuple[str, str], list[float]] = {}
    for line in stage.records():
        if line["event"] == "start":
            found.setdefault((line["run_id"], line["tool_call_id"]), []).append(line["at"])
    return found


async def examine(
    stage: Stage, run_id: str, executions: dict[tuple[str, str], list[float]], figures: Counter[str]
) -> None:
    """Count what must not be, in a run and its child runs."""
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


def told(messages: list[dict[str, Any]], figures: Counter[str]) -> str:
    """A transcript less ids and times; a call whose outcome is unknown since its worker was killed is any call."""
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
