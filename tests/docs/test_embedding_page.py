"""The recipes of embedding.md: services as processes behind a real HTTP server whose client reconnects, and a notebook."""

import contextlib
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import nbformat
import pytest
from nbclient import NotebookClient

from sojourn.server.ports import pick
from tests.programs import Program

PAGE = (Path(__file__).parents[2] / "docs" / "embedding.md").read_text()


def block(name: str) -> str:
    """The block of the page with this name."""
    (found,) = re.findall(rf"^```python {name}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return found


@pytest.fixture
async def shop(serve, shop_of, temporal_address, monkeypatch):
    """A client of the shop's app, whose settings the page's programs find in the environment."""
    client = await serve(shop_of("desk").app)
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_address)
    monkeypatch.setenv("SOJOURN_TASK_QUEUE", client.task_queue)
    return client


@pytest.fixture(params=["service.py", "desk_site.py"])
async def http(processes, request, shop, tmp_path, until) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client of a service of the page, which is a process of its own."""
    (tmp_path / request.param).write_text(block(request.param))
    port, log = pick(0, 0), tmp_path / "log"
    target = f"{Path(request.param).stem}:web"
    words = ("-m", "uvicorn", target, "--port", str(port))
    program = Program(*words, cwd=tmp_path, env=os.environ, out=log, err=log)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:

        async def answers() -> bool:
            assert program.poll() is None, log.read_text()
            with contextlib.suppress(httpx.TransportError):
                return (await client.get("/runs/nowhere/events")).status_code == 404
            return False

        await until(answers)
        yield client
    program.kill()


async def read(http: httpx.AsyncClient, run_id: str, after: str, most: int) -> list[tuple[str, dict]]:
    """Connect as a browser does and read events, each with its id; leave after `most`."""
    found = list[tuple[str, dict]]()
    headers = {"Last-Event-ID": after} if after else {}
    async with http.stream("GET", f"/runs/{run_id}/events", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
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
    assert started.status_code == 201
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
    assert "event_id" in refused.json()["detail"]


@pytest.mark.parametrize("http", ["service.py"], indirect=True)
async def test_a_page_answers_once(http, shop):
    """An answer reaches the run; a second one, one to no run and one that is none are told by the status."""
    run = await shop.start("shop.desk", "A-1")
    (wait,) = await run.until_waiting()
    said = {"await_id": wait.id, "answer": "yes"}
    assert (await http.post("/runs/nowhere/reply", json=said)).status_code == 404
    assert (await http.post(f"/runs/{run.id}/reply", json=said)).status_code == 204
    assert (await run.result()).text == "Refunded 30: receipt-A-1."
    late = await http.post(f"/runs/{run.id}/reply", json={**said, "answer": "no"})
    assert (late.status_code, "was already answered" in late.json()["detail"]) == (409, True)


@pytest.mark.usefixtures("processes")
async def test_the_cell_of_a_notebook(shop, tmp_path):
    """The cell runs in a Jupyter kernel with top-level await, and its value is the answer."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(block("notebook"))])
    await NotebookClient(
        notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}
    ).async_execute()
    *printed, value = notebook.cells[0].outputs  # a busy machine prints in several pieces
    assert "".join(each["text"] for each in printed).splitlines()[-1] == "run_stream_end"
    assert value["data"]["text/plain"] == "'Together 60.'"
