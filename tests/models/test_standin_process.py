"""The stand-in as a process of its own."""

import asyncio

import pytest
from pydantic_ai import exceptions as faults

from tests.models.standin import HttpError, StandinProcess, ToolCall, Usage, calls, says
from tests.models.standin.sdk import model_of


@pytest.fixture
def process():
    """A stand-in that runs beside this process."""
    with StandinProcess(["unused"]) as standin:
        yield standin


async def test_it_answers_and_tells_what_came(process, ask) -> None:
    """A script travels as JSON, and so does what came."""
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


async def test_it_may_be_a_little_model(process, ask) -> None:
    """A task is told by its name."""
    process.load({"task": "counts", "tool": "orders__find", "times": 0, "answer": "Nothing to do."})
    model, client = model_of("anthropic", process.url)
    async with client:
        assert (await ask(model)).text == "Nothing to do."


async def test_what_it_was_doing_is_lost_with_it(process, ask, until) -> None:
    """A provider that dies in an answer is a connection that ends."""
    process.load([says("never", hold=0.5)])
    model, client = model_of("openai-responses", process.url)
    async with client:
        asking = asyncio.create_task(ask(model))
        await until(lambda: process.state["in_flight"] == 1)
        process.process.kill()
        with pytest.raises(faults.ModelConnectionError):
            await asking
