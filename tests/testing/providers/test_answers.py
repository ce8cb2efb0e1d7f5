"""The stand-in's answers reach the providers' SDKs as scripted."""

import pytest
from pydantic_ai import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolDefinition,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelMessage, PartDeltaEvent, PartStartEvent, TextPartDelta

from sojourn.testing.providers import (
    PROTOCOLS,
    Completion,
    Refusal,
    ReportedUsage,
    Text,
    Thinking,
    ToolCall,
    calls,
    says,
)

FIND = ToolDefinition(
    name="orders__find",
    description="Find an order.",
    parameters_json_schema={
        "type": "object",
        "properties": {"id": {"type": "integer"}},
        "required": ["id"],
        "additionalProperties": False,
    },
)
HELLO: list[ModelMessage] = [ModelRequest.user_text_prompt("Hello")]
RICH = Completion(
    parts=(
        Thinking(text="They greet me, so I look.", signature="c2lnbmF0dXJl"),
        Text(text="I look for your order, one moment please."),
        ToolCall(id="call_1", name="orders__find", arguments='{"id": 7}'),
        ToolCall(id="call_2", name="orders__find", arguments='{"id": 8, "note": "äöü ☃"}'),
    ),
    usage=ReportedUsage(input=100, output=20, cached=60),
)


async def test_a_text_comes_back(standin, protocol, streamed, ask) -> None:
    """A scripted text is the response's text, and the response is streamed only when requested."""
    standin.script = ["Good morning, what can I do for you today?"]
    response = await ask(standin.model(protocol), streamed=streamed)
    assert response.text == "Good morning, what can I do for you today?"
    assert response.finish_reason == "stop"
    assert [request.stream for request in standin.requests] == [streamed]
    assert standin.requests[0].end == "answered"


async def test_a_stream_comes_in_pieces(standin, protocol, ask) -> None:
    """Each piece of a streamed text is a delta of its own."""
    standin.script = [says("one two three four", piece=4)]
    found: list[str] = []
    async with model_request_stream(standin.model(protocol), HELLO) as stream:
        async for event in stream:
            if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                found.append(event.part.content)
            elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                found.append(event.delta.content_delta)
    assert [piece for piece in found if piece] == ["one ", "two ", "thre", "e fo", "ur"]


async def test_tool_calls_come_back_with_their_ids(standin, protocol, streamed, ask) -> None:
    """Calls keep their order, ids, names and arguments."""
    standin.script = [RICH]
    response = await ask(standin.model(protocol), streamed=streamed, tools=(FIND,))
    found = [(call.tool_call_id, call.tool_name, call.args_as_dict()) for call in response.tool_calls]
    assert found == [
        ("call_1", "orders__find", {"id": 7}),
        ("call_2", "orders__find", {"id": 8, "note": "äöü ☃"}),
    ]
    assert response.finish_reason == ("stop" if protocol in ("openai-responses", "google") else "tool_call")


async def test_arguments_that_are_no_json_come_back_unchanged(standin, protocol, streamed, ask) -> None:
    """Arguments that are no JSON are unchanged, except where an object is needed: Google, and unstreamed by Anthropic."""
    standin.script = [calls(ToolCall(name="orders__find", arguments='{"id": 7'))]
    response = await ask(standin.model(protocol), streamed=streamed, tools=(FIND,))
    needs_object = protocol == "google" or (protocol == "anthropic" and not streamed)
    assert response.tool_calls[0].args == ({"INVALID_JSON": '{"id": 7'} if needs_object else '{"id": 7')


async def test_thinking_comes_back_with_its_signature(standin, protocol, streamed, ask) -> None:
    """Thinking has its signature, with which it can be sent back; Chat Completions has no thinking.

    pydantic-ai keeps Google's signature with the part after the thinking.
    """
    standin.script = [RICH]
    response = await ask(standin.model(protocol), streamed=streamed)
    thought = [part for part in response.parts if isinstance(part, ThinkingPart)]
    expected = [] if protocol == "openai-chat" else [("They greet me, so I look.", "c2lnbmF0dXJl")]
    if protocol == "google":
        assert "c2lnbmF0dXJl" in str([part.provider_details for part in response.parts])
        expected = [(text, None) for text, _ in expected]
    assert [(part.content, part.signature) for part in thought] == expected


async def test_a_refusal_is_filtered_content(standin, protocol, streamed, ask) -> None:
    """A refusal has the finish reason `content_filter` and no text; the details have its text."""
    standin.script = [Completion(parts=(Refusal(text="I cannot help with that."),))]
    response = await ask(standin.model(protocol), streamed=streamed)
    assert (response.text, response.finish_reason) == (None, "content_filter")
    if protocol != "google":  # whose filter says nothing
        assert (response.provider_details or {})["refusal"] == "I cannot help with that."


FINISHES = {
    "length": ("length", "max_output_tokens", "max_tokens", "MAX_TOKENS"),
    "content_filter": ("content_filter", "content_filter", "refusal", "SAFETY"),
    "surprised": ("surprised", "surprised", "surprised", "surprised"),
}


@pytest.mark.filterwarnings("ignore:surprised is not a valid FinishReason")  # of Google's SDK
async def test_a_finish_comes_back(standin, protocol, streamed, ask) -> None:
    """The finish reason is the provider's own value; an unknown one is no finish reason of pydantic-ai."""
    model = standin.model(protocol)
    for finish, values in FINISHES.items():
        standin.script = [says("It was a dark and", finish=finish)]
        response = await ask(model, streamed=streamed)
        value = dict(zip(PROTOCOLS, values, strict=True))[protocol]
        assert (response.provider_details or {})["finish_reason"] == value
        assert response.finish_reason == (None if finish == "surprised" else finish)


async def test_usage_comes_back(standin, protocol, streamed, ask) -> None:
    """The usage is that of the script, in which the input tokens include the cached tokens."""
    standin.script = [RICH]
    usage = (await ask(standin.model(protocol), streamed=streamed)).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (100, 20, 60)


async def test_an_answer_may_be_empty(standin, protocol, streamed, ask) -> None:
    """An answer without parts is a complete response."""
    standin.script = [Completion()]
    response = await ask(standin.model(protocol), streamed=streamed)
    assert (list(response.parts), response.finish_reason) == ([], "stop")


async def test_a_conversation_reads_the_same_in_every_protocol(standin, protocol, ask) -> None:
    """Requests of all protocols have the same instructions, texts, calls, results and tools."""
    model = standin.model(protocol)
    standin.script = ["It is on its way."]
    conversation: list[ModelMessage] = [
        ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("Where is order 7?")]),
        ModelResponse(
            parts=[TextPart("I look."), ToolCallPart("orders__find", '{"id": 7}', tool_call_id="call_1")]
        ),
        ModelRequest(parts=[ToolReturnPart("orders__find", "Shipped.", tool_call_id="call_1")]),
        ModelRequest.user_text_prompt("So?"),
    ]
    await ask(model, conversation, tools=(FIND,))
    (request,) = standin.requests
    assert (request.model, request.instructions, request.text) == (model.model_name, "Be brief.", "So?")
    roles = [message.role for message in request.messages]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    assert [message.text for message in request.messages] == [
        "Be brief.",
        "Where is order 7?",
        "I look.",
        "",
        "So?",
    ]
    assert [(call.id, call.name) for call in request.tool_calls] == [("call_1", "orders__find")]
    assert [(result.id, result.text) for result in request.tool_results] == [("call_1", "Shipped.")]
    assert [(tool.name, tool.description, tool.schema["required"]) for tool in request.tools] == [
        ("orders__find", "Find an order.", ["id"])
    ]
    assert any("sk-standin" in value for value in request.headers.values())


@pytest.mark.parametrize("protocol", ["openai-responses", "anthropic"])
async def test_thinking_is_sent_back_to_its_provider(standin, protocol, ask) -> None:
    """The next request has the thinking with its signature."""
    model = standin.model(protocol)
    standin.script = [Completion(parts=RICH.parts[:2]), "Bye."]
    first = await ask(model)
    await ask(model, [*HELLO, first, *HELLO])
    assistant = next(message for message in standin.requests[1].messages if message.role == "assistant")
    thinking = RICH.parts[0]
    assert isinstance(thinking, Thinking)
    assert (assistant.thinking, assistant.signature) == (thinking.text, thinking.signature)
