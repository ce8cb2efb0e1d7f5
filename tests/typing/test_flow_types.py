"""The types that a type checker infers in a flow and of a turn's results.

`make check` has mypy check this file; when it runs as a test, only the flow is made.
"""

from typing import TYPE_CHECKING, Any, assert_type

from pydantic import BaseModel

from sojourn import Agent, AgentTool, Case, PlanResult, ToolResult, Toolset, Turn, WithArtifacts, flow

tools = Toolset("ops.flow_typed")


class Query(BaseModel):
    site: str


@tools.tool
async def find(query: Query) -> list[str]:
    return [query.site]


@tools.tool
def count(site: str, limit: int = 5) -> int:
    return limit


@tools.tool(artifacts={"chart": list[int]})
async def charted(site: str) -> WithArtifacts[str]:
    return WithArtifacts(site, chart=[1])


@flow
def desk(case: Case) -> str:
    assert_type(case.call(find, Query(site="s")), list[str])
    assert_type(case.call(count, site="s"), int)
    assert_type(case.begin(charted, site="s").result(), str)
    assert_type(case.call("ops.flow_typed.count", site="s"), Any)
    assert_type(case.ask("Why?"), str | None)
    return "done"


@flow(max_repairs=0)
async def waiting(case: Case) -> PlanResult | None:
    return None


ask = AgentTool("ask", args=Query, result=list[int])
exported = Agent("ops.flow_agent", planner=desk).export("ops.flow_asked", tools=[ask])


def test_a_flow_is_typed_by_its_tools() -> None:
    assert Agent("ops.waits", planner=waiting).planner is waiting
    if TYPE_CHECKING:
        turn: Turn = Turn.model_validate({})
        case = Case(turn)
        assert_type(case.call(exported[ask], Query(site="s")), list[int])
        case.call(count, sight="s")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
        assert_type(turn.last(count), int | None)
        assert_type(turn.last(exported[ask]), list[int] | None)
        assert_type(turn.last("ops.flow_typed.count"), ToolResult | None)
