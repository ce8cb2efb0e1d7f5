"""What type checkers know of tools: arguments of `.call(...)` and values of results (SR-83 to SR-85).

Checked by pyright and mypy; run, it checks nothing more than that the calls are made.
"""

from typing import TYPE_CHECKING, assert_type

from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    PlanResult,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
    Turn,
    WithArtifacts,
)


class Query(BaseModel):
    site: str


class Answer(BaseModel):
    count: int


class Service:
    def find(self, query: Query) -> Answer:
        return Answer(count=len(query.site))

    async def whose(self, query: Query, meta: ToolCallMeta) -> Answer:
        return Answer(count=meta.attempt)


tools = Toolset("ops.typed")


@tools.tool
async def find(query: Query) -> Answer:
    return Answer(count=len(query.site))


@tools.tool
def count(site: str, limit: int = 5) -> int:
    return limit


@tools.tool(title="With meta", read_only=True)
def with_meta(query: Query, meta: ToolCallMeta) -> Answer:
    return Answer(count=meta.attempt)


@tools.tool
def meta_first(meta: ToolCallMeta, site: str) -> list[str]:
    return [site, meta.run_id]


@tools.tool(artifacts={"chart": list[int]})
async def charted(site: str) -> WithArtifacts[Answer]:
    return WithArtifacts(Answer(count=1), chart=[1])


bound = tools.bind(Service.find, name="find_bound")
bound_meta = tools.bind(Service.whose)
named = tools.bind("named", service="Service", method="find", args=Query, result=Answer)
declared = tools.declare("declared", args=Query, result=Answer)


async def plan(_turn: Turn) -> PlanResult:
    return PlanResult.final("")


ask = AgentTool("ask", args=Query, result=Answer)
exported = Agent("ops.agent", planner=plan).export("ops.asked", tools=[ask])


def test_calls_and_results_are_typed() -> None:
    query = Query(site="s")
    assert_type(find.call(query), ToolRequest)
    assert_type(count.call(site="s", limit=3), ToolRequest)
    assert_type(with_meta.call(query), ToolRequest)
    assert_type(meta_first.call(site="s"), ToolRequest)
    assert_type(bound.call(query), ToolRequest)
    assert_type(bound_meta.call(query), ToolRequest)
    assert_type(named.call(query), ToolRequest)
    assert_type(exported[ask].call(query), ToolRequest)
    assert find.call(query).payload == {"site": "s"}
    if TYPE_CHECKING:
        result = ToolResult()
        assert_type(find.result_of(result), Answer)
        assert_type(count.result_of(result), int)
        assert_type(with_meta.result_of(result), Answer)
        assert_type(meta_first.result_of(result), list[str])
        assert_type(charted.result_of(result), Answer)
        assert_type(bound.result_of(result), Answer)
        assert_type(bound_meta.result_of(result), Answer)
        assert_type(named.result_of(result), Answer)
        assert_type(declared.result_of(result), Answer)
        assert_type(exported[ask].result_of(result), Answer)
        find.call(site="s")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        count.call(sight="s")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        with_meta.call(query, ToolCallMeta(run_id="r"))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
