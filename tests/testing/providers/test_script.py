"""The scripts of a stand-in, and its record of the requests."""

import asyncio
import sys

import pytest
from pydantic_ai import ModelRequest, ModelResponse, ToolDefinition, ToolReturnPart
from pydantic_ai import exceptions as faults
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models import infer_model

from sojourn import Toolset
from sojourn.testing.providers import MODELS, Completion, ProviderServer, ToolCall, calls, fails, says, script

FIND = ToolDefinition(
    name="orders__find",
    parameters_json_schema={"type": "object", "properties": {"id": {"type": "integer"}}},
)


@pytest.fixture
def converse(ask):
    """Converse until the model makes no calls, with each call's result by a function, and return all responses."""

    async def until_text(model, result_of, **options) -> list[ModelResponse]:
        messages: list[ModelMessage] = [ModelRequest.user_text_prompt("Where is my order?")]
        answers: list[ModelResponse] = []
        while not answers or answers[-1].tool_calls:
            assert len(answers) < 10
            answers.append(await ask(model, messages, tools=[FIND], **options))
            results = [
                ToolReturnPart(call.tool_name, result_of(call), tool_call_id=call.tool_call_id)
                for call in answers[-1].tool_calls
            ]
            messages += [answers[-1], ModelRequest(parts=results)]
        return answers

    return until_text


orders = Toolset("shop.orders")


@orders.tool(read_only=True)
async def find(id: int) -> str:
    """Find an order."""
    return str(id)


def test_a_call_is_written_as_a_model_writes_it() -> None:
    """A call by a Sojourn tool has the tool's name for models, an object is written as JSON, and a text stays as it is."""
    (made,) = calls(find.call(id=7)).parts
    assert (made.name, made.arguments, made.id) == ("shop__orders__find", '{"id": 7}', None)
    assert ToolCall(name="x", arguments={"id": 7}).arguments == '{"id": 7}'
    assert ToolCall(name="x", arguments='{"id"').arguments == '{"id"'


def test_a_fault_says_when_to_ask_again() -> None:
    """The seconds are in the headers that SDKs read, beside other headers of the script."""
    fault = fails("rate_limit", retry_after=0.5, headers={"x-id": "1"})
    assert fault.headers == {"x-id": "1", "retry-after-ms": "500", "retry-after": "0"}
    assert (fails("quota").headers, fails("server_error", status=502).status) == ({}, 502)


async def test_a_missing_package_is_named_with_its_extra(monkeypatch) -> None:
    """Without uvicorn a server says which extra has it, and without an SDK so does a model."""
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "uvicorn", None)
        with pytest.raises(ModuleNotFoundError, match=r"needs uvicorn.*pip install 'sojourn\[http\]'"):
            await ProviderServer().__aenter__()
    async with ProviderServer() as provider:
        monkeypatch.setitem(sys.modules, "openai", None)
        with pytest.raises(ModuleNotFoundError, match=r"needs openai.*pip install 'sojourn\[models\]'"):
            provider.model("openai-chat")


async def test_what_is_no_answer_is_an_error(ask) -> None:
    """A script with something else says what it may have."""
    async with ProviderServer([ToolCall(name="x")]) as provider:
        with pytest.raises(faults.ModelRequestRejectedError):
            await ask(provider.model("openai-chat"))
        (error,) = provider.errors
        assert "a script has answers such as" in str(error)


async def test_answers_come_in_order(standin, ask) -> None:
    """Each request gets the next answer of the script, from its beginning after it is replaced."""
    model = standin.model("openai-chat")
    standin.script = ["one", says("two")]
    assert [(await ask(model)).text for _ in range(2)] == ["one", "two"]
    standin.script = ["three"]
    assert (await ask(model)).text == "three"
    assert [request.number for request in standin.requests] == [0, 1, 2]


async def test_a_function_may_answer(standin, ask, protocol, streamed) -> None:
    """A script may be a function of the request, also an async one."""

    async def echo(request) -> Completion:
        await asyncio.sleep(0)
        return says(f"You said {request.text}")

    standin.script = echo
    assert (await ask(standin.model(protocol), streamed=streamed)).text == "You said Hello"


async def test_a_fault_of_the_script_is_an_error_that_names_it(ask, protocol) -> None:
    """A request without an answer, or with an exception for one, is refused in words, and recorded as an error of the test."""

    def broken(request) -> Completion:
        raise KeyError("order")

    for answers, why in (((), "no answer left for request 0"), (broken, "KeyError: 'order'")):
        async with ProviderServer(answers) as standin:
            with pytest.raises(faults.ModelRequestRejectedError, match=f"the stand-in's script: {why}"):
                await ask(standin.model(protocol))
            (error,) = standin.errors
            assert str(error) in f"{why} 'order'"


async def test_answers_on_hold_are_counted(standin, ask, protocol) -> None:
    """The requests in flight are counted, and an answer on hold waits until it is released."""
    model = standin.model(protocol)
    standin.script = [says("a", hold=0), says("b", hold=0), "c"]
    asking = [asyncio.create_task(ask(model)) for _ in range(2)]
    await standin.wait_for_held(2)
    assert (standin.in_flight, standin.most_in_flight) == (2, 2)
    standin.release()
    assert sorted([(await task).text for task in asking]) == ["a", "b"]
    await ask(model)
    assert (standin.in_flight, standin.most_in_flight) == (0, 2)


async def test_a_client_that_disconnects_is_noticed(standin, ask, protocol, streamed) -> None:
    """A request that its client cancels ends at the stand-in as `left`."""
    standin.script = [says("never read" * 50, hold=0.5)]
    asking = asyncio.create_task(ask(standin.model(protocol), streamed=streamed))
    await standin.wait_for_held()
    asking.cancel()
    await standin.wait_for_ends()
    assert standin.requests[0].end == "left"
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_the_task_counts(standin, converse, protocol, streamed) -> None:
    """The task `counts` makes one call in each response, as often as set, then answers."""
    standin.script = script.counts("orders__find", 3, '{"id": {turn}}', answer="All found.")
    answers = await converse(standin.model(protocol), lambda call: "found", streamed=streamed)
    made = [call.args_as_dict() for answer in answers for call in answer.tool_calls]
    assert made == [{"id": 1}, {"id": 2}, {"id": 3}]
    assert answers[-1].text == "All found."


BAD_CALLS = {"another field": '{"number": 7}', "no JSON": '{"id": 7'}


@pytest.mark.parametrize("bad", BAD_CALLS)
async def test_the_task_repairs(standin, converse, protocol, streamed, bad) -> None:
    """The task `repairs` repeats the bad call until a result has the facts, and then makes the good call."""
    standin.script = script.repairs("orders__find", BAD_CALLS[bad], '{"id": 7}', ["id", "integer"])
    results = iter(["Something is wrong.", "The field `id` is missing; it is an integer.", "Shipped."])
    answers = await converse(standin.model(protocol), lambda call: next(results), streamed=streamed)
    made = [call.args for answer in answers for call in answer.tool_calls]
    assert len(made) == 3
    assert made[0] == made[1]
    last = answers[2].tool_calls[0]
    assert last.args_as_dict() == {"id": 7}
    assert answers[-1].text == "Done."


async def test_a_call_may_have_a_scripted_id(standin, converse) -> None:
    """The result of a call has the id that the script has given the call."""
    standin.script = [calls(ToolCall(id="call_x", name="orders__find")), "Done."]
    await converse(standin.model("openai-responses"), lambda call: "found")
    assert [(result.id, result.text) for result in standin.requests[1].tool_results] == [("call_x", "found")]


async def test_models_by_name_use_the_stand_in_by_variables(standin, ask, protocol, monkeypatch) -> None:
    """A model by name uses the stand-in when the SDKs' own environment variables name it."""
    for name, value in standin.environment.items():
        monkeypatch.setenv(name, value)
    standin.script = ["Here."]
    model = infer_model(f"{protocol}:{MODELS[protocol]}")
    async with model:
        assert (await ask(model)).text == "Here."
    assert [request.protocol for request in standin.requests] == [protocol]
