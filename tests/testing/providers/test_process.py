"""The stand-in in a process of its own."""

import asyncio
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic_ai import exceptions as faults

from sojourn.testing.providers import HttpError, ProviderProcess, ReportedUsage, ToolCall, calls, says
from sojourn.testing.providers.clients import model_of

pytestmark = pytest.mark.usefixtures("processes")


@pytest.fixture
def process():
    """A stand-in that runs beside this process."""
    with ProviderProcess(["unused"]) as standin:
        yield standin


async def test_script_and_state_are_sent_as_json(process, ask) -> None:
    """A stand-in in another process answers by a script in JSON, and returns its requests as JSON."""
    found = calls(ToolCall(id="call_1", name="orders__find", arguments="{"), usage=ReportedUsage(input=3))
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


def test_the_command_of_the_page_prints_where_it_serves() -> None:
    """The command of docs/testing.md prints the URL, and the variables of the SDKs as shell commands."""
    page = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()
    (command,) = [
        line for line in page.splitlines() if line.startswith("python -m sojourn.testing.providers")
    ]
    words = [sys.executable, *shlex.split(command)[1:]]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        url, *variables = (process.stdout.readline().strip() for _ in range(7))
        process.kill()
    assert url.startswith("http://127.0.0.1:")
    assert f"export OPENAI_BASE_URL={url}/v1" in variables
    assert f"export ANTHROPIC_BASE_URL={url}" in variables
