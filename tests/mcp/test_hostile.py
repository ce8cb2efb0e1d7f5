"""Hostile servers: silence, garbage, endless answers and repeated secrets do no harm to the worker."""

import asyncio
import gzip
import json
import logging
import threading
from datetime import timedelta
from typing import Any, NamedTuple, Self

import pytest
from structlog.testing import capture_logs

from sojourn import mcp
from sojourn.core.schema.validate import Validator
from sojourn.errors import RateLimited, ToolUnavailable
from tests.accepting import accepting


async def test_a_silent_server_does_not_block_a_session(opened, rogue, run):
    """A call that is never answered ends with its time-out, and the session continues."""
    toolset = await opened(rogue("silent"))
    for _ in range(2):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await run(toolset, "good")
    assert toolset.unavailable is None


async def test_a_server_that_never_answers_the_handshake(opened, rogue):
    """`open` returns after `connect_timeout`, and `unavailable` says why."""
    toolset = await opened(rogue("mute"), connect_timeout=timedelta(seconds=1))
    assert toolset.unavailable == "its MCP server cannot be used: it does not answer in time"


@pytest.mark.parametrize(
    ("way", "text"),
    [("dies", "broke off"), ("too-new", "it supports no known version of the protocol")],
)
async def test_a_server_that_cannot_be_used_says_why(way, text, opened, rogue, until):
    """What a dying server writes to standard error is logged, and `unavailable` has the reason."""
    with capture_logs() as logs:
        toolset = await opened(rogue(way))
        if way == "dies":
            await until(lambda: any(log.get("line") == "cannot start: no licence" for log in logs))
    assert text in toolset.unavailable


async def test_garbage_is_a_malformed_response(opened, rogue, run):
    """An answer that breaks the protocol is `malformed_response`, without the server's escape characters."""
    result = await run(await opened(rogue("garbage")), "good")
    assert result.retry_hint.reason == "malformed_response"
    assert "\x1b" not in result.error.message


async def test_content_of_an_unknown_kind_is_told(opened, rogue, run):
    """A block that no version of the protocol has is a text with its JSON."""
    assert (
        await run(await opened(rogue("strange-content")), "good")
    ).result == '{"type": "hologram", "data": 5}'


async def test_an_overlong_line_is_skipped(opened, rogue, run):
    """A line of 20 MB is skipped, and the answer after it is read."""
    assert (await run(await opened(rogue("long-line")), "good")).result == "after"


async def test_a_message_after_half_a_line_is_read(opened, rogue, run):
    """A banner without a line break, and half a message, lose no message that follows in their line."""
    assert (await run(await opened(rogue("half-line")), "good")).result == "after"


async def test_deep_answers_are_handed_on_or_refused(opened, rogue, run):
    """A deeply nested answer that can be parsed goes to the boundary, which limits the depth for all tools."""
    result = await run(await opened(rogue("deep")), "good")
    assert result.ok


async def test_costly_schemas_do_not_block_the_event_loop(opened, rogue, run, monkeypatch):
    """Hundreds of rules times hundreds of items are refused with a clear error, or a note, from another thread."""
    where = set()
    for name in ("is_valid", "issues"):
        check = getattr(Validator, name)

        def noted(self, value, check=check, **options):
            where.add(threading.get_ident())
            return check(self, value, **options)

        monkeypatch.setattr(Validator, name, noted)
    toolset = await opened(rogue("costly"))
    sent = await run(toolset, "good", rows=list(range(300)))
    assert sent.retry_hint.reason == "invalid_arguments"
    answered = await run(toolset, "good")
    assert answered.ok
    for text in (sent.error.message, *answered.remarks):
        assert "smaller or flatter" in text
    assert where
    assert threading.get_ident() not in where


async def test_a_refusal_of_the_arguments_is_a_hint(opened, rogue, run):
    """The server's error about invalid params becomes an issue of the payload, with cleaned text."""
    result = await run(await opened(rogue("refuses")), "good", a=1)
    assert result.retry_hint.reason == "invalid_arguments"
    assert "a is [31mtoo small" in " ".join(result.error.message.split())
    assert "\x1b" not in result.error.message


@pytest.mark.parametrize(
    ("way", "code", "text"),
    [("unknown", "mcp_-32601", "no such method"), ("unknown-tool", "mcp_-32000", "Unknown tool: good")],
)
async def test_a_protocol_error_is_an_error(way, code, text, opened, rogue, run, until):
    """A JSON-RPC error keeps its code; if the tool is unknown to the server, the tools are listed again."""
    toolset = await opened(rogue(way))
    before = toolset.tools
    result = await run(toolset, "good")
    assert (result.error.code, result.error.message) == (code, text)
    await until(lambda: toolset.tools is not before)


async def test_a_question_in_the_middle_of_a_call_is_refused(opened, rogue, run):
    """A server that waits in the middle of a call for what it asks gets an error, and to a ping an answer, and the call continues."""
    told = (await run(await opened(rogue("asks")), "good")).result
    refused = ("elicitation/create", "sampling/createMessage", "roots/list")
    assert told.split(", ") == [*(f"{each}: -32600" for each in refused), "ping: answered"]


async def test_a_process_gets_the_environment_it_was_given(opened, rogue, run, monkeypatch):
    """A server process gets `env` and `PATH`, and no other variable of the worker."""
    monkeypatch.setenv("WORKER_SECRET", "not-for-servers")
    toolset = await opened(rogue("environment", TOKEN="secret-token"))
    given = (await run(toolset, "good")).result
    # Python itself sets LC_CTYPE where no locale is given.
    assert given.keys() - {"LC_CTYPE"} == {"PATH", "TOKEN"}
    assert given["TOKEN"] == "secret-token"


async def test_a_process_may_get_another_path(opened, rogue, run):
    """A `PATH` in `env` replaces the worker's."""
    toolset = await opened(rogue("environment", PATH="/nowhere"))
    assert (await run(toolset, "good")).result["PATH"] == "/nowhere"


async def test_errors_of_a_process_are_logged_in_bounds(opened, rogue, run, until):
    """Standard error is logged line by line, without escape characters and secrets, at most 200 lines a minute."""
    toolset = await opened(rogue("noise", TOKEN="secret-token"))
    with capture_logs() as logs:
        await run(toolset, "good")
        await until(lambda: any(log["event"] == "mcp_server_stderr_muted" for log in logs))
    lines = [log["line"] for log in logs if log["event"] == "mcp_server_stderr"]
    assert lines[0] == "noise 0 ***  [31m"
    assert 150 < len(lines) <= 200


async def test_a_secret_across_the_end_of_what_is_logged_is_masked(opened, rogue, run, until):
    """A line that is too long is masked before it is cut, wherever the secret stands in it."""
    toolset = await opened(rogue("noise", TOKEN="secret-token"))
    befores = [*range(225, 245), *range(470, 490), *range(1_970, 1_990)]
    with capture_logs() as logs:
        for before in befores:
            await run(toolset, "good", lines=1, before=before, after=5_000)
        await until(lambda: sum(log["event"] == "mcp_server_stderr" for log in logs) == len(befores))
    lines = [log["line"] for log in logs if log["event"] == "mcp_server_stderr"]
    assert all(400 < len(line) <= 500 for line in lines)
    assert not [line for line in lines if "sec" in line or "tok" in line]


async def test_what_a_server_names_after_a_secret_is_masked_in_the_log(opened, run):
    """A tool that is left out, and the place where its entry breaks the protocol, are logged without secrets."""
    with capture_logs() as logs:
        async with RogueHttp("named-by-secrets") as rogue:
            toolset = await opened(rogue.transport)
            assert toolset.tools.keys() == {"good"}
    skipped = [log for log in logs if log["event"] == "mcp_tool_skipped"]
    assert len(skipped) == 2
    assert not [log for log in skipped if "secret-" in str(log)]


NOTE = {
    "jsonrpc": "2.0",
    "method": "notifications/message",
    "params": {"level": "info", "data": "x" * 900_000},
}
OWN, NULL, NONE = "the request's", "null", "none"


class Refusal(NamedTuple):
    """How a server refuses a request: the status, the id in its JSON-RPC error or `NONE` for no such error, and the text."""

    status: str
    id: str
    text: str


FORGETFUL = {
    "forgets": Refusal("404 Gone", NONE, ""),
    "forgets-in-json": Refusal("404 Gone", NULL, "Session not found"),
    "forgets-for-a-request": Refusal("404 Gone", OWN, "Session not found"),
    "forgets-badly": Refusal("400 No", NONE, ""),
    "forgets-in-words": Refusal("400 No", NONE, "Bad Request: No valid session ID provided"),
    "forgets-badly-in-json": Refusal("400 No", NULL, "Bad Request: No valid session ID provided"),
    "forgets-without-a-word": Refusal("400 No", NULL, "Bad Request: Server not initialized"),
    "forgets-badly-for-a-request": Refusal("400 No", OWN, "Invalid sessionId"),
}
"""How servers answer a request in a session that they do not know, none of which they execute."""

REFUSING = {
    "refuses-a-request": Refusal("400 No", OWN, "it went wrong"),
    "does-not-find": Refusal("404 No", OWN, "it went wrong"),
    "has-no-pings": Refusal("400 No", OWN, "it went wrong"),
    "refuses-unread": Refusal("400 No", NULL, "Parse error"),
    "names-its-own-sessions": Refusal("400 No", OWN, "no such browser session"),
    "refuses-in-front": Refusal("400 No", NONE, "<html>"),
}
"""How servers answer a request that they refuse in a session that they know."""


class RogueHttp:
    """A web server that answers each request to call a tool in one way."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.token = "secret-header"
        """What the header `X-Token` must be, if there is one."""
        self.seen: list[str] = []
        self.sessions = 0
        self.calls = 0
        """How often a tool was called in a session that the server knew."""
        self.release = asyncio.Event()
        """Set when calls with the argument `waits` may end."""

    async def __aenter__(self) -> Self:
        self._listening = accepting(self.serve)
        self.port = await self._listening.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._listening.__aexit__(*error)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.decode().split("\r\n")
            headers = {
                name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:] if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.seen.append(lines[0])
            if b'"waits"' in body:
                await self.release.wait()
            status, extra, data = self.reply(lines[0].split()[0], headers, json.loads(body or "{}"))
            text = "".join(f"{name}: {value}\r\n" for name, value in extra.items())
            writer.write(f"HTTP/1.1 {status}\r\n{text}".encode())
            if self.way == "breaks-off" and data:
                writer.write(f"content-length: {len(data) + 9}\r\n\r\n".encode() + data)
                break
            writer.write(f"content-length: {len(data)}\r\n\r\n".encode() + data)
            await writer.drain()

    def reply(  # noqa: PLR0912
        self, verb: str, headers: dict[str, str], message: dict[str, Any]
    ) -> tuple[str, dict[str, str], bytes]:
        kind = {"content-type": "application/json"}
        method = message.get("method")
        if self.way == "resumes-nowhere" and verb == "GET":
            return "404 Gone" if "last-event-id" in headers else "405 No", {}, b""
        if verb != "POST" or method == "server/discover":
            return "405 No", {}, b""
        if "id" not in message:
            return "202 Accepted", {}, b""
        if self.way == "unauthorized" or headers.get("x-token") not in (self.token, None):
            return "401 No", {}, b""
        if method == "initialize":
            self.sessions += 1
            info = {"name": "rogue", "version": "1"}
            can: dict[str, Any] = {"tools": {}}
            if self.way == "leaks-in-a-key":
                can["experimental"] = {f"{'x' * 400} {headers['x-token']}": 5}
            result = {"protocolVersion": "2025-06-18", "capabilities": can, "serverInfo": info}
            return "200 OK", {**kind, "mcp-session-id": f"s-{self.sessions}"}, self.result(message, result)
        if method == "tools/list":
            tools = [{"name": "good", "inputSchema": {"type": "object"}}]
            if self.way == "named-by-secrets":
                tools += [
                    {"name": [f"{headers['x-token']} of {'x' * 200}"], "inputSchema": {"type": "object"}}
                ]
                tools += [{"name": [f"{'x' * 90} {headers['x-token']}"]}]
            return "200 OK", kind, self.result(message, {"tools": tools})
        good = self.result(message, {"content": [{"type": "text", "text": headers["mcp-session-id"]}]})
        if self.way in FORGETFUL and headers["mcp-session-id"] == "s-1":
            return self.refused(message, FORGETFUL[self.way])
        self.calls += method == "tools/call"
        if self.way in REFUSING and "waits" not in json.dumps(message):
            if method == "ping" and self.way != "has-no-pings":
                return "200 OK", kind, self.result(message, {})
            return self.refused(message, REFUSING[self.way])
        match self.way:
            case "rate-limited":
                return "429 Slow", {"retry-after": "7"}, b""
            case "rate-limited-until":
                return "429 Slow", {"retry-after": "Wed, 21 Oct 2099 07:28:00 GMT"}, b""
            case "busy":
                return "503 Busy", {}, b"<html>"
            case "crashes":
                return "500 Oh", {}, b"<html>"
            case "error":
                error = {"code": -32603, "message": "it went wrong"}
                data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error})
                return "500 Oh", kind, data.encode()
            case "many-events":
                event = b"data: " + json.dumps(NOTE).encode() + b"\n\n"
                return (
                    "200 OK",
                    {"content-type": "text/event-stream; charset=utf-8"},
                    event * 10 + b"data: " + good + b"\n\n",
                )
            case "html":
                return "200 OK", {"content-type": "text/html"}, b"<html>"
            case "no-json":
                return "200 OK", kind, b"{{{"
            case "compressed":
                return "200 OK", {**kind, "content-encoding": "gzip"}, gzip.compress(b" " * 50_000_000)
            case "large-event":
                return "200 OK", {"content-type": "text/event-stream"}, b"data: " + b"x" * 9_000_000 + b"\n\n"
            case "forgets-after-the-call" if headers["mcp-session-id"] == "s-1":
                return self.refused(message, Refusal("400 No", OWN, "it went wrong"))
            case "resumes-nowhere":
                return "200 OK", {"content-type": "text/event-stream"}, b"retry: 1\nid: 1\ndata:\n\n"
            case "events-without-an-answer":
                event = b": so far\r\ndata: " + json.dumps(NOTE).encode() + b"\r\n\r\n"
                return "200 OK", {"content-type": "text/event-stream"}, event * 10
            case "forgets-always":
                return "404 Gone", {}, b""
            case "redirects":
                return "307 There", {"location": "http://127.0.0.1:9/elsewhere"}, b""
            case "leaks":
                text = f"bad token {headers['authorization']} for /path?key=secret-query"
                error = {"code": -32000, "message": text}
                data = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error})
                return "200 OK", kind, data.encode()
        return "200 OK", kind, good

    def refused(self, message: dict[str, Any], refusal: "Refusal") -> tuple[str, dict[str, str], bytes]:
        if refusal.id == NONE:
            return refusal.status, {"content-type": "text/html"}, refusal.text.encode()
        own = message["id"] if refusal.id == OWN else None
        is_ping = message["method"] == "ping" and self.way == "has-no-pings"
        error = {"code": -32601 if is_ping else -32000, "message": refusal.text}
        data = json.dumps({"jsonrpc": "2.0", "id": own, "error": error})
        return refusal.status, {"content-type": "application/json"}, data.encode()

    def result(self, message: dict[str, Any], result: dict[str, Any]) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()

    @property
    def transport(self) -> mcp.Http:
        url = f"http://someone:secret-password@127.0.0.1:{self.port}/path?key=secret-query"
        return mcp.Http(url, headers={"X-Token": "secret-header"})


@pytest.mark.parametrize(
    ("way", "error", "text"),
    [
        ("rate-limited", RateLimited, "over a limit"),
        ("busy", ToolUnavailable, "HTTP 503"),
        ("crashes", ToolUnavailable, "HTTP 500"),
        ("breaks-off", ToolUnavailable, "broke off"),
        ("compressed", ToolUnavailable, "compressed"),
        ("events-without-an-answer", ToolUnavailable, "broke off"),
        ("forgets-always", ToolUnavailable, "closes each session"),
    ],
)
async def test_transient_errors_are_raised(way, error, text, opened, run):
    """A rate limit, a busy server and half an answer are raised, so that Temporal repeats the call."""
    async with RogueHttp("") as rogue:
        toolset = await opened(rogue.transport)
        rogue.way = way
        with pytest.raises(error, match=text) as raised:
            await run(toolset, "good")
        if way == "rate-limited":
            assert raised.value.retry_after == timedelta(seconds=7)
        rogue.way = ""
        assert (await run(toolset, "good")).ok


async def test_a_limit_may_name_a_date(opened, run):
    """`Retry-After` may be a date instead of seconds (RFC 9110)."""
    async with RogueHttp("rate-limited-until") as rogue:
        toolset = await opened(rogue.transport)
        with pytest.raises(RateLimited) as raised:
            await run(toolset, "good")
        assert raised.value.retry_after > timedelta(days=1_000)


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("no-json", "malformed_response"),
        ("large-event", "malformed_response"),
        ("html", "malformed_response"),
        ("redirects", "tool_unavailable"),
        ("error", None),
    ],
)
async def test_permanent_errors_are_answered(way, reason, opened, run):
    """An error that a repetition cannot change is a result, and the session continues for other calls."""
    async with RogueHttp("") as rogue:
        toolset = await opened(rogue.transport)
        rogue.way = way
        result = await run(toolset, "good")
        assert result.error is not None
        assert (result.retry_hint.reason if result.retry_hint else None) == reason
        rogue.way = ""
        assert (await run(toolset, "good")).result == "s-1"


@pytest.mark.parametrize("way", FORGETFUL)
async def test_a_session_that_was_forgotten_is_opened_again(way, opened, run):
    """A call that the server did not execute succeeds on a new session, without an error, and runs once.

    The protocol's status for a forgotten session is 404; some servers send 400.
    """
    async with RogueHttp(way) as rogue:
        toolset = await opened(rogue.transport)
        assert (await run(toolset, "good")).result == "s-2"
        assert rogue.calls == 1


@pytest.mark.parametrize("way", REFUSING)
async def test_a_request_that_is_refused_ends_no_session(way, opened, run, until):
    """A refused call is answered and not sent again, and the other calls in flight end as they would have."""
    async with RogueHttp(way) as rogue:
        toolset = await opened(rogue.transport)
        other = asyncio.create_task(run(toolset, "good", waits=True))
        await until(lambda: len([line for line in rogue.seen if line.startswith("POST")]) == 5)
        refused = await run(toolset, "good")
        text = "HTTP 400" if way == "refuses-in-front" else REFUSING[way].text
        assert text in refused.error.message
        assert rogue.calls == 1
        rogue.release.set()
        assert (await other).result == "s-1"
        assert (rogue.calls, rogue.sessions) == (2, 1)


async def test_a_call_that_may_have_run_is_not_sent_again_though_its_session_is_gone(opened, run):
    """An error about the call itself is answered; the next call opens a session."""
    async with RogueHttp("forgets-after-the-call") as rogue:
        toolset = await opened(rogue.transport)
        assert (await run(toolset, "good")).error.message == "it went wrong"
        assert rogue.calls == 1
        assert (await run(toolset, "good")).result == "s-2"
        assert rogue.calls == 2


async def test_a_call_whose_answer_cannot_be_resumed_is_not_sent_again(opened, run):
    """A session that is gone when the stream of an answer is asked for says nothing about the call, which has begun."""
    async with RogueHttp("resumes-nowhere") as rogue:
        toolset = await opened(rogue.transport)
        with pytest.raises(ToolUnavailable, match="broke off"):
            await run(toolset, "good")
        assert (rogue.calls, rogue.sessions) == (1, 1)


async def test_a_long_stream_of_small_events_is_no_large_answer(opened, run):
    """The events before an answer may together be larger than one message may be, also where their content type has a parameter."""
    async with RogueHttp("many-events") as rogue:
        assert (await run(await opened(rogue.transport), "good")).result == "s-1"


@pytest.mark.parametrize(("spared", "is_reached"), [("127.0.0.1", True), ("example.com", False)])
async def test_the_environments_proxy_is_asked_but_for_the_hosts_that_it_spares(
    spared, is_reached, opened, free_port, monkeypatch
):
    """Hosts in `NO_PROXY` are reached directly; here nothing listens at the proxy's address."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port}")
    monkeypatch.setenv("no_proxy", spared)
    async with RogueHttp("") as rogue:
        toolset = await opened(rogue.transport)
        assert bool(toolset.tools) is is_reached
        assert bool(rogue.seen) is is_reached


async def test_wrong_credentials_are_named(opened):
    """`unavailable` has the HTTP status."""
    async with RogueHttp("unauthorized") as rogue:
        toolset = await opened(rogue.transport)
        assert toolset.unavailable == "its MCP server refuses the credentials (HTTP 401)"


async def test_new_credentials_take_effect_at_once(opened, run):
    """A call that is refused for its credentials is sent again by the transport that the toolset has by then."""
    async with RogueHttp("") as rogue:
        toolset = await opened(rogue.transport)
        rogue.token = "renewed-header"
        toolset.transport = mcp.Http(rogue.transport.url, headers={"X-Token": "renewed-header"})
        assert (await run(toolset, "good")).result == "s-2"
        assert rogue.calls == 1


async def test_a_server_that_refuses_all_credentials_is_unavailable(opened, run, until, persist):
    """While each request gets HTTP 401, `unavailable` says so; with new credentials the tools are there again."""
    async with RogueHttp("") as rogue:
        toolset = await opened(rogue.transport)
        rogue.token = "renewed-header"
        assert "HTTP 401" in (await run(toolset, "good")).error.message
        await until(lambda: toolset.unavailable == "its MCP server refuses the credentials (HTTP 401)")
        toolset.transport = mcp.Http(rogue.transport.url, headers={"X-Token": "renewed-header"})
        assert (await persist(toolset, "good")).ok
        await until(lambda: toolset.unavailable is None)


async def test_a_listing_that_is_refused_for_its_credentials_makes_a_server_unavailable(opened, until):
    """A listing that gets HTTP 401 is no listing that failed by the way: the old tools could not be called."""
    async with RogueHttp("") as rogue:
        toolset = await opened(rogue.transport)
        rogue.token = "renewed-header"
        toolset.refresh()
        await until(lambda: "HTTP 401" in (toolset.unavailable or ""))
        assert toolset.tools.keys() == {"good"}


async def test_a_secret_in_the_place_of_an_issue_is_masked(opened):
    """An answer that breaks the protocol under a key with a secret is reported without it."""
    async with RogueHttp("leaks-in-a-key") as rogue:
        toolset = await opened(rogue.transport)
    assert "breaks the protocol at capabilities.experimental.x" in toolset.unavailable
    assert "***" in toolset.unavailable
    assert "secret" not in toolset.unavailable


async def test_secrets_show_nowhere(opened, run, caplog):
    """No repr, log, error or spec holds a secret, even if the server repeats it."""
    shown: list[str] = []
    caplog.set_level(logging.INFO)
    with capture_logs() as logs:
        async with RogueHttp("leaks") as rogue:
            toolset = await opened(rogue.transport)
            result = await run(toolset, "good")
            assert result.error.message == "bad token Basic *** for /path?key=***"
            shown += [
                result.error.message,
                repr(toolset),
                repr(toolset.transport),
                toolset["good"].spec.model_dump_json(),
            ]
            assert any("secret-query" in line for line in rogue.seen)
        await toolset.close()
        with pytest.raises(ToolUnavailable) as raised:
            await run(toolset, "good")
        shown += [str(raised.value), repr(raised.value.__cause__), repr(raised.value.__context__)]
    shown += [str(log) for log in logs] + [record.getMessage() for record in caplog.records]
    assert len(shown) > 6
    assert not [text for text in shown if "secret-" in text]
    stdio = mcp.Stdio("server", "--token=secret-argument", env={"TOKEN": "secret-value"})
    assert repr(stdio) == "Stdio('server')"
