"""docs/network.md: its module works as written, and its tables agree with the code."""

import asyncio
import json
import re
import socket
import ssl
from pathlib import Path

import httpx2
import pytest

from sojourn import Agent, App, PlanResult
from sojourn.network import RETRIED_STATUSES, format_network_error
from sojourn.network.client import PROVIDER_TIMEOUTS, Timeouts
from sojourn.testing import ScriptedPlanner

PAGE = (Path(__file__).parents[2] / "docs" / "network.md").read_text()

ANSWERS = {"/tomorrow?city=Rome": {"sky": "clear"}, "/cities": ["Rome"]}


@pytest.fixture
async def service(monkeypatch):
    """The service of the page, which answers the first request with 503; yields the requested targets."""
    targets: list[str] = []

    async def answer(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        targets.append(head.split()[1].decode())
        status = "503 Away" if len(targets) == 1 else "200 OK"
        body = json.dumps(ANSWERS[targets[-1]]).encode()
        response = (
            f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nRetry-After: 0\r\nConnection: close\r\n\r\n"
        )
        writer.write(response.encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("FORECASTS_URL", f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        yield targets


async def test_the_tool_of_the_page_outlives_a_failure(serve, service, module_of):
    """The tool's first request fails with 503, and the second is answered."""
    forecasts = module_of("network.md", "forecasts")
    planner = ScriptedPlanner(
        [PlanResult.calls(forecasts.tomorrow.call(city="Rome")), PlanResult.final("done")]
    )
    client = await serve(App(agents=[Agent("home.test", planner=planner, uses=[forecasts.forecasts])]))
    await client.execute("home.test", "go")
    assert planner.turns[1].tool_results[0].result == "clear"
    assert service == ["/tomorrow?city=Rome"] * 2


async def test_the_script_of_the_page_outlives_a_failure(service, module_of):
    """The script repeats a failed request without Temporal."""
    assert await module_of("network.md", "forecasts").cities() == ["Rome"]
    assert service == ["/cities"] * 2


def answered(status: int) -> httpx2.HTTPStatusError:
    """The exception that `raise_for_status` raises."""
    request = httpx2.Request("GET", "https://api.example")
    return httpx2.HTTPStatusError("", request=request, response=httpx2.Response(status, request=request))


def test_the_sentences_of_the_page_are_those_of_the_code():
    """The messages of the table are those of `format_network_error`, and its repeated statuses are `RETRIED_STATUSES`."""
    table = PAGE.split("| what went wrong |")[1].split("\n\n")[0]
    shown = re.findall(r"\| (?:yes|no) \| (.*) \|$", table, re.MULTILINE)
    errors = [
        httpx2.ReadTimeout(""),
        ConnectionRefusedError(),
        ConnectionResetError(),
        ssl.SSLError(1, ""),
        answered(429),
        answered(503),
        answered(404),
        json.JSONDecodeError("Expecting value", "", 0),
    ]
    assert shown == [format_network_error(error, "Claude") for error in errors]
    assert format_network_error(socket.gaierror()).startswith("Unable to connect to API")
    repeated = re.findall(r"HTTP ([\d, ]+) \| yes", table)
    assert {int(status) for row in repeated for status in row.split(", ")} == RETRIED_STATUSES


def test_the_time_outs_of_the_page_are_those_of_the_code():
    """Each row of the table equals the time-outs of its provider."""
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert {name: Timeouts(*map(int, seconds)) for name, *seconds in rows} == PROVIDER_TIMEOUTS
