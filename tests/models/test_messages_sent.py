"""The messages that are sent for a transcript, and what of a response the next request sends back."""

from typing import Any

import pytest
from pydantic_ai import messages as theirs
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import Model

from sojourn import Message, PlanResult, ToolError, ToolRequest, ToolResult
from sojourn.contracts.message import ImagePart, TextPart, ToolCallPart
from sojourn.core.run.ids import assign_ids, write_final_ids
from sojourn.models.messages import Converter, from_response
from sojourn.models.names import Names
from sojourn.testing.providers import Completion, Text, Thinking, ToolCall
from sojourn.values.wire import decode_messages, encode

NAMES = Names(["ops.devices.list"])
NAME = "ops__devices__list"
QUESTION = Message.user("Why is it dark?")


def outcome_text(result: ToolResult) -> Any:
    """Return the content of a tool's answer, for tests."""
    return result.error.message if result.error else result.result


def sent(*messages: Message) -> list[theirs.ModelMessage]:
    return Converter(NAMES, outcome_text).messages(messages)


def shape(messages: list[theirs.ModelMessage]) -> list[list[tuple[str, Any]]]:
    """Return the kinds and contents of the parts of each message."""
    return [
        [(part.part_kind, getattr(part, "content", None)) for part in message.parts] for message in messages
    ]


def calling(*ids: str) -> Message:
    return Message.calls([ToolRequest(name="ops.devices.list", tool_call_id=id) for id in ids])


def done(id: str, result: Any = "ok") -> ToolResult:
    return ToolResult(tool_call_id=id, result=result)


def test_instructions_and_notices_stay_system_messages() -> None:
    """System messages keep their place; how a provider gets a later one is decided by its adapter."""
    notice = Message.system("Answer now.")
    messages = sent(
        Message.system("Be brief."), QUESTION, calling("c1"), Message.results([done("c1")]), notice
    )
    assert shape(messages) == [
        [("system-prompt", "Be brief."), ("user-prompt", "Why is it dark?")],
        [("tool-call", None)],
        [("tool-return", "ok"), ("system-prompt", "Answer now.")],
    ]


def test_results_come_in_the_order_of_their_calls() -> None:
    """Results are sent in call order, failed ones marked, and a notice between them comes after them."""
    failed = ToolResult(tool_call_id="c2", error=ToolError(message="no such site"))
    answers = [Message.results([failed]), Message.system("Slow."), Message.results([done("c1", {"n": 1})])]
    [_, response, request] = sent(QUESTION, calling("c1", "c2"), *answers)
    assert [part.part_kind for part in request.parts] == ["tool-return", "tool-return", "system-prompt"]
    first, second = (part for part in request.parts if isinstance(part, theirs.ToolReturnPart))
    assert (first.tool_name, first.tool_call_id, first.content, first.outcome) == (
        NAME,
        "c1",
        {"n": 1},
        "success",
    )
    assert (second.tool_name, second.tool_call_id, second.content, second.outcome) == (
        NAME,
        "c2",
        "no such site",
        "failed",
    )
    assert [part.tool_call_id for part in response.parts if isinstance(part, theirs.ToolCallPart)] == [
        "c1",
        "c2",
    ]


def test_a_call_without_an_answer_gets_a_text() -> None:
    """A call without an answer, as a client's transcript may have it, gets one, since no provider accepts it otherwise."""
    assert shape(sent(QUESTION, calling("c1"), Message.user("Well?")))[-1] == [
        ("tool-return", "No result was recorded for this call."),
        ("user-prompt", "Well?"),
    ]


def test_an_answer_without_a_call_is_left_out() -> None:
    """A result without a call, and the second result of a call, are left out."""
    twice = Message.results([done("c1", "first"), done("c1", "second"), done("c9")])
    assert shape(sent(Message.results([done("c8")]), QUESTION, calling("c1"), twice)) == [
        [("user-prompt", "Why is it dark?")],
        [("tool-call", None)],
        [("tool-return", "first")],
    ]


def test_a_request_without_content_gets_a_short_text() -> None:
    """Before, between and after messages of the model there is a request, since some providers require it."""
    assert shape(sent(Message.assistant("Hello!"), Message.assistant("Still there?"))) == [
        [("user-prompt", "(The conversation begins.)")],
        [("text", "Hello!")],
        [("user-prompt", "(Go on.)")],
        [("text", "Still there?")],
        [("user-prompt", "(Go on.)")],
    ]


def test_empty_messages_are_left_out() -> None:
    """A message without content is left out, and its neighbors become one request."""
    empty = [
        Message(role=role, parts=[TextPart(type="text", text="")]) for role in ("system", "user", "assistant")
    ]
    assert shape(sent(QUESTION, *empty, Message(role="assistant", parts=[]), Message.user("Well?"))) == [
        [("user-prompt", "Why is it dark?"), ("user-prompt", "Well?")]
    ]


def test_text_and_image_of_a_message_stay_together() -> None:
    """The parts of a message are one user prompt, in order, also for an unknown role."""
    parts: list[Any] = [
        TextPart(type="text", text="Look:"),
        ImagePart(type="image", media_type="image/png", data="cGlj"),
    ]
    picture = theirs.BinaryImage(b"pic", media_type="image/png")
    assert shape(sent(Message(role="narrator", parts=parts))) == [[("user-prompt", ["Look:", picture])]]


def test_the_provider_s_own_id_is_on_call_and_result() -> None:
    """A call whose id the run has replaced is sent with the provider's id, and so is its result."""
    given = Message(
        role="assistant",
        parts=[ToolCallPart(type="tool_call", tool_call_id="functions.list:0", name="ops.devices.list")],
    )
    plan = PlanResult(
        tool_calls=[ToolRequest(name="ops.devices.list", tool_call_id="functions.list:0")], message=given
    )
    calls = assign_ids(plan.tool_calls, run_id="r", turn_id="t1", plan=1, taken=set())
    message = write_final_ids(plan, calls)
    assert message
    assert message.tool_calls[0].tool_call_id == calls[0].tool_call_id != "functions.list:0"
    [_, response, request] = sent(QUESTION, message, Message.results([done(calls[0].tool_call_id)]))
    assert [part.tool_call_id for part in (*response.parts, *request.parts)] == ["functions.list:0"] * 2  # pyright: ignore[reportAttributeAccessIssue]


def test_an_id_that_a_provider_repeats_is_sent_once() -> None:
    """When a provider repeats an id in a later response, the later call is sent with the run's id."""
    kept = {"tool_call_id": "call_0"}
    again = ToolCallPart(
        type="tool_call", tool_call_id="call_x", name="ops.devices.list", provider_metadata=kept
    )
    messages = sent(
        QUESTION,
        calling("call_0"),
        Message.results([done("call_0", 1)]),
        Message(role="assistant", parts=[again]),
        Message.results([done("call_x", 2)]),
    )
    answers = [part for m in messages for part in m.parts if isinstance(part, theirs.ToolReturnPart)]
    assert [(part.tool_call_id, part.content) for part in answers] == [("call_0", 1), ("call_x", 2)]


# Over HTTP.

ANSWER = Completion(
    parts=(
        Thinking(text="I look at the devices.", signature="c2lnbmF0dXJl"),
        Text(text="I look."),
        ToolCall(id="call_1", name=NAME, arguments='{"site": "s-1"}'),
        ToolCall(id="call_2", name=NAME, arguments='{"site": "s-2"}'),
    )
)


async def ask(model: Model, messages: list[theirs.ModelMessage], *, streamed: bool) -> theirs.ModelResponse:
    prepared = model.prepare_messages(messages)
    if not streamed:
        return await model_request(model, prepared, model_settings={"max_tokens": 100})
    async with model_request_stream(model, prepared, model_settings={"max_tokens": 100}) as stream:
        async for _ in stream:
            pass
        return stream.get()


async def test_the_next_request_sends_the_response_back(standin: Any, protocol: Any, streamed: bool) -> None:
    """Thinking with its signature, text, calls and ids are sent back unchanged, with the result of each call."""
    standin.script = [ANSWER, "Done."]
    model = standin.model(protocol)
    message = from_response(await ask(model, sent(QUESTION), streamed=streamed), NAMES)
    assert [(call.name, call.tool_call_id) for call in message.tool_calls] == [
        ("ops.devices.list", "call_1"),
        ("ops.devices.list", "call_2"),
    ]
    failed = ToolResult(tool_call_id="call_2", error=ToolError(message="no such site"))
    transcript = [
        QUESTION,
        message,
        Message.results([done("call_1", "dark"), failed]),
        Message.system("Answer now."),
    ]
    await ask(model, sent(*decode_messages(encode(transcript))), streamed=streamed)
    second = standin.requests[1]
    assert [(call.id, call.name) for call in second.tool_calls] == [("call_1", NAME), ("call_2", NAME)]
    assert [
        (result.id, "dark" in result.text, "no such site" in result.text) for result in second.tool_results
    ] == [
        ("call_1", True, False),
        ("call_2", False, True),
    ]
    assistant = [message for message in second.messages if message.role == "assistant"]
    assert "I look." in [message.text for message in assistant]
    if protocol != "openai-chat":  # Chat Completions has no thinking
        assert [m.thinking for m in assistant if m.thinking] == ["I look at the devices."]
        # Google has a signature for each call too, and takes a fixed one where a call had none.
        assert [m.signature[:12] for m in assistant if m.signature] == ["c2lnbmF0dXJl"]
    assert "Answer now." in str(second.body)


async def test_the_items_of_responses_go_back_by_their_ids(standin: Any) -> None:
    """The items of OpenAI's Responses API are sent back with their ids, by which it joins reasoning and calls."""
    standin.script = [ANSWER, "Done."]
    model = standin.model("openai-responses")
    response = await ask(model, sent(QUESTION), streamed=False)
    message = from_response(response, NAMES)
    await ask(
        model, sent(QUESTION, message, Message.results([done("call_1"), done("call_2")])), streamed=False
    )
    given = [part.id for part in response.parts if not isinstance(part, theirs.SpeechPart)]
    items = [item for item in standin.requests[1].body["input"] if item.get("id")]
    assert len(given) == 4
    assert [item["id"] for item in items] == given


@pytest.mark.parametrize(
    "protocol", ["openai-chat", "openai-responses", "anthropic"]
)  # Google has objects only
@pytest.mark.parametrize("arguments", ['{"site": ', "[1]", "null", ""])
async def test_arguments_that_are_no_object_can_be_sent_back(
    standin: Any, protocol: Any, arguments: str
) -> None:
    """A call with wrong arguments is in the next request too, in a form that providers accept."""
    standin.script = [Completion(parts=(ToolCall(id="call_1", name=NAME, arguments=arguments),)), "Sorry."]
    model = standin.model(protocol)
    message = from_response(await ask(model, sent(QUESTION), streamed=True), NAMES)
    assert [call.raw for call in message.tool_calls] == [arguments]
    await ask(model, sent(QUESTION, message, Message.results([done("call_1")])), streamed=True)
    assert [call.id for call in standin.requests[1].tool_calls] == ["call_1"]
