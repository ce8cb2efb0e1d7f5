"""The stand-in in a process of its own."""

import asyncio

import pytest
from pydantic_ai import exceptions as faults

from sojourn.testing.providers import HttpError, ProviderProcess, ToolCall, Usage, calls, says
from sojourn.testing.providers.clients import model_of

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def process():
    """A stand-in that runs beside this process."""
    with ProviderProcess(["unused"]) as standin:
        yield standin


async def test_script_and_state_are_sent_as_json(process, ask) -> None:
    """A stand-in in another process answers by a script in JSON, and returns its requests as JSON."""
    found = calls(ToolCall(id="call_1", name="orders__find", arguments="{"), usage=Usage(input=3))
    process.load([found, "Bye.", HttpError(error="overloaded")])
    model, client = model_of("openai-chat", process.url)
    async with client:
        assert [call.args for call in (await ask(model)).tool_calls] == ["{"]
        assert (await ask(model, streamed=True)).text == "Bye."
        with pytest.raises(faults.ModelOverloadedError):
            await ask(model)
    state = process.state
    assert [request["protocol"] for request in state["requests"]] == ["openai-chat"] * 3
    assert [request["end"] for request in state["requests"]] == ["answered"] * 3
    assert (state["in_flight"], state["most_in_flight"], state["errors"]) == (0, 1, [])


async def test_the_script_may_be_a_task(process, ask) -> None:
    """A deterministic model is loaded by the name of its task."""
    process.load({"task": "counts", "tool": "orders__find", "times": 0, "answer": "Nothing to do."})
    model, client = model_of("anthropic", process.url)
    async with client:
        assert (await ask(model)).text == "Nothing to do."


async def test_a_killed_stand_in_is_a_connection_error(process, ask, until) -> None:
    """When the stand-in is killed within an answer, its client gets a connection error."""
    process.load([says("never", hold=0.5)])
    model, client = model_of("openai-responses", process.url)
    async with client:
        asking = asyncio.create_task(ask(model))
        await until(lambda: process.state["in_flight"] == 1)
        process.process.kill()
        with pytest.raises(faults.ModelConnectionError):
            await asking
