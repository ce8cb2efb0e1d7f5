"""A cancel at any moment of any run ends it canceled, with every call answered, and nothing begins after it.

`SOJOURN_CASES=1000 pytest tests/workflows/test_any_cancel.py` tries as many runs and moments.
"""

import asyncio
import contextlib
import json
import os
import random
import tempfile
import uuid
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from sojourn import Agent, AgentTool, App, ApprovalPolicy, Client, Run, RunPolicy, Worker
from tests.chain import replay

from .anything import NAMES, AnyPlanner, Question, make_tools, operate

CASES = int(os.environ.get("SOJOURN_CASES", "8"))
AT_ONCE = 12
PATIENCE = 180.0

LOCAL = EventType.EVENT_TYPE_MARKER_RECORDED
BEGINNINGS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED,
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED,
    EventType.EVENT_TYPE_TIMER_STARTED,
    LOCAL,
}
REQUESTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED

POLICIES = [
    RunPolicy(interrupts_allowed=True, max_parallel_calls=2),
    RunPolicy(interrupts_allowed=True, max_parallel_calls=1, approval=ApprovalPolicy.unattended()),
    RunPolicy(interrupts_allowed=True, max_tool_rounds=3, on_missing_fields="await_clarification"),
]


class Canceling(AnyPlanner):
    """Plans by the seed in its run's labels, and cancels the root run just before its n-th plan ends."""

    def __init__(self, names: list[str]) -> None:
        super().__init__("", names)
        self.client: Client | None = None
        self.plans: Counter[str] = Counter()

    async def plan_start(self, turn):
        labels, run_id = turn.run.labels, turn.run.run_id
        self.plans[run_id] += 1
        mine = AnyPlanner(labels["seed"], self.names).plan(turn)
        self.seen[run_id] = list(turn.messages)
        if labels["moment"] == f"plan {self.plans[run_id]}":
            assert self.client is not None
            await cancel(self.client, run_id.split("/", maxsplit=1)[0])
        return mine

    plan_resume = plan_start


async def cancel(client: Client, run_id: str) -> None:
    with contextlib.suppress(RPCError):  # the run has ended
        await client.temporal.get_workflow_handle(run_id).cancel()


async def cancel_at(run: Run, moment: str) -> None:
    """Cancel the run at a moment such as `event 7`, when its history has 7 events."""
    kind, number = moment.split()
    if kind != "event":
        return
    handle = run.client.temporal.get_workflow_handle(run.id)
    async for event in handle.fetch_history_events(wait_new_event=True):
        if event.event_id >= int(number):
            await cancel(run.client, run.id)
            return


async def test_a_cancel_at_any_moment(temporal_address, traces):
    """A run that is canceled after any event, or during any plan of its tree, ends as promised."""
    upper, lower = Canceling(NAMES), Canceling([name for name in NAMES if name != "below.ask"])
    toolsets = make_tools()
    child = Agent("any.child", planner=lower, uses=toolsets, policy=POLICIES[0])
    asked = child.export("any.below", tools=[AgentTool("ask", args=Question)])
    agents = [
        Agent(f"any.agent{n}", planner=upper, uses=[*toolsets, asked], policy=policy)
        for n, policy in enumerate(POLICIES)
    ]
    app = App(agents=[*agents, child])
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    upper.client = lower.client = client
    slots, ends = asyncio.Semaphore(AT_ONCE), Counter[str]()

    async def case(number: int) -> None:
        dice = random.Random(number)
        moment = f"event {dice.randint(1, 90)}" if dice.random() < 0.6 else f"plan {dice.randint(1, 6)}"
        labels = {"seed": str(number), "moment": moment}
        async with slots, asyncio.timeout(PATIENCE):
            run = await client.start(f"any.agent{number % len(POLICIES)}", "go", labels=labels)
            ended = asyncio.Event()
            operator = asyncio.create_task(operate(run, dice, ended))
            watcher = asyncio.create_task(cancel_at(run, moment))
            try:
                await ended_or_reported(run, operator, f"case {number}, {moment}")
            finally:
                ended.set()
                watcher.cancel()
                await asyncio.gather(operator, watcher, return_exceptions=True)
            ends[await check(run, traces, app)] += 1
            for below in [run_id for run_id in lower.seen if run_id.startswith(f"{run.id}/")]:
                with contextlib.suppress(Exception):
                    await client.temporal.get_workflow_handle(below).result()
                await check(client.get_run(below), traces, app)

    async with Worker(app, client):
        await asyncio.gather(*[case(number) for number in range(CASES)])
    print(dict(ends))
    assert ends["canceled"] > CASES // 3


async def ended_or_reported(run: Run, operator: asyncio.Task[None], what: str) -> None:
    """Wait until a run ends; if it does not, fail with its pending work and its history."""
    handle = run.client.temporal.get_workflow_handle(run.id)
    waiting = asyncio.create_task(handle.result())
    await asyncio.wait({waiting, operator}, timeout=PATIENCE - 20, return_when=asyncio.FIRST_COMPLETED)
    if operator.done():
        operator.result()  # raises: an operator works until the run has ended
    if not waiting.done():
        waiting.cancel()
        operator.print_stack()
        raw = (await handle.describe()).raw_description
        events = await history_of(run)
        lines = [
            f"{time_of(event) - time_of(events[0]):.2f} {EventType.Name(event.event_type)}"
            for event in events
        ]
        pytest.fail(
            f"{what}: {run.id} does not end\n{raw.pending_workflow_task}{raw.pending_activities}\n{lines}"
        )
    waiting.exception()


def time_of(event: HistoryEvent) -> float:
    return event.event_time.ToNanoseconds() / 1e9


async def history_of(run: Run) -> list[HistoryEvent]:
    handle = run.client.temporal.get_workflow_handle(run.id)
    return [event async for event in handle.fetch_history_events()]


async def check(run: Run, traces, app: App) -> str:
    """Assert that a run ended as it should, and replays; return whether it was canceled."""
    history = await traces(run).history()
    requests = [event.event_id for event in history if event.event_type == REQUESTED]
    status = (await run.client.temporal.get_workflow_handle(run.id).describe()).status
    assert await traces(run).failed_tasks() == []
    if requests:
        assert status == WorkflowExecutionStatus.CANCELED, run.id
        assert begun_after(history, requests[0]) == [], run.id
    else:
        assert status == WorkflowExecutionStatus.COMPLETED, run.id
    messages = await run.transcript()
    asked = [call.tool_call_id for message in messages for call in message.tool_calls]
    answered = [result.tool_call_id for message in messages for result in message.tool_results]
    assert answered == asked, run.id
    try:
        await replay(run.client.temporal, run.id)
    except Exception as error:
        if has_fault_of_core(history):
            return "not to be replayed"
        kept = Path(tempfile.mkdtemp()) / "history.json"
        fetched = await run.client.temporal.get_workflow_handle(run.id).fetch_history()
        kept.write_text(fetched.to_json())
        raise AssertionError(f"{run.id} does not replay; its history is at {kept}") from error
    return "canceled" if requests else "completed"


def has_fault_of_core(history: Sequence[HistoryEvent]) -> bool:
    """Whether a signal or a cancel arrived just as a local call ended in a workflow task that answered a query.

    Temporal's core completes such a task before the workflow has the call's result, and cannot replay it (docs/tools.md):
    the task's only commands are markers of local calls, and the signal or cancel request follows them.
    """
    by_task: dict[int, list[HistoryEvent]] = {}
    for event in history:
        if event.event_type == LOCAL:
            by_task.setdefault(
                event.marker_recorded_event_attributes.workflow_task_completed_event_id, []
            ).append(event)
    for task, markers in by_task.items():
        are_local = all(
            one.marker_recorded_event_attributes.marker_name == "core_local_activity" for one in markers
        )
        after = history[task + len(markers)].event_type
        if are_local and after in (REQUESTED, EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED):
            return True
    return False


def begun_after(history: Sequence[HistoryEvent], request: int) -> list[str]:
    """Types of the events by which something began in the first workflow task after the request, or later."""
    tasks = [
        event
        for event in history
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED and event.event_id > request
    ]
    return [
        EventType.Name(event.event_type)
        for event in history
        if tasks
        and event.event_id > tasks[0].event_id
        and event.event_type in BEGINNINGS
        and (event.event_type != LOCAL or begun(event) > time_of(tasks[0]))
    ]


def begun(marker: HistoryEvent) -> float:
    """When the local activity of a marker began, in seconds; the marker is recorded when the activity ends."""
    attributes = marker.marker_recorded_event_attributes
    if attributes.marker_name != "core_local_activity" or attributes.failure.HasField(
        "canceled_failure_info"
    ):
        return 0.0  # a call that is scheduled and canceled in the same task is never executed
    (data,) = attributes.details["data"].payloads
    began = json.loads(data.data)["original_schedule_time"]
    return began["seconds"] + began["nanos"] / 1e9
