"""Messages as sent: what the SDK would drop is read for what it means, or answered at once; no call waits for its time limit."""

import asyncio
import json
from typing import Any

import pytest

from sojourn import mcp
from sojourn.mcp.errors import MALFORMED, Exchange
from sojourn.mcp.http import _Events
from sojourn.mcp.lenient_messages import for_request, mend_event, read_line
from tests.accepting import accepting
from tests.mcp.test_hostile import RogueHttp

HEAD = '{"jsonrpc": "2.0", "id": @ID@, '
X = '{"content": [{"type": "text", "text": "x"}]}'
MALFORMED_ANSWER = "malformed_response"

ANSWERS: dict[str, tuple[str, str]] = {
    "half of an emoji": (
        HEAD + r'"result": {"content": [{"type": "text", "text": "Dinner \ud83c"}]}}',
        "Dinner \ufffd",
    ),
    "half of an emoji in a structure": (
        HEAD + r'"result": {"content": [], "structuredContent": {"\ud83d": "\ud83d\ude00 \ude00"}}}',
        '{"\ufffd": "\U0001f600 \ufffd"}',
    ),
    "no version": ('{"id": @ID@, "result": ' + X + "}", "x"),
    "a version of another kind": ('{"jsonrpc": 2.0, "id": @ID@, "result": ' + X + "}", "x"),
    "an id as a text": ('{"jsonrpc": "2.0", "id": "@ID@", "result": ' + X + "}", "x"),
    "an id with a point": ('{"jsonrpc": "2.0", "id": @ID@.0, "result": ' + X + "}", "x"),
    "a batch": ("[" + HEAD + '"result": ' + X + "}]", "x"),
    "a null error beside a result": (HEAD + '"error": null, "result": ' + X + "}", "x"),
    "an audience that nothing knows": (
        HEAD
        + '"result": {"content": [{"type": "text", "text": "x", "annotations": {"audience": ["robot"]}}]}}',
        "x",
    ),
    "a priority of 9": (
        HEAD + '"result": {"content": [{"type": "text", "text": "x", "annotations": {"priority": 9}}]}}',
        "x",
    ),
    "metadata of another kind": (
        HEAD + '"result": {"_meta": 5, "content": [{"type": "text", "text": "x", "_meta": []}]}}',
        "x",
    ),
    "an error as a text": (HEAD + '"error": "boom"}', "mcp_-32603: boom"),
    "an error with a code in words": (
        HEAD + '"error": {"code": "E1", "message": "boom"}}',
        "mcp_-32603: E1: boom",
    ),
    "an error without a message": (
        HEAD + '"error": {"code": -1, "message": null}}',
        "mcp_-1: the server gave no reason",
    ),
    "a list": (HEAD + '"result": [1]}', MALFORMED_ANSWER),
    "null": (HEAD + '"result": null}', MALFORMED_ANSWER),
    "a text": (HEAD + '"result": "x"}', MALFORMED_ANSWER),
    "a depth of 300": (
        HEAD + '"result": {"content": [], "structuredContent": {"v": ' + "[" * 300 + "]" * 300 + "}}}",
        MALFORMED_ANSWER,
    ),
    "a depth of 20,000": (
        HEAD + '"result": {"content": [], "structuredContent": {"v": ' + "[" * 20_000 + "]" * 20_000 + "}}}",
        MALFORMED_ANSWER,
    ),
    "an integer of 5,000 digits": (
        HEAD + '"result": {"content": [], "structuredContent": {"v": ' + "9" * 5_000 + "}}}",
        MALFORMED_ANSWER,
    ),
    "no JSON": (HEAD + '"result": {"content": [}', MALFORMED_ANSWER),
    "no JSON, and the id last": (
        '{"jsonrpc": "2.0", "result": {"content": [}, "id": @ID@}',
        MALFORMED_ANSWER,
    ),
}
"""By what is odd: the answer to a call as the server writes it, and what the model reads."""

TOOLS = [{"name": f"odd_{number}", "inputSchema": {"type": "object"}} for number in range(len(ANSWERS))]


class OddHttp(RogueHttp):
    """A web server that answers each call with the next of `ANSWERS`, in JSON or as an event."""

    def __init__(self, *, events: bool) -> None:
        super().__init__("")
        self.events = events

    def reply(self, verb: str, headers: dict[str, str], message: dict[str, Any]) -> Any:
        if message.get("method") != "tools/call":
            return super().reply(verb, headers, message)
        odd = [*ANSWERS.values()][message["params"]["arguments"]["number"]][0]
        data = odd.replace("@ID@", str(message["id"])).encode()
        if self.events:
            return "200 OK", {"content-type": "text/event-stream"}, b"id: 1\r\ndata: " + data + b"\r\n\r\n"
        return "200 OK", {"content-type": "application/json"}, data


def told(result: Any) -> str:
    """Return what a model reads of a result, in short."""
    if result.retry_hint:
        return str(result.retry_hint.reason)
    if result.error:
        return f"{result.error.code}: {result.error.message}"
    return result.result if isinstance(result.result, str) else json.dumps(result.result, ensure_ascii=False)


async def test_each_answer_of_a_process_is_read_or_answered_at_once(opened, raw, run):
    """Over stdio an answer that the SDK would drop is read for what it means, or is a `malformed_response`."""
    lines = {tool["name"]: line for tool, (line, _) in zip(TOOLS, ANSWERS.values(), strict=True)}
    toolset = await opened(raw(tools=TOOLS, lines=lines))
    read = {}
    async with asyncio.timeout(30):
        for odd, tool in zip(ANSWERS, TOOLS, strict=True):
            read[odd] = told(await run(toolset, tool["name"]))
    assert read == {odd: expected for odd, (_, expected) in ANSWERS.items()}


@pytest.mark.parametrize("events", [False, True], ids=["json", "events"])
async def test_each_answer_over_http_is_read_or_answered_at_once(events, opened, run):
    """Over HTTP too, as JSON and as a server-sent event; the session goes on."""
    read = {}
    async with OddHttp(events=events) as server, asyncio.timeout(30):
        toolset = await opened(server.transport)
        for number, odd in enumerate(ANSWERS):
            read[odd] = told(await run(toolset, "good", number=number))
        assert server.sessions == 1
    assert read == {odd: expected for odd, (_, expected) in ANSWERS.items()}


class OddSse:
    """A server over the older transport, whose answers come as events on the one stream of its session."""

    def __init__(self) -> None:
        self.stream: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            self.stream = writer
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            writer.write(b"event: endpoint\ndata: /messages\n\n")
            await reader.read()  # until the client ends the stream
            return
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        message = json.loads(await reader.readexactly(length))
        writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        if self.stream is not None and "id" in message:
            self.stream.write(b"event: message\r\ndata: " + self.answer(message) + b"\r\n\r\n")

    def answer(self, message: dict[str, Any]) -> bytes:
        if message["method"] == "tools/call":
            odd = [*ANSWERS.values()][message["params"]["arguments"]["number"]][0]
            return odd.replace("@ID@", str(message["id"])).encode()
        rogue = RogueHttp("")
        headers = {"mcp-session-id": "s-1"}
        return rogue.reply("POST", headers, message)[2] or HEAD.replace(
            "@ID@", str(message["id"])
        ).encode() + (b'"error": {"code": -32601, "message": "no"}}')


async def test_each_answer_over_the_older_sse_is_read_or_answered_at_once(opened, run):
    """Over the older SSE too, where the SDK drops what it cannot parse; the session goes on."""
    server, read = OddSse(), {}
    async with accepting(server.serve) as port, asyncio.timeout(30):
        toolset = await opened(mcp.Sse(f"http://127.0.0.1:{port}/sse"))
        for number, odd in enumerate(ANSWERS):
            read[odd] = told(await run(toolset, "good", number=number))
        await toolset.close()
    assert read == {odd: expected for odd, (_, expected) in ANSWERS.items()}


@pytest.mark.parametrize(
    ("body", "error", "result"),
    [
        ('{"jsonrpc": "2.0", "id": null, "error": {"code": -1, "message": "boom"}}', -1, None),
        ('{"error": "boom"}', -32_603, None),
        ('{"jsonrpc": "2.0", "id": 99, "result": {"a": NaN}}', None, "{'a': nan}"),
        ('[{"jsonrpc": "2.0", "id": 9, "result": {}}, {"id": 7, "result": {"a": 1}}]', None, "{'a': 1}"),
        ('{"jsonrpc": "2.0", "method": "notifications/message"}', MALFORMED, None),
    ],
    ids=["no id", "no envelope", "another id", "a batch", "no answer"],
)
def test_a_body_in_json_is_the_answer_to_its_request(
    body: str, error: int | None, result: str | None
) -> None:
    """The answer in the body of a response to a request gets the request's id, since the SDK waits for that."""
    read = json.loads(for_request(body.encode(), 7))
    assert read["id"] == 7
    assert (read.get("error") or {}).get("code") == error
    assert (str(read["result"]) if "result" in read else None) == result


def test_what_a_server_logs_answers_no_call(subtests: pytest.Subtests) -> None:
    """A record of a log, one of our requests in it, and the first half of a message are no answers."""
    rows = [
        b'{"level": "error", "id": 5, "error": "boom"}',
        b'{"jsonrpc": "2.0", "id": 5, "method": "tools/ca',
        b'{"jsonrpc": "2.0", "id": 5, "resu',
        b'{"method": "x", "error": [}, "id": 5}',
        b'got {"jsonrpc": "2.0", "id": 5, "result": {"con',
        b'"result"',
        b"5",
        b"[]",
    ]
    for line in rows:
        with subtests.test(line=line):
            assert read_line(line) is None


def test_a_notification_that_cannot_be_read_ends_no_call() -> None:
    """An event with such a notification is emptied: the SDK would end the call in whose stream it comes."""
    event = b'id: 7\nretry: 5\ndata: {"jsonrpc": "2.0", "method": "notifications/message", "params": 5}\n\n'
    assert mend_event(event) == b"id: 7\nretry: 5\n\n"


def test_other_events_are_not_changed(subtests: pytest.Subtests) -> None:
    """An address, a first event without data, a comment and a message in several lines go to the SDK as they are."""
    rows = [
        b"event: endpoint\ndata: /messages?id=5\n\n",
        b"id: 1\ndata:\n\n",
        b": still here\n\n",
        b'event: message\ndata: {"jsonrpc": "2.0",\ndata:  "id": 5, "result": {}}\n\n',
        b"data: no message\n\n",
    ]
    for event in rows:
        with subtests.test(event=event):
            assert mend_event(event) == event


def test_an_event_of_the_older_transport_is_answered_by_its_id() -> None:
    """Over the older SSE the SDK knows no request for an event, so the error has the id that the answer has."""
    mended = mend_event(b'event: message\r\ndata: {"jsonrpc":"2.0","id":5,"result":[1]}\r\n\r\n')
    (data,) = [line[6:] for line in mended.splitlines() if line.startswith(b"data: ")]
    assert json.loads(data)["id"] == 5
    assert json.loads(data)["error"]["code"] == MALFORMED


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
def test_events_are_handed_on_however_they_are_cut(end: bytes) -> None:
    """Each event is handed on as soon as it is complete, and mended, wherever the parts of the stream are cut."""
    odd = b'id: 1\ndata: {"id": 5, "result": {}}\n\n'.replace(b"\n", end)
    good = b": so far\n\nretry: 1\n\n".replace(b"\n", end)
    stream = good + odd + good + odd
    for size in (1, 7, len(stream)):
        body = _Events(Exchange())
        parts = [body.add(stream[at : at + size]) for at in range(0, len(stream), size)]
        assert (b"".join(parts) + body.end()).count(b'"jsonrpc"') == 2
        assert [*map(bool, parts)].count(True) >= (1 if size == len(stream) else 4)
