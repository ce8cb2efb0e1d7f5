"""Streamed answers are recorded and played like plain ones; a stream that was cut is no answer."""

import json

import pytest
from pydantic_ai import ModelAPIError, ModelHTTPError
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    UserPromptPart,
)

from sojourn.models.guarded import guard
from sojourn.testing.models import Player, Recorder
from sojourn.testing.providers import Completion, Refusal, Text, ToolCall, says

ANSWER = Completion(parts=(Text(text="Let me see."), ToolCall(name="look", arguments='{"id": 7, "n": 1.0}')))


@pytest.fixture
def file(tmp_path):
    """The path of the recording."""
    return tmp_path / "exchanges.json"


async def test_a_streamed_answer_and_a_plain_one_are_the_same(file, standin, protocol, ask):
    """Recorded one way and played the other way, parts and arguments are as the model wrote them."""
    standin.script = [ANSWER, ANSWER]
    written = []
    for streamed in (True, False):
        response = await ask(Recorder(standin.model(protocol), file), streamed=streamed)
        written.append(json.loads(file.read_text()))
        played = await ask(Player(file), streamed=not streamed)
        assert played.text == response.text == "Let me see."
        assert [call.args_as_dict() for call in played.tool_calls] == [{"id": 7, "n": 1.0}]
        assert played.finish_reason == response.finish_reason
        assert played.usage.total_tokens == response.usage.total_tokens
    streamed, plain = (file["exchanges"][0]["messages"] for file in written)
    assert streamed == plain


async def test_a_played_stream_has_events(file, standin, ask):
    """A played stream has one event for each part."""
    standin.script = [ANSWER]
    await ask(Recorder(standin.model("openai-chat"), file))
    async with model_request_stream(Player(file), [ModelRequest.user_text_prompt("Hello")]) as stream:
        parts = [event.part.part_kind async for event in stream if isinstance(event, PartStartEvent)]
    assert parts == ["text", "tool-call"]


async def test_an_incomplete_stream_is_not_recorded(file, standin, protocol, ask):
    """A stream that breaks with an error, or ends before its last event, leaves no file."""
    recorder = Recorder(standin.model(protocol), file)
    standin.script = [says("It is a long story" * 9, breaks="server_error")]
    with pytest.raises(ModelAPIError):
        await ask(recorder, streamed=True)
    standin.script = [says("It is a long story" * 9, ends=0.5)]
    await ask(recorder, streamed=True)
    assert not file.exists()


async def test_a_recorder_does_not_change_the_request(file, standin, protocol, streamed, ask):
    """A planner's request is the same as without a recorder, also where a notice is rewritten for its provider."""
    standin.script = ["Hi", "Hi"]
    notice = ModelRequest([UserPromptPart("Go on."), SystemPromptPart("Be brief.", scope="request")])
    messages = [ModelRequest.user_text_prompt("Hello"), ModelResponse([TextPart("Hi")]), notice]
    for asked in (standin.model(protocol), Recorder(standin.model(protocol), file)):
        model = guard(asked)
        await ask(model, model.prepare_messages(messages), streamed=streamed)
    plain, recorded = (request.body for request in standin.requests)
    assert recorded == plain
    last = json.loads(file.read_text())["exchanges"][0]["messages"][-1]["parts"][-1]
    assert last == {"part_kind": "system-prompt", "content": "Be brief."}


async def test_a_refusal_is_kept(file, standin, ask):
    """A refusal of the model is recorded and played with the provider's text."""
    standin.script = [Completion(parts=(Refusal(text="I will not."),))]
    await ask(Recorder(standin.model("anthropic"), file))
    response = await ask(Player(file))
    assert (response.finish_reason, response.provider_details) == (
        "content_filter",
        {"refusal": "I will not."},
    )


async def test_an_error_is_passed_on(file, standin, ask):
    """An error of the provider is raised as it is, and not recorded."""
    standin.script = []
    with pytest.raises(ModelHTTPError):
        await ask(Recorder(standin.model("openai-chat"), file))
    standin.errors.clear()
    assert not file.exists()
