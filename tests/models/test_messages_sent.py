"""Transcripts as models are sent them, and what a second request carries back of the first answer."""

from typing import Any

import pytest
from pydantic_ai import messages as theirs
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import Model

from sojourn import Message, PlanResult, ToolError, ToolRequest, ToolResult
from sojourn.contracts.message import ImagePart, TextPart, ToolCallPart
from sojourn.core.run.ids import restamped, stamp
from sojourn.core.values.wire import decode_messages, encode
from sojourn.models.messages import from_response, to_messages
from sojourn.models.names import Names
from tests.models.standin import Reply, Text, Thinking, ToolCall

NAMES = Names(["ops.devices.list"])
NAME = "ops__devices__list"
ASKED = Message.user("Why is it dark?")


def outcome_text(result: ToolResult) -> Any:
    """What a model reads of a result, for tests."""
    return result.error.message if result.error else result.result


def sent(*messages: Message) -> list[theirs.ModelMessage]:
    return to_messages(messages, NAMES, result_text=outcome_text)


def shape(messages: list[theirs.ModelMessage]) -> list[list[tuple[str, Any]]]:
    """Kinds and contents of the parts, message by message."""
    return [
        [(part.part_kind, getattr(part, "content", None)) for part in message.parts] for message in messages
    ]


def calling(*ids: str) -> Message:
    return Message.calls([ToolRequest(name="ops.devices.list", tool_call_id=id) for id in ids])


def done(id: str, result: Any = "ok") -> ToolResult:
    return ToolResult(tool_call_id=id, result=result)


def test_instructions_and_notices_stay_system_messages() -> None:
    """System messages keep their place; what a later one means to a provider is the adapter's matter."""
    notice = Message.system("Answer now.")
    messages = sent(Message.system("Be brief."), ASKED, calling("c1"), Message.results([done("c1")]), notice)
    assert shape(messages) == [
        [("system-prompt", "Be brief."), ("user-prompt", "Why is it dark?")],
        [("tool-call", None)],
        [("tool-return", "ok"), ("system-prompt", "Answer now.")],
    ]


def test_results_come_in_the_order_of_their_calls() -> None:
    """Failures are marked; a notice between the results comes after them."""
    failed = ToolResult(tool_call_id="c2", error=ToolError(message="no such site"))
    answers = [Message.results([failed]), Message.system("Slow."), Message.results([done("c1", {"n": 1})])]
    [_, response, request] = sent(ASKED, calling("c1", "c2"), *answers)
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


def test_a_call_without_an_answer_is_told_to_have_none() -> None:
    """A client's transcript may end in the midst of a step; no provider takes a call without its result."""
    assert shape(sent(ASKED, calling("c1"), Message.user("Well?")))[-1] == [
        ("tool-return", "No result was recorded for this call."),
        ("user-prompt", "Well?"),
    ]


def test_an_answer_without_a_call_is_left_out() -> None:
    """Nor a result that nothing asked for, or the second of two."""
    twice = Message.results([done("c1", "first"), done("c1", "second"), done("c9")])
    assert shape(sent(Message.results([done("c8")]), ASKED, calling("c1"), twice)) == [
        [("user-prompt", "Why is it dark?")],
        [("tool-call", None)],
        [("tool-return", "first")],
    ]


def test_a_short_word_stands_where_a_request_has_none() -> None:
    """A model that speaks first, twice, or last is still asked in between: some providers refuse anything else."""
    assert shape(sent(Message.assistant("Hello!"), Message.assistant("Still there?"))) == [
        [("user-prompt", "(The conversation begins.)")],
        [("text", "Hello!")],
        [("user-prompt", "(Go on.)")],
        [("text", "Still there?")],
        [("user-prompt", "(Go on.)")],
    ]


def test_empty_messages_are_left_out() -> None:
    """A message with nothing in it is none, and what surrounds it is one request."""
    empty = [
        Message(role=role, parts=[TextPart(type="text", text="")]) for role in ("system", "user", "assistant")
    ]
    assert shape(sent(ASKED, *empty, Message(role="assistant", parts=[]), Message.user("Well?"))) == [
        [("user-prompt", "Why is it dark?"), ("user-prompt", "Well?")]
    ]


def test_a_message_of_text_and_a_picture_is_one() -> None:
    """Parts of one message stay together, in order; a role of a newer version is read as a person's."""
    parts: list[Any] = [
        TextPart(type="text", text="Look:"),
        ImagePart(type="image", media_type="image/png", data="cGlj"),
    ]
    picture = theirs.BinaryImage(b"pic", media_type="image/png")
    assert shape(sent(Message(role="narrator", parts=parts))) == [[("user-prompt", ["Look:", picture])]]


def test_the_provider_s_own_id_is_on_call_and_result() -> None:
    """A call that the run gave a new id goes out under the one its provider knows."""
    given = Message(
        role="assistant",
        parts=[ToolCallPart(type="tool_call", tool_call_id="functions.list:0", name="ops.devices.list")],
    )
    plan = PlanResult(
        tool_calls=[ToolRequest(name="ops.devices.list", tool_call_id="functions.list:0")], message=given
    )
    calls = stamp(plan.tool_calls, run_id="r", turn_id="t1", plan=1, taken=set())
    message = restamped(plan, calls)
    assert message
    assert message.tool_calls[0].tool_call_id == calls[0].tool_call_id != "functions.list:0"
    [_, response, request] = sent(ASKED, message, Message.results([done(calls[0].tool_call_id)]))
    assert [part.tool_call_id for part in (*response.parts, *request.parts)] == ["functions.list:0"] * 2  # pyright: ignore[reportAttributeAccessIssue]


def test_an_id_that_a_provider_repeats_is_sent_once() -> None:
    """Where a provider numbers its calls anew each turn, the later one goes by the run's id."""
    kept = {"tool_call_id": "call_0"}
    again = ToolCallPart(
        type="tool_call", tool_call_id="call_x", name="ops.devices.list", provider_metadata=kept
    )
    messages = sent(
        ASKED,
        calling("call_0"),
        Message.results([done("call_0", 1)]),
        Message(role="assistant", parts=[again]),
        Message.results([done("call_x", 2)]),
    )
    answers = [part for m in messages for part in m.parts if isinstance(part, theirs.ToolReturnPart)]
    assert [(part.tool_call_id, part.content) for part in answers] == [("call_0", 1), ("call_x", 2)]


# On the wire.

ANSWER = Reply(
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


async def test_the_next_request_carries_back_what_was_given(
    standin: Any, protocol: Any, streamed: bool
) -> None:
    """Thinking with its signature, text, calls and ids go back as they came, each result beside its call."""
    standin.script = [ANSWER, "Done."]
    model = standin.model(protocol)
    said = from_response(await ask(model, sent(ASKED), streamed=streamed), NAMES)
    assert [(call.name, call.tool_call_id) for call in said.tool_calls] == [
        ("ops.devices.list", "call_1"),
        ("ops.devices.list", "call_2"),
    ]
    failed = ToolResult(tool_call_id="call_2", error=ToolError(message="no such site"))
    transcript = [
        ASKED,
        said,
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
    spoken = [message for message in second.messages if message.role == "assistant"]
    assert "I look." in [message.text for message in spoken]
    if protocol != "openai-chat":  # its wire has no place for thinking
        assert [m.thinking for m in spoken if m.thinking] == ["I look at the devices."]
        assert [m.signature for m in spoken if m.signature] == ["c2lnbmF0dXJl"]
    assert "Answer now." in str(second.body)


async def test_the_items_of_responses_go_back_by_their_ids(standin: Any) -> None:
    """OpenAI's Responses joins a reasoning item to the call after it by the ids of both."""
    standin.script = [ANSWER, "Done."]
    model = standin.model("openai-responses")
    response = await ask(model, sent(ASKED), streamed=False)
    said = from_response(response, NAMES)
    await ask(model, sent(ASKED, said, Message.results([done("call_1"), done("call_2")])), streamed=False)
    given = [part.id for part in response.parts if not isinstance(part, theirs.SpeechPart)]
    items = [item for item in standin.requests[1].body["input"] if item.get("id")]
    assert len(given) == 4
    assert [item["id"] for item in items] == given


@pytest.mark.parametrize("arguments", ['{"site": ', "[1]", "null", ""])
async def test_arguments_that_are_no_object_can_go_back(standin: Any, protocol: Any, arguments: str) -> None:
    """What a model wrote wrongly is in the next request too, in a form that providers take."""
    standin.script = [Reply(parts=(ToolCall(id="call_1", name=NAME, arguments=arguments),)), "Sorry."]
    model = standin.model(protocol)
    said = from_response(await ask(model, sent(ASKED), streamed=True), NAMES)
    assert [call.raw for call in said.tool_calls] == [arguments]
    await ask(model, sent(ASKED, said, Message.results([done("call_1")])), streamed=True)
    assert [call.id for call in standin.requests[1].tool_calls] == ["call_1"]
