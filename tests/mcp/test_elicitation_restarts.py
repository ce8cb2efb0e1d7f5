"""Input over restarts: whatever goes between question and answer, the answer reaches a server once it is given."""

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
    """An app of one call to the asking server."""

    def make(transport: mcp.Transport) -> App:
        toolset = mcp.McpToolset("ops.asking", transport=transport, retry=Retry(max_attempts=10))
        return App(agents=[calling(toolset, "ask", policy=ASKS)])

    return make


@pytest.fixture
def booking_app(calling):
    """An app of one call to a server whose state dies with its process, as the SDK's own do."""

    def make() -> App:
        toolset = mcp.McpToolset("ops.booking", transport=mcp.Stdio(sys.executable, BOOKING))
        return App(agents=[calling(toolset, "book", policy=ASKS)])

    return make


@pytest.fixture
async def client(temporal_address):
    """A client on a queue of its own."""
    return await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_another_worker_and_another_server_go_on(kind, client, asking, asking_app, asked, serving):
    """The worker that asked is gone and its server with it; others take the answer, with the state as it was."""
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
    """The answer is taken, and reaches the server as soon as it is there again."""
    served = serving("http")
    async with Worker(asking_app(asking.http(served)), client):
        run = await client.start("test.agent", ASKED)
        wait = await asked(run)
        served.kill()
        await run.answer(wait.id, {"row": 3})
        asking.http(served)
        assert json.loads((await run.result()).text)["given"] == GIVEN


async def test_a_tool_that_is_not_known_yet_goes_on(asking, run, answered):
    """What stands in for a tool hands the answer on, once the server is reached."""
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
    """A tool as the SDK's guide has it asks by the fields of a model, and is called with the model."""
    async with Worker(booking_app(), client):
        run = await client.start("test.agent", FLIGHT)
        wait = await asked(run)
        assert wait.question == "Where will you sit on LH1?"
        assert wait.form["properties"]["meals"]["items"] == {"type": "string", "enum": ["fish", "pasta"]}
        await run.answer(wait.id, {**SEATED, "meals": ["fish"]})
        assert json.loads((await run.result()).text) == {"result": "LH1: row 3, window, ['fish'], None"}


async def test_a_state_that_died_with_its_process_costs_no_second_answer(client, booking_app, asked):
    """The new server refuses the old state, is called from the start, asks the same and is told at once."""
    async with Worker(booking_app(), client):
        run = await client.start("test.agent", FLIGHT)
        wait = await asked(run)
    async with Worker(booking_app(), client):
        await run.answer(wait.id, SEATED)
        assert json.loads((await run.result()).text) == {"result": "LH1: row 3, window, [], None"}
    assert len([event async for event in run.events() if event.type == "await_clarification"]) == 1


async def test_an_answer_is_given_to_its_own_question_only(asking, opened, run, answered):
    """A server that lost its state and now asks something else has a person asked again."""
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
    # The same question again, and again its state is refused: once is enough.
    refused = await run(toolset, "ask", meta=meta, **arguments("Delete 3 files?"))
    assert refused.error.code == "mcp_-32602"
    assert [call["given"] for call in asking.calls()][3:] == [GIVEN, {}, GIVEN]
