"""Native tools whose arguments are unions, recursive types or have odd keys, in runs with models of every protocol."""

import json
from collections.abc import AsyncIterator
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, RootModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    Client,
    ModelPlanner,
    PlanInput,
    PlanResult,
    Toolset,
    Worker,
)
from sojourn.testing.providers import Protocol, ProviderServer, ToolCall, calls, says

shapes = Toolset("test.shapes")


class Circle(BaseModel):
    kind: Literal["circle"]
    r: int


class Square(BaseModel):
    kind: Literal["square"]
    a: int


class Shape(RootModel[Annotated[Circle | Square, Field(discriminator="kind")]]):
    """A shape."""


class Node(BaseModel):
    name: str
    below: list["Node"] = []


class Page(BaseModel):
    top: int = Field(alias="$top", ge=1)


@shapes.tool(read_only=True)
async def area(args: Shape) -> int:
    """The area of a shape."""
    return args.root.r * 3 if isinstance(args.root, Circle) else args.root.a**2


@shapes.tool(read_only=True)
async def depth(args: Node) -> int:
    """The depth of a tree."""
    return 1 + max((1 for _ in args.below), default=0)


@shapes.tool(read_only=True)
async def page(args: Page) -> int:
    """A page of so many."""
    return args.top


async def draw(turn: PlanInput) -> PlanResult:
    return PlanResult.final(f"drew {turn.messages[-1].text}")


drawer = Agent("test.drawer", planner=draw)
drawing = drawer.export(
    "test.drawing", tools=[AgentTool("draw", args=Shape, user="a shape", description="Draw a shape.")]
)


@pytest.fixture
async def client(temporal_address: str, standin: ProviderServer, protocol: Protocol) -> AsyncIterator[Client]:
    """A client of a worker whose agent has these tools."""
    planner = ModelPlanner(standin.model(protocol), settings={"max_tokens": 1000})
    app = App(agents=[Agent("test.agent", planner=planner, uses=[shapes, drawing]), drawer])
    connected = await Client.connect(temporal_address, task_queue=f"roots-{protocol}")
    async with Worker(app, connected):
        yield connected


async def test_native_roots_of_any_kind_are_offered_and_called(
    client: Client, standin: ProviderServer
) -> None:
    """Unions and recursive types are offered as plain objects and called, and a hint has the model's name of a field."""
    standin.script = [
        calls(
            ToolCall(id="c1", name="test__shapes__area", arguments='{"kind": "square", "a": 3}'),
            ToolCall(
                id="c2", name="test__shapes__depth", arguments='{"name": "x", "below": [{"name": "y"}]}'
            ),
            ToolCall(id="c3", name="test__drawing__draw", arguments='{"kind": "circle", "r": 1}'),
            ToolCall(id="c4", name="test__shapes__page", arguments='{"top": 0}'),
        ),
        calls(ToolCall(id="c5", name="test__shapes__page", arguments='{"top": 7}')),
        says("Done."),
    ]
    output = await client.execute("test.agent", "go")
    assert output.text == "Done."
    assert standin.refusals == []
    texts = [result.text for result in standin.requests[-1].tool_results]
    assert (texts[0], texts[1], texts[4]) == ("9", "2", "7")
    assert "drew a shape" in texts[2]
    assert "`top`" in texts[3]
    assert "$top" not in texts[3]
    offered = {tool.name: tool for tool in standin.requests[0].tools}
    assert set(offered["test__shapes__area"].schema["properties"]) == {"kind", "r", "a"}
    assert "Give exactly one of these" in offered["test__shapes__area"].description
    assert [json.loads(call.arguments) for call in standin.requests[-1].tool_calls][3:] == [
        {"top": 0},
        {"top": 7},
    ]
