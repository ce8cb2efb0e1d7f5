"""Quotas over HTTP: a start that would be refused is refused before, and an operator sees what its tenant uses."""

import asyncio
import uuid

import pytest

from sojourn import Agent, App, PlanResult, TenantQuota, Tenants
from sojourn.asgi import create_app
from sojourn.http import ApiKeys
from sojourn.http.security.keys import create_key
from sojourn.network import http_client
from tests.http.conftest import listening


@pytest.fixture
async def service(serve, tmp_path):
    """A service whose tenant `acme` may have one run, which does not wait, and a gate that its runs wait for."""
    gate = asyncio.Event()

    async def plan(_turn) -> PlanResult:
        await gate.wait()
        return PlanResult.final("done")

    app = App(
        agents=[Agent("shop.clerk", planner=plan)],
        name=f"quotas-{uuid.uuid4().hex[:8]}",
        tenants=Tenants(of={"acme": TenantQuota(runs=1, when_full="refuse")}),
    )
    client, path, keys = await serve(app), tmp_path / "keys.json", {}
    for name, tenant, role in (
        ("ana", "acme", "operator"),
        ("bo", "globex", "operator"),
        ("ui", "acme", "user"),
    ):
        _, text = create_key(path, name, tenant=tenant, roles=["user", role])
        keys[name] = {"Authorization": f"Bearer {text}"}
    web = create_app(app, client=client, auth=ApiKeys(path))
    async with listening(web) as url, http_client(base_url=url, timeout=40) as http:
        yield http, keys, gate


async def test_a_start_above_the_quota_is_refused_and_makes_no_run(service, until):
    """The problem has the limit, and when to try again; a request that is sent again gets the run that it started."""
    http, keys, gate = service

    async def start(name: str, key: str | None = None):
        headers = {**keys[name], **({"Idempotency-Key": key} if key else {})}
        return await http.post("/v1/runs", json={"agent_id": "shop.clerk", "input": "x"}, headers=headers)

    assert (await start("ana", "first")).status_code == 201

    async def is_at_work() -> bool:
        return (await http.get("/v1/tenant", headers=keys["ana"])).json()["runs"] == 1

    await until(is_at_work)
    refused = await start("ui", "second")
    problem = refused.json()
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert {name: problem[name] for name in ("code", "quota", "limit")} == {
        "code": "tenant_quota_exceeded",
        "quota": "runs",
        "limit": 1,
    }
    assert problem["detail"] == "the tenant acme has reached its quota of 1 runs at work"
    again = await start("ana", "first")
    assert (again.status_code, again.json()["run_id"]) == (200, "acme=first")
    assert (await http.get("/v1/runs/acme=second", headers=keys["ana"])).status_code == 404
    assert (await start("bo")).status_code == 201, "another tenant is not held back"
    gate.set()

    async def starts() -> bool:
        return (await start("ui", "second")).status_code == 201

    await until(starts)


async def test_a_request_to_a_protocol_that_is_sent_again_gets_the_run_that_it_started(service, until):
    """It is no further start, though the tenant has no place."""
    http, keys, gate = service

    async def say():
        chat = {"model": "shop.clerk", "messages": [{"role": "user", "content": "x"}]}
        headers = {**keys["ui"], "Idempotency-Key": "same"}
        return await http.post("/openai/v1/chat/completions", json=chat, headers=headers)

    async def is_at_work() -> bool:
        return (await http.get("/v1/tenant", headers=keys["ana"])).json()["runs"] == 1

    first = asyncio.create_task(say())
    await until(is_at_work)
    again = asyncio.create_task(say())
    await asyncio.wait({again}, timeout=1)
    gate.set()
    assert [(await each).status_code for each in (first, again)] == [200, 200]


async def test_an_operator_sees_what_its_own_tenant_uses(service):
    """A tenant without a quota is told so, and a user is refused."""
    http, keys, _ = service
    acme, globex = [(await http.get("/v1/tenant", headers=keys[name])).json() for name in ("ana", "bo")]
    assert acme == {
        "tenant": "acme",
        "limited": True,
        "quota": {"runs": 1, "starts_per_minute": None, "max_waiting": 1_000, "when_full": "refuse"},
        "runs": 0,
        "waiting": 0,
        "waiting_starts": 0,
        "starts": 0,
    }
    assert (globex["tenant"], globex["limited"]) == ("globex", False)
    assert (await http.get("/v1/tenant", headers=keys["ui"])).status_code == 403
