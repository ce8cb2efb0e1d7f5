"""docs/http.md: its requests get the answers that it shows, its tables are those of the code, and its sites serve."""

import asyncio
import contextlib
import json
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sojourn.asgi import create_app
from sojourn.error_kinds import _KINDS
from sojourn.http.problems import _BY_STATUS
from sojourn.network import http_client
from sojourn.reader import FeedStopped, SlowSubscriber
from sojourn.server.ports import pick
from tests.http.conftest import listening
from tests.programs import Program

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "http.md").read_text()


@pytest.fixture
async def shop(serve, shop_of):
    """The module of the page's agents, and a client of its worker."""
    module = shop_of("shop")
    return module, await serve(module.app)


def blocks(section: str, language: str) -> list[str]:
    """The blocks of a section of the page in one language."""
    part = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", part, re.DOTALL | re.MULTILINE)


def holds(shown: Any, answer: Any) -> bool:
    """Whether an answer has all that the page shows of it."""
    if isinstance(shown, dict):
        return isinstance(answer, dict) and all(
            name in answer and holds(value, answer[name]) for name, value in shown.items()
        )
    if isinstance(shown, list):
        return len(shown) <= len(answer) and all(map(holds, shown, answer))
    return shown == answer


@pytest.mark.essential
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.usefixtures("processes")
async def test_the_requests_get_the_answers_that_are_shown(shop):
    """Curl's lines, one after the other, start, await, answer and follow a run, and talk."""
    module, client = shop
    async with listening(create_app(module.app, client=client)) as url:
        tag, wait = os.urandom(4).hex(), ""

        async def answer_of(line: str) -> str:
            nonlocal wait
            line = line.replace("refund-17", f"refund-{tag}").replace("AWAIT", wait)
            line = line.replace("counter-3", f"counter-{tag}")
            done = await asyncio.create_subprocess_exec(
                "bash",
                "-c",
                line,
                env={**os.environ, "HTTP": url, "no_proxy": "127.0.0.1"},
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await done.communicate()
            asked = re.search(r'"awaits":\[\{"run_id":"[^"]+","await_id":"([^"]+)"', out.decode())
            wait = asked[1] if asked else wait
            return (
                out.decode()
                .replace(tag, "17" if "counter" not in line else "3")
                .replace(f'"await_id":"{wait}"', '"await_id":"AWAIT"')
            )

        for section in ("Start a run, and wait for its answer", "Talk"):
            for line, shown in zip(blocks(section, "sh"), blocks(section, "json"), strict=True):
                assert holds(json.loads(shown), json.loads(await answer_of(line))), line
        (listing, answering), (shown,) = blocks("Answer", "sh"), blocks("Answer", "json")
        wait = ""
        waits = json.loads(await answer_of(listing))["waits"]
        while not (wait := next((w["await_id"] for w in waits if w["run_id"] == "refund-17"), "")):
            waits = json.loads(await answer_of(listing))["waits"]
        assert holds(json.loads(shown), json.loads(await answer_of(answering)))
        await client.get_run(f"refund-{tag}").result()
        array, stream = await asyncio.gather(*map(answer_of, blocks("Follow", "sh")))
        assert json.loads(array)[-1]["type"] == "run_stream_end"
        (frame,) = blocks("Follow", "text")
        shown = [line.removesuffix("...\n").rstrip("\n") for line in frame.splitlines(keepends=True)]
        assert all(line in stream for line in shown), stream[:300]


def test_the_table_of_errors_is_that_of_the_code():
    """The table has every code that the service answers with, at its status."""
    table = PAGE.split("\n## Errors\n")[1].split("\n## ")[0]
    listed = {
        (int(status), code)
        for statuses, codes in re.findall(r"^\| ([\d, ]+) \| (.*) \|$", table, re.MULTILINE)
        for status in statuses.split(", ")
        for code in re.findall(r"`([a-z_]+)`", codes)
    }
    kinds = [*_KINDS.values(), FeedStopped.error_kind, SlowSubscriber.error_kind]
    known = {(kind.status, kind.code) for kind in kinds} - {(409, "run_failed")}
    known |= {(status, code) for status, (code, _) in _BY_STATUS.items() if status != 413}
    assert known <= listed
    source = "".join(path.read_text() for path in (ROOT / "sojourn" / "http").rglob("*.py"))
    raised = set(re.findall(r'Problem\(\s*(\d{3}),\s*"(\w+)"', source))
    assert raised
    assert {(int(status), code) for status, code in raised} <= listed


def site(name: str) -> str:
    """The block of the page with this name."""
    (found,) = re.findall(rf"^```python {name}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return found


@pytest.fixture(params=["fastapi_site", "starlette_site", "django_site"])
async def mounted(
    processes, request, shop, tmp_path, temporal_address, until
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a site of the page, which is a process of its own."""
    _, client = shop
    (tmp_path / f"{request.param}.py").write_text(site(f"{request.param}.py"))
    port, log = pick(0, 0), tmp_path / "log"
    words = ("-m", "uvicorn", f"{request.param}:web", "--port", str(port), "--timeout-graceful-shutdown", "5")
    env = {**os.environ, "TEMPORAL_ADDRESS": temporal_address, "SOJOURN_TASK_QUEUE": client.task_queue}
    program = Program(*words, cwd=tmp_path, env=env, out=log, err=log)
    async with http_client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:

        async def answers() -> bool:
            assert program.poll() is None, log.read_text()
            with contextlib.suppress(httpx2.TransportError):
                return (await http.get("/agents/health")).status_code == 200
            return False

        await until(answers)
        yield http
    program.terminate()
    assert program.wait() is not None
    assert "Traceback" not in log.read_text()


async def test_a_site_serves_the_agents(mounted):
    """Mounted in another application, the service starts a run, streams its events to the end, and knows its own paths."""
    started = await mounted.post("/agents/v1/runs", json={"agent_id": "shop.compare", "input": "A-1 A-2"})
    assert started.status_code == 201, started.text
    path = f"/agents/v1/runs/{started.json()['run_id']}"
    types = []
    async with mounted.stream("GET", f"{path}/events", headers={"Accept": "text/event-stream"}) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                types.append(json.loads(line.removeprefix("data: "))["type"])
    assert types[-1] == "run_stream_end"
    array = await mounted.get(f"{path}/events", params={"limit": 2})
    following = await mounted.get(array.headers["link"].partition(">")[0].lstrip("<"))
    assert [event["type"] for event in [*array.json(), *following.json()]] == types[:4]
    assert (await mounted.get("/agents/v1/nothing")).json()["code"] == "not_found"
    document = (await mounted.get("/agents/openapi.json")).json()
    base = document.get("servers", [{"url": ""}])[0]["url"]
    assert "/agents/v1/runs" in {f"{base}{path}" for path in document["paths"]}
