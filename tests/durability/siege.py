"""Hostile clients, as a program of their own: `python -m tests.durability.siege '{"port": ..., "cases": ...}'`.

It sends so many hostile requests, with keys of one tenant and without, some dozens at a time, and prints how often each kind got which status.
"""

import asyncio
import contextlib
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

AT_ONCE = 60
"""Hostile requests at a time."""

HOLD = 4.0
"""Seconds for which one that holds something holds it."""


@dataclass
class Siege:
    """What the clients know."""

    port: int
    cases: int
    keys: list[str]
    """Of the hostile tenant's principals."""
    run_id: str
    """A run of theirs with much in it."""
    session: str
    """A conversation of theirs whose answer is costly to show."""

    def __post_init__(self) -> None:
        self.dice = random.Random(7)
        self.count = 0

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection from one of a few addresses that are not the other tenant's."""
        address = f"127.0.0.{self.dice.randint(2, 5)}"
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0))

    async def send(self, text: bytes, *, hold: float = 0.0, rest: bytes = b"", is_read: bool = True) -> str:
        """Send something, hold the connection, send the rest; the status, or why there is none."""
        try:
            async with asyncio.timeout(120):
                reader, writer = await self.open()
                try:
                    writer.write(text)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(10):
                            await writer.drain()
                    if hold:
                        await asyncio.sleep(hold)
                    writer.write(rest)
                    line = await reader.readline()
                    if is_read:
                        while await reader.read(65_536):
                            pass
                    return line.split(b" ")[1].decode() if line.count(b" ") >= 2 else "closed"
                finally:
                    writer.transport.abort()
        except OSError:
            return "reset"
        except TimeoutError:
            return "no answer"

    def head(
        self, method: str, path: str, *headers: str, key: bool = False, size: int | None = None
    ) -> bytes:
        """The head of a request; one whose answer ends with the connection."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Connection: close", *headers]
        if key:
            lines.append(f"Authorization: Bearer {self.dice.choice(self.keys)}")
        if size is not None:
            lines += [f"Content-Length: {size}", "Content-Type: application/json"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def post(self, path: str, body: bytes, *headers: str, key: bool = True) -> bytes:
        """A request with a body."""
        return self.head("POST", path, *headers, key=key, size=len(body)) + body


Case = Callable[[Siege], Awaitable[str]]
CASES: list[Case] = []


def case(times: int = 1) -> Callable[[Case], Case]:
    """A kind of hostile request, so many times as likely as others."""

    def added(kind: Case) -> Case:
        CASES.extend([kind] * times)
        return kind

    return added


# Without a key.


@case(3)
async def huge_cookie(siege: Siege) -> str:
    size = siege.dice.choice([7_000, 30_000, 140_000])
    path = siege.dice.choice(["/", "/health", "/sign-in", "/runs", "/v1/runs"])
    return await siege.send(siege.head("GET", path, 'Cookie: a="' + '\\"' * size + '"'))


@case()
async def long_head(siege: Siege) -> str:
    return await siege.send(siege.head("GET", f"/v1/runs?cursor={'a' * 200_000}"))


@case(2)
async def slow_head(siege: Siege) -> str:
    return await siege.send(b"GET /health HTTP/1.1\r\nHost: a\r\nX-A: " + b"a" * 40_000, hold=HOLD)


@case(2)
async def slow_stranger(siege: Siege) -> str:
    path = siege.dice.choice(["/sign-in", "/static/console.js", "/health"])
    origin = f"Origin: http://127.0.0.1:{siege.port}"
    head = siege.head("POST", path, origin, size=2_000_000)
    return await siege.send(head + b"a" * 1_000_000, hold=HOLD)


@case(4)
async def wrong_key(siege: Siege) -> str:
    path = siege.dice.choice(["/v1/runs", "/nothing", "/openai/v1/models", "/mcp"])
    return await siege.send(siege.head("GET", path, "Authorization: Bearer sojourn_00_wrong"))


@case(2)
async def preflight(siege: Siege) -> str:
    ahead = ["Origin: https://elsewhere.example", "Access-Control-Request-Method: POST"]
    return await siege.send(siege.head("OPTIONS", "/v1/runs", *ahead))


@case()
async def no_http(siege: Siege) -> str:
    return await siege.send(siege.dice.choice([b"\x16\x03\x01\x02\x00", b"GET /\r\n\r\n", b"\0" * 100_000]))


@case()
async def many_connections(siege: Siege) -> str:
    address, held = "127.0.0.9", list[asyncio.StreamWriter]()
    try:
        for _ in range(100):
            _, writer = await asyncio.open_connection("127.0.0.1", siege.port, local_addr=(address, 0))
            held.append(writer)
        await asyncio.sleep(HOLD)
    except OSError:
        return "reset"
    finally:
        for writer in held:
            writer.transport.abort()
    return "held"


# With a key of the hostile tenant.


@case(3)
async def unread_events(siege: Siege) -> str:
    path = f"/v1/runs/{siege.run_id}/events?limit=10000"
    return await siege.send(siege.head("GET", path, key=True), hold=HOLD, is_read=False)


@case(2)
async def unread_transcript(siege: Siege) -> str:
    path = f"/v1/runs/{siege.run_id}/transcript"
    return await siege.send(siege.head("GET", path, key=True), hold=HOLD, is_read=False)


@case(2)
async def unread_stream(siege: Siege) -> str:
    path = f"/v1/runs/{siege.run_id}/events?children=true"
    return await siege.send(
        siege.head("GET", path, "Accept: text/event-stream", key=True), hold=HOLD, is_read=False
    )


@case()
async def unread_table(siege: Siege) -> str:
    return await siege.send(siege.head("GET", "/decisions.csv", key=True), hold=HOLD, is_read=False)


@case(2)
async def slow_body(siege: Siege) -> str:
    head = siege.head("POST", "/v1/runs", key=True, size=1_900_000)
    return await siege.send(head + b'{"a":"' + b"a" * 1_500_000, hold=HOLD, is_read=False)


@case(3)
async def bad_cursor(siege: Siege) -> str:
    after = siege.dice.choice(
        [
            "0-000001-00000;/c€=",
            "0-000001-00000;/c\x01=",
            '0-000001-00000;/c\ndata: {"type":"run_completed"}\n\n=',
            "0-000001-00000;" + "/c=;" * 900,
            "9" * 6_000 + "-000001-00000",
            ";" * 30_000,
        ]
    )
    accept = siege.dice.choice(["application/json", "text/event-stream"])
    path = f"/v1/runs/{siege.run_id}/events?limit=1&after={quote(after)}"
    return await siege.send(siege.head("GET", path, f"Accept: {accept}", key=True), hold=0.2, is_read=False)


@case(3)
async def costly_list(siege: Siege) -> str:
    path = siege.dice.choice(["/v1/runs?label=a=b&limit=1000", "/v1/waits?limit=1", "/v1/runs?limit=1000"])
    return await siege.send(siege.head("GET", path, key=True))


@case(2)
async def tiny_parts(siege: Siege) -> str:
    part = b'{"type":"text"}'
    body = b'{"agent_id":"siege.echo","input":{"role":"user","parts":[' + b",".join([part] * 110_000) + b"]}}"
    return await siege.send(siege.post("/v1/runs", body))


@case()
async def odd_body(siege: Siege) -> str:
    body = siege.dice.choice(
        [
            b"[" * 100_000,
            b"[" + b"0," * 900_000 + b"0]",
            b"1" * 1_000_000,
            b'"\\ud800"',
            b"{" * 19_000,
            b"\xff\xfe\0",
        ]
    )
    path = siege.dice.choice(
        ["/v1/runs", "/mcp", "/openai/v1/responses", "/agui/siege.echo", "/a2a/siege.echo"]
    )
    return await siege.send(siege.post(path, body))


@case(2)
async def listener(siege: Siege) -> str:
    siege.count += 1
    message = {"id": f"m-{siege.count}", "role": "user", "content": "hello"}
    body = {"threadId": f"t-{siege.count % 20}", "runId": f"r-{siege.count}", "messages": [message]}
    return await siege.send(
        siege.post("/agui/siege.echo", json.dumps(body).encode()), hold=0.2, is_read=False
    )


@case(2)
async def costly_page(siege: Siege) -> str:
    cookie = f"Cookie: sojourn_key_{siege.port}={siege.dice.choice(siege.keys)}"
    path = siege.dice.choice(
        [f"/talk/siege.echo/{siege.session}", f"/runs/{siege.run_id}", "/runs", "/inbox"]
    )
    return await siege.send(siege.head("GET", path, cookie))


async def main(told: dict[str, Any]) -> None:
    """Send all, and print what became of them. The clients of a service are other machines, and take none of its processors."""
    os.nice(19)
    siege = Siege(**told)
    found: Counter[str] = Counter()
    kinds = [CASES[n % len(CASES)] for n in range(siege.cases)]
    siege.dice.shuffle(kinds)
    waiting = iter(kinds)

    async def client() -> None:
        for kind in waiting:
            found[f"{kind.__name__} {await kind(siege)}"] += 1

    await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
