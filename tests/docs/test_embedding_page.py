"""The recipes of embedding.md: a service behind a real HTTP server whose client reconnects, and a notebook's cell."""

import ast
import asyncio
import contextlib
import inspect
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from sojourn.server.ports import pick


@pytest.fixture
async def shop(serve, module_of, temporal_address, monkeypatch):
    """A client of the app of flows.md, whose settings the page's programs find in the environment."""
    client = await serve(module_of("flows.md", "desk").app)
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_address)
    monkeypatch.setenv("SOJOURN_TASK_QUEUE", client.task_queue)
    return client


@pytest.fixture
async def http(shop, module_of) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client of the page's service."""
    port = pick(0, 0)
    module = module_of("embedding.md", "service")
    server = uvicorn.Server(uvicorn.Config(module.web, host="127.0.0.1", port=port, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        assert not serving.done()
        await asyncio.sleep(0.01)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        yield client
    server.should_exit = True
    await serving


async def read(http: httpx.AsyncClient, run_id: str, after: str, most: int) -> list[tuple[str, dict]]:
    """Connect as a browser does and read events, each with its id; leave after `most`."""
    found = list[tuple[str, dict]]()
    headers = {"Last-Event-ID": after} if after else {}
    async with http.stream("GET", f"/runs/{run_id}/events", headers=headers) as answer:
        assert answer.status_code == 200
        async with contextlib.aclosing(answer.aiter_lines()) as lines:
            last = ""
            async for line in lines:
                if line.startswith("id: "):
                    last = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    found.append((last, json.loads(line.removeprefix("data: "))))
                    if len(found) == most or found[-1][1]["type"] == "run_stream_end":
                        break
    return found


async def test_a_browser_that_reconnects_misses_nothing(http):
    """Read three events at a time, each connection from the last id: together they are what one connection reads."""
    started = await http.post("/runs", json={"message": "A-1 A-2"})
    run_id = started.json()["run_id"]
    whole = await read(http, run_id, "", 1_000)
    parts = list[tuple[str, dict]]()
    while not parts or parts[-1][1]["type"] != "run_stream_end":
        parts += await read(http, run_id, parts[-1][0] if parts else "", 3)
    assert parts == whole
    (answer,) = [event["output"]["text"] for _, event in parts if event["type"] == "run_completed"]
    assert answer == "Together 60."


async def test_an_unknown_run_is_told_by_the_status(http):
    """An unknown run is 404 and a damaged Last-Event-ID 400, before any event."""
    assert (await http.get("/runs/nowhere/events")).status_code == 404
    run_id = (await http.post("/runs", json={"message": "A-1"})).json()["run_id"]
    refused = await http.get(f"/runs/{run_id}/events", headers={"Last-Event-ID": "x"})
    assert refused.status_code == 400
    assert "event_id" in refused.json()["error"]


async def test_the_cell_of_a_notebook(shop, capsys):
    """The cell runs with top-level await, and its last value is the answer."""
    page = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text()
    (cell,) = re.findall(r"^```python notebook\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    scope: dict = {}
    running = eval(compile(cell, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), scope)
    assert inspect.iscoroutine(running)
    await running
    assert scope["output"].text == "Together 60."
    assert capsys.readouterr().out.splitlines()[-1] == "run_stream_end"
