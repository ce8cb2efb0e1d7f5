"""The OpenAPI document: it has every path, an example of every body, and a schema that each answer fits."""

import asyncio
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sojourn.asgi import create_app
from tests.http.every_protocol import PROTOCOLS, say

PATHS = {
    *(each.route for each in PROTOCOLS.values() if each.is_documented),
    "GET /v1/agents",
    "GET /v1/agents/{agent_id}",
    "GET /v1/me",
    "GET /v1/tenant",
    "GET /v1/grants",
    "POST /v1/grants",
    "POST /v1/grants/{toolset}/{id}/complete",
    "DELETE /v1/grants/{toolset}",
    "POST /codec/decode",
    "POST /codec/encode",
    "POST /v1/runs",
    "GET /v1/runs",
    "GET /v1/runs/{run_id}",
    "GET /v1/runs/{run_id}/output",
    "GET /v1/runs/{run_id}/transcript",
    "GET /v1/runs/{run_id}/events",
    "GET /v1/runs/{run_id}/artifacts/{ref}",
    "GET /v1/runs/{run_id}/attachments/{attachment_id}",
    "POST /v1/attachments",
    "POST /v1/runs/{run_id}/answers",
    "POST /v1/runs/{run_id}/approvals",
    "POST /v1/runs/{run_id}/tool-results",
    "POST /v1/runs/{run_id}/pause",
    "POST /v1/runs/{run_id}/resume",
    "POST /v1/runs/{run_id}/cancel",
    "POST /v1/runs/{run_id}/retry-now",
    "POST /v1/runs/{run_id}/set-aside",
    "POST /v1/runs/{run_id}/fork",
    "POST /v1/runs/actions",
    "GET /v1/waits",
    "POST /v1/waits/decisions",
    "GET /v1/decisions",
    "GET /v1/sessions",
    "GET /v1/sessions/{agent_id}/{session_id}",
    "POST /v1/sessions/{agent_id}/{session_id}",
    "POST /v1/sessions/{agent_id}/{session_id}/withdraw",
    "POST /v1/sessions/{agent_id}/{session_id}/edit",
    "POST /v1/sessions/{agent_id}/{session_id}/switch",
    "GET /v1/sessions/{agent_id}/{session_id}/alternatives",
    "POST /v1/sessions/{agent_id}/{session_id}/interrupt",
    "POST /v1/sessions/{agent_id}/{session_id}/close",
    "GET /v1/sessions/{agent_id}/{session_id}/events",
    "GET /vercel/{agent_id}/{chat_id}/messages",
    "GET /vercel/{agent_id}/{chat_id}/stream",
    "GET /health",
    "GET /metrics",
}


@pytest.fixture(scope="session")
def document(shop) -> dict[str, Any]:
    """The document of the shop's service."""
    return create_app(shop.app).openapi()


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The operations by method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def closed(node: Any) -> Any:
    """A document in which every object has the fields that it names and no other, unless it says that it may have more."""
    if isinstance(node, list):
        return [closed(each) for each in node]
    if not isinstance(node, dict):
        return node
    made = {name: closed(each) for name, each in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


@pytest.fixture(scope="session")
def whole(document) -> dict[str, Any]:
    """The document, closed."""
    return closed(document)


def fits(document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
    """Why a value does not fit a schema of the document."""
    whole = {**schema, "components": document["components"]}
    return [
        f"{fault.json_path}: {fault.message}"[:300]
        for fault in Draft202012Validator(whole).iter_errors(value)
    ]


def test_the_document_has_every_path(document):
    """The document names the paths of the API, and each has a summary, an answer and the problems that every path has."""
    found = operations(document)
    assert set(found) == PATHS
    for name, operation in found.items():
        assert operation["summary"], name
        assert operation["description"], name
        good = [status for status in operation["responses"] if status.startswith("2") and status != "204"]
        assert all(operation["responses"][status]["content"] for status in good), name
        if name != "GET /health":
            assert {"401", "403", "408", "413", "421", "422", "503"} <= set(operation["responses"]), name


def test_the_document_asks_for_credentials_where_the_service_does(shop, document):
    """With an authentication method every operation but those that are open has the scheme; without one none has."""

    async def nobody(_: Any) -> None:
        return None

    locked = create_app(shop.app, auth=nobody).openapi()
    assert locked["components"]["securitySchemes"]
    named = [operation for operation in operations(locked).values() if "security" in operation]
    assert len(named) >= len(PATHS) - 2
    assert "securitySchemes" not in document["components"]
    assert not any("security" in operation for operation in operations(document).values())


def test_every_problem_is_told_as_one(document):
    """Each answer of 400 and above is `application/problem+json` with the one schema of problems."""
    for name, operation in operations(document).items():
        for status, answer in operation["responses"].items():
            if status >= "4" and name != "GET /health":
                schema = answer["content"]["application/problem+json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ProblemDetails"}, name
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_examples_fit_their_schemas(document):
    """Every body has an example, and every example fits its schema."""
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        for example in schema.get("examples", []):
            assert fits(document, {"$ref": f"#/components/schemas/{name}"}, example) == [], name
    for name, operation in operations(document).items():
        if "application/json" in operation.get("requestBody", {}).get("content", {}):
            ref = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
            assert schemas[ref.rpartition("/")[2]].get("examples"), name


async def test_answers_fit_the_document(served, document, whole):
    """Every answer, good or bad, has a status that the document names, fits the schema of it, and has no field that the schema has not."""
    judged, known = set(), operations(document)

    def judge(name: str, answer) -> Any:
        told = known[name]["responses"]
        assert str(answer.status_code) in told, (name, answer.text)
        media = answer.headers["content-type"].partition(";")[0]
        schema = told[str(answer.status_code)]["content"][media].get(
            "schema", {}
        )  # of a stream, each event has one
        value = answer.text if media in ("text/plain", "text/event-stream") else answer.json()
        assert fits(whole, closed(schema), value) == [], name
        judged.add(name)
        return value

    async def get(name: str, **parts: str) -> Any:
        path = re.sub(r"\{(\w+)\}", lambda part: parts.pop(part[1]), name)
        return judge(f"GET {name}", await served.http.get(path, params=parts))

    async def post(name: str, body: dict[str, Any], **parts: str) -> Any:
        path = re.sub(r"\{(\w+)\}", lambda part: parts.pop(part[1]), name)
        return judge(f"POST {name}", await served.post(path, body, params=parts))

    await get("/v1/agents")
    await get("/v1/me")
    await get("/v1/tenant")
    await get("/v1/grants")
    await post("/v1/grants", {"toolset": "ops.github"})
    await post("/v1/grants/{toolset}/{id}/complete", {"ticket": "none"}, toolset="ops.github", id="9f2c")
    judge("DELETE /v1/grants/{toolset}", await served.http.delete("/v1/grants/ops.github"))
    for what in ("decode", "encode"):
        await post(
            f"/codec/{what}", {"payloads": [{"metadata": {"encoding": "anNvbi9wbGFpbg=="}, "data": "MQ=="}]}
        )
    await get("/v1/agents/{agent_id}", agent_id="shop.clerk")
    await get("/v1/agents/{agent_id}", agent_id="shop.nobody")
    started = await post("/v1/runs", {"agent_id": "shop.clerk", "input": "measure"})
    await post("/v1/runs", {"agent_id": "shop.clerk"})
    run_id = started["run_id"]
    outcome = await get("/v1/runs/{run_id}/output", run_id=run_id, wait="30")
    ref = outcome["output"]["artifacts"][0]["ref"].partition("#")[2]
    await get("/v1/runs/{run_id}/artifacts/{ref}", run_id=run_id, ref=ref)
    await get("/v1/runs/{run_id}/attachments/{attachment_id}", run_id=run_id, attachment_id="att_none")
    await post("/v1/attachments", {})
    await get("/v1/runs/{run_id}/transcript", run_id=run_id)
    await get("/v1/runs/{run_id}/events", run_id=run_id)
    await post("/v1/runs/{run_id}/fork", {}, run_id=run_id)
    await post("/v1/runs/{run_id}/cancel", {}, run_id=run_id)
    await post("/v1/runs/{run_id}/set-aside", {"what": 0}, run_id=run_id)
    await post("/v1/runs/{run_id}/retry-now", {}, run_id=run_id)
    await post("/v1/runs/{run_id}/pause", {}, run_id=run_id)
    await post("/v1/runs/{run_id}/resume", {}, run_id=run_id)
    failed = await served.start("fail")
    await get("/v1/runs/{run_id}/output", run_id=failed, wait="30")
    await get("/v1/runs/{run_id}/events", run_id=failed)
    for word in ("ask", "form", "wipe", "weigh"):
        waiting, _ = await served.waiting(word)
        await get("/v1/runs/{run_id}", run_id=waiting)
        await get("/v1/runs/{run_id}/output", run_id=waiting)
        await get("/v1/runs/{run_id}/events", run_id=waiting)
    results = [{"tool_call_id": "x", "result": 1}]
    await asyncio.gather(
        post("/v1/runs/{run_id}/answers", {"await_id": "none", "answer": "x"}, run_id=waiting),
        post("/v1/runs/{run_id}/approvals", {"await_id": "none", "approved": False}, run_id=waiting),
        post("/v1/runs/{run_id}/tool-results", {"await_id": "none", "results": results}, run_id=waiting),
    )
    await post("/v1/runs/actions", {"action": "retry", "run_ids": [failed, waiting]})
    decision = {"run_id": waiting, "await_id": "none", "approved": False}
    await post("/v1/waits/decisions", {"decisions": [decision]})
    await get("/v1/runs/{run_id}", run_id="nowhere")
    await get("/v1/runs", limit="5")
    await get("/v1/waits", limit="5")
    await get("/v1/decisions", limit="20")
    await get("/v1/runs", status="stuck")
    await get("/v1/runs", status="stuck", label="a=b")
    session = {"agent_id": "shop.clerk", "session_id": f"of-{run_id}"}
    await post("/v1/sessions/{agent_id}/{session_id}", {"text": "hello"}, **session, wait="30")
    await post("/v1/sessions/{agent_id}/{session_id}/messages", {"text": "fail"}, **session, wait="30")
    await get("/v1/sessions/{agent_id}/{session_id}/events", **session)
    await get("/v1/sessions/{agent_id}/{session_id}", **session)
    await post("/v1/sessions/{agent_id}/{session_id}/withdraw", {"message_id": "none"}, **session)
    edited = {"message_id": "m-7", "text": "hello"}
    await post("/v1/sessions/{agent_id}/{session_id}/messages", edited, **session, wait="30")
    await post("/v1/sessions/{agent_id}/{session_id}/edit", {"message_id": "m-7"}, **session, wait="30")
    await post("/v1/sessions/{agent_id}/{session_id}/edit", {"message_id": "none"}, **session)
    await get("/v1/sessions/{agent_id}/{session_id}/alternatives", **session)
    await post("/v1/sessions/{agent_id}/{session_id}/switch", {"at": "0-000001-00000"}, **session)
    await post("/v1/sessions/{agent_id}/{session_id}/interrupt", {}, **session)
    await post("/v1/sessions/{agent_id}/{session_id}/close", {}, **session)
    await get("/v1/sessions", limit="5")
    for name, protocol in PROTOCOLS.items():
        if protocol.is_documented:
            method, path, headers, body = say(name, "hello", session_id=f"{name}-{run_id}")
            judge(protocol.route, await served.http.request(method, path, headers=headers, json=body))
    chat = f"vercel-{run_id}"
    await get("/vercel/{agent_id}/{chat_id}/messages", agent_id="shop.clerk", chat_id=chat)
    await get("/vercel/{agent_id}/{chat_id}/stream", agent_id="shop.clerk", chat_id=chat)
    await get("/health")
    await get("/metrics")
    assert judged == PATHS
