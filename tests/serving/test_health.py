"""A worker's health probe: what a supervisor reads while the worker connects, polls, loses its server and drains."""

import asyncio
import uuid
from contextlib import suppress
from typing import Any

import httpx2
import pytest

from sojourn import Agent, App, Client, PlanResult, Toolset
from sojourn.connection import settings
from sojourn.errors import DefinitionError
from sojourn.network import http_client
from sojourn.server.ports import pick
from sojourn.serving import health as module
from sojourn.serving.hardening.loop_guard import Stop
from sojourn.serving.health import WorkerHealth
from sojourn.testing import ScriptedPlanner
from sojourn.worker import serve_forever
from tests.durability.wire import Wire


async def read(port: int, path: str) -> tuple[int, dict[str, Any]]:
    """Ask the probe as a supervisor does."""
    async with http_client(base_url=f"http://127.0.0.1:{port}") as http:
        answer = await http.get(path)
    return answer.status_code, answer.json()


async def test_a_worker_is_ready_while_it_polls_a_server_that_answers(
    temporal_address, until, monkeypatch
) -> None:
    """It lives through all of it, and is ready only between its first poll and its drain, while the server answers."""
    monkeypatch.setattr(module, "FRESH", 0.0)
    tools, begun, released = Toolset("test.tools"), asyncio.Event(), asyncio.Event()

    @tools.tool
    async def hold() -> str:
        """Hold a drain open."""
        begun.set()
        await released.wait()
        return "held"

    planner = ScriptedPlanner([PlanResult.calls(tools.tools["hold"].call()), PlanResult.final("done")])
    app = App(agents=[Agent("test.agent", planner=planner, uses=[tools])])
    queue, port, stop = f"q-{uuid.uuid4().hex[:8]}", pick(0, 0), Stop()
    wire = Wire(temporal_address)
    await wire.open()
    await wire.cut()
    monkeypatch.setenv("TEMPORAL_ADDRESS", wire.address)
    serving = asyncio.create_task(serve_forever(app, task_queue=queue, health_port=str(port), stop=stop))

    async def is_up() -> bool:
        with suppress(httpx2.ConnectError):
            return (await read(port, "/live"))[0] == 200
        return False

    async def readiness(status: int) -> dict[str, Any] | None:
        answer = await read(port, "/ready")
        return answer[1] if answer[0] == status else None

    await until(is_up)
    assert await read(port, "/ready") == (503, {"state": "connecting"})
    wire.mend()
    assert await until(lambda: readiness(200)) == {"state": "polling"}
    await wire.cut()
    away = await until(lambda: readiness(503))
    assert away["state"] == "polling"
    assert away["reason"].startswith("the Temporal service does not answer")
    assert await read(port, "/live") == (200, {"state": "polling"})
    wire.mend()
    await until(lambda: readiness(200))
    run = await (await Client.connect(temporal_address, task_queue=queue)).start("test.agent", "go")
    await asyncio.wait_for(begun.wait(), 30)
    stop.asked.set()
    assert await until(lambda: readiness(503)) == {"state": "draining"}
    assert await read(port, "/live") == (200, {"state": "draining"})
    released.set()
    await asyncio.wait_for(serving, 30)
    with pytest.raises(httpx2.ConnectError):
        await read(port, "/live")
    await run.cancel()
    await wire.close()


async def say(port: int, request: bytes) -> bytes:
    """Send bytes, and return all that comes back: nothing, if the connection is closed before its request was read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_other_requests_are_refused_and_harm_nothing(monkeypatch) -> None:
    """Each gets its status and an end: another path or method, no HTTP, a long head, one that never ends, many at once."""
    monkeypatch.setattr(module, "_REQUEST", 0.2)
    monkeypatch.setattr(module, "_MAX_REQUESTS", 4)
    port = pick(0, 0)
    async with WorkerHealth().served(f"127.0.0.1:{port}"):
        assert (await say(port, b"GET /live?verbose HTTP/1.1\r\n\r\n")).endswith(b'{"state": "connecting"}')
        assert (await say(port, b"HEAD /live HTTP/1.0\r\n\r\n")).endswith(b"close\r\n\r\n")
        refused = {
            b"GET / HTTP/1.1\r\n\r\n": 404,
            b"POST /live HTTP/1.1\r\n\r\n": 405,
            b"hello\r\n\r\n": 400,
            b"GET /live HTTP/1.1\r\nCookie: " + b"x" * 10_000 + b"\r\n\r\n": 431,
        }
        for request, status in refused.items():
            assert (await say(port, request)).startswith(b"HTTP/1.1 %d " % status)
        slow = [asyncio.create_task(say(port, b"GET /live")) for _ in range(8)]
        assert await asyncio.gather(*slow) == [b""] * 8
        assert (await say(port, b"GET /live HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_a_port_that_another_worker_uses_is_served_once_it_is_free(monkeypatch, until) -> None:
    """A worker that replaces one that drains on the same machine starts at once, and answers once the old one has ended."""
    monkeypatch.setattr(module, "_PAUSE", 0.05)
    port = pick(0, 0)
    old, new = WorkerHealth(), WorkerHealth()
    new.state = "opening"
    async with old.served(f"127.0.0.1:{port}"):
        begun = new.served(f"127.0.0.1:{port}")
        await begun.__aenter__()
        assert await read(port, "/live") == (200, {"state": "connecting"})

    async def has_taken_over() -> bool:
        with suppress(httpx2.TransportError):
            return (await read(port, "/live"))[1] == {"state": "opening"}
        return False

    await until(has_taken_over)
    await begun.__aexit__(None, None, None)
    with pytest.raises(httpx2.ConnectError):
        await read(port, "/live")


async def test_an_address_of_another_machine_is_refused() -> None:
    """The error names the setting, so that the worker ends before it serves runs that nobody supervises."""
    with pytest.raises(DefinitionError, match=r"192\.0\.2\.1:8461.*SOJOURN_HEALTH_PORT"):
        async with WorkerHealth().served("192.0.2.1:8461"):
            pass


@pytest.mark.parametrize("address", [settings.health_address, settings.metrics_address])
def test_ports_are_of_this_machine_unless_an_address_is_named(address, subtests: pytest.Subtests) -> None:
    """Both ports are off without a setting, on loopback without an address, and refused with an example if wrong."""
    assert address("") is None
    assert address("9464") == "127.0.0.1:9464"
    assert address(" 0.0.0.0:9464") == "0.0.0.0:9464"
    assert address("[::]:9464") == "[::]:9464"
    for wrong in ["x", "0", "65536", "-1", "localhost:", "1.2.3.4:http", "9" * 5_000, "٣"]:
        with subtests.test(wrong=wrong[:20]), pytest.raises(DefinitionError, match=r"such as \d{4}, nor"):
            address(wrong)
