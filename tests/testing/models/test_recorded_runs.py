"""Runs whose answers were recorded from a provider, and are played without it."""

import asyncio
import json
import re

import pytest
from pydantic import BaseModel
from temporalio.api.enums.v1 import EventType

from sojourn import Agent, AgentTool, App, ModelPlanner, RunFailed
from sojourn.testing.models import Player, Recorder, use_model
from sojourn.testing.providers import (
    Completion,
    HttpError,
    ProviderServer,
    ReportedUsage,
    Text,
    Thinking,
    ToolCall,
    calls,
    says,
)
from tests.testing.models.conftest import desk, orders

CONVERSATION = [
    Completion(
        parts=(
            Thinking(text="Two might be meant."),
            Text(text="Let me see."),
            ToolCall(name="desk__orders__find", arguments='{"id": 7}'),
            ToolCall(name="desk__orders__find", arguments='{"id": "eight"}'),
        ),
        usage=ReportedUsage(input=100, output=20, cached=40),
    ),
    calls(ToolCall(name="ask_user", arguments='{"question": "Which order?"}')),
    says("Order 7 is on its way."),
]
"""Two calls, one of them wrong, then a question, then the answer."""


class Question(BaseModel):
    """What a person asks."""

    words: str


@pytest.fixture
async def file(tmp_path, protocol, converse, app):
    """Record a conversation and stop the provider; return the path of the file and the run's output."""
    path = tmp_path / "exchanges" / "order.json"
    async with ProviderServer(CONVERSATION) as provider:
        with use_model(app, Recorder(provider.model(protocol), path)):
            output = await converse(app)
    assert output.text == "Order 7 is on its way."
    assert len(provider.requests) == 3
    return path, output


async def test_a_run_is_played_as_it_was_recorded(file, converse, app):
    """With each protocol, a played run has the recorded answer, number of calls, tokens and cost, though not its ids and times."""
    path, before = file
    with use_model(app, Player(path)):
        after = await converse(app)
    assert after.text == before.text
    assert (after.tool_calls, after.usage) == (before.tool_calls, before.usage)
    assert after.usage.cost
    assert after.usage.cached_tokens == 40


@pytest.mark.parametrize("protocol", ["openai-responses"])
async def test_a_file_is_played_any_number_of_times(file, converse, app):
    """A second run, and three at once, get the same answers from one player."""
    with use_model(app, Player(file[0])):
        await converse(app)
        outputs = await asyncio.gather(*(converse(app) for _ in range(3)))
    assert {output.text for output in outputs} == {"Order 7 is on its way."}


async def test_a_file_holds_nothing_of_the_machine(file):
    """A file has no key, address, header or time, and no id of a run, a call or a response."""
    text = file[0].read_text()
    private = (
        r"sk-|127\.0|authorization|clerk-|\b(toolu|call|fc|rs|resp|msg|chatcmpl)_[0-9a-f]{8}|20\d\d-|c2lnbmVk"
    )
    assert re.search(private, text, re.IGNORECASE) is None
    written = json.loads(text)
    first, second, third = written["exchanges"]
    [asked] = first["messages"]
    assert asked["instructions"] == "You answer for a shop."
    assert [part["content"] for part in asked["parts"]] == ["Where is my order?"]
    assert second["shared"] == 1
    answer, results = second["messages"]
    assert [part["part_kind"] for part in answer["parts"] if part["part_kind"] != "thinking"] == [
        "text",
        "tool-call",
        "tool-call",
    ]
    found, failed, notice = results["parts"]
    assert notice["part_kind"] == "system-prompt"
    assert failed["content"].startswith("failed: invalid_arguments")
    assert json.loads(found["content"]) == {
        "status": "order 7 is on its way",
        "asked_by": "[run]",
        "asked_in": "[call 1]",
        "key": "[hex]",
        "at": "[time]",
    }
    question, reply = third["messages"][-2:]
    assert [part["tool_name"] for part in question["parts"]] == ["ask_user"]
    assert [part["content"] for part in reply["parts"]] == ["It is 7"]
    assert sorted(tool["name"] for tool in first["tools"]) == ["ask_user", "desk__orders__find"]


@pytest.mark.parametrize("protocol", ["anthropic"])
async def test_a_changed_prompt_fails_clearly(file, serve, traces):
    """A changed prompt fails the run at its first request, without a retry; the error has both prompts and what to do."""
    path, _ = file
    app = desk(instructions="You answer for a shop. Be brief.")
    with use_model(app, Player(path)):
        client = await serve(app)
        run = await client.start("desk.clerk", "Where is my order?")
        with pytest.raises(RunFailed) as failed:
            await run.result()
    attempts = [
        event.activity_task_started_event_attributes.attempt
        for event in await traces(run).history()
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED
    ]
    assert attempts == [1]
    message = str(failed.value)
    assert failed.value.code == "NotRecorded"
    then, now = "You answer for a shop.", "You answer for a shop. Be brief."
    assert f'-  "instructions": "{then}",\n+  "instructions": "{now}",' in message
    assert "asked then (exchange 1 of 3)" in message
    assert str(path) in message
    assert "SOJOURN_RECORD=1" in message


@pytest.mark.parametrize("protocol", ["openai-chat"])
async def test_a_changed_tool_fails_clearly(file, converse):
    """A changed tool fails the run, though the conversation is the same."""
    app = desk(asks=False)
    with use_model(app, Player(file[0])), pytest.raises(RunFailed, match='-  "tool": "ask_user"'):
        await converse(app)


async def test_runs_at_once_get_their_own_answers(tmp_path, standin, converse, app):
    """Runs that were recorded in one order, and are played in another, each get the answer to their own prompt."""
    standin.script = lambda request: says(
        f"About {request.messages[-1].text}", delay=0.01 * (len(standin.requests) % 3)
    )
    path, words = tmp_path / "many.json", [f"order {number}" for number in range(8)]
    with use_model(app, Recorder(standin.model("openai-chat"), path)):
        await asyncio.gather(*(converse(app, text) for text in words))
    with use_model(app, Player(path)):
        outputs = await asyncio.gather(*(converse(app, text) for text in reversed(words)))
    assert [output.text for output in outputs] == [f"About {text}" for text in reversed(words)]
    assert len(standin.requests) == 8


async def test_an_agent_that_calls_another(tmp_path, standin, serve):
    """The runs of both agents are played from one file."""
    standin.script = [
        calls(ToolCall(name="desk__help__ask", arguments='{"words": "Order 7?"}')),
        calls(ToolCall(name="desk__orders__find", arguments='{"id": 7}')),
        says("It is on its way."),
        says("Your order is on its way."),
    ]
    planner = ModelPlanner("openai:gpt-5-mini")
    clerk = Agent("desk.clerk", planner=planner, uses=[orders])
    tools = clerk.export("desk.help", tools=[AgentTool("ask", args=Question, description="Answers")])
    app = App(agents=[Agent("desk.chief", planner=ModelPlanner("openai:gpt-5"), uses=[tools]), clerk])
    client, path = await serve(app), tmp_path / "two.json"
    for model in (Recorder(standin.model("openai-chat"), path), None):
        with use_model(app, model or Player(path)):
            output = await client.execute("desk.chief", "Where is order 7?")
        assert output.text == "Your order is on its way."
    assert len(standin.requests) == 4


async def test_the_same_words_get_their_answers_in_order(tmp_path, standin, converse, app):
    """Equal requests get their answers in the order of the recording, and then the last one again."""
    standin.script = [says("one"), says("two")]
    path = tmp_path / "same.json"
    with use_model(app, Recorder(standin.model("openai-chat"), path)):
        await converse(app)
        await converse(app)
    with use_model(app, Player(path)):
        assert [(await converse(app)).text for _ in range(3)] == ["one", "two", "two"]


async def test_a_failed_request_is_not_recorded(tmp_path, standin, converse, app):
    """After an error of the provider the plan is attempted again; the file has only the answer."""
    standin.script = [HttpError(error="rate_limit", headers={"retry-after-ms": "20"}), says("Hello")]
    path = tmp_path / "late.json"
    with use_model(app, Recorder(standin.model("openai-chat"), path)):
        assert (await converse(app)).text == "Hello"
    assert len(json.loads(path.read_text())["exchanges"]) == 1


async def test_a_recording_replaces_the_file(tmp_path, standin, converse, app):
    """A recording replaces an existing file, but not before there is an answer."""
    path = tmp_path / "again.json"
    for text in ("before", "after"):
        standin.script = [says(text)]
        recorder = Recorder(standin.model("openai-chat"), path)
        assert path.exists() == (text == "after")
        with use_model(app, recorder):
            await converse(app)
    (only,) = json.loads(path.read_text())["exchanges"]
    assert only["response"]["parts"][0]["content"] == "after"
    assert list(tmp_path.iterdir()) == [path]
