"""`sojourn tenant`: how much of its quota a tenant uses, for people and for programs."""

import asyncio
import json
import uuid

from sojourn import Agent, App, PlanResult, Principal, TenantQuota, Tenants

APP = """
from sojourn import Agent, App, PlanResult, TenantQuota, Tenants

async def plan(turn):
    return PlanResult.final("done")

quota = TenantQuota(runs=2, starts_per_minute=60)
app = App(agents=[Agent("shop.clerk", planner=plan)], name={name!r}, tenants=Tenants(of={{"acme": quota}}))
"""


async def test_what_a_tenant_uses(serve, command, temporal_address, until, tmp_path):
    """Before its first run, while one is at work, and of a tenant without a quota."""
    name, gate = f"quotas-{uuid.uuid4().hex[:8]}", asyncio.Event()

    async def plan(_turn) -> PlanResult:
        await gate.wait()
        return PlanResult.final("done")

    tenants = Tenants(of={"acme": TenantQuota(runs=2, starts_per_minute=60)})
    client = await serve(App(agents=[Agent("shop.clerk", planner=plan)], name=name, tenants=tenants))
    (tmp_path / "shop_quotas.py").write_text(APP.format(name=name))

    async def printed(tenant: str, *options: str) -> str:
        env = {"TEMPORAL_ADDRESS": temporal_address, "PYTHONPATH": str(tmp_path)}
        return (await command("tenant", tenant, "shop_quotas:app", *options, env=env)).out.strip()

    assert await printed("acme") == "acme: 0 of 2 runs at work, 0 of 60 starts in the last minute, 0 waiting"
    run = await client.start("shop.clerk", "x", principal=Principal(subject="ann", tenant="acme"))

    async def is_at_work() -> bool:
        return json.loads(await printed("acme", "--json"))["runs"] == 1

    await until(is_at_work)
    assert json.loads(await printed("acme", "--json")) == {
        "tenant": "acme",
        "limited": True,
        "quota": {"runs": 2, "starts_per_minute": 60, "max_waiting": 1_000, "when_full": "wait"},
        "runs": 1,
        "waiting": 0,
        "waiting_starts": 0,
        "starts": 1,
    }
    assert await printed("globex") == "globex: no quota"
    gate.set()
    await run.result()


async def test_without_a_server_it_says_so(command, tmp_path):
    """As every command does, with its exit code."""
    (tmp_path / "shop_quotas.py").write_text(APP.format(name="quotas"))
    done = await command("tenant", "acme", "shop_quotas:app", env={"TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert done.code == 3
    assert "127.0.0.1:1" in done.err
