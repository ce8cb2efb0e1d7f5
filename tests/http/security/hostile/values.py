"""Paths, queries, cursors and methods that no client of ours sends."""

import base64
import hashlib
import json

from sojourn.http.protocols.reply_token import ReplyToken
from tests.http.security.hostile.world import Answer, Row, World, row


def cursor(place: bytes, of: str = "waits") -> str:
    """A cursor that anybody can make: its check is no secret."""
    told = hashlib.sha256(of.encode() + b"\0" + place).digest()[:6] + place
    return base64.urlsafe_b64encode(told).decode().rstrip("=")


def queried(name: str, path: str, status: int, code: str = "", /, **query: str) -> Row:
    """A row of a GET with a query."""
    return row(name, "GET", path, status, code, query=query)


def at(name: str, after: str, status: int, code: str = "") -> Row:
    """A row that reads the events of an own run after a place."""

    async def send(world: World) -> Answer:
        run_id = await world.start("hello")
        return await world.send(
            "GET", f"/v1/runs/{run_id}/events", query={"after": after, "children": "true"}
        )

    return Row(f"after: {name}", send, status, code)


def by_place(name: str, token: str, status: int, code: str) -> Row:
    """A row with the id of a response that somebody has made."""
    return row(f"response: {name}", "GET", f"/openai/v1/responses/resp_{token}", status, code)


async def _no_cursor(world: World) -> Answer:
    token = ReplyToken(world.names["own"], "x").text
    return await world.send("GET", f"/openai/v1/responses/resp_{token}")


INJECTED = "x' OR SojournTenant = 'globex' OR 'a' = 'a"

VALUES = [
    # Paths.
    row("path: a slash in a run", "GET", "/v1/runs/none%2Fnone", 404, "run_not_found"),
    row("path: a slash before a word", "GET", "/v1/runs/none%2Foutput", 404, "run_not_found"),
    row("path: up", "GET", "/v1/runs/%2e%2e/%2e%2e/health", 404, "run_not_found"),
    row("path: up in a session", "GET", "/v1/sessions/shop.clerk/%2e%2e%2f%2e%2e", 404, "run_not_found"),
    row("path: NUL in a run", "GET", "/v1/runs/%00", 422, "invalid_input"),
    row("path: NUL in an artifact", "GET", "/v1/runs/none/artifacts/%00", 404, "run_not_found"),
    row("path: NUL in a session", "GET", "/v1/sessions/shop.clerk/%00", 422, "invalid_input"),
    row("path: NUL in an agent", "GET", "/v1/agents/%00", 404, "agent_not_found"),
    row("path: no run", "GET", "/v1/runs/", 422, "invalid_input"),
    row("path: a line break", "GET", "/v1/runs/a%0d%0aSet-Cookie:x", 404, "not_found"),
    row("path: not UTF-8", "GET", "/v1/runs/%ff%fe", 404, "run_not_found"),
    row("path: 5,000 characters", "GET", f"/v1/runs/{'x' * 5_000}", 422, "invalid_request"),
    row("path: a script", "GET", "/v1/runs/%3Cscript%3E", 404, "run_not_found"),
    row("path: two slashes", "GET", "//v1/waits", 404, "not_found"),
    row("path: none", "GET", "/.env", 404, "not_found"),
    row("path: up to a file", "GET", "/v1/%2e%2e/%2e%2e/etc/passwd", 404, "not_found"),
    row("path: an artifact of another run", "GET", "/v1/runs/$own/artifacts/$artifact", 422, "invalid_input"),
    row(
        "path: an agent that is none",
        "GET",
        "/a2a/shop.nobody/.well-known/agent-card.json",
        404,
        "agent_not_found",
    ),
    row("path: below an agent of A2A", "GET", "/a2a/shop.clerk/docs", 404, "not_found"),
    row("path: a model that is none", "GET", "/openai/v1/models/%00", 404, "model_not_found"),
    row("path: an internal workflow", "GET", "/v1/runs/temporal-sys-scheduler:x", 404, "run_not_found"),
    # Queries.
    queried("query: NUL in a session", "/v1/runs", 422, "invalid_input", session_id="x\0"),
    queried("query: NUL in an agent", "/v1/sessions", 422, "invalid_input", agent_id="x\0"),
    queried("query: NUL in a session's waits", "/v1/waits", 422, "invalid_input", session_id="x\0"),
    queried("query: a quote in a session", "/v1/runs", 200, session_id=INJECTED),
    queried("query: a quote in an agent", "/v1/waits", 200, agent_id=INJECTED),
    queried("query: a backslash before a quote", "/v1/runs", 200, session_id="\\" + INJECTED),
    queried("query: a quote in a label", "/v1/runs", 200, label=f"desk={INJECTED}"),
    queried("query: a label that is none", "/v1/runs", 422, "invalid_input", label="desk"),
    queried("query: a status that is none", "/v1/runs", 422, "invalid_request", status=INJECTED),
    queried(
        "query: a session of 10,000 characters", "/v1/runs", 422, "invalid_request", session_id="x" * 10_000
    ),
    row("query: 21 labels", "GET", "/v1/runs?" + "&".join(["label=a=b"] * 21), 422, "invalid_request"),
    row("query: not UTF-8", "GET", "/v1/runs?session_id=%ff%fe", 200),
    queried(
        "query: a moment before all", "/v1/runs", 422, "invalid_request", since="0001-01-01T00:00:00+23:59"
    ),
    queried(
        "query: a moment after all", "/v1/runs", 422, "invalid_request", since="9999-12-31T23:59:59-23:59"
    ),
    queried("query: a moment in no zone", "/v1/runs", 422, "invalid_request", since="2027-01-02T03:04:05"),
    queried("query: seconds", "/v1/sessions", 422, "invalid_request", since="1e300"),
    queried("query: a limit of 0", "/v1/runs", 422, "invalid_request", limit="0"),
    queried("query: a limit of 5,000 digits", "/v1/waits", 422, "invalid_request", limit="9" * 5_000),
    queried("query: a limit in other digits", "/v1/runs", 422, "invalid_request", limit="١٢"),
    queried("query: a wait of NaN", "/v1/runs/none/output", 422, "invalid_request", wait="nan"),
    queried("query: a wait without end", "/v1/runs/none/output", 422, "invalid_request", wait="inf"),
    queried("query: a wait before now", "/v1/runs/none/output", 422, "invalid_request", wait="-1"),
    queried("query: 60,000 characters", "/v1/runs", 422, "invalid_request", cursor="x" * 60_000),
    # Cursors.
    queried("cursor: not base64", "/v1/runs", 422, "invalid_input", cursor="*"),
    queried("cursor: not ASCII", "/v1/waits", 422, "invalid_input", cursor="é"),
    queried("cursor: of nothing", "/v1/runs", 422, "invalid_input", cursor="AAAA"),
    queried("cursor: not JSON", "/v1/waits", 422, "invalid_input", cursor=cursor(b"x")),
    queried("cursor: not UTF-8", "/v1/waits", 422, "invalid_input", cursor=cursor(b"\xff")),
    queried("cursor: a number", "/v1/waits", 422, "invalid_input", cursor=cursor(b"7")),
    queried("cursor: numbers", "/v1/waits", 422, "invalid_input", cursor=cursor(b"[1, 2, 3]")),
    queried("cursor: one text", "/v1/waits", 422, "invalid_input", cursor=cursor(b'["a"]')),
    queried("cursor: of another list", "/v1/runs", 422, "invalid_input", cursor=cursor(b'["a", "b", "c"]')),
    at("no place", "x", 422, "invalid_input"),
    at("5,000 digits", "9" * 5_000, 422, "invalid_input"),
    at("a place below 0", "-1--1-0", 422, "invalid_input"),
    at("a child run that is none", "0-000001-00000;../../x=0-000001-00000", 422, "invalid_input"),
    at("200,000 characters of separators", ";" * 20_000, 422, "invalid_input"),
    by_place("no place", "AAAA", 404, "response_not_found"),
    by_place("a run that is none", ReplyToken("none").text, 404, "run_not_found"),
    by_place("half a surrogate pair", ReplyToken("\ud800").text, 422, "invalid_input"),
    by_place("NUL", ReplyToken("a\0b").text, 422, "invalid_input"),
    by_place(
        "other JSON",
        base64.urlsafe_b64encode(json.dumps({"a": 1}).encode()).decode().rstrip("="),
        404,
        "response_not_found",
    ),
    Row("response: a cursor that is none", _no_cursor, 404, "run_not_found"),
    # Methods.
    *(
        row(f"method: {method}", method, path, 405, "method_not_allowed")
        for method, path in (
            ("PUT", "/v1/runs"),
            ("DELETE", "/v1/runs/$run"),
            ("PATCH", "/v1/runs/$run/answers"),
            ("TRACE", "/v1/runs"),
            ("FOO", "/v1/waits"),
            ("OPTIONS", "/v1/runs"),
            ("GET", "/mcp"),
            ("DELETE", "/mcp"),
            ("PUT", "/a2a/shop.clerk"),
            ("GET", "/agui/shop.clerk"),
        )
    ),
    row("method: a HEAD of what is read", "HEAD", "/v1/runs/$run", 405),
    row(
        "method: one that a header names",
        "GET",
        "/v1/runs",
        200,
        headers={"X-HTTP-Method-Override": "DELETE"},
    ),
]
"""The rows."""
