"""Problems: every error is problem details with a code and what to do next, and shows nothing of the inside."""

import asyncio
import contextlib
import json
import re
import uuid

import pytest
from fastapi import Request

from sojourn import Client
from sojourn.asgi import create_app
from sojourn.contracts.principal import ROLES, Principal
from sojourn.network import http_client
from tests.http.conftest import listening
from tests.http.requests_that_wait import connected, request_of
from tests.http.test_document import PATHS

CASES = [
    ("GET", "/v1/nothing", None, 404, "not_found"),
    ("GET", "/v1/agents/shop.nobody", None, 404, "agent_not_found"),
    ("GET", "/v1/runs/nowhere", None, 404, "run_not_found"),
    ("GET", "/v1/runs/nowhere/output", None, 404, "run_not_found"),
    ("GET", "/v1/runs/nowhere/transcript", None, 404, "run_not_found"),
    ("GET", "/v1/runs/nowhere/events", None, 404, "run_not_found"),
    ("GET", "/v1/runs/nowhere/artifacts/call_1/x", None, 404, "run_not_found"),
    ("GET", "/v1/sessions/shop.clerk/nowhere", None, 404, "run_not_found"),
    ("GET", "/v1/sessions/clerk/nowhere", None, 422, "invalid_input"),
    ("GET", "/v1/runs/%00", None, 422, "invalid_input"),
    ("GET", "/v1/runs/x/output?wait=-1", None, 422, "invalid_request"),
    ("GET", "/v1/runs?cursor=!!!", None, 422, "invalid_input"),
    ("GET", "/v1/runs?cursor=AAAA", None, 422, "invalid_input"),
    ("GET", "/v1/runs?since=2027-01-02T03:04:05", None, 422, "invalid_request"),
    ("GET", "/v1/runs?since=0.5", None, 422, "invalid_request"),
    ("POST", "/v1/sessions/shop.clerk/x/messages", {"parts": [{"type": []}]}, 422, "invalid_request"),
    ("GET", "/v1/runs?label=x", None, 422, "invalid_input"),
    ("GET", "/v1/runs?status=asleep", None, 422, "invalid_request"),
    ("GET", "/v1/waits?cursor=AAAA", None, 422, "invalid_input"),
    ("GET", "/v1/waits?limit=0", None, 422, "invalid_request"),
    ("PATCH", "/v1/runs", None, 405, "method_not_allowed"),
    ("POST", "/v1/runs", b"{", 400, "malformed_json"),
    ("POST", "/v1/runs", b'{"agent_id": "\xff"}', 400, "bad_encoding"),
    ("POST", "/v1/runs", b'{"agent_id": "shop.clerk", "input": "\\ud800"}', 422, "invalid_request"),
    ("POST", "/v1/runs", b'{"agent_id": "shop.clerk", "input": NaN}', 422, "invalid_request"),
    ("POST", "/v1/runs", b"[" * 100_000, 400, "too_deep"),
    ("POST", "/v1/runs", {"agent_id": "shop.nobody", "input": "x"}, 422, "unknown_agent"),
    ("POST", "/v1/runs", {"agent_id": "shop.clerk", "input": "x", "session_id": "'"}, 422, "invalid_input"),
    ("POST", "/v1/runs", {"agent_id": "shop.clerk", "input": "x", "run_id": "a/b"}, 422, "invalid_input"),
    ("POST", "/v1/runs/nowhere/answers", {"await_id": "x", "answer": "y"}, 404, "run_not_found"),
    ("POST", "/v1/runs/nowhere/answers", {"await_id": "x"}, 422, "invalid_request"),
    ("POST", "/v1/runs/nowhere/approvals", {"await_id": "x", "approved": False}, 404, "run_not_found"),
    ("POST", "/v1/runs/nowhere/tool-results", {"await_id": "x", "results": [{}]}, 404, "run_not_found"),
    ("POST", "/v1/runs/nowhere/pause", {}, 404, "run_not_found"),
    ("POST", "/v1/runs/nowhere/resume", {}, 404, "run_not_found"),
    ("POST", "/v1/runs/nowhere/cancel", {}, 404, "run_not_found"),
    ("POST", "/v1/runs/nowhere/retry-now", {}, 404, "run_not_found"),
    ("POST", "/v1/runs/nowhere/fork", {}, 404, "run_not_found"),
]


async def test_a_misspelt_name_gets_the_right_one(door):
    """An unknown field of a body, and an unknown agent, are refused with the name that is meant, if one is similar."""
    decision = {"await_id": "w", "approved": False, "payload_digest": "x"}
    fault = (await door.post("/v1/runs/r/approvals", json=decision)).json()["faults"][0]
    assert fault == {
        "place": "body/payload_digest",
        "message": "there is no such field; did you mean 'digest'?",
    }
    unknown = (await door.post("/v1/runs", json={"agent_id": "shop.clerc", "input": "x"})).json()
    assert unknown["detail"].endswith("; did you mean 'shop.clerk'?")
    late = (await door.post("/v1/runs/r/answers", json={"await_id": "w"})).json()
    assert late["detail"] == "body: give either answer, or declined: true"


@pytest.mark.parametrize(("method", "path", "body", "status", "code"), CASES)
async def test_a_request_that_cannot_be_answered_is_a_problem(door, method, path, body, status, code):
    """Each refused request has the members of RFC 9457, a code and what to do next."""
    content = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    answer = await door.request(method, path, content=content, headers=headers)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["type"] == f"urn:sojourn:problem:{code}"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["then"]
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text


async def test_a_bad_cursor_is_refused_before_a_stream_begins(served):
    """What is no cursor is 422, in the query and in `Last-Event-ID`, for arrays and for streams."""
    run_id = await served.start("hello")
    for accept in ("application/json", "text/event-stream"):
        for asked in ({"params": {"after": "x"}}, {"headers": {"Last-Event-ID": "0-1;x"}}):
            headers = {"Accept": accept, **asked.get("headers", {})}
            path = f"/v1/runs/{run_id}/events"
            answer = await served.http.get(path, headers=headers, params=asked.get("params"))
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input"), answer.text


async def test_a_method_that_a_path_lacks_is_told_the_others(door):
    """`Allow` has every method of the path, and none of a path whose id ends like it."""
    for path, methods in (
        ("/v1/runs", "GET, POST"),
        ("/v1/sessions/shop.clerk/x", "GET, POST"),
        ("/v1/sessions/shop.clerk/x/messages", "POST"),
        ("/v1/sessions/shop.clerk/x/events", "GET"),
        ("/v1/waits", "GET"),
    ):
        assert (await door.request("PATCH", path)).headers["allow"] == methods


async def test_a_workflow_that_is_no_run_does_not_exist(served):
    """Other workflows of the namespace are not found, whatever is asked about them."""
    temporal = served.client.temporal
    await temporal.start_workflow("Payroll", id="payroll-1", task_queue="nobody")
    for path in ("", "/output", "/events", "/transcript"):
        assert (await served.http.get(f"/v1/runs/payroll-1{path}")).json()["code"] == "run_not_found"
    assert (await served.post("/v1/runs/payroll-1/cancel")).json()["code"] == "run_not_found"
    await temporal.get_workflow_handle("payroll-1").terminate()


async def test_a_mistake_of_ours_shows_nothing_of_the_inside(served):
    """An unexpected error is a plain problem of status 500, whatever it says."""

    async def fails(request: Request) -> None:
        raise ValueError("the password is 1234")

    served.web.add_api_route("/fails", fails)
    answer = await served.http.get("/fails")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal_error")
    assert "1234" not in answer.text


async def test_without_a_worker_or_a_server_the_answer_is_503(shop, temporal_address):
    """A missing worker is told with `Retry-After`; so is a Temporal server that is not there, which health tells too."""
    client = await Client.connect(temporal_address, task_queue="nobody-polls")
    body = {"agent_id": "shop.clerk", "input": "hello"}
    async with (
        listening(create_app(shop.app, client=client)) as url,
        http_client(base_url=url) as http,
    ):
        answer = await http.post("/v1/runs", json=body)
        assert (answer.status_code, answer.json()["code"]) == (503, "no_worker")
        assert answer.headers["retry-after"]
        assert (await http.get("/health")).json()["status"] == "ok"


async def test_roles_and_credentials_are_asked_for(serve, shop):
    """Without credentials 401; without the role 403; and whoever has any role may read."""
    client = await serve(shop.app)

    async def auth(request: Request) -> Principal | None:
        role = request.headers.get("x-role")
        return Principal(subject=f"a {role}", roles=[role]) if role in ROLES else None

    web = create_app(shop.app, client=client, auth=auth)
    async with listening(web) as url, http_client(base_url=url, timeout=30) as http:

        async def code(role: str, method: str, path: str) -> tuple[int, str]:
            body = {
                "approved": False,
                "await_id": "x",
                "answer": "x",
                "agent_id": "x.y",
                "input": "x",
                "what": 0,
                "action": "cancel",
                "run_ids": ["x"],
            }
            wanted = {
                "answers": ("await_id", "answer"),
                "approvals": ("await_id", "approved"),
                "set-aside": ("what",),
                "actions": ("action", "run_ids"),
            }
            names = wanted.get(path.rsplit("/", 1)[-1], ())
            sent = {name: body[name] for name in names} if names else {}
            sent = {"agent_id": "x.y", "input": "x"} if path == "/v1/runs" and method == "POST" else sent
            headers = {"x-role": role}
            answer = await http.request(method, path, json=sent, headers=headers)
            return answer.status_code, answer.json().get("code", "")

        assert await code("", "GET", "/v1/runs") == (401, "unauthenticated")
        assert (await http.get("/health")).status_code == 200
        for path, role in (
            ("/v1/runs", "user"),
            ("/v1/runs/x/answers", "user"),
            ("/v1/runs/x/pause", "operator"),
            ("/v1/runs/x/resume", "operator"),
            ("/v1/runs/x/cancel", "operator"),
            ("/v1/runs/x/fork", "operator"),
            ("/v1/runs/x/retry-now", "operator"),
            ("/v1/runs/x/set-aside", "operator"),
            ("/v1/runs/actions", "operator"),
        ):
            for each in ROLES:
                refused = await code(each, "POST", path) == (403, "forbidden")
                assert refused == (each != role), (path, each)
        for each in ROLES:
            assert await code(each, "GET", "/v1/runs") == (200, "")


async def test_health_and_metrics(served):
    """Health needs nothing; metrics count requests by the path of their route."""
    assert (await served.http.get("/health")).json()["status"] == "ok"
    run_id = await served.start("hello")
    await served.output(run_id)
    text = (await served.http.get("/metrics")).text
    assert 'requests_total{method="POST",path="/v1/runs",status="201"} 1' in text
    assert 'path="/v1/runs/{run_id}/output",status="200"} 1' in text
    assert run_id not in text
    await asyncio.gather(*(served.http.get(f"/nothing/{n}") for n in range(5)))
    assert 'method="(any)",path="(none)",status="404"} 5' in (await served.http.get("/metrics")).text


async def test_a_parameter_that_a_path_lacks_is_refused(door):
    """A misspelt parameter selects nothing less than was meant: it is 422, with the name that was perhaps meant, or those that there are."""
    answer = await door.get("/v1/waits", params={"agent": "x", "limit": "5"})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "invalid_request")
    (fault,) = problem["faults"]
    assert fault["place"] == "query/agent"
    assert "did you mean 'agent_id'? this path has agent_id, cursor, kind, limit, order" in fault["message"]
    assert "query/agent" in problem["detail"]
    answer = await door.get("/v1/runs", params={"zzzzzz": "x"})
    assert "no such parameter; this path has" in answer.json()["detail"]


@pytest.mark.parametrize("prefix", ["", "/agents"])
async def test_every_path_of_our_own_refuses_what_it_lacks(shop, temporal_address, prefix):
    """It does so under any prefix, by each method; other protocols' paths take what their clients add."""
    web = create_app(shop.app, client=await Client.connect(temporal_address), prefix=prefix)
    async with listening(web) as url, http_client(base_url=url) as http:
        own = [name.split() for name in sorted(PATHS) if " /v1/" in name]
        for method, path in own:
            place = re.sub(r"\{\w+\}", "x", path)
            answer = await http.request(method, f"{prefix}{place}", params={"no_such": "1"}, json={})
            assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request"), (method, path)
            assert answer.json()["faults"][0]["place"] == "query/no_such", (method, path)
        assert (await http.get(f"{prefix}/health", params={"no_such": "1"})).status_code == 200
        answer = await http.get(f"{prefix}/openai/v1/models", params={"no_such": "1"})
        assert answer.status_code == 200


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
@pytest.mark.parametrize(
    "path", ["/v1/runs", "/v1/runs/x/cancel", "/v1/sessions/shop.clerk/x/messages", "/agui/shop.clerk"]
)
async def test_a_body_that_is_not_sent_as_json_is_told_how(door, path, headers):
    """Without a Content-Type, and with another one, it is 415 with the header to send."""
    answer = await door.post(path, content=b'{"agent_id": "shop.clerk", "input": "x"}', headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "not_json"), answer.text
    assert "`Content-Type: application/json`" in answer.json()["then"]


async def test_metrics_tell_the_protocols_apart_and_count_only_streams(served, until):
    """MCP and A2A have paths of their own, and a stream of events is one, while requests that wait are counted as such."""
    run_id = await served.start("sleep")
    asked = {
        kind: request_of(kind, "sleep", run_id=run_id) for kind in ("mcp", "a2a", "output", "chat", "events")
    }
    metrics = served.web.state.service.metrics
    async with contextlib.AsyncExitStack() as stack:
        for method, path, headers, body in asked.values():
            await stack.enter_async_context(connected(served.url, method, path, headers, body))
        await until(lambda: (metrics.waiting, metrics.streams) == (4, 1))
    await until(lambda: (metrics.waiting, metrics.streams) == (0, 0))
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    both = {"Accept": "application/json, text/event-stream"}
    assert (await served.post("/mcp", rpc, headers=both)).status_code == 200
    assert (await served.post("/a2a/shop.clerk", {"method": "GetTask"})).status_code == 200
    text = (await served.http.get("/metrics")).text
    assert 'requests_total{method="POST",path="/mcp",status="200"}' in text
    assert 'requests_total{method="POST",path="/a2a/{agent_id}{rest}",status="200"}' in text
    assert 'method="(any)"' not in text


async def test_what_is_over_says_to_start_another(served):
    """A message to a closed conversation, and a decision after the end, say to start another; an unknown conversation names the list of them."""
    path = f"/v1/sessions/shop.clerk/{uuid.uuid4().hex}"
    unknown = await served.post(f"{path}/close")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "run_not_found")
    assert "conversation" in unknown.json()["detail"]
    assert "GET /v1/sessions" in unknown.json()["then"]
    await served.post(f"{path}/messages?wait=30", {"text": "hello"})
    await served.post(f"{path}/close")
    late = await served.post(f"{path}/messages", {"text": "more"})
    run_id = await served.start("hello")
    await served.output(run_id)
    decided = await served.post(f"/v1/runs/{run_id}/approvals", {"await_id": "w", "approved": False})
    for answer in (late, decided):
        assert (answer.status_code, answer.json()["code"]) == (409, "run_ended")
        assert "Start another run or session" in answer.json()["then"]
