"""Tenants over HTTP: what is another tenant's does not exist, by every path; who asked is recorded, whatever a body says."""

import uuid

import pytest
from structlog.testing import capture_logs
from temporalio.common import Priority

from sojourn.asgi import create_app
from sojourn.http import ApiKeys
from sojourn.http.security.keys import create_key
from sojourn.network import http_client
from tests.http.conftest import listening


@pytest.fixture
async def tenants(shop, serve, tmp_path):
    """The shop behind keys of three tenants, and a client for each key."""
    client = await serve(shop.app)
    path, clients = tmp_path / "keys.json", {}
    roles = ["user", "approver", "operator"]
    for name, tenant, has in (
        ("ana", "acme", roles),
        ("bo", "globex", roles),
        ("eve", "", roles),
        ("vi", "acme", ["viewer"]),
    ):
        _, text = create_key(path, name, tenant=tenant, roles=has)
        clients[name] = {"Authorization": f"Bearer {text}"}
    web = create_app(shop.app, client=client, auth=ApiKeys(path))
    async with listening(web) as url, http_client(base_url=url, timeout=40) as http:
        yield http, clients, client


async def test_a_key_is_told_what_it_may_do(tenants):
    """`/v1/me` has the subject, the tenant and the roles, and what is refused for want of a role; without a key it is 401."""
    http, keys, _ = tenants
    vi, ana = [(await http.get("/v1/me", headers=keys[name])).json() for name in ("vi", "ana")]
    assert vi == {
        "subject": "vi",
        "tenant": "acme",
        "roles": ["viewer"],
        "may_read": True,
        "may_write": False,
        "may_decide": False,
        "may_operate": False,
    }
    assert (ana["subject"], ana["roles"]) == ("ana", ["user", "approver", "operator"])
    assert all(ana[name] for name in ("may_read", "may_write", "may_decide", "may_operate"))
    refused = await http.post("/v1/runs", json={"agent_id": "shop.clerk", "input": "x"}, headers=keys["vi"])
    assert refused.status_code == 403
    assert (await http.get("/v1/me")).status_code == 401


async def test_another_tenants_run_does_not_exist(tenants):
    """Every path of a run is 404 for another tenant, and nothing happens to the run."""
    http, keys, client = tenants
    body = {"agent_id": "shop.clerk", "input": "hello", "run_id": f"r-{uuid.uuid4().hex[:8]}"}
    made = await http.post("/v1/runs", json=body, headers=keys["ana"])
    assert made.status_code == 201, made.text
    run_id = made.json()["run_id"]
    assert run_id == f"acme={body['run_id']}"
    await client.get_run(run_id).result()
    status = await http.get(f"/v1/runs/{run_id}", headers=keys["vi"])
    assert status.status_code == 200, status.text
    assert status.json()["principal"]["subject"] == "ana"
    document = (await http.get("/openapi.json")).json()
    checked = 0
    for path, methods in document["paths"].items():
        if "{run_id}" not in path:
            continue
        for method in methods:
            place = path.replace("{run_id}", run_id).replace("{ref}", "x").replace("{artifact_ref}", "x")
            sent = {
                "answers": {"await_id": "x", "answer": "y", "by": "ana"},
                "approvals": {"await_id": "x", "approved": True},
                "tool-results": {"await_id": "x", "results": []},
            }.get(place.rsplit("/", 1)[-1], {})
            sent.pop("by", None)
            for other in ("bo", "eve"):
                answer = await http.request(
                    method, place, json=sent if method == "post" else None, headers=keys[other]
                )
                assert answer.status_code in (404, 422), (method, place, answer.text)
                if answer.status_code == 422:
                    assert "run" not in answer.json()["detail"] or "invalid_request" in answer.text
                checked += answer.status_code == 404
    assert checked >= 10
    again = await http.post("/v1/runs", json=body, headers=keys["bo"])
    assert again.status_code == 201
    assert again.json()["run_id"] == f"globex={body['run_id']}"
    listed = (await http.get("/v1/runs", headers=keys["bo"])).json()["runs"]
    assert run_id not in [run["run_id"] for run in listed]


async def test_a_run_has_its_tenants_fairness_key_and_the_priority_of_its_request(tenants):
    """A principal of a tenant chooses 3 to 5, since a higher one goes before other tenants; one without a tenant chooses any."""
    http, keys, client = tenants
    body = {"agent_id": "shop.clerk", "input": "hello"}
    for name, chosen, priority in (
        ("ana", {}, Priority(fairness_key="acme")),
        ("ana", {"priority": 5}, Priority(priority_key=5, fairness_key="acme")),
        ("eve", {"priority": 1}, Priority(priority_key=1)),
    ):
        made = await http.post("/v1/runs", json=body | chosen, headers=keys[name])
        assert made.status_code == 201, made.text
        described = await client.temporal.get_workflow_handle(made.json()["run_id"]).describe()
        assert described.raw_description.workflow_execution_info.priority == priority._to_proto()
    for name, value in (("ana", 2), ("eve", 0), ("eve", 6)):
        refused = await http.post("/v1/runs", json=body | {"priority": value}, headers=keys[name])
        assert refused.status_code == 422, refused.text
        assert "priority" in refused.json()["detail"]


async def test_a_viewer_only_reads(tenants):
    """A viewer starts nothing, and decides and steers nothing."""
    http, keys, _ = tenants
    body = {"agent_id": "shop.clerk", "input": "hello"}
    assert (await http.post("/v1/runs", json=body, headers=keys["vi"])).status_code == 403
    assert (await http.get("/v1/runs", headers=keys["vi"])).status_code == 200
    assert (await http.get("/v1/runs")).status_code == 401


async def test_ids_of_conversations_cannot_be_taken(tenants):
    """A run with the id of a tenant's conversation is refused, and two tenants' sessions are two."""
    http, keys, _ = tenants
    body = {"agent_id": "shop.clerk", "input": "hello", "run_id": "shop.clerk:acme@desk-1"}
    assert (await http.post("/v1/runs", json=body, headers=keys["bo"])).status_code == 422
    session = f"s-{uuid.uuid4().hex[:8]}"
    ids = set()
    for name in ("ana", "bo", "eve"):
        sent = await http.post(
            f"/v1/sessions/shop.clerk/{session}/messages",
            json={"text": "hello"},
            params={"wait": 20},
            headers=keys[name],
        )
        assert sent.status_code in (200, 201), sent.text
        ids.add(sent.json()["run_id"])
    assert len(ids) == 3


async def test_a_decision_is_audited_with_its_digest(tenants):
    """The line of an approval has who, the wait, the decision and the digest, whether it counted or not."""
    http, keys, _ = tenants
    body = {"await_id": "confirm-1", "approved": True, "digest": "d-1"}
    with capture_logs() as lines:
        for name in ("ana", "vi"):
            await http.post("/v1/runs/none/approvals", json=body, headers=keys[name])
    decided = [line for line in lines if line["event"] == "decision"]
    assert [(line["subject"], line["status"], line["code"]) for line in decided] == [
        ("ana", 404, "run_not_found"),
        ("vi", 404, "run_not_found"),
    ]
    for line in decided:
        assert (line["await_id"], line["approved"], line["digest"]) == ("confirm-1", True, "d-1")
