"""Bodies: one that is too large, too deep, too slow or packed never reaches a route."""

import asyncio
import contextlib
import json
import time

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.http.security import byte_limits
from sojourn.http.security.byte_limits import depth_of
from sojourn.http.security.middleware import SecuritySettings

SMALL = SecuritySettings(max_body_bytes=1_000, max_depth=20)


async def test_a_body_within_the_bounds_arrives_whole(serve_web):
    """The route reads what was sent, in one piece or in many."""
    client = await serve_web(settings=SMALL)
    body = {"a": ["x" * 900]}
    assert (await client.post("/echo", json=body)).json()["body"] == body

    async def parts():
        for byte in json.dumps(body):
            yield byte.encode()

    assert (await client.post("/echo", content=parts())).json()["body"] == body


async def test_a_body_that_is_too_large_is_refused(serve_web):
    """By its length before it is read, and without a length once it is too large."""
    client = await serve_web(settings=SMALL)
    answer = await client.post("/echo", content=b"x" * 1_001)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert "1,000 bytes" in answer.json()["detail"]

    async def endless():
        while True:  # until the service closes the connection
            yield b"x" * 10_000

    with contextlib.suppress(httpx2.TransportError):  # the connection may be closed before the answer is read
        assert (await client.post("/echo", content=endless())).status_code == 413
    assert (await client.post("/echo", json=1)).status_code == 200


@pytest.mark.parametrize("length", ["1" * 30, "-1", "1, 2", "x"])
async def test_a_length_that_is_none_reaches_no_route(serve_web, length):
    """A length that is huge, negative, double or no number is answered with an error of the request."""
    client = await serve_web(settings=SMALL)
    host, port = client.base_url.host, client.base_url.port
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n1".encode())
    line = await asyncio.wait_for(reader.readline(), 60)
    assert line.split()[1] in {b"400", b"413"}
    writer.close()


@pytest.mark.parametrize(
    "body",
    [
        "[" * 21 + "]" * 21,
        "[" * 900,
        '{"a":' * 21 + "1" + "}" * 21,
        '[{"a":' * 11 + "1" + "}]" * 11,
        '"\\"[",' + "[" * 21,
    ],
)
async def test_a_body_that_is_too_deep_is_refused(serve_web, body):
    """Arrays and objects count together, also in what is no JSON."""
    client = await serve_web(settings=SMALL)
    answer = await client.post("/echo", content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "too_deep")


async def test_a_slow_body_is_refused(serve_web):
    """A body that does not arrive in time is answered with 408, and the connection is closed."""
    client = await serve_web(settings=SecuritySettings(body_seconds=0.5))
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n1")
    began = time.monotonic()
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"slow_body" in answer
    assert time.monotonic() - began > 0.4
    writer.close()


async def test_a_client_that_leaves_reaches_no_route(serve_web, caplog):
    """A body that ends with the connection is no request: the route is not called, and nothing fails."""
    client = await serve_web(settings=SMALL)
    _, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(b"POST /decide HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n1")
    await writer.drain()
    writer.close()
    assert (await client.post("/echo", json=1)).status_code == 200
    assert "/decide" not in caplog.text
    assert "Exception" not in caplog.text


async def test_a_packed_body_is_refused(serve_web):
    """A compressed body is not unpacked: nobody knows how large it would be."""
    client = await serve_web(settings=SMALL)
    answer = await client.post("/echo", content=b"x", headers={"Content-Encoding": "gzip"})
    assert (answer.status_code, answer.json()["code"]) == (415, "encoded_body")
    plain = await client.post("/echo", content=b"1", headers={"Content-Encoding": "identity"})
    assert plain.status_code == 200


async def test_the_body_of_a_stranger_is_not_read(serve_web):
    """Who is not let in is told so at once, however long the body would take."""

    async def nobody(_request):
        return None

    client = await serve_web(auth=nobody, settings=SecuritySettings(body_seconds=60))
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n1")
    line = await asyncio.wait_for(reader.readline(), 60)
    assert line.split()[1] == b"401"
    writer.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('[]{}"\\:,a', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('[{"\\', max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


def depth(value) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0


@given(JSON)
def test_the_depth_is_that_of_the_value(value):
    """Brackets and quotes in strings do not count; a body with few brackets is not looked at."""
    body, most = json.dumps(value).encode(), 2
    found = depth_of(body, most)
    assert found == min(depth(value), most + 1) or (
        found == 0 and body.count(b"[") + body.count(b"{") <= most
    )


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        "[1]".encode("utf-16"),
        "[1]".encode("utf-16-le"),
        "[1]".encode("utf-32-be"),
    ],
)
async def test_a_body_that_is_not_utf_8_is_refused(serve_web, body):
    """Also what Python would read as another encoding of JSON."""
    client = await serve_web()
    answer = await client.post("/echo", content=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_encoding")


def test_no_body_takes_long_to_measure(subtests: pytest.Subtests) -> None:
    """The time is proportional to the size: 2 MB of what is worst take less than a second."""
    rows = [b'"' * 2_000_000, b'\\"' * 1_000_000, b"[]" * 1_000_000, b'"\\' * 1_000_000, b'["' * 1_000_000]
    for body in rows:
        with subtests.test(body=body):
            began = time.process_time()
            depth_of(body, 100)
            assert time.process_time() - began < 1


@given(st.text('[]{}"\\:,a', max_size=40), st.integers(1, 7))
def test_a_body_is_measured_alike_in_pieces(text, size):
    """Wherever a piece ends, in a text or behind a backslash, the depth is that of the whole body."""
    whole = depth_of(text.encode(), 100)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_limits, "CHUNK", size)
        assert depth_of(text.encode(), 100) == whole
