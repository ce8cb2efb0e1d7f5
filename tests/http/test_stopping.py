"""SIGTERM of `sojourn serve`: whatever waits is answered at once, in its protocol's shape, with what is known or what to do next."""

import asyncio
import contextlib
import html
import json
import os
import re
import signal
import uuid
from pathlib import Path
from urllib.parse import urlencode

import pytest

from sojourn import Client, Worker
from sojourn.asgi import create_app
from sojourn.http.security.keys import create_key, revoke_key
from tests import programs
from tests.http.conftest import SHOP, listening
from tests.http.requests_that_wait import WAITING, connected, request_of, requests

pytestmark = pytest.mark.usefixtures("processes")


@contextlib.asynccontextmanager
async def serving(address: str, queue: str, *options: str):
    """`sojourn serve` of the shop's app, as a process, with its address."""
    env = {**os.environ, "TEMPORAL_ADDRESS": address, "SOJOURN_TASK_QUEUE": queue}
    command = ("-m", "sojourn", "serve", "shop_app:app", "--port", "0", "--json", *options)
    with Path(os.devnull).open() as nothing:
        started = await programs.Command.start(*command, stdin=nothing.fileno(), cwd=SHOP.parent, env=env)
    try:
        yield started, json.loads(await started.stdout.readline())["address"]
    finally:
        if started.returncode is None:
            started.kill()
            await started.communicate()


@pytest.fixture
async def process(served, temporal_address):
    """The service of runs that a worker of this process carries out."""
    async with serving(temporal_address, served.client.task_queue) as found:
        yield found


@pytest.fixture
async def answers(served, process, until):
    """The answer to each kind of request that waited when the process was asked to stop, by its kind."""
    command, address = process
    run_id = await served.start("sleep")
    sessions = {kind: uuid.uuid4().hex for kind in WAITING}
    async with contextlib.AsyncExitStack() as stack:
        open_ = {
            kind: await stack.enter_async_context(
                connected(address, *request_of(kind, "sleep", run_id=run_id, session_id=sessions[kind]))
            )
            for kind in WAITING
        }

        async def waiting() -> bool:
            metrics = (await served.http.get(f"{address}/metrics")).text
            return f"sojourn_http_waiting_requests {len(WAITING)}\n" in metrics

        await until(waiting)
        command.send_signal(signal.SIGTERM)
        found = dict(
            zip(open_, await asyncio.gather(*(each.answer() for each in open_.values())), strict=True)
        )
    _, err = await asyncio.wait_for(command.communicate(), 60)
    assert (command.returncode, b"Traceback" in err, b'"error"' in err) == (0, False, False), err
    return run_id, sessions, found


async def test_who_waits_when_the_process_stops_is_answered_at_once(served, answers):
    """What has a form for what is not over is answered with what is known; OpenAI's chat and responses with its error, 503. The runs go on."""
    run_id, sessions, found = answers
    output = found["output"]
    assert (output.status_code, output.json()["status"], output.json()["output"]) == (202, "running", None)
    message = found["message"]
    assert (message.status_code, message.json()["status"], message.json()["error"]) == (201, "running", None)
    for kind in ("chat", "response"):
        answer = found[kind]
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        error = answer.json()["error"]
        assert (error["type"], error["code"]) == ("server_error", "service_stops")
        assert sessions[kind] in error["message"]
    assert "x-should-retry" not in found["chat"].headers  # its messages are delivered once
    assert found["response"].headers["x-should-retry"] == "false"  # they would be delivered again
    task = found["a2a"].json()["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_WORKING"
    for kind in ("mcp", "mcp of 2026"):
        text = found[kind].text
        assert "the agent goes on" in text
        assert "call the tool `answer` without an answer" in text
        assert '"isError":true' not in text
    for session_id in sessions.values():
        run = served.client.session("shop.clerk", session_id).run
        assert not await run.exists() or (await run.status()).status == "running"
    assert (await served.client.get_run(run_id).status()).status == "running"


async def test_a_request_that_is_being_carried_out_is_answered_in_the_end(
    shop, temporal_address, status_when, until
):
    """What no worker takes has the time that the server leaves to requests, and then a problem; a page's form can be sent again as it is."""
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex}")
    async with Worker(shop.app, client):
        run = await client.start("shop.clerk", "ask")
        (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
    body = {"await_id": wait.id, "answer": "this"}
    fields = {
        "agent": "shop.clerk",
        "made": "made-1",
        "message_id": "m-1",
        "text": 'weigh "a" <b>',
        "session": "",
    }
    async with contextlib.AsyncExitStack() as stack:
        async with listening(create_app(shop.app, client=client)) as url:
            asked = ("POST", f"/v1/runs/{run.id}/answers", {}, body)
            said = ("POST", "/talk/new", {"Origin": url}, urlencode(fields))
            sending = [await stack.enter_async_context(connected(url, *each)) for each in (asked, said)]
            await until(lambda: requests() == 2)
        answer, page = await asyncio.wait_for(asyncio.gather(*(each.answer() for each in sending)), 60)
    assert (answer.status_code, answer.json()["code"]) == (503, "service_stops")
    assert answer.headers["retry-after"] == "1"
    assert "Send the same request again" in answer.json()["then"]
    assert page.status_code == 503
    form = page.text.partition("<form")[2].partition("</form>")[0]
    hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)
    (text,) = re.findall(r"<textarea [^>]*>\n(.*)</textarea>", form)
    assert {**dict(hidden), "text": html.unescape(text)} == fields
    await run.cancel()


async def test_a_stream_that_is_cut_is_no_error_in_the_log(served, temporal_address, tmp_path, until):
    """Where a key is revoked, its streams are cut without their end, and the process logs no error of the application for them."""
    file = tmp_path / "keys.json"
    _, key = create_key(file, "ana", roles=["user"])
    async with serving(temporal_address, served.client.task_queue, "--keys", str(file)) as (command, address):
        headers = {"Authorization": f"Bearer {key}"}
        body = {"agent_id": "shop.clerk", "input": "sleep"}
        run_id = (await served.http.post(f"{address}/v1/runs", json=body, headers=headers)).json()["run_id"]
        asked = request_of("events", "", run_id=run_id)
        async with connected(address, *asked, key=key) as connection:
            await connection.reader.readuntil(b"run_started")
            revoke_key(file, "ana")
            rest = await asyncio.wait_for(connection.reader.read(), 60)
        assert not rest.endswith(b"0\r\n\r\n")  # the last chunk: the stream has no end
        command.send_signal(signal.SIGTERM)
        _, err = await asyncio.wait_for(command.communicate(), 60)
    assert (b"without completing" in err, b"Traceback" in err) == (False, False), err
    await served.client.get_run(run_id).cancel()
