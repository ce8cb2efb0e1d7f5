"""Slots that tenants share: their order, what is given back, and whose a slot is."""

import asyncio
import uuid

import pytest
from pydantic import BaseModel

from sojourn import Agent, AgentTool, App, PlanResult, Principal, ToolRequest, Toolset
from sojourn.serving.fair_slots import FairSlots, bind_tenant, running_tenant


@pytest.mark.parametrize(
    ("principal", "run_id", "tenant"),
    [
        (Principal(subject="ana", tenant="acme"), "run", "acme"),
        (Principal(subject="ana", tenant="acme"), "globex=1", "acme"),
        (Principal(subject="ana"), "run", ""),
        (None, "globex=1/step-1", "globex"),
        (None, "support:globex@chat", "globex"),
        (None, "support:@chat", ""),
        (None, "run", ""),
    ],
)
async def test_work_is_of_its_principals_tenant(principal, run_id, tenant):
    """Without a principal it is of the tenant that the run's id says; tasks that it starts have the same."""

    async def act():
        bind_tenant(principal, run_id)
        return await asyncio.create_task(ask())

    async def ask():
        return running_tenant()

    assert await asyncio.create_task(act()) == tenant
    assert running_tenant() == ""


async def test_plans_and_calls_are_of_the_runs_tenant(serve):
    """The planner and the tools of a run, and of its child run, act for its tenant, whatever its id."""
    seen, tools = list[str](), Toolset("test.tools")

    class Task(BaseModel):
        text: str

    @tools.tool
    async def look() -> str:
        """Look."""
        seen.append(running_tenant())
        return "seen"

    async def plan(turn):
        seen.append(running_tenant())
        if any(message.tool_results for message in turn.messages):
            return PlanResult.final("done")
        if turn.run.agent_id == "test.agent":
            return PlanResult.calls(ToolRequest(name="test.crew.send", payload={"text": "go"}))
        return PlanResult.calls(look.call())

    kid = Agent("test.child", planner=plan, uses=[tools])
    crew = kid.export("test.crew", tools=[AgentTool("send", args=Task)])
    client = await serve(App(agents=[Agent("test.agent", planner=plan, uses=[crew]), kid]))
    ana = Principal(subject="ana", tenant="acme")
    await client.execute("test.agent", "go", principal=ana, run_id=f"mine-{uuid.uuid4().hex[:8]}")
    assert seen == ["acme"] * 5


async def test_tenants_that_wait_get_slots_in_turn():
    """However many of one tenant wait, the others get every other slot, and no more are held than there are."""
    slots, order, most = FairSlots[str](2), list[str](), 0

    async def hold(tenant):
        nonlocal most
        async with slots.slot(tenant, "name"):
            most = max(most, slots.by_tenant.total())
            order.append(tenant)
            await asyncio.sleep(0)

    noisy = [asyncio.create_task(hold("n")) for _ in range(20)]
    await asyncio.sleep(0)
    await asyncio.gather(*noisy, *(hold("q") for _ in range(4)))
    assert (order.count("n"), order.count("q"), most) == (20, 4, 2)
    assert max(index for index, tenant in enumerate(order) if tenant == "q") <= 10
    assert (slots.by_tenant, slots.by_name, len(slots._waiting)) == ({}, {}, 0)


async def test_a_slot_given_to_a_cancelled_wait_goes_on():
    """A wait that is cancelled before or just as its turn comes leaves the slot to the next one."""
    slots, held = FairSlots[str](1), list[str]()

    async def hold(tenant):
        async with slots.slot(tenant, "name"):
            held.append(tenant)

    async with slots.slot("a", "name"):
        tasks = [asyncio.create_task(hold(tenant)) for tenant in ("b", "c", "d")]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.sleep(0)
    tasks[1].cancel()
    assert [type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)] == [
        asyncio.CancelledError,
        asyncio.CancelledError,
        type(None),
    ]
    assert held == ["d"]
    assert (slots.by_tenant, len(slots._waiting)) == ({}, 0)
