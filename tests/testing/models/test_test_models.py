"""pydantic-ai's `TestModel` and `FunctionModel` in real runs, as planners' models."""

from enum import StrEnum
from typing import Annotated

import pytest
from pydantic import BaseModel, Field
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from sojourn import Agent, App, RunPolicy, Toolset
from sojourn.models import ModelPlanner
from sojourn.testing.models import use_model

ASKS = RunPolicy(interrupts_allowed=True)


class Size(StrEnum):
    small = "small"
    large = "large"


class Order(BaseModel):
    """What to order."""

    item: str = Field(min_length=2)
    size: Size
    count: int = Field(ge=1, le=9)
    day: str = Field(json_schema_extra={"format": "date"})
    notes: list[str] = Field(default=[], max_length=3)


class Bill(BaseModel):
    """What it costs."""

    total: float = Field(ge=0)
    size: Size


shop = Toolset("test.shop")


@shop.tool
async def order(args: Order) -> str:
    """Order something."""
    return f"{args.count} {args.size.value}"


@shop.tool
async def stock(code: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]) -> int:
    """Count what there is."""
    return len(code)


@pytest.fixture
def played(serve):
    """Run an agent whose model a test replaces; return the run's output, and the results of its calls by tool."""

    async def run(model, *, policy=None, answer=None, **options):
        planner = ModelPlanner("openai:gpt-5-mini", **options)
        app = App(agents=[Agent("test.agent", planner=planner, uses=[shop], policy=policy)])
        with use_model(app, model):
            client = await serve(app)
            run = await client.start("test.agent", "go")
            async for event in run.events():
                if event.type == "await_clarification":
                    await run.answer(None, answer)
            output = await run.result()
            messages = await run.transcript()
        return output, {result.name: result for message in messages for result in message.tool_results}

    return run


async def test_test_model_calls_every_tool_and_answers(played):
    """`TestModel` fills enums, limits and dates; a pattern, which it does not fill, is refused with a hint."""
    output, results = await played(TestModel())
    assert output.tool_calls == 2
    assert results["test.shop.order"].result == "1 small"
    assert results["test.shop.stock"].retry_hint.issues[0].constraint == "invalid_pattern"
    assert output.text.startswith('{"test__shop__order":"1 small"')


async def test_test_model_calls_the_tools_that_are_named(played):
    """`call_tools` takes the names that models get for tools."""
    model = TestModel(call_tools=["test__shop__order"], custom_output_text="Done.")
    output, results = await played(model)
    assert (output.text, list(results)) == ("Done.", ["test.shop.order"])


async def test_test_model_asks_where_it_may(played):
    """`TestModel` calls `ask_user` like any tool: the question is asked, and the calls beside it are not executed."""
    output, results = await played(TestModel(), policy=ASKS, answer="yes")
    assert output.tool_calls == 0
    assert results["ask_user"].result == "yes"
    assert results["test.shop.order"].error
    output, results = await played(TestModel(), policy=ASKS, asks=False)
    assert output.tool_calls == 2


@pytest.mark.parametrize(
    ("result", "given", "value"),
    [
        (Bill, None, {"total": 0, "size": "small"}),
        (Bill, Bill(total=3, size=Size.large), {"total": 3, "size": "large"}),
        (int, None, 0),
        (list[Size], {"answer": ["large"]}, ["large"]),
    ],
    ids=["object", "given", "number", "array"],
)
async def test_test_model_gives_typed_answers(played, result, given, value):
    """A typed answer is made up or given; one that is no object is given in the field `answer`."""
    model = TestModel(call_tools=[], custom_output_args=given)
    output, _ = await played(model, result=result)
    assert output.result == value


async def test_an_answer_that_does_not_fit_is_corrected_once(played):
    """An answer that does not fit is sent back to the model, with the field that is wrong."""
    seen = []

    async def decide(messages, info: AgentInfo) -> ModelResponse:
        seen.append(messages[-1].parts[-1])
        total = -1 if len(seen) == 1 else 3
        return ModelResponse([ToolCallPart(info.output_tools[0].name, {"total": total, "size": "small"})])

    output, _ = await played(FunctionModel(decide), result=Bill)
    assert output.result == {"total": 3, "size": "small"}
    assert "`total`" in seen[1].content


async def test_a_function_decides(played):
    """A function reads the transcript, the tools and the instructions, and can call, ask, repair a call and answer."""
    seen = []

    def decide(messages, info: AgentInfo) -> ModelResponse:
        seen.append(info)
        parts = {type(part): part for part in messages[-1].parts}
        match len(seen):
            case 1:
                return ModelResponse(
                    [TextPart("Let me see."), ToolCallPart("test__shop__stock", {"code": "abc"})]
                )
            case 2:
                assert parts[ToolReturnPart].content.startswith("failed: invalid_arguments")
                return ModelResponse([ToolCallPart("test__shop__stock", {"code": "ABC"})])
            case 3:
                assert parts[ToolReturnPart].content == "3"
                return ModelResponse([ToolCallPart("ask_user", {"question": "Order them?"})])
            case _:
                return ModelResponse([TextPart("Ordered.")])

    output, _ = await played(FunctionModel(decide), policy=ASKS, answer="yes", instructions="Be brief.")
    assert (output.text, output.tool_calls) == ("Ordered.", 2)
    assert len(seen) == 4
    assert seen[0].instructions == "Be brief."
    assert [tool.name for tool in seen[0].function_tools] == [
        "test__shop__order",
        "test__shop__stock",
        "ask_user",
    ]
