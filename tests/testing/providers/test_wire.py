"""The stand-in's answers have the types of the SDKs."""

from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from sojourn.testing.providers import Completion, Refusal, ReportedUsage, Text, Thinking, ToolCall, says, wire


def types_of(protocol: str) -> tuple[Any, Any]:
    """The types of an answer and of an event; only a test imports the SDKs, which takes a second."""
    if protocol == "anthropic":
        from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent

        return BetaMessage, BetaRawMessageStreamEvent
    if protocol == "openai-chat":
        from openai.types.chat import ChatCompletion, ChatCompletionChunk

        return ChatCompletion, ChatCompletionChunk
    if protocol == "google":
        from google.genai.types import GenerateContentResponse

        return GenerateContentResponse, GenerateContentResponse
    from openai.types.responses import Response, ResponseStreamEvent

    return Response, ResponseStreamEvent


ANSWERS = {
    "rich": Completion(
        parts=(
            Thinking(text="They greet me, so I look."),
            Text(text="One moment please."),
            ToolCall(name="orders__find", arguments='{"id": 7}'),
            ToolCall(name="orders__find", arguments='{"id": 8'),
        ),
        usage=ReportedUsage(input=100, output=20, cached=60),
    ),
    "empty": Completion(),
    "refusal": Completion(parts=(Refusal(text="No."),)),
    "length": says("It was", finish="length"),
    "content_filter": says("It was", finish="content_filter"),
}
ASKED = {
    "model": "some-model",
    "messages": [{"role": "user", "content": "Hello"}],
    "input": "Hello",
    "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
    "stream_options": {"include_usage": True},
}


def unknown_in(value: Any) -> list[str]:
    """Return the fields, at any depth, that the SDK's types do not have, since validation accepts them."""
    if isinstance(value, BaseModel):
        within = [name for field in dict(value).values() for name in unknown_in(field)]
        return [*(value.model_extra or {}), *within]
    return [name for each in value for name in unknown_in(each)] if isinstance(value, list) else []


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_plain_answer_has_the_shape_of_the_sdk(protocol, answer) -> None:
    """The SDK's own type accepts the body in strict mode."""
    request = wire.read(protocol, ASKED, {}, 0)
    found = types_of(protocol)[0].model_validate_json(wire.plain(ANSWERS[answer], request), strict=True)
    assert unknown_in(found) == []


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_event_has_the_shape_of_the_sdk(protocol, answer) -> None:
    """The SDK's own type accepts each event of a stream in strict mode."""
    request = wire.read(protocol, ASKED, {}, 0)
    adapter = TypeAdapter(types_of(protocol)[1])
    checked = 0
    for event in wire.stream(ANSWERS[answer], request):
        name, _, data = event.decode().rstrip().rpartition("data: ")
        if data == "[DONE]" or name == "event: ping\n":
            continue
        found = adapter.validate_json(data, strict=True)
        assert unknown_in(found) == []
        checked += 1
        assert name == ("" if protocol in ("openai-chat", "google") else f"event: {found.type}\n")
    assert checked >= (1 if protocol == "google" else 3)
