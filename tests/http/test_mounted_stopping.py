"""A server that stops, with the service mounted in an application of its own: whoever waits is answered as by `sojourn serve`."""

import asyncio
import contextlib
import json
import os
import signal
import uuid
from pathlib import Path

import httpx2
import openai
import pytest
from fastapi import FastAPI

from sojourn.asgi import create_app
from sojourn.network import http_client
from tests import programs
from tests.http.conftest import SHOP, listening
from tests.http.requests_that_wait import WAITING, connected, request_of, requests

SITE = """
from fastapi import FastAPI
from shop_app import app
from sojourn.asgi import create_app

api = create_app(app)
web = FastAPI(lifespan=api.router.lifespan_context)
web.mount("/agents", api)
"""


@pytest.fixture
async def site(served, temporal_address, tmp_path, unused_tcp_port, until):
    """A site as docs/http.md has it, by uvicorn: its process, and its address."""
    (tmp_path / "own_site.py").write_text(SITE)
    port = unused_tcp_port
    env = {
        **os.environ,
        "TEMPORAL_ADDRESS": temporal_address,
        "SOJOURN_TASK_QUEUE": served.client.task_queue,
        "PYTHONPATH": str(SHOP.parent),
    }
    words = ("-m", "uvicorn", "own_site:web", "--port", str(port), "--timeout-graceful-shutdown", "30")
    with Path(os.devnull).open() as nothing:
        process = await programs.Command.start(*words, stdin=nothing.fileno(), cwd=tmp_path, env=env)
    address = f"http://127.0.0.1:{port}"

    async def is_up() -> bool:
        with contextlib.suppress(httpx2.TransportError):
            return (await served.http.get(f"{address}/agents/health")).status_code == 200
        return False

    try:
        await until(is_up)
        yield process, f"{address}/agents"
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def waiting(served, url: str, count: int) -> bool:
    """Whether so many requests wait at the service."""
    return f"sojourn_http_waiting_requests {count}\n" in (await served.http.get(f"{url}/metrics")).text


@pytest.mark.usefixtures("processes")
async def test_a_mounted_service_answers_who_waits_as_soon_as_uvicorn_is_asked_to_stop(served, site, until):
    """Each request that waits gets what is known or what to do next, and a stream its last event, with no error in the log of the server."""
    process, url = site
    run_id = await served.start("sleep")
    asked = {kind: request_of(kind, "sleep", run_id=run_id) for kind in WAITING}
    asked["events"] = request_of("events", "", run_id=run_id)
    async with contextlib.AsyncExitStack() as stack:
        open_ = {}
        for kind, (method, path, headers, body) in asked.items():
            sent = connected(url, method, f"/agents{path}", headers, body)
            open_[kind] = await stack.enter_async_context(sent)
        await until(lambda: waiting(served, url, len(WAITING)))
        process.send_signal(signal.SIGTERM)
        found = dict(
            zip(open_, await asyncio.gather(*(each.answer() for each in open_.values())), strict=True)
        )
    _, err = await asyncio.wait_for(process.communicate(), 60)
    told = err.replace(
        b"ERROR:    ASGI callable returned without completing response.", b""
    )  # uvicorn's of a cut stream
    assert (b"Traceback" in told, b"ERROR" in told) == (False, False), err.decode()
    assert (found["output"].status_code, found["output"].json()["status"]) == (202, "running")
    assert (found["message"].status_code, found["message"].json()["status"]) == (201, "running")
    for kind in ("chat", "response"):
        assert (found[kind].status_code, found[kind].json()["error"]["code"]) == (503, "service_stops")
    assert found["response"].headers["x-should-retry"] == "false"
    assert found["a2a"].json()["result"]["task"]["status"]["state"] == "TASK_STATE_WORKING"
    assert "the agent goes on" in found["mcp"].text
    assert "service_stops" in found["events"].text


@pytest.mark.usefixtures("processes")
async def test_openais_client_sends_nothing_again_where_the_mounted_service_stops(served, site, until):
    """A chat without a name is one run, since the answer tells the client not to send it again."""
    process, url = site
    base_url = f"{url}/openai/v1"
    async with openai.AsyncOpenAI(base_url=base_url, api_key="k", max_retries=2) as client:
        text = f"sleep {uuid.uuid4().hex}"
        messages = [{"role": "user", "content": text}]
        asking = asyncio.ensure_future(client.chat.completions.create(model="shop.clerk", messages=messages))
        await until(lambda: waiting(served, url, 1))
        process.send_signal(signal.SIGTERM)
        with pytest.raises(openai.InternalServerError) as refused:
            await asking
    assert refused.value.code == "service_stops"
    assert refused.value.response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("kind", ["chat", "response", "output"])
async def test_a_request_that_the_server_cancels_is_answered_as_its_protocol_has_it(
    served, shop, until, kind
):
    """Where nobody tells the service that the server stops, OpenAI's clients get OpenAI's error, and are told when not to send it again."""
    api, web = create_app(shop.app, client=served.client), FastAPI()
    await api.state.service.open()  # before the server takes any signals
    web.mount("/agents", api)
    run_id = await served.start("sleep")
    method, path, headers, body = request_of(kind, "sleep", run_id=run_id)
    if kind == "chat":
        del body["metadata"]
    async with contextlib.AsyncExitStack() as stack:
        async with listening(web) as url:
            before = requests()
            sent = connected(url, method, f"/agents{path}", headers, body)
            connection = await stack.enter_async_context(sent)
            await until(lambda: requests() == before + 1)
            await until(lambda: api.state.service.metrics.waiting == 1)
        answer = await asyncio.wait_for(connection.answer(), 60)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    told = json.loads(answer.text)
    if kind == "output":
        assert told["code"] == "service_stops"
        return
    assert (told["error"]["type"], told["error"]["code"]) == ("server_error", "service_stops")
    assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("prefix", ["", "/agents"])
async def test_openais_clients_read_what_is_wrong_with_a_path_or_a_key(served, shop, prefix):
    """A path that there is not, and a key that opens nothing, are told in OpenAI's shape, of which its clients make their message."""

    async def nobody(_request: object) -> None:
        return None

    for auth, status, message in ((None, 404, "models, chat/completions"), (nobody, 401, "credentials")):
        web = create_app(shop.app, client=served.client, auth=auth, prefix=prefix)
        async with listening(web) as url, http_client(base_url=url) as http:
            answer = await http.get(f"{prefix}/openai/v1/files")
        assert answer.status_code == status
        assert message in answer.json()["error"]["message"]
