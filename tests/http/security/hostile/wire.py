"""What is no HTTP, or says two things at once, as bytes on a connection; and pages of other sites."""

from tests.http.security.hostile.world import Answer, Row, World, row

GET = "GET /v1/runs HTTP/1.1"
POST = "POST /v1/runs HTTP/1.1"
BODY = '{"agent_id": "shop.clerk", "input": "smuggled"}'


def lines(
    name: str,
    status: int,
    code: str,
    start: str,
    *headers: str,
    body: str = "",
    host: bool = True,
    is_ended: bool = True,
) -> Row:
    """A row whose lines are sent as they are; `$host` is the service's own name and `$ana` a key that opens."""

    async def send(world: World) -> Answer:
        named = ["Host: $host"] if host else []
        text = "\r\n".join(
            [start, *named, "Authorization: Bearer $ana", *headers, *(["", body] if is_ended else [])]
        )
        named_as = {"$host": world.url[7:], "$ana": world.keys["ana"], "$bo": world.keys["bo"]}
        for each, value in named_as.items():
            text = text.replace(each, value)
        return await world.raw(text.encode("latin-1"))

    return Row(name, send, status, code)


CHUNKED = "Transfer-Encoding: chunked"
CHUNKS = f"{len(BODY):x}\r\n{BODY}\r\n0\r\n\r\n"
JSON = "Content-Type: application/json"

WIRE = [
    # Names and origins.
    lines("no Host", 400, "", GET, host=False),
    lines("no Host in HTTP/1.0", 400, "bad_host", "GET /v1/runs HTTP/1.0", host=False),
    lines("two Hosts", 400, "", GET, "Host: evil.example"),
    lines("a Host with a user", 400, "bad_host", GET, "Host: $host@evil.example", host=False),
    lines("a Host with a path", 400, "bad_host", GET, "Host: $host/v1", host=False),
    lines("a Host with a space", 400, "bad_host", GET, "Host: local host", host=False),
    lines("an empty Host", 400, "bad_host", GET, "Host:", host=False),
    lines("a Host of 10,000 characters", 403, "foreign_origin", GET, f"Host: {'x' * 10_000}", "Origin: null", host=False),
    lines("a target with another host", 404, "not_found", "GET http://evil.example/v1/runs HTTP/1.1"),
    lines("a page of another site", 403, "foreign_origin", GET, "Origin: https://evil.example"),
    lines("a page of nowhere", 403, "foreign_origin", GET, "Origin: null"),
    lines("a page of another port", 403, "foreign_origin", GET, "Origin: http://127.0.0.1:1"),
    lines("two Origins", 403, "foreign_origin", GET, "Origin: http://$host", "Origin: https://evil.example"),
    lines("an Origin that begins with ours", 403, "foreign_origin", GET, "Origin: http://$host.evil.example"),
    lines("an image of another site", 403, "foreign_origin", GET, "Sec-Fetch-Site: cross-site"),
    lines("a form of another site", 403, "foreign_origin", POST, "Origin: https://evil.example", JSON, "Content-Length: 0"),
    # Lengths and codings.
    lines("two lengths", 400, "", POST, "Content-Length: 5", "Content-Length: 6", body="12345"),
    lines("two lengths in one", 400, "", POST, "Content-Length: 5, 6", body="12345"),
    lines("a length with a sign", 400, "", POST, "Content-Length: +5", body="12345"),
    lines("a length below 0", 400, "", POST, "Content-Length: -5", body="12345"),
    lines("a length in hexadecimal", 400, "", POST, "Content-Length: 0x5", body="12345"),
    lines("a coding that is not known", 400, "", POST, "Transfer-Encoding: xchunked", body=CHUNKS),
    lines("a coding after chunks", 400, "", POST, "Transfer-Encoding: chunked, identity", body=CHUNKS),
    lines("two codings", 400, "", POST, CHUNKED, "Transfer-Encoding: identity", body=CHUNKS),
    lines("a chunk of no size", 400, "", POST, CHUNKED, body="x\r\n"),
    lines("a chunk below 0", 400, "", POST, CHUNKED, body="-5\r\n12345\r\n0\r\n\r\n"),
    lines("a chunk of 30 digits", 400, "", POST, CHUNKED, body=f"{'F' * 30}\r\n"),
    lines("a space before a colon", 400, "", POST, "Content-Length : 5", body="12345"),
    lines("a header in two lines", 400, "", GET, "X-A: 1", " 2", "Host: x"),
    lines("a header without a colon", 400, "", GET, "X-A"),
    lines("NUL in a header", 400, "", GET, "X-A: a\0b"),
    lines("a header without end", 431, "", GET, f"X-A: {'x' * 400_000}", is_ended=False),
    lines("headers without end", 431, "", GET, *["X-A: 12345678"] * 30_000, is_ended=False),
    # Beginnings.
    lines("no version", 400, "", "GET /v1/runs"),
    lines("HTTP/2 without an agreement", 404, "not_found", "PRI * HTTP/2.0"),
    lines("a method with a space", 400, "", "GET  /v1/runs HTTP/1.1"),
    lines("a target with NUL", 400, "", "GET /v1/\0runs HTTP/1.1"),
    lines("a target that is no path", 404, "not_found", "OPTIONS * HTTP/1.1"),
    lines("a tunnel", 404, "not_found", "CONNECT evil.example:443 HTTP/1.1"),
    # Headers that the service reads.
    lines("two Authorizations", 400, "bad_request", GET, "Authorization: Bearer $bo"),
    lines("two Idempotency-Keys", 422, "invalid_request", POST, JSON, "Idempotency-Key: a", "Idempotency-Key: b", "Content-Length: 2", body="{}"),
    lines("a Last-Event-ID that is none", 404, "run_not_found", "GET /v1/runs/none/events HTTP/1.1", "Last-Event-ID: \xff"),
    row("a client that names a proxy's client", "GET", "/v1/runs", 200, headers={"X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "https"}),
    row("another path by a header", "GET", "/health", 200, headers={"X-Original-URL": "/v1/runs", "X-Rewrite-URL": "/v1/runs"}),
    row("another tenant by a header", "GET", "/v1/runs/$run", 404, "run_not_found", headers={"X-Tenant": "globex-$mark"}),
    row("a range of an answer", "GET", "/v1/runs", 200, headers={"Range": "bytes=0-1,1-2,2-3"}),
    row("an Accept of 10,000 kinds", "GET", "/v1/runs", 200, headers={"Accept": "a/b," * 10_000}),
]  # fmt: skip
"""The rows."""


async def _lengths_and_chunks(world: World) -> Answer:
    """A second request, which a server that reads the chunks alone takes for one of its own."""
    smuggled = (
        f"POST /v1/runs HTTP/1.1\r\nHost: {world.url[7:]}\r\nAuthorization: Bearer {world.keys['ana']}\r\n"
    )
    head = (
        f"POST /v1/runs HTTP/1.1\r\nHost: {world.url[7:]}\r\nAuthorization: Bearer {world.keys['ana']}\r\n"
        f"{JSON}\r\nContent-Length: 3\r\n{CHUNKED}\r\n\r\n"
    )
    return await world.raw(f"{head}0\r\n\r\n{smuggled}\r\n".encode())


WIRE.append(Row("a length and chunks", _lengths_and_chunks, 400, "bad_request"))
