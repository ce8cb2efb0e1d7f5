"""Bounded results: an agent tool declares them, its answer states its bounds, and they stand beside it (SR-22, SR-31 to SR-35)."""

from dataclasses import dataclass

import pytest
from pydantic import BaseModel, ValidationError

from sojourn import (
    Agent,
    AgentTool,
    App,
    Message,
    PlanResult,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
)
from sojourn.contracts import Bounds
from sojourn.contracts.tool_call import InputForm, InputRequired
from sojourn.errors import DefinitionError
from sojourn.testing import ScriptedPlanner


class Question(BaseModel):
    topic: str


class Books(BaseModel):
    books: list[str]
    returned: int
    total: int | None = None
    truncated: bool = False
    refinement_hint: str | None = None


@dataclass
class Page:
    items: list[str]
    returned: int
    next_cursor: str | None = None


SOME = Books(books=["a"], returned=1, total=9, truncated=True, refinement_hint="name an author")
ODD = Books(books=["a"], returned=7)


@pytest.mark.parametrize(
    ("answer", "bounds"),
    [
        (SOME, Bounds(returned=1, total=9, truncated=True, refinement_hint="name an author")),
        (ODD, Bounds(returned=7, note="`returned` is 7, the list holds 1")),
    ],
    ids=["agree", "disagree"],
)
async def test_an_agents_answer_is_a_bounded_view(serve, answer, bounds):
    """The parent's planner and the event get the same bounds; a wrong `returned` is noted, and the answer kept."""
    plan = PlanResult(final_response=Message.assistant("here"), result=answer.model_dump())
    child = Agent("test.child", planner=ScriptedPlanner([plan]))
    desk = child.export("test.desk", tools=[AgentTool("find", args=Question, result=Books, bounded=True)])
    planner = ScriptedPlanner(
        [
            PlanResult.calls(ToolRequest(name="test.desk.find", payload={"topic": "t"})),
            PlanResult.final("done"),
        ]
    )
    client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[desk]), child]))
    run = await client.start("test.agent", "go")
    await run.result()
    (result,) = planner.turns[1].tool_results
    (end,) = [event async for event in run.events() if event.type == "tool_end"]
    assert result.result == answer.model_dump()
    assert (result.bounds, end.result.bounds) == (bounds, bounds)
    assert desk.tools["find"].spec.bounded


async def test_odd_bounds_are_logged(serve, caplog):
    """The log names the tool and what is odd; the answer of a tool that needs input is no result yet, and is not odd."""
    tools = Toolset("test.tools")
    tools.declare("find", args=Question, result=Books, bounded=True, description="Find books.")

    async def execute(meta: ToolCallMeta, call: ToolRequest) -> ToolResult:
        if call.payload["topic"] == "asks":
            form = {"type": "object", "properties": {"author": {"type": "string"}}}
            return ToolResult(
                input_required=InputRequired(forms=[InputForm(key="k", message="Who?", form=form)])
            )
        return ToolResult(result=(ODD if call.payload["topic"] == "odd" else SOME).model_dump())

    planner = ScriptedPlanner(
        [
            PlanResult.calls(
                *(
                    ToolRequest(name="test.tools.find", payload={"topic": topic})
                    for topic in ("asks", "odd", "even")
                )
            ),
            PlanResult.final("done"),
        ]
    )
    agent = Agent("test.agent", planner=planner, uses=[tools])
    client = await serve(App(agents=[agent], executors={tools: execute}))
    await client.execute("test.agent", "go")
    assert [result.ok for result in planner.turns[1].tool_results] == [False, True, True]
    (line,) = [line for line in caplog.text.splitlines() if "bounds_odd" in line]
    assert "test.tools.find" in line
    assert "`returned` is 7, the list holds 1" in line


def test_a_bounded_agent_tool_needs_a_returned_field():
    """A text has no `returned`: a definition error, as for every tool (SR-32)."""
    child = Agent("test.child", planner=ScriptedPlanner([]))
    with pytest.raises(DefinitionError, match=r"test\.desk\.find: .*`returned`"):
        child.export("test.desk", tools=[AgentTool("find", args=Question, bounded=True)])


@pytest.mark.parametrize(
    ("value", "bounds"),
    [
        (SOME, Bounds(returned=1, total=9, truncated=True, refinement_hint="name an author")),
        (SOME.model_dump(), Bounds(returned=1, total=9, truncated=True, refinement_hint="name an author")),
        (Page(items=["x"], returned=1, next_cursor="p2"), Bounds(returned=1, next_cursor="p2")),
    ],
    ids=["model", "json", "dataclass"],
)
def test_bounds_are_read_from_a_typed_result(value, bounds):
    """The four values, and a cursor, are those of the result (SR-35)."""
    assert Bounds.of(value) == bounds


@pytest.mark.parametrize("value", [Question(topic="t"), ["x"], None], ids=str)
def test_a_value_without_returned_has_no_bounds(value):
    """`Bounds.of` raises `ValidationError`, and does not make any up."""
    with pytest.raises(ValidationError):
        Bounds.of(value)
