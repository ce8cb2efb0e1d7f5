"""Slots that tenants share: their order, what is given back, and whose a slot is."""

import asyncio

import pytest

from sojourn.serving.fair_slots import FairSlots, running_tenant
from tests.in_activity import as_tenant


@pytest.mark.parametrize(
    ("key", "workflow_id", "tenant"),
    [
        ("acme", "run", "acme"),
        ("acme", "globex=1", "acme"),
        ("", "globex=1/step-1", "globex"),
        ("", "support:globex@chat", "globex"),
        ("", "support:@chat", ""),
        ("", "run", ""),
    ],
)
async def test_the_tenant_of_a_run_is_its_fairness_key(key, workflow_id, tenant):
    """An activity's tenant is the key of its run, and else what the run's id says."""

    async def ask():
        return running_tenant()

    assert await as_tenant(key, ask, workflow_id=workflow_id) == tenant
    assert running_tenant() == ""


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
