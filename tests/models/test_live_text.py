"""A model's answer while it is written: streamed from a real provider to whoever follows the run."""

import asyncio

import pytest

from sojourn import ModelPlanner, Toolset
from sojourn.live import current_deltas
from tests.models.standin import Reply, Text, Thinking, ToolCall, calls, says


class Followed(ModelPlanner):
    """Decides once somebody follows, who may come later than the first step."""

    async def plan_start(self, turn):
        while current_deltas() is None:
            await asyncio.sleep(0.005)
        return await super().plan_start(turn)


@pytest.fixture
def adds():
    tools = Toolset("test.tools")

    @tools.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return tools


@pytest.fixture
def followed(serve, standin, protocol, adds):
    """A run that a model decides for, and all that a follower is told who wants deltas."""

    async def start(*script):
        standin.script = list(script)
        planner = Followed(standin.model(protocol), settings={"max_tokens": 1000})
        client = await serve(planner=planner, uses=(adds,))
        run = await client.start("test.agent", "1 + 2?")
        return run, [event async for event in run.events(deltas=True)]

    return start


def told(events, kind: str) -> str:
    return "".join(event.text for event in events if event.type == kind)


async def test_text_and_calls_are_told_as_they_come(followed, standin, protocol):
    """In pieces, before the message that holds them all; the history tells the same without them."""
    add = ToolCall(name="test__tools__add", arguments='{"a": 1, "b": 2}')
    answer = "It is 3, since 1 and 2 are 3."
    run, events = await followed(
        Reply(parts=(Thinking(text="I have to add."), Text(text="Let me add."), add)), says(answer, piece=4)
    )
    assert told(events, "text_delta") == "Let me add." + answer
    assert told(events, "tool_call_delta") == '{"a": 1, "b": 2}'
    assert {event.tool_name for event in events if event.type == "tool_call_delta"} == {"test.tools.add"}
    assert told(events, "thinking_delta") == ("" if protocol == "openai-chat" else "I have to add.")
    assert all(request.stream for request in standin.requests)
    kinds = [event.type for event in events]
    assert kinds.index("text_delta") < kinds.index("assistant_message")
    recorded = [event async for event in run.events()]
    assert [event for event in events if event.event_id] == recorded
    assert (await run.result()).usage.input_tokens == 20


async def test_a_broken_stream_begins_anew(followed, standin):
    """A stream that is cut, one that ends early as if it were whole: what was told is taken back, and told once."""
    answer = "It is 3, since 1 and 2 are 3."
    run, events = await followed(
        says(answer, piece=4, cut=0.5), says(answer, piece=4, ends=0.5), says(answer, piece=4)
    )
    restarts = [place for place, event in enumerate(events) if event.type == "stream_restarted"]
    assert restarts
    assert told(events[restarts[-1] :], "text_delta") == answer
    assert (await run.result()).text == answer
    assert len(standin.requests) == 3
    assert [message.role for message in await run.transcript()] == ["user", "assistant"]


async def test_a_corrected_answer_begins_anew(followed, serve, standin, protocol):
    """What a response said that cannot be used is taken back too, though it is the same attempt."""
    standin.script = ["It is three.", calls(ToolCall(name="final_result", arguments='{"answer": 3}'))]
    planner = Followed(standin.model(protocol), settings={"max_tokens": 1000}, result=int)
    client = await serve(planner=planner)
    run = await client.start("test.agent", "1 + 2?")
    events = [event async for event in run.events(deltas=True)]
    assert (await run.result()).result == 3
    kinds = [event.type for event in events if not event.event_id]
    assert kinds[0] == "text_delta"
    assert kinds.index("stream_restarted") < kinds.index("tool_call_delta")


async def test_nobody_follows_and_nothing_is_streamed(serve, standin, protocol):
    """A plain request is made where nobody wants to see it grow."""
    standin.script = ["It is 3."]
    client = await serve(planner=ModelPlanner(standin.model(protocol), settings={"max_tokens": 1000}))
    run = await client.start("test.agent", "1 + 2?")
    assert (await run.result()).text == "It is 3."
    assert [request.stream for request in standin.requests] == [False]
