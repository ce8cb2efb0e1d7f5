"""Fairness: a run's tenant and priority are on everything that it starts, and a server takes tenants in turn."""

import asyncio
import importlib
from datetime import timedelta

import pytest
from pydantic import BaseModel
from temporalio.common import Priority
from temporalio.service import RPCError

from sojourn import (
    Agent,
    AgentTool,
    App,
    Client,
    InvalidInput,
    PlanResult,
    Principal,
    ToolRequest,
    Toolset,
)
from sojourn.checks.service import check_fairness
from sojourn.client.start import priority_of
from sojourn.contracts.tenant_ids import tenant_part
from sojourn.server import Server, dev_server

room = importlib.import_module("workflows.history_budget")

ANA = Principal(subject="ana", tenant="acme")
"""A principal of a tenant."""

OF_ANA = Priority(fairness_key="acme")


class Task(BaseModel):
    text: str


async def plan(turn):
    return PlanResult.final("done")


async def priority_of_run(run):
    """The priority that the server has for the present execution of a run."""
    described = await run.client.temporal.get_workflow_handle(run.id).describe()
    return Priority._from_proto(described.raw_description.workflow_execution_info.priority)


async def test_child_runs_and_later_executions_have_the_tenant_and_priority(serve, monkeypatch):
    """They inherit those of the run's start."""
    monkeypatch.setattr(room, "CONTINUE_EVENTS", 30)
    tools, made = Toolset("test.tools"), [0]

    @tools.tool
    async def look() -> str:
        """Look."""
        return "seen"

    async def plan_parent(turn):
        made[0] += 1
        if made[0] == 1:
            return PlanResult.calls(
                ToolRequest(name="test.crew.send", payload={"text": "go"}, tool_call_id="c1")
            )
        return PlanResult.calls(look.call()) if made[0] < 10 else PlanResult.final("done")

    kid = Agent("test.child", planner=plan)
    crew = kid.export("test.crew", tools=[AgentTool("send", args=Task)])
    client = await serve(App(agents=[Agent("test.agent", planner=plan_parent, uses=[tools, crew]), kid]))
    run = await client.start("test.agent", "go", principal=ANA, priority=2)
    assert (await run.result()).text == "done"
    assert "run_continued" in [event.type async for event in run.events()]
    expected = Priority(priority_key=2, fairness_key="acme")
    assert await priority_of_run(run) == expected
    assert await priority_of_run(client.get_run(f"{run.id}/c1")) == expected


async def test_every_way_to_start_has_the_tenants_key(serve, until):
    """Sessions, schedules and forks have the key of their principal's tenant; runs without a tenant have none."""
    client = await serve(planner=plan)
    session = client.session("test.agent", "s-1", principal=ANA, priority=4)
    await (await session.send("hello")).result()
    assert await priority_of_run(session.run) == Priority(priority_key=4, fairness_key="acme")
    assert await priority_of_run(await client.start("test.agent", "go")) == Priority()
    mine = await client.start("test.agent", "go", principal=ANA)
    await mine.result()
    assert await priority_of_run(mine) == OF_ANA
    assert await priority_of_run(await client.fork(mine.id, principal=ANA)) == OF_ANA
    day = timedelta(days=1)
    runs = await client.schedule("test.agent", "go", every=day, principal=ANA, priority=5)
    messages = await client.schedule("test.agent", "go", every=day, principal=ANA, session_id="s-1")
    for schedule, priority in ((runs, Priority(priority_key=5, fairness_key="acme")), (messages, OF_ANA)):
        try:
            assert (await schedule._handle.describe()).schedule.action.priority == priority
            await schedule.trigger()

            async def last(schedule=schedule):
                return (await schedule.status()).last

            (acted,) = await until(last)
            assert await priority_of_run(client.get_run(acted.id)) == priority
        finally:
            await schedule.delete()


async def test_a_tenants_backlog_delays_no_plan_of_another(serve, until, monkeypatch):
    """Of plans that wait for a worker, that of a tenant with one is the next but one, though it came last."""
    monkeypatch.setenv("SOJOURN_FAIR", "1")
    monkeypatch.setenv("SOJOURN_MAX_ACTIVITIES", "1")
    order, release = list[str](), asyncio.Event()

    async def plan_in_turn(turn):
        order.append(turn.run.principal.tenant)
        await release.wait()
        return PlanResult.final("done")

    client = await serve(planner=plan_in_turn)

    def start(tenant):
        return client.start("test.agent", "go", principal=Principal(subject="x", tenant=tenant))

    runs = [await start("noisy")]
    await until(lambda: order)
    runs += [await start(tenant) for tenant in [*["noisy"] * 8, "quiet"]]

    async def all_wait():
        handles = [client.temporal.get_workflow_handle(run.id) for run in runs]
        return all([(await each.describe()).raw_description.pending_activities for each in handles])

    await until(all_wait)
    release.set()
    await asyncio.gather(*(run.result() for run in runs))
    assert order.index("quiet") <= 2, order


@pytest.mark.parametrize("priority", [0, 6, -1])
async def test_a_priority_is_one_of_five(serve, priority):
    """Any other is refused before anything starts."""
    client = await serve(planner=plan)
    with pytest.raises(InvalidInput, match="priority is 1, the highest, to 5"):
        await client.start("test.agent", "go", run_id=f"never-{priority}", priority=priority)
    with pytest.raises(InvalidInput):
        client.session("test.agent", "s", priority=priority)
    with pytest.raises(InvalidInput):
        await client.schedule("test.agent", "go", every=timedelta(days=1), priority=priority)
    with pytest.raises(RPCError, match="not found"):
        await client.temporal.get_workflow_handle(f"never-{priority}").describe()


@pytest.mark.parametrize("tenant", ["acme", "Zürich " * 28, "a" * 200])
def test_every_tenant_fits_a_fairness_key(tenant):
    """Temporal allows 64 bytes."""
    key = priority_of(tenant, None).fairness_key
    assert key == tenant_part(tenant)
    assert len(key.encode()) <= 64


async def test_the_server_takes_tenants_in_turn(serve):
    """The development server does, and the check leaves no open workflow."""
    client = await serve(planner=plan)
    check = await check_fairness(client.temporal)
    assert (check.ok, check.mend) == (True, "")
    left = client.temporal.list_workflows("WorkflowType = 'sojourn-doctor' AND ExecutionStatus = 'Running'")
    assert [each.id async for each in left] == []


async def test_another_server_does_not_take_tenants_in_turn(processes, monkeypatch):
    """`check_fairness` says so, and names the setting."""
    unfair = {**dev_server.DYNAMIC_CONFIG, "matching.enableFairness": False}
    monkeypatch.setattr(dev_server, "DYNAMIC_CONFIG", unfair)
    async with Server(port=0, ui=False, attach=False) as server:
        client = await Client.connect(server.address)
        check = await check_fairness(client.temporal)
    assert check.ok is False
    assert "matching.enableFairness" in check.mend
