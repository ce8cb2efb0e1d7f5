"""Decisions that come while no worker runs the workflow: the run, its events and its replay tell one story."""

import asyncio
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest, RespondWorkflowTaskFailedRequest

from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    Client,
    PlanResult,
    Principal,
    Run,
    RunPolicy,
    ToolRequest,
    Toolset,
    Turn,
)
from sojourn.errors import AwaitClosed
from tests.resets import reset, reset_before_update
from tests.separate_workers import SeparateWorkers

ANA, BEN = (Principal(subject=name, tenant="acme", roles=["approver"]) for name in ("ana", "ben"))
SCHEDULED = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
COMPLETED = EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
TASK_COMPLETED = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
FIRED = EventType.EVENT_TYPE_TIMER_FIRED

PAID: list[tuple[str, int]] = []

money = Toolset("late.money")


@money.tool(destructive=True)
async def pay(amount: int, run_id: str) -> str:
    """Pay."""
    PAID.append((run_id, amount))
    return f"paid {amount}"


async def plan(turn: Turn) -> PlanResult:
    """Pay 1, and report what came of it."""
    if turn.tool_results:
        return PlanResult.final(" | ".join(str(each.error or each.result) for each in turn.results))
    payload = {"amount": 1, "run_id": turn.run.run_id}
    return PlanResult.calls(ToolRequest(name=pay.id, payload=payload, tool_call_id="c1"))


@pytest.fixture
async def serving(temporal_address):
    """Start both workers for an agent whose calls need these approvals."""
    made: list[SeparateWorkers] = []

    async def serve(**approval) -> SeparateWorkers:
        client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
        policy = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(**approval))
        workers = SeparateWorkers(
            client, App(agents=[Agent("late.agent", planner=plan, uses=[money], policy=policy)])
        )
        made.append(workers)
        await workers.start("workflows", "activities")
        return workers

    yield serve
    for workers in made:
        await workers.stop_all()


@pytest.fixture
def asked(serving, status_when):
    async def start(**approval):
        workers = await serving(**approval)
        run = await workers.client.start("late.agent", "go", principal=ANA)
        (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
        return workers, run, wait

    return start


def decision(wait, principal, **more) -> dict:
    sent = {"id": wait.id, "approved": True, "payload_digest": wait.payload_digest, "by": principal.subject}
    return {**sent, "principal": principal.model_dump(), **more}


async def story(run: Run, traces, *, failed_tasks: int = 0) -> tuple[list, list[int]]:
    """How the call was decided by the run's events, and what was paid; checks that both are one."""
    text = (await asyncio.wait_for(run.result(), 60)).text
    events = [event async for event in run.events()]
    decided = [
        (event.by, event.approved, event.edited_arguments and event.edited_arguments["amount"], event.code)
        for event in events
        if event.type == "await_answered"
    ]
    started = [event.call.payload["amount"] for event in events if event.type == "tool_start"]
    paid = [amount for run_id, amount in PAID if run_id == run.id]
    assert text in ([f"paid {amount}" for amount in paid] or ["denied: nobody approved it in time"])
    assert [amount for amount in started if paid] == paid
    assert len(await traces(run).failed_tasks()) == failed_tasks
    if not failed_tasks:
        await traces(run).check()
    return decided, paid


@pytest.mark.parametrize("first", ["signal", "timer", "failed task"])
async def test_an_approval_and_the_end_of_its_time_in_one_task(asked, traces, until, first):
    """A signal counts if the same task brings both, in either order, also after an attempt that failed; the events say so."""
    workers, run, wait = await asked(expires_after=timedelta(seconds=3))
    handle = traces(run).handle
    await workers.stop("workflows")
    if first == "signal":
        await handle.signal("provide_confirmation", decision(wait, BEN))
    await until(lambda: counted(traces(run), FIRED, 1))
    if first == "failed task":
        await fail_task(workers.client)
    if first != "signal":
        await handle.signal("provide_confirmation", decision(wait, BEN))
    await workers.start("workflows")
    told = await story(run, traces, failed_tasks=int(first == "failed task"))
    assert told == ([("ben", True, None, None)], [1])


async def fail_task(client: Client) -> None:
    """Take the run's next workflow task, and report that it has failed."""
    service, namespace = client.temporal.workflow_service, client.temporal.namespace
    queue = TaskQueue(name=client.task_queue)
    poll = PollWorkflowTaskQueueRequest(namespace=namespace, task_queue=queue, identity="breaks")
    task = await service.poll_workflow_task_queue(poll)
    assert task.task_token
    failed = RespondWorkflowTaskFailedRequest(task_token=task.task_token, namespace=namespace)
    await service.respond_workflow_task_failed(failed)


async def test_an_update_after_the_time_is_refused(asked, traces, until):
    """No worker ran at that time, and the approver is told that it is over."""
    workers, run, wait = await asked(expires_after=timedelta(seconds=2))
    await workers.stop("workflows")
    late = asyncio.create_task(run.approve(wait, principal=BEN))
    await until(lambda: counted(traces(run), FIRED, 1))
    await workers.start("workflows")
    with pytest.raises(AwaitClosed):
        await late
    assert await story(run, traces) == ([(None, None, None, "expired")], [])


async def test_an_approval_in_time_counts_after_a_reset(asked, traces, until):
    """A reset sends an accepted update anew, in the task that ends the time of its wait."""
    workers, run, wait = await asked(expires_after=timedelta(seconds=3))
    over = datetime.now(UTC) + timedelta(seconds=3)
    await run.approve(wait, principal=BEN)
    await run.result()
    await until(lambda: datetime.now(UTC) > over)
    PAID.clear()
    await workers.stop("workflows")
    await reset_before_update(workers.client, run.id)
    await until(lambda: counted(traces(run), FIRED, 1))
    await workers.start("workflows")
    assert await story(run, traces, failed_tasks=1) == ([("ben", True, None, None)], [1])


async def test_a_wait_that_opens_after_a_reset_has_its_time(asked, traces, until, status_when):
    """An answer after the time of such a wait is none that a reset sends anew."""
    workers, run, _ = await asked(expires_after=timedelta(seconds=2))
    history = await traces(run).handle.fetch_history()
    opens = [each.event_id for each in history.events if each.event_type == TASK_COMPLETED][-1]
    await reset(workers.client, run.id, opens)
    (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    await workers.stop("workflows")
    late = asyncio.create_task(run.approve(wait, principal=BEN))
    await until(lambda: counted(traces(run), FIRED, 1))
    await workers.start("workflows")
    with pytest.raises(AwaitClosed):
        await late
    assert await story(run, traces, failed_tasks=1) == ([(None, None, None, "expired")], [])


async def counted(traces, kind, count: int) -> bool:
    return await traces.count(kind) >= count


async def check_meanwhile(workers: SeparateWorkers, run: Run, wait, traces, until, then) -> None:
    """Send an edit, and let its verdict and what `then` does reach the workflow in one task."""
    trace = traces(run)
    asked, ended = await trace.count(SCHEDULED), await trace.count(COMPLETED)
    await workers.stop("activities")
    edit = decision(wait, ANA, arguments={**wait.payload, "amount": 2})
    await trace.handle.signal("provide_confirmation", edit)
    await until(lambda: counted(trace, SCHEDULED, asked + 1))
    await workers.stop("workflows")
    await workers.start("activities")
    await until(lambda: counted(trace, COMPLETED, ended + 1))
    after = await then(trace.handle)
    await workers.start("workflows")
    if after is not None:
        await after


def approval_of_ben(by, run, wait):
    """Return what sends Ben's approval, by a signal or by an update whose sender waits."""

    async def approve(handle):
        if by == "signal":
            return await handle.signal("provide_confirmation", decision(wait, BEN))
        sent = asyncio.create_task(run.approve(wait, principal=BEN))
        await asyncio.sleep(0.5)  # no history shows an update that no worker has accepted
        return sent

    return approve


@pytest.mark.parametrize("by", ["signal", "update"])
async def test_a_verdict_on_an_edit_and_another_approval_in_one_task(asked, traces, until, by):
    """The run reads the other approval first, which decides the call; the events have what ran, and the edit is refused."""
    workers, run, wait = await asked()

    await check_meanwhile(workers, run, wait, traces, until, approval_of_ben(by, run, wait))
    assert await story(run, traces) == ([("ben", True, None, None)], [1])


@pytest.mark.parametrize("by", ["signal", "update"])
async def test_a_verdict_and_one_of_several_approvals_in_one_task(asked, traces, until, by):
    """The approval is one of the call as it was, so the edit drops it, and two people approve what runs."""
    workers, run, wait = await asked(approvals=2)

    await check_meanwhile(workers, run, wait, traces, until, approval_of_ben(by, run, wait))
    (now,) = await until(lambda: edited(run))
    assert [each.name for each in now.given] == ["ana"]
    await run.approve(now, principal=BEN)
    assert await story(run, traces) == ([("ben", True, None, None)], [2])
    given = [event.by async for event in run.events() if event.type == "approval_given"]
    assert given == ["ben", "ana"]


async def edited(run: Run) -> list:
    waits = (await run.status()).awaits
    return waits if waits and waits[0].payload["amount"] == 2 else []


async def test_a_verdict_and_the_end_of_the_time_in_one_task(asked, traces, until):
    """The decision came in time: it counts, whichever the history has first, and no sender waits for ever."""
    workers, run, wait = await asked(expires_after=timedelta(seconds=8))

    async def expire(_handle) -> None:
        await until(lambda: counted(traces(run), FIRED, 1))

    await check_meanwhile(workers, run, wait, traces, until, expire)
    assert await story(run, traces) == ([("ana", True, 2, None)], [2])
