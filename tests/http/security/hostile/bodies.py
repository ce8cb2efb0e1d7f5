"""Bodies that are too large, too deep, too slow, or not the JSON that two programs read alike."""

import json

from tests.http.every_protocol import PROTOCOLS, say
from tests.http.security.hostile.world import Answer, Row, World, row

RUNS = "/v1/runs"
DOORS = {"runs": RUNS, **{name: say(name, "", session_id="door").path for name in PROTOCOLS}}
RPC = {"Accept": "application/json, text/event-stream", "A2A-Version": "1.0"}
LARGE = b'"' + b"x" * 100_001 + b'"'


def started(more: str) -> bytes:
    """The body of a start, with more members."""
    members = {'"agent_id"': '"shop.clerk"', '"input"': '"hello"'}
    given = [f"{name}: {value}, " for name, value in members.items() if f"{name}:" not in more]
    return f"{{{''.join(given)}{more}}}".encode()


def of(name: str, path: str, body: bytes, status: int, code: str) -> Row:
    """A row whose body is sent as it is."""
    return row(name, "POST", path, status, code, body=body, headers=RPC)


def head(world: World, path: str = RUNS, *more: str) -> bytes:
    """The head of a request with a body."""
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {world.url[7:]}",
        f"Authorization: Bearer {world.keys['ana']}",
        "Content-Type: application/json",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def _chunked(world: World) -> Answer:
    chunks = b"2711\r\n" + b"x" * 10_001 + b"\r\n"
    return await world.raw(head(world, RUNS, "Transfer-Encoding: chunked") + chunks * 10)


async def _small_chunks(world: World) -> Answer:
    return await world.raw(head(world, RUNS, "Transfer-Encoding: chunked") + b"a\r\n0123456789\r\n" * 10_001)


async def _declared(world: World) -> Answer:
    return await world.raw(head(world, RUNS, "Content-Length: 100001"))


async def _slow(world: World) -> Answer:
    return await world.raw(head(world, RUNS, "Content-Length: 100") + b'{"agent_id"')


async def _slow_chunk(world: World) -> Answer:
    return await world.raw(head(world, RUNS, "Transfer-Encoding: chunked") + b'5\r\n{"a":')


async def _slow_door(world: World) -> Answer:
    return await world.raw(head(world, "/a2a/shop.clerk", "Content-Length: 100") + b"{")


BODIES = [
    *(of(f"{name}: too large", path, LARGE, 413, "too_large") for name, path in DOORS.items()),
    *(of(f"{name}: too deep", path, b"[" * 101, 400, "too_deep") for name, path in DOORS.items()),
    *(
        of(
            f"{name}: a name twice",
            path,
            b'{"x": [{"approved": false, "approved": true}]}',
            400,
            "duplicate_name",
        )
        for name, path in DOORS.items()
    ),
    of("a name twice by an escape", RUNS, started('"labels": {}, "lab\\u0065ls": {}'), 400, "duplicate_name"),
    of(
        "a name twice in a long body",
        RUNS,
        started(f'"x": "{"x" * 40_000}", "x": ""'),
        400,
        "duplicate_name",
    ),
    of(
        "a name twice behind a number that is too long",
        RUNS,
        started(f'"x": {"9" * 5_000}, "x": ""'),
        400,
        "duplicate_name",
    ),
    *(of(f"{name}: not UTF-8", path, b'{"a": "\xff"}', 400, "bad_encoding") for name, path in DOORS.items()),
    *(
        row(
            f"{name}: packed",
            "POST",
            path,
            415,
            "encoded_body",
            body=b"x",
            headers={"Content-Encoding": "gzip"},
        )
        for name, path in DOORS.items()
    ),
    Row("too large in chunks", _chunked, 413, "too_large"),
    Row("too large in chunks of ten bytes", _small_chunks, 413, "too_large"),
    Row("too large by its length alone", _declared, 413, "too_large"),
    Row("slow with a length", _slow, 408, "slow_body"),
    Row("slow in chunks", _slow_chunk, 408, "slow_body"),
    Row("slow at another door", _slow_door, 408, "slow_body"),
    of(
        "UTF-16",
        RUNS,
        json.dumps({"agent_id": "shop.clerk", "input": "x"}).encode("utf-16"),
        400,
        "bad_encoding",
    ),
    of("a surrogate in UTF-8", RUNS, b'{"a": "\xed\xa0\x80"}', 400, "bad_encoding"),
    of("an overlong slash", RUNS, b'{"a": "\xc0\xaf"}', 400, "bad_encoding"),
    of("brackets after an escape", RUNS, b'"\\"[",' + b"[" * 101, 400, "too_deep"),
    of(
        "as deep as the door lets in",
        RUNS,
        started('"labels": ' + "[" * 99 + "]" * 99),
        422,
        "invalid_request",
    ),
    of("no body", RUNS, b"", 422, "invalid_request"),
    of("half a value", RUNS, b'{"agent_id": ', 400, "malformed_json"),
    of("two values", RUNS, b"{}{}", 400, "malformed_json"),
    of("single quotes", RUNS, b"{'a': 1}", 400, "malformed_json"),
    of("a comment", RUNS, b'{"a": 1} // x', 400, "malformed_json"),
    of("a bare NaN", RUNS, b"NaN", 422, "invalid_request"),
    of("a list", RUNS, b"[]", 422, "invalid_request"),
    of("null", RUNS, b"null", 422, "invalid_request"),
    of("a number of 5,000 digits", RUNS, started('"labels": ' + "9" * 5_000), 400, "bad_request"),
    of(
        "a number of 400 digits",
        RUNS,
        started('"policy": {"max_tokens": ' + "9" * 400 + "}"),
        422,
        "invalid_request",
    ),
    of("a number beyond floats", RUNS, started('"policy": {"max_cost": 1e999}'), 422, "invalid_request"),
    of("NaN as a limit", RUNS, started('"policy": {"max_cost": NaN}'), 422, "invalid_request"),
    of("Infinity as a limit", RUNS, started('"policy": {"max_cost": Infinity}'), 422, "invalid_request"),
    of("a duration beyond dates", RUNS, started('"policy": {"time_budget": 1e308}'), 422, "invalid_request"),
    of("half a surrogate pair", RUNS, started('"session_id": "\\ud800"'), 422, "invalid_request"),
    of(
        "half a surrogate pair as a name", RUNS, started('"labels": {"\\udc00": "x"}'), 422, "invalid_request"
    ),
    of("NUL in a session", RUNS, started('"session_id": "\\u0000"'), 422, "invalid_input"),
    of("a quote in a session", RUNS, started('"session_id": "x\' OR 1=1"'), 422, "invalid_input"),
    of("a newline in a run_id", RUNS, started('"run_id": "x\\n"'), 422, "invalid_input"),
    of(
        "a label of 50,000 characters",
        RUNS,
        started(f'"labels": {{"a": "{"x" * 50_000}"}}'),
        422,
        "invalid_input",
    ),
    of(
        "65 labels",
        RUNS,
        started(f'"labels": {json.dumps({str(n): "x" for n in range(65)})}'),
        422,
        "invalid_request",
    ),
    of(
        "a field that is not known",
        RUNS,
        started('"__proto__": {"roles": ["operator"]}'),
        422,
        "invalid_request",
    ),
    of(
        "a message of the system",
        RUNS,
        started('"input": {"role": "system", "parts": []}'),
        422,
        "invalid_request",
    ),
    row("no Content-Type", "POST", RUNS, 415, "not_json", body=b"{}", headers={"Content-Type": ""}),
    row("a form", "POST", RUNS, 415, "not_json", body=b"a=b", headers={"Content-Type": "text/plain"}),
    row(
        "a file",
        "POST",
        RUNS,
        400,
        "bad_request",
        body=b"--x\r\n",
        headers={"Content-Type": "multipart/form-data; boundary=x"},
    ),
    of("agui: half a value", DOORS["agui"], b"{", 400, "malformed_json"),
    of("agui: no messages", DOORS["agui"], b'{"threadId": "t", "runId": "r"}', 200, ""),
    of(
        "agui: a content that is a number",
        DOORS["agui"],
        b'{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": 7}]}',
        422,
        "invalid_input",
    ),
    of(
        "agui: half a surrogate pair",
        DOORS["agui"],
        b'{"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "\\ud800"}]}',
        422,
        "invalid_request",
    ),
    of(
        "agui: NUL in a thread",
        DOORS["agui"],
        b'{"threadId": "\\u0000", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "x"}]}',
        422,
        "invalid_input",
    ),
    of("vercel: no messages", DOORS["vercel"], b'{"id": "c", "messages": []}', 422, "invalid_request"),
    of(
        "vercel: a part without a type",
        DOORS["vercel"],
        b'{"id": "c", "messages": [{"id": "m", "role": "user", "parts": [{}]}]}',
        422,
        "invalid_input",
    ),
    of("openai: half a value", DOORS["chat"], b"{", 400, "malformed_json"),
    of("openai: NaN", DOORS["chat"], b'{"model": NaN}', 400, "invalid_value"),
    of("openai: a list", DOORS["chat"], b"[]", 400, "invalid_value"),
    of(
        "openai: a URL in place of a file",
        DOORS["chat"],
        b'{"model": "shop.clerk", "messages": [{"role": "user", "content": '
        b'[{"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}]}]}',
        400,
        "invalid_value",
    ),
    of(
        "openai: a form of the caller",
        DOORS["chat"],
        b'{"model": "shop.clerk", "messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_object"}}',
        400,
        "invalid_value",
    ),
    of("mcp: half a value", DOORS["mcp"], b"{", 400, "-32700"),
    of("mcp: a list", DOORS["mcp"], b"[]", 400, "-32602"),
    of(
        "mcp: half a surrogate pair",
        DOORS["mcp"],
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "\\ud800"}}',
        400,
        "-32700",
    ),
    of(
        "mcp: an argument that is no text",
        DOORS["mcp"],
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "shop_clerk", "arguments": {"message": 7}}}',
        200,
        "invalid_input",
    ),
    of("a2a: half a value", DOORS["a2a"], b"{", 200, "malformed_json"),
    of("a2a: a list", DOORS["a2a"], b"[]", 200, "invalid_request"),
    of("a2a: nothing", DOORS["a2a"], b"", 400, "malformed_json"),
    of("a2a: a method that is none", DOORS["a2a"], b'{"method": ["GetTask"]}', 200, "invalid_request"),
    of("a2a: an id of 5,000 digits", DOORS["a2a"], b'{"id": ' + b"9" * 5_000 + b"}", 200, "malformed_json"),
    of(
        "a2a: parameters that are none",
        DOORS["a2a"],
        b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": 7}',
        200,
        "invalid_request",
    ),
    of(
        "a2a: half a surrogate pair",
        DOORS["a2a"],
        b'{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "\\ud800"}}',
        200,
        "invalid_request",
    ),
    of(
        "a2a: a URL in place of a file",
        DOORS["a2a"],
        b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"role": "ROLE_USER", '
        b'"messageId": "m", "parts": [{"url": "http://169.254.169.254/"}]}}}',
        200,
        "invalid_input",
    ),
]
"""The rows."""
