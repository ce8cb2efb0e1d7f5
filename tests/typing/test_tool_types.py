"""The types that a type checker infers for tools: arguments of `.call(...)` and values of results (SR-83 to SR-85).

`make check` has mypy check this file; when it runs as a test, only the calls outside `TYPE_CHECKING` are made.
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
from sojourn.authoring import ArtifactKind, Transform
from sojourn.contracts import FromOutside, WithMemory


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


@tools.tool
async def remembered(site: str) -> WithMemory[Answer]:
    return WithMemory(Answer(count=1), {"site": site})


@tools.tool
def remembered_and_charted(site: str) -> WithMemory[WithArtifacts[int]]:
    return WithMemory(WithArtifacts(1, chart=[1]), {"site": site})


@tools.tool
async def forwarded(site: str) -> FromOutside[Answer]:
    return FromOutside(Answer(count=1), f"mail from {site}")


@tools.tool
def forwarded_plainly(site: str) -> FromOutside[int]:
    return FromOutside(1, f"mail from {site}")


@tools.tool(title="With meta", read_only=True)
def with_meta(query: Query, meta: ToolCallMeta) -> Answer:
    return Answer(count=meta.attempt)


@tools.tool
def meta_first(meta: ToolCallMeta, site: str) -> list[str]:
    return [site, meta.run_id]


@tools.tool(artifacts={"chart": list[int]})
async def charted(site: str) -> WithArtifacts[Answer]:
    return WithArtifacts(Answer(count=1), chart=[1])


CHART = ArtifactKind("points", list[int])


@tools.tool(artifacts=[CHART])
async def drawn(site: str) -> WithArtifacts[Answer]:
    return WithArtifacts(Answer(count=1), points=[1])


@tools.tool(inject=["session_id"], read_only=True)
def hidden(session_id: str, site: str, limit: int = 5) -> Answer:
    return Answer(count=limit)


class Asked(BaseModel):
    site: str
    limit: int = 5


class Owned(BaseModel):
    session_id: str
    site: str


@tools.tool(inject=["session_id"])
async def hidden_model(owned: Owned) -> Answer:
    return Answer(count=len(owned.site))


bound = tools.bind(Service.find, name="find_bound")
bound_meta = tools.bind(Service.whose)
named = tools.bind("named", service="Service", method="find", args=Query, result=Answer)
converted = tools.bind(Service.find, name="converted", args=Query, result=int, to_result=lambda found: 1)
renamed = tools.bind(Service.find, name="renamed", args=Query)
shortened = tools.bind(Service.find, name="shortened", result=int, to_result=lambda found: 1)
bound_hidden = tools.bind(Service.find, name="bound_hidden", inject=["site"])
declared = tools.declare("declared", args=Query, result=Answer)
declared_hidden = tools.declare("declared_hidden", args=Owned, result=Answer, inject=["session_id"])
to_asked = Transform(Query, Asked)


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
    assert_type(hidden.call(site="s"), ToolRequest)
    assert_type(hidden_model.call(site="s"), ToolRequest)
    assert_type(bound_hidden.call(), ToolRequest)
    assert_type(declared.decode(declared.call(query)), Query)
    assert_type(named.decode(named.call(query)), Query)
    assert_type(converted.decode(converted.call(query)), Query)
    owned = declared_hidden.inject(declared_hidden.call(site="s"), session_id="x")
    assert_type(declared_hidden.decode(owned), Owned)
    assert_type(to_asked(query), Asked)
    made = drawn.attach(ToolResult(), CHART, [1])
    assert_type(made, ToolResult)
    assert_type(drawn.artifact(made, CHART), list[int] | None)
    if TYPE_CHECKING:
        result = ToolResult()
        assert_type(find.result_of(result), Answer)
        assert_type(count.result_of(result), int)
        assert_type(with_meta.result_of(result), Answer)
        assert_type(meta_first.result_of(result), list[str])
        assert_type(charted.result_of(result), Answer)
        assert_type(remembered.result_of(result), Answer)
        assert_type(remembered_and_charted.result_of(result), int)
        assert_type(forwarded.result_of(result), Answer)
        assert_type(forwarded_plainly.result_of(result), int)
        assert_type(hidden.result_of(result), Answer)
        assert_type(hidden_model.result_of(result), Answer)
        assert_type(converted.result_of(result), int)
        assert_type(renamed.result_of(result), Answer)
        assert_type(shortened.result_of(result), int)
        assert_type(bound_hidden.result_of(result), Answer)
        assert_type(declared_hidden.result_of(result), Answer)
        drawn.attach(result, CHART, "no list")  # type: ignore[misc]  # pyright: ignore[reportCallIssue, reportArgumentType]
        assert_type(bound.result_of(result), Answer)
        assert_type(bound_meta.result_of(result), Answer)
        assert_type(named.result_of(result), Answer)
        assert_type(declared.result_of(result), Answer)
        assert_type(exported[ask].result_of(result), Answer)
        find.call(site="s")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        count.call(sight="s")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
        with_meta.call(query, ToolCallMeta(run_id="r"))  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
