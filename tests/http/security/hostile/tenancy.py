"""Requests for what is another tenant's: by every path of the service, and by every method of the protocols behind them."""

from dataclasses import replace
from typing import Any

from tests.http.every_protocol import MODERN, PROTOCOLS, say
from tests.http.security.hostile.pages import OF_NO_TENANT as PAGES_OF_NO_TENANT
from tests.http.security.hostile.pages import PAGES
from tests.http.security.hostile.world import Answer, Row, World

RPC = {"Accept": "application/json, text/event-stream", "A2A-Version": "1.0"}

OF_NO_TENANT = {
    "GET /openapi.json",
    "GET /health",
    "GET /metrics",
    "GET /v1/agents",
    "GET /v1/agents/{agent_id}",
    "GET /v1/me",
    "GET /v1/tenant",  # the principal's own
    "GET /openai/v1/models",
    "GET /openai/v1/models/{model}",
    "GET /v1/grants",  # without a sign-in; `tests/http/test_grants.py` has those of tenants
    "POST /v1/grants",
    "POST /v1/grants/{toolset}/{id}/complete",
    "DELETE /v1/grants/{toolset}",
    "GET /oauth/callback/{toolset}",
    "POST /codec/decode",  # without a key ring; `tests/http/test_codec.py` has those with tenants
    "POST /codec/encode",
    *PAGES_OF_NO_TENANT,
}
"""Routes that say the same to every tenant."""

RPC_OF_NO_TENANT = {
    "ping",
    "initialize",
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "tasks/list",
    "ListTasks",
    "tasks/pushNotification/set",
    "tasks/pushNotification/get",
    "tasks/pushNotificationConfig/list",
    "tasks/pushNotificationConfig/delete",
}
"""Methods that are about no run, or that no agent here has."""

_WIPE = {"id": "m-9", "role": "user", "content": "hello"}
_RESUME = {"interruptId": "$interrupt", "status": "resolved", "payload": {"approved": True}}
_APPROVED = {
    "id": "a-1",
    "role": "assistant",
    "parts": [
        {
            "type": "tool-shop_tools_wipe",
            "toolCallId": "c",
            "state": "approval-responded",
            "approval": {"id": "$interrupt", "approved": True},
        }
    ],
}
_ASK = {"agent_id": "shop.clerk", "input": "hello"}

# Route; path; status; code; body.
_PATHS: list[tuple[str, str, int, str, Any]] = [
    ("POST /v1/runs", "/v1/runs", 422, "invalid_input", {**_ASK, "run_id": "$run"}),
    ("POST /v1/runs", "/v1/runs", 422, "invalid_input", {**_ASK, "run_id": "$talking"}),
    ("POST /v1/runs", "/v1/runs", 201, "", {**_ASK, "run_id": "$key"}),
    ("GET /v1/runs", "/v1/runs", 200, "", None),
    ("GET /v1/runs", "/v1/runs?session_id=$session", 200, "", None),
    ("GET /v1/runs", "/v1/runs?label=desk=$labels&children=true", 200, "", None),
    ("GET /v1/runs/{run_id}", "/v1/runs/$run", 404, "run_not_found", None),
    ("GET /v1/runs/{run_id}/output", "/v1/runs/$ended/output?wait=1", 404, "run_not_found", None),
    ("GET /v1/runs/{run_id}/transcript", "/v1/runs/$run/transcript", 404, "run_not_found", None),
    ("GET /v1/runs/{run_id}/events", "/v1/runs/$run/events", 404, "run_not_found", None),
    ("GET /v1/runs/{run_id}/events", "/v1/runs/$run/events?after=$after", 404, "run_not_found", None),
    (
        "GET /v1/runs/{run_id}/attachments/{attachment_id}",
        "/v1/runs/$ended/attachments/att_0123456789abcdef",
        404,
        "run_not_found",
        None,
    ),
    ("POST /v1/attachments", "/v1/attachments", 415, "not_a_form", {}),
    (
        "POST /v1/runs",
        "/v1/runs",
        422,
        "invalid_input",
        {**_ASK, "attachments": ["upl_eyJkcml2ZXIiOiJmb2xkZXIifQ"]},
    ),
    (
        "GET /v1/runs/{run_id}/artifacts/{ref}",
        "/v1/runs/$ended/artifacts/$artifact",
        404,
        "run_not_found",
        None,
    ),
    (
        "POST /v1/runs/{run_id}/answers",
        "/v1/runs/$asking/answers",
        404,
        "run_not_found",
        {"await_id": "$question", "answer": "x"},
    ),
    (
        "POST /v1/runs/{run_id}/approvals",
        "/v1/runs/$run/approvals",
        404,
        "run_not_found",
        {"await_id": "$approval", "approved": True, "digest": "$digest"},
    ),
    (
        "POST /v1/runs/{run_id}/approvals",
        "/v1/runs/$run/approvals",
        404,
        "run_not_found",
        {"await_id": "$approval", "approved": False},
    ),
    (
        "POST /v1/runs/{run_id}/tool-results",
        "/v1/runs/$outside/tool-results",
        404,
        "run_not_found",
        {"await_id": "$external", "results": [{"tool_call_id": "$external_call", "result": 1.0}]},
    ),
    ("POST /v1/runs/{run_id}/pause", "/v1/runs/$run/pause", 404, "run_not_found", {}),
    ("POST /v1/runs/{run_id}/resume", "/v1/runs/$run/resume", 404, "run_not_found", {"messages": ["x"]}),
    ("POST /v1/runs/{run_id}/cancel", "/v1/runs/$run/cancel", 404, "run_not_found", {}),
    ("POST /v1/runs/{run_id}/retry-now", "/v1/runs/$run/retry-now", 404, "run_not_found", {}),
    ("POST /v1/runs/{run_id}/set-aside", "/v1/runs/$run/set-aside", 404, "run_not_found", {"what": 0}),
    ("POST /v1/runs/{run_id}/fork", "/v1/runs/$ended/fork", 404, "run_not_found", {}),
    ("GET /v1/waits", "/v1/waits", 200, "", None),
    ("GET /v1/waits", "/v1/waits?session_id=$session&kind=approval", 200, "", None),
    ("GET /v1/decisions", "/v1/decisions?session_id=$session&limit=10", 200, "", None),
    ("GET /v1/runs", "/v1/runs?fork_of=$ended", 200, "", None),
    ("GET /v1/runs", "/v1/runs?status=stuck", 200, "", None),
    ("GET /v1/sessions", "/v1/sessions?session_id=$talk", 200, "", None),
    ("GET /v1/sessions/{agent_id}/{session_id}", "/v1/sessions/shop.clerk/$talk", 404, "run_not_found", None),
    (
        "GET /v1/sessions/{agent_id}/{session_id}",
        "/v1/sessions/shop.clerk:globex-$mark/$talk",
        422,
        "invalid_input",
        None,
    ),
    (
        "GET /v1/sessions/{agent_id}/{session_id}/events",
        "/v1/sessions/shop.clerk/$talk/events",
        404,
        "run_not_found",
        None,
    ),
    (
        "POST /v1/sessions/{agent_id}/{session_id}/withdraw",
        "/v1/sessions/shop.clerk/$talk/withdraw",
        404,
        "run_not_found",
        {"message_id": "m-1"},
    ),
    (
        "POST /v1/sessions/{agent_id}/{session_id}/edit",
        "/v1/sessions/shop.clerk/$talk/edit",
        404,
        "run_not_found",
        {"message_id": "m-1", "text": "other"},
    ),
    (
        "POST /v1/sessions/{agent_id}/{session_id}/switch",
        "/v1/sessions/shop.clerk/$talk/switch",
        404,
        "run_not_found",
        {"at": "0-000001-00000"},
    ),
    (
        "GET /v1/sessions/{agent_id}/{session_id}/alternatives",
        "/v1/sessions/shop.clerk/$talk/alternatives",
        404,
        "run_not_found",
        None,
    ),
    (
        "POST /v1/sessions/{agent_id}/{session_id}/interrupt",
        "/v1/sessions/shop.clerk/$talk/interrupt",
        404,
        "run_not_found",
        {},
    ),
    (
        "POST /v1/sessions/{agent_id}/{session_id}/close",
        "/v1/sessions/shop.clerk/$talk/close",
        404,
        "run_not_found",
        {},
    ),
    (
        "POST /v1/sessions/{agent_id}/{session_id}",
        "/v1/sessions/shop.clerk:globex-$mark/$talk",
        404,
        "agent_not_found",
        {"text": "hello"},
    ),
    (
        "POST /v1/sessions/{agent_id}/{session_id}/messages",
        "/v1/sessions/shop.clerk:globex-$mark/$talk/messages",
        404,
        "agent_not_found",
        {"text": "hello"},
    ),
    (
        "POST /agui/{agent_id}",
        "/agui/shop.clerk",
        404,
        "run_not_found",
        {"threadId": "$talk", "runId": "r", "messages": [], "resume": [_RESUME]},
    ),
    (
        "POST /agui/{agent_id}",
        "/agui/shop.clerk",
        404,
        "run_not_found",
        {"threadId": "$talk", "runId": "r", "messages": [_WIPE], "resume": [_RESUME]},
    ),
    (
        "POST /vercel/{agent_id}",
        "/vercel/shop.clerk",
        404,
        "run_not_found",
        {"id": "$talk", "messages": [_APPROVED]},
    ),
    ("GET /vercel/{agent_id}/{chat_id}/messages", "/vercel/shop.clerk/$talk/messages", 200, "", None),
    ("GET /vercel/{agent_id}/{chat_id}/stream", "/vercel/shop.clerk/$talk/stream", 204, "", None),
    (
        "POST /openai/v1/chat/completions",
        "/openai/v1/chat/completions",
        404,
        "run_not_found",
        {
            "model": "shop.clerk",
            "messages": [
                {"role": "assistant", "content": "Wipe?\n\n[//]: # (sojourn:$once)"},
                {"role": "user", "content": "yes"},
            ],
        },
    ),
    (
        "POST /openai/v1/responses",
        "/openai/v1/responses",
        404,
        "run_not_found",
        {"model": "shop.clerk", "input": "yes", "previous_response_id": "$response"},
    ),
    (
        "GET /openai/v1/responses/{response_id}",
        "/openai/v1/responses/$response",
        404,
        "run_not_found",
        None,
    ),
    (
        "GET /openai/v1/responses/{response_id}",
        "/openai/v1/responses/$response?stream=true",
        404,
        "run_not_found",
        None,
    ),
    (
        "POST /openai/v1/responses/{response_id}/cancel",
        "/openai/v1/responses/$response/cancel",
        404,
        "run_not_found",
        None,
    ),
    # What has the same name is another conversation: a row for each protocol is below.
    (
        "POST /v1/sessions/{agent_id}/{session_id}",
        "/v1/sessions/shop.clerk/$chat?wait=20",
        201,
        "",
        {"text": "hello", "message_id": "m-1"},
    ),
    (
        "POST /v1/sessions/{agent_id}/{session_id}/messages",
        "/v1/sessions/shop.clerk/$chat/messages?wait=20",
        201,
        "",
        {"text": "hello", "mode": "interrupt"},
    ),
    (
        "POST /agui/{agent_id}",
        "/agui/shop.clerk",
        409,
        "unknown_wait",
        {"threadId": "$chat", "runId": "r", "messages": [], "resume": [_RESUME]},
    ),
    (
        "POST /agui/{agent_id}",
        "/agui/shop.clerk",
        200,
        "",
        {"threadId": "$chat", "runId": "r", "messages": []},
    ),
]

_MCP = "POST /mcp"
_A2A = "POST /a2a/{agent_id}{rest}"

_TAKES_TASKS = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}

# Route; method; code; parameters.
_METHODS: list[tuple[str, str, str, dict[str, Any]]] = [
    (_MCP, "tools/call", "run_not_found", {"name": "answer", "arguments": {"task": "$task", "answer": "x"}}),
    (_MCP, "tools/call", "run_not_found", {"name": "answer", "arguments": {"task": "$once"}}),
    (_MCP, "tools/call", "run_not_found", {"name": "shop_clerk", "arguments": {}, "requestState": "$task"}),
    (_MCP, "resources/read", "run_not_found", {"uri": "sojourn://artifacts/$artifact"}),
    (_MCP, "tasks/get", "run_not_found", {"taskId": "$task"}),
    (_MCP, "tasks/update", "run_not_found", {"taskId": "$task", "inputResponses": {}}),
    (_MCP, "tasks/cancel", "run_not_found", {"taskId": "$task"}),
    (_A2A, "GetTask", "run_not_found", {"id": "$task"}),
    (_A2A, "tasks/get", "run_not_found", {"id": "$task"}),
    (_A2A, "CancelTask", "run_not_found", {"id": "$task"}),
    (_A2A, "tasks/cancel", "run_not_found", {"id": "$task"}),
    (_A2A, "SubscribeToTask", "run_not_found", {"id": "$task"}),
    (_A2A, "tasks/resubscribe", "run_not_found", {"id": "$task"}),
]
_MESSAGE = {"role": "ROLE_USER", "messageId": "m-7", "taskId": "$task", "parts": [{"text": "yes"}]}
_OLD_MESSAGE = {
    "role": "user",
    "kind": "message",
    "messageId": "m-7",
    "taskId": "$task",
    "parts": [{"kind": "text", "text": "yes"}],
}
_METHODS += [
    (_A2A, "SendMessage", "run_not_found", {"message": _MESSAGE}),
    (_A2A, "SendStreamingMessage", "run_not_found", {"message": _MESSAGE}),
    (_A2A, "message/send", "run_not_found", {"message": _OLD_MESSAGE}),
    (_A2A, "message/stream", "run_not_found", {"message": _OLD_MESSAGE}),
]


def _by_path(route: str, path: str, status: int, code: str, value: Any) -> Row:
    method = route.partition(" ")[0]

    async def send(world: World) -> Answer:
        return await world.send(method, path, value)

    return Row(f"{method} {path}", send, status, code, route)


def _by_method(route: str, method: str, code: str, params: dict[str, Any]) -> Row:
    path = "/mcp" if route == _MCP else "/a2a/shop.clerk"

    is_task = route == _MCP and method.startswith("tasks/")
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, "Mcp-Name": "$task"} if is_task else {}

    async def send(world: World) -> Answer:
        told = params | {"_meta": _TAKES_TASKS} if is_task else params
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": told}
        return await world.send("POST", path, request, headers=RPC | headers)

    status = 400 if is_task else 200  # since 2026-07-28 the status says that there is an error, too
    return Row(f"{path} {method} {'+'.join(params)}", send, status, code, f"{route} {method}")


def _by_protocol(name: str) -> Row:
    """A message into a conversation that has the same name as the other tenant's."""

    async def send(world: World) -> Answer:
        return await world.say(name, "hello", session_id="$chat")

    route, value = PROTOCOLS[name].route, say(name, "").body
    about = f"{route} {value['method']}" if PROTOCOLS[name].is_jsonrpc else route
    return Row(f"a conversation of its own by {name}", send, 201 if name == "message" else 200, "", about)


def _as_eve(row: Row) -> Row:
    """The same request by somebody without a tenant."""

    async def send(world: World) -> Answer:
        return await row.send(replace(world, keys={**world.keys, "ana": world.keys["eve"]}))

    return replace(row, name=f"{row.name} without a tenant", send=send)


async def _card(world: World) -> Answer:
    return await world.send("GET", "/a2a/shop.clerk/tasks/$task")


async def _decide_many(world: World) -> Answer:
    """The results repeat the ids that they are about, and no more."""
    decision = {"run_id": "$run", "await_id": "$approval", "approved": True, "digest": "$digest"}
    answer = await world.send("POST", "/v1/waits/decisions", {"decisions": [decision]})
    return replace(
        answer, text=answer.text.replace(world.filled("$run"), "").replace(world.filled("$approval"), "")
    )


async def _act_on_many(world: World) -> Answer:
    """The results repeat the id that they are about, and no more."""
    answer = await world.send("POST", "/v1/runs/actions", {"action": "cancel", "run_ids": ["$run"]})
    return replace(answer, text=answer.text.replace(world.filled("$run"), ""))


_SENT = [_by_path(*each) for each in _PATHS] + [_by_method(*each) for each in _METHODS] + PAGES
_SENT += map(_by_protocol, PROTOCOLS)
_SENT.append(Row("GET a2a task by path", _card, 404, "not_found", "GET /a2a/{agent_id}{rest}"))
_SENT.append(Row("several decisions", _decide_many, 200, "", "POST /v1/waits/decisions"))
_SENT.append(Row("several runs", _act_on_many, 200, "", "POST /v1/runs/actions"))

TENANCY = [*_SENT, *map(_as_eve, _SENT)]
"""The rows."""
