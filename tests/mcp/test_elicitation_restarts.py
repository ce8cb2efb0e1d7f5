"""Elicitation across restarts: an answer reaches the server, whichever process ends before it is given."""

import json
import sys
import uuid
from pathlib import Path

import pytest

from sojourn import App, Client, Retry, RunPolicy, Worker, mcp

ASKS = RunPolicy(interrupts_allowed=True)
BOOKING = str(Path(__file__).with_name("booking_server.py"))
FORM = {"type": "object", "properties": {"row": {"type": "integer"}}, "required": ["row"]}
ASKED = json.dumps({"rounds": [{"seat": {"form": FORM, "message": "Which row?"}}], "state": "s"})
GIVEN = {"seat": {"action": "accept", "content": {"row": 3}}}
FLIGHT = json.dumps({"flight": "LH1"})
SEATED = {"row": 3, "place": "window"}


@pytest.fixture
def asking_app(calling):
    """Make an app whose agent makes one call to the asking server."""

    def make(transport: mcp.Transport) -> App:
        toolset = mcp.McpToolset("ops.asking", transport=transport, retry=Retry(max_attempts=10))
        return App(agents=[calling(toolset, "ask", policy=ASKS)])

    return make


@pytest.fixture
def booking_app(calling):
    """Make an app whose agent makes one call to a server that accepts only the state of its own process, like the SDK's."""

    def make() -> App:
        toolset = mcp.McpToolset("ops.booking", transport=mcp.Stdio(sys.executable, BOOKING))
        return App(agents=[calling(toolset, "book", policy=ASKS)])

    return make


@pytest.fixture
async def client(temporal_address):
    """A client on a queue of its own."""
    return await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_another_worker_and_another_server_continue(kind, client, asking, asking_app, asked, serving):
    """A new worker with a new server process continues the call, with the answer and the unchanged state."""
    served = serving("http")

    def transport() -> mcp.Transport:
        return asking.http(served) if kind == "http" else asking.stdio()

    async with Worker(asking_app(transport()), client):
        run = await client.start("test.agent", ASKED)
        wait = await asked(run)
    served.kill()
    assert [each.id for each in (await run.status()).awaits] == [wait.id]
    async with Worker(asking_app(transport()), client):
        await run.answer(wait.id, {"row": 3})
        assert json.loads((await run.result()).text)["given"] == GIVEN
    first, second = asking.calls()
    assert first["pid"] != second["pid"]
    assert second["state"] == "0 s"


async def test_a_server_that_is_down_when_the_answer_comes(client, asking, asking_app, asked, serving):
    """The run accepts the answer, and the server gets it when it is up again."""
    served = serving("http")
    async with Worker(asking_app(asking.http(served)), client):
        run = await client.start("test.agent", ASKED)
        wait = await asked(run)
        served.kill()
        await run.answer(wait.id, {"row": 3})
        asking.http(served)
        assert json.loads((await run.result()).text)["given"] == GIVEN


async def test_a_stand_in_continues_a_call(asking, run, answered):
    """A stand-in for a tool passes the answer on once the server has been reached."""
    toolset = mcp.McpToolset("ops.asking", transport=asking.stdio())
    early = toolset["ask"]
    call = toolset.call("ask", **json.loads(ASKED))
    try:
        first = await run(toolset, "ask", **json.loads(ASKED))
        meta = answered(first, action="accept", content={"row": 3})
        second = await early.prepare({}, call, meta)()
    finally:
        await toolset.close()
    assert second.result["given"] == GIVEN


async def test_resolvers_of_the_sdk_are_answered(client, booking_app, asked):
    """A resolver of the SDK elicits the fields of a model, and its tool is called with the model."""
    async with Worker(booking_app(), client):
        run = await client.start("test.agent", FLIGHT)
        wait = await asked(run)
        assert wait.question == "Where will you sit on LH1?"
        assert wait.form["properties"]["meals"]["items"] == {"type": "string", "enum": ["fish", "pasta"]}
        await run.answer(wait.id, {**SEATED, "meals": ["fish"]})
        assert json.loads((await run.result()).text) == {"result": "LH1: row 3, window, ['fish'], None"}


async def test_a_state_that_died_with_its_process_costs_no_second_answer(client, booking_app, asked):
    """A new server process refuses the old state, is called from the start, asks the same, and gets the existing answer."""
    async with Worker(booking_app(), client):
        run = await client.start("test.agent", FLIGHT)
        wait = await asked(run)
    async with Worker(booking_app(), client):
        await run.answer(wait.id, SEATED)
        assert json.loads((await run.result()).text) == {"result": "LH1: row 3, window, [], None"}
    assert len([event async for event in run.events() if event.type == "await_clarification"]) == 1


async def test_an_answer_is_given_to_its_own_question_only(asking, opened, run, answered):
    """If a server has lost its state and then asks another question, the person is asked again."""
    toolset = await opened(asking.stdio())

    def arguments(message: str) -> dict:
        asked = {"seat": {"form": FORM, "message": message}}
        refused = {"error": "unknown state", "error_kind": "protocol", "error_code": -32602}
        return {"rounds": [asked], "state": "s", **refused}

    first = await run(toolset, "ask", **arguments("Delete 3 files?"))
    meta = answered(first, action="accept", content={"row": 3})
    again = await run(toolset, "ask", meta=meta, **arguments("Delete 300 files?"))
    assert [form.message for form in again.input_required.forms] == ["Delete 300 files?"]
    assert [call["given"] for call in asking.calls()] == [{}, GIVEN, {}]
    # The same question, and its state is refused twice: a call is restarted only once.
    refused = await run(toolset, "ask", meta=meta, **arguments("Delete 3 files?"))
    assert refused.error.code == "mcp_-32602"
    assert [call["given"] for call in asking.calls()][3:] == [GIVEN, {}, GIVEN]
