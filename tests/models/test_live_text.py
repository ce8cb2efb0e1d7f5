"""A model's answer is streamed from its provider to the followers of the run."""

import asyncio

import pytest

from sojourn import ModelPlanner, Toolset
from sojourn.live import current_deltas
from sojourn.testing.providers import Completion, Refusal, Text, Thinking, ToolCall, calls, says


class Followed(ModelPlanner):
    """A planner that waits until the run is followed, which may be after the first plan begins."""

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
    """Start a run with a model as the planner, and return the run with all its events and deltas."""

    async def start(*script):
        standin.script = list(script)
        planner = Followed(standin.model(protocol), settings={"max_tokens": 1000})
        client = await serve(planner=planner, uses=(adds,))
        run = await client.start("test.agent", "1 + 2?")
        return run, [event async for event in run.events(deltas=True)]

    return start


def joined(events, kind: str) -> str:
    return "".join(event.text for event in events if event.type == kind)


async def test_text_and_calls_are_streamed(followed, standin, protocol):
    """Text, thinking and calls come as deltas before the message, by requests with the planner's settings; all other events are those of the history."""
    add = ToolCall(name="test__tools__add", arguments='{"a": 1, "b": 2}')
    answer = "It is 3, since 1 and 2 are 3."
    run, events = await followed(
        Completion(parts=(Thinking(text="I have to add."), Text(text="Let me add."), add)),
        says(answer, piece=4),
    )
    assert joined(events, "text_delta") == "Let me add." + answer
    assert joined(events, "tool_call_delta") == '{"a": 1, "b": 2}'
    assert {event.tool_name for event in events if event.type == "tool_call_delta"} == {"test.tools.add"}
    assert joined(events, "thinking_delta") == ("" if protocol == "openai-chat" else "I have to add.")
    assert all(request.stream for request in standin.requests)
    assert [request.max_tokens for request in standin.requests] == [1000, 1000]
    kinds = [event.type for event in events]
    assert kinds.index("text_delta") < kinds.index("assistant_message")
    recorded = [event async for event in run.events()]
    assert [event for event in events if event.event_id] == recorded
    assert (await run.result()).usage.input_tokens == 20


@pytest.mark.parametrize(
    "protocol", ["google"]
)  # which streams are broken: test_streams.py of the testing kit
async def test_a_broken_stream_is_restarted(followed, standin):
    """After a cut stream, and after one that ends early as if complete, the text begins again after a restart."""
    answer = "It is 3, since 1 and 2 are 3."
    run, events = await followed(
        says(answer, piece=4, cut=0.5), says(answer, piece=4, ends=0.5), says(answer, piece=4)
    )
    restarts = [place for place, event in enumerate(events) if event.type == "stream_restarted"]
    assert restarts
    assert joined(events[restarts[-1] :], "text_delta") == answer
    assert (await run.result()).text == answer
    assert len(standin.requests) == 3
    assert [message.role for message in await run.transcript()] == ["user", "assistant"]


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses"])
async def test_a_streamed_refusal_is_the_answer(followed, standin):
    """A refusal has no finish reason of its own in OpenAI's streams, and is the answer as if it were not streamed."""
    run, _ = await followed(Completion(parts=(Refusal(text="I cannot help with that."),)))
    out = await run.result()
    assert (out.text, out.notes) == ("I cannot help with that.", ["the model refused to answer"])
    assert len(standin.requests) == 1


async def test_a_corrected_answer_is_restarted(followed, serve, standin, protocol):
    """The text of a response that is corrected is replaced after a restart, although the attempt is the same."""
    standin.script = ["It is three.", calls(ToolCall(name="final_result", arguments='{"answer": 3}'))]
    planner = Followed(standin.model(protocol), settings={"max_tokens": 1000}, result=int)
    client = await serve(planner=planner)
    run = await client.start("test.agent", "1 + 2?")
    events = [event async for event in run.events(deltas=True)]
    assert (await run.result()).result == 3
    kinds = [event.type for event in events if not event.event_id]
    assert kinds[0] == "text_delta"
    assert kinds.index("stream_restarted") < kinds.index("tool_call_delta")


async def test_without_a_follower_nothing_is_streamed(serve, standin, protocol):
    """The request of a run that nobody follows is not streamed."""
    standin.script = ["It is 3."]
    client = await serve(planner=ModelPlanner(standin.model(protocol), settings={"max_tokens": 1000}))
    run = await client.start("test.agent", "1 + 2?")
    assert (await run.result()).text == "It is 3."
    assert [request.stream for request in standin.requests] == [False]
