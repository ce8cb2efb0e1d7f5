"""Quotas with a key ring: what a ledger keeps is sealed with the key of its tenant."""

import uuid

from sojourn import Agent, App, PlanResult, Principal, TenantQuota, Tenants
from sojourn.contracts.tenant_ids import ledger_id
from sojourn.crypto import SealingCodec
from sojourn.crypto.ring_file import erase_keys
from sojourn.testing.scripted import ScriptedPlanner
from tests.crypto.ring import make_ring


async def test_a_ledger_is_sealed_for_its_tenant(serve, tmp_path):
    """Its history names no run in clear text, and another tenant's goes on once the key of the first is erased."""
    path, name = tmp_path / "ring", f"quotas-{uuid.uuid4().hex[:8]}"
    codec = SealingCodec(make_ring(path, "acme", "globex"))
    agent = Agent("test.agent", planner=ScriptedPlanner([PlanResult.final("done")] * 9))
    app = App(agents=[agent], name=name, tenants=Tenants(default=TenantQuota(runs=1)))
    client = await serve(app, codec=codec)
    runs = [
        await client.start("test.agent", "go", principal=Principal(subject="ann", tenant=tenant))
        for tenant in ("acme", "globex", "acme")
    ]
    assert [(await run.result()).text for run in runs] == ["done"] * 3
    raw = await client.temporal.get_workflow_handle(ledger_id(name, "acme")).fetch_history()
    text = raw.to_json()
    assert "EXCHANGE" in text.upper()
    assert not any(run.id in text for run in runs)
    erase_keys(path, tenant="acme")
    last = await client.start("test.agent", "go", principal=Principal(subject="bo", tenant="globex"))
    assert (await last.result()).text == "done"
