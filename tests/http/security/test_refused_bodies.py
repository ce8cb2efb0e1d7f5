"""Refused bodies: a client that still sends when it is refused reads why."""

import asyncio
import contextlib
import json
import shutil
import time

import httpx
import pytest

from sojourn.http.security.middleware import SecuritySettings

LARGE = 10_000_000

NODE = """
const body = Buffer.alloc(Number(process.argv[2]), 0x20);
const seen = [];
for (let i = 0; i < 12; i++) {
  try {
    const answer = await fetch(process.argv[1], { method: "POST", body, headers: { "content-type": "application/json" } });
    seen.push([answer.status, (await answer.json()).code]);
  } catch (error) { seen.push([0, String(error.cause?.code ?? error)]); }
}
console.log(JSON.stringify(seen));
"""


async def nobody(_request):
    return None


def refusals(url: str, **options) -> list[tuple[int, str]]:
    """What a client gets that sends all of a body before it reads."""
    found = []
    with httpx.Client(timeout=60, **options) as client:
        for _ in range(12):
            try:
                answer = client.post(url, content=b" " * LARGE)
            except httpx.TransportError as error:
                found.append((0, repr(error)))
            else:
                found.append((answer.status_code, answer.json()["code"]))
    return found


async def test_a_client_in_python_reads_why_its_body_is_too_large(serve_web):
    """Each of twelve bodies of 10 MB is answered with 413, which the client reads."""
    client = await serve_web()
    found = await asyncio.to_thread(refusals, f"{client.base_url}/echo")
    assert found == [(413, "too_large")] * 12


async def test_a_client_that_closes_reads_why_it_is_not_let_in(serve_web):
    """The answer of every lock arrives, also if the client wants the connection closed."""
    client = await serve_web(auth=nobody)
    found = await asyncio.to_thread(refusals, f"{client.base_url}/echo", headers={"Connection": "close"})
    assert found == [(401, "unauthenticated")] * 12


@pytest.mark.usefixtures("processes")
async def test_a_client_in_node_reads_why_its_body_is_too_large(serve_web):
    """Each of twelve bodies of 10 MB is answered with 413, which `fetch` returns."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    client = await serve_web()
    program = await asyncio.create_subprocess_exec(
        *(node, "--input-type=module", "-e", NODE, f"{client.base_url}/echo", str(LARGE)),
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await program.communicate()
    assert json.loads(told) == [[413, "too_large"]] * 12


async def test_a_client_that_asks_first_sends_no_body(serve_web):
    """`Expect: 100-continue` is answered with 413 at once, and the connection is closed once nothing comes."""
    client = await serve_web()
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\nExpect: 100-continue\r\n\r\n"
    )
    answer = await asyncio.wait_for(reader.read(), 60)
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.1 413")
    assert b"\r\nconnection: close" in head
    writer.close()


async def test_reading_on_has_an_end(serve_web):
    """A client that never stops sending is cut off."""
    client = await serve_web(settings=SecuritySettings(max_body_bytes=1_000))
    _, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    sent, began = 0, time.monotonic()
    with contextlib.suppress(ConnectionError):
        while time.monotonic() - began < 60:
            writer.write(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
            await writer.drain()
            sent += 65_536
    assert writer.is_closing()
    assert 1_000 < sent < 200_000_000
