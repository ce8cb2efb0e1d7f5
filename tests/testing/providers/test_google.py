"""Google's API: pydantic-ai's own client against the stand-in, alone and in a run."""

import pytest
from pydantic_ai.exceptions import ModelHTTPError

from sojourn import ModelPlanner, Toolset
from sojourn.testing.providers import (
    HttpError,
    Refusal,
    Reply,
    Text,
    Thinking,
    ToolCall,
    Usage,
    calls,
    says,
    wire,
)

RICH = Reply(
    parts=(
        Thinking(text="They greet me."),
        Text(text="One moment please."),
        ToolCall(name="test__tools__add", arguments='{"a": 1, "b": 2}', id="c1"),
        ToolCall(name="test__tools__add", arguments='{"a": 3, "b": 4}'),
    ),
    usage=Usage(input=100, output=20, cached=60),
)
ANSWERS = {
    "rich": RICH,
    "empty": Reply(),
    "refusal": Reply(parts=(Refusal(text="No."),)),
    "length": says("It was", finish="length"),
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_answers_have_the_shape_of_the_sdk(answer) -> None:
    """The SDK's own type accepts the answer, and each event of a stream, in strict mode."""
    from google.genai.types import GenerateContentResponse

    asked = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    request = wire.read("google", asked, {}, 0, "/v1beta/models/gemini-3.8-flash:generateContent")
    assert (request.model, request.stream) == ("gemini-3.8-flash", False)
    found = [
        wire.plain(answer, request),
        *(event.removeprefix(b"data: ") for event in wire.stream(answer, request)),
    ]
    for each in found:
        GenerateContentResponse.model_validate_json(each, strict=True)


tools = Toolset("test.tools")


@tools.tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def test_a_run_calls_and_answers(serve, standin) -> None:
    """Both calls of a response run, their results go back with the signature of the thinking, and the answer ends the run."""
    standin.script = [RICH, says("3 and 7")]
    client = await serve(planner=ModelPlanner(standin.model("google")), uses=(tools,))
    output = await (await client.start("test.agent", "go")).result()
    assert (output.text, output.tool_calls) == ("3 and 7", 2)
    first, second = standin.requests
    assert [tool.name for tool in first.tools] == ["test__tools__add"]
    assert [result.text for result in second.tool_results] == ["3", "7"]
    assert second.messages[-3].signature.startswith("c2lnbmVk")


@pytest.mark.parametrize(
    ("error", "status"), [("context_length", 400), ("rate_limit", 429), ("overloaded", 503)]
)
async def test_a_refused_request_is_an_error_with_its_status(standin, ask, error, status) -> None:
    """The client raises what the provider says, with its status, streamed or not."""
    for streamed in (False, True):
        standin.script = [HttpError(error=error)]
        with pytest.raises(ModelHTTPError) as raised:
            await ask(standin.model("google"), streamed=streamed)
        assert raised.value.status_code == status
    assert len(standin.requests) == 2


async def test_a_cut_answer_is_told(serve, standin) -> None:
    """An answer that ends at the output limit is given as far as it goes, with a note, and a stream brings calls whole."""
    standin.script = [
        calls(ToolCall(name="test__tools__add", arguments='{"a": 1, "b": 2}')),
        says("It", finish="length"),
    ]
    client = await serve(planner=ModelPlanner(standin.model("google")), uses=(tools,))
    output = await (await client.start("test.agent", "go")).result()
    assert output.text == "It"
    assert any("output limit" in note for note in output.notes)
