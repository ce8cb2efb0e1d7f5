"""The audit log of what is decided by the protocols: each line says of which run, of which wait, how, and of what as it was shown."""

import json
import uuid
from typing import Any

import pytest
from structlog.testing import capture_logs

from sojourn.asgi import create_app
from sojourn.http import SecuritySettings
from sojourn.http.protocols.mcp.content import ANSWER
from sojourn.http.protocols.mcp.tasks import TASKS
from sojourn.network import http_client
from tests.http.conftest import listening
from tests.http.every_protocol import say

USER, APPROVER = "ana@acme", "bo@acme+approver"


@pytest.fixture
def lines():
    """The lines of the audit, as they are written."""
    with capture_logs() as caught:
        yield lambda: [line for line in caught if line["event"] == "decision"]


@pytest.fixture
def records() -> list[dict[str, Any]]:
    """What the sink of the service got."""
    return []


@pytest.fixture
async def post(served, shop, principals, records):
    """Send a request as somebody; returns the answer."""
    security = SecuritySettings(audit=records.append)
    async with (
        listening(create_app(shop.app, client=served.client, auth=principals, security=security)) as url,
        http_client(base_url=url, timeout=60) as http,
    ):

        async def sent(who: str, path: str, body: Any, headers: Any = None) -> Any:
            of = {"Authorization": f"Bearer {who}", **(headers or {})}
            return await http.post(path, json=body, headers=of)

        yield sent


def code_in(text: str) -> str:
    """The code of the call that a text shows."""
    return text.partition("`yes ")[2][:12]


async def test_what_openais_clients_decide_is_told(post, lines, served):
    """A response has its run, a yes the wait, the verdict and the digest of what was shown, and a refusal its code."""
    first = (await post(USER, "/openai/v1/responses", {"model": "shop.clerk", "input": "wipe"})).json()
    text = first["output"][0]["content"][0]["text"]
    again = {"model": "shop.clerk", "input": "yes", "previous_response_id": first["id"]}
    await post(USER, "/openai/v1/responses", again)
    await post(APPROVER, "/openai/v1/responses", again)
    assert code_in(text)
    started, refused, decided = lines()
    assert (started["status"], started["log_level"]) == (200, "info")
    events = [each async for each in served.client.get_run(started["run_id"]).events(follow=False)]
    (asked,) = [each.confirmation for each in events if each.type == "await_confirmation"]
    assert (refused["status"], refused["code"], refused["log_level"]) == (403, "forbidden", "warning")
    for line in (refused, decided):
        assert (line["run_id"], line["approved"]) == (started["run_id"], True)
        assert (line["await_id"], line["digest"]) == (asked.id, asked.payload_digest)


async def test_what_is_decided_over_a2a_is_told_and_what_is_read_is_not(post, lines, records):
    """An approval has the run, the wait and the digest; one without the role is a warning with its code, though the answer is a 200.

    A sink has what was read too, with the run.
    """
    _, path, headers, body = say("a2a", "wipe")
    asked = (await post(USER, path, body, headers)).json()["result"]["task"]
    text = asked["status"]["message"]["parts"][0]["text"]
    reply = say("a2a", f"yes {code_in(text)}", session_id=asked["contextId"])[3]
    reply["params"]["message"]["taskId"] = asked["id"]
    assert (await post(USER, path, reply, headers)).status_code == 200
    reply["params"]["message"]["messageId"] = uuid.uuid4().hex
    assert (await post(APPROVER, path, reply, headers)).json()["result"]
    got = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": asked["id"]}}
    assert (await post(USER, path, got, headers)).json()["result"]
    started, refused, decided = lines()
    assert (started["call"], started["status"]) == ("SendMessage", 200)
    assert (refused["status"], refused["code"], refused["log_level"]) == (200, "forbidden", "warning")
    assert (decided["approved"], decided["run_id"], decided["log_level"]) == (True, started["run_id"], "info")
    assert (refused["await_id"], refused["digest"]) == (decided["await_id"], decided["digest"])
    (read,) = [each for each in records if each["event"] == "read"]
    assert (read["call"], read["run_id"], read["subject"]) == ("GetTask", started["run_id"], "ana")
    got["params"] = ["none"]
    await post(USER, path, got, headers)
    assert len(records) == 5


async def test_what_is_decided_over_mcp_is_told_and_what_is_read_is_not(post, lines, records):
    """A call of a tool has its run, a form that is sent back the wait and how it is settled; listing tools is no decision, but a read."""
    _, path, headers, body = say("mcp of 2026", "wipe")
    about = "io.modelcontextprotocol/clientCapabilities"
    body["params"]["_meta"][about] = {"elicitation": {"form": {}}}
    meta = body["params"]["_meta"]
    listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    answer = await post(USER, path, listed, {**headers, "Mcp-Method": "tools/list"})
    assert "shop_clerk" in answer.text
    assert lines() == []
    assert [(each["event"], each["call"]) for each in records] == [("read", "tools/list")]
    asked = result_in((await post(USER, path, body, headers)).text)
    (key,) = asked["inputRequests"]
    form = {"action": "accept", "content": {"decision": "approve"}}
    body["params"] |= {"requestState": asked["requestState"], "inputResponses": {key: form}}
    assert "forbidden" in (await post(USER, path, body, headers)).text
    assert "wiped a" in (await post(APPROVER, path, body, headers)).text
    about_tasks = {**meta, about: {"extensions": {TASKS: {}}}}
    task = {"taskId": asked["requestState"], "_meta": about_tasks}
    got = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": task}
    asks = {**headers, "Mcp-Method": "tasks/get", "Mcp-Name": task["taskId"]}
    assert "completed" in (await post(USER, path, got, asks)).text
    look = {"name": ANSWER, "arguments": {"task": asked["requestState"]}, "_meta": meta}
    called = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": look}
    await post(USER, path, called, {**headers, "Mcp-Method": "tools/call", "Mcp-Name": ANSWER})
    started, refused, decided = lines()
    for read, call in zip(records[-2:], ("tasks/get", "tools/call"), strict=True):
        assert (read["event"], read["call"], read["run_id"]) == ("read", call, started["run_id"])
    assert (started["call"], started["tool"], started["status"]) == ("tools/call", "shop_clerk", 200)
    assert (refused["status"], refused["code"], refused["log_level"]) == (200, "forbidden", "warning")
    assert (decided["approved"], decided["run_id"], decided["log_level"]) == (True, started["run_id"], "info")
    assert (refused["await_id"], refused["digest"]) == (decided["await_id"], decided["digest"])


def result_in(text: str) -> Any:
    """The result of an answer of JSON-RPC, as JSON or as the last event of a stream."""
    last = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith(("{", "data: {"))][
        -1
    ]
    return json.loads(last)["result"]


async def test_a_run_that_is_started_or_told_something_is_named(post, lines):
    """Starting a run, and sending a message, have the id of the run in their lines."""
    run = (await post(USER, "/v1/runs", {"agent_id": "shop.clerk", "input": "hello"})).json()
    path = f"/v1/sessions/shop.clerk/{uuid.uuid4().hex}/messages"
    message = (await post(USER, path, {"text": "hello"})).json()
    assert [line["run_id"] for line in lines()] == [run["run_id"], message["run_id"]]


async def test_what_a_page_decides_is_told(post, lines):
    """Over AG-UI too the line has the verdict and the digest of what was shown."""
    _, path, headers, body = say("agui", "wipe")
    told = (await post(USER, path, body, headers)).text
    last = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: ")][-1]
    (interrupt,) = last["outcome"]["interrupts"]
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": False}}
    await post(APPROVER, path, {**body, "resume": [answer]}, headers)
    line = lines()[-1]
    assert (line["subject"], line["status"], line["approved"]) == ("bo", 200, False)
    assert line["digest"] == interrupt["id"].rpartition("#")[2]
    assert line["await_id"]
    assert line["answers"] == [interrupt["id"]]
