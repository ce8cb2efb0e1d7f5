"""The `repr` of public objects says which one it is, without payloads."""

from datetime import UTC, datetime, timedelta

from pydantic import BaseModel

from sojourn import Agent, AgentTool, App, PlanResult, ToolResult, Toolset
from sojourn.contracts.event import PlannerNoteEvent, ToolEndEvent
from sojourn.contracts.message import Message
from sojourn.contracts.run import RunOutput
from sojourn.contracts.tool_error import ToolError
from sojourn.testing.scripted import ScriptedPlanner


class Question(BaseModel):
    text: str


def test_declarations_are_named_with_counts() -> None:
    """App, agent and toolsets are named by their ids."""
    tools = Toolset("test.tools")

    @tools.tool
    def look() -> str:
        """Look."""
        return ""

    plan = ScriptedPlanner([PlanResult.final("")])
    child = Agent("test.child", planner=plan)
    below = child.export("test.below", tools=[AgentTool("ask", args=Question)])
    agent = Agent("test.agent", planner=plan, uses=[tools, below])
    app = App(agents=[agent, child])
    assert [repr(each) for each in (tools, below, agent, child, app)] == [
        "<Toolset test.tools: 1 tool>",
        "<AgentToolset test.below of test.child: 1 tool>",
        "<Agent test.agent: test.tools test.below>",
        "<Agent test.child: no toolsets>",
        "<App test.agent test.child: 2 toolsets>",
    ]


def test_results_and_events_show_no_payload() -> None:
    """Ids, counts and codes are shown, and no text."""
    result = ToolResult(
        name="test.tools.look",
        tool_call_id="c1",
        result="SECRET",
        error=ToolError.new("SECRET", code="denied"),
    )
    about = {"run_id": "r1", "event_id": "0-000001-00000", "time": datetime(2026, 1, 1, tzinfo=UTC)}
    end = ToolEndEvent(**about, result=result, duration=timedelta(seconds=1))
    note = PlannerNoteEvent(**about, text="SECRET")
    output = RunOutput(run_id="r1", agent_id="test.agent", final=Message.assistant("SECRET"), tool_calls=2)
    assert repr(result) == "ToolResult(name='test.tools.look', tool_call_id='c1', ok=False, code='denied')"
    assert repr(end) == (
        "ToolEndEvent(run_id='r1', event_id='0-000001-00000', tool_call_id='c1', tool_name='test.tools.look')"
    )
    for each in (result, end, note, output):
        assert "SECRET" not in repr(each) + str(each)
    assert "tool_calls=2" in repr(output)
