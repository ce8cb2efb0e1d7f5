"""Reader: what is read once is shared by those who may see the same, and by nobody else."""

import asyncio
import uuid

from sojourn import Client, PlanResult, Principal
from sojourn.client.listing import Selection
from sojourn.reader import Reader
from tests.console.counting import Asked


async def plan(turn):
    return PlanResult.final("done")


async def test_a_shared_page_is_shared_by_one_tenant_alone(serve, until, temporal_address):
    """However many read the page of a tenant, the store is asked once; another tenant's page is its own."""
    client = await serve(planner=plan)
    mark = uuid.uuid4().hex[:8]
    tenants = [f"{name}-{mark}" for name in ("acme", "globex")]
    runs = {
        tenant: await client.start("test.agent", "hi", principal=Principal(subject="ana", tenant=tenant))
        for tenant in tenants
    }
    for run in runs.values():
        await run.result()
    async with Client.connect(temporal_address) as own:
        reader, asked = Reader(own), Asked(own)

        async def are_listed() -> bool:
            pages = [await reader.runs(Selection(tenant=tenant), most=10) for tenant in tenants]
            return all(page.runs and page.runs[0].closed_at for page in pages)

        await until(are_listed)
        asked.count.clear()
        for tenant in tenants:
            pages = await asyncio.gather(
                *(reader.runs(Selection(tenant=tenant), most=10, fresh=60.0) for _ in range(20))
            )
            assert {run.run_id for page in pages for run in page.runs} == {runs[tenant].id}
        assert asked.count["list_workflow_executions"] == len(tenants)


async def test_how_a_run_ended_is_read_once(serve, temporal_address):
    """The details of ended runs come from the last events of their histories, which are read once."""
    client = await serve(planner=plan)
    run = await client.start("test.agent", "hi")
    await run.result()
    closed_at = (await run.status()).closed_at
    async with Client.connect(temporal_address) as own:
        reader, asked = Reader(own), Asked(own)
        ends = await asyncio.gather(*(reader.end(run.id, closed_at) for _ in range(20)))
        assert {end.output.text for end in ends} == {"done"}
        assert await reader.end(run.id, closed_at) is ends[0]
        assert asked.count["history"] == 1
