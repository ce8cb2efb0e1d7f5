"""Tools bound to methods of services, and tools that an executor carries out (SR-16 to SR-21, SR-80 to SR-82)."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ValidationError, field_validator

from sojourn import Agent, App, PlanResult, ToolCallMeta, ToolRequest, ToolResult, Toolset
from sojourn.authoring.tool import MalformedResultError
from sojourn.errors import DefinitionError

META = ToolCallMeta(run_id="r", session_id="s", tool_call_id="c")


class Search(BaseModel):
    """What a model may ask."""

    text: str
    limit: int = 5


class Hit(BaseModel):
    title: str


class Hits(BaseModel):
    hits: list[Hit]


@dataclass
class SearchRequest:
    """What the service wants."""

    text: str
    limit: int
    language: str = "en"


class FullHit(BaseModel):
    title: str
    score: float


class FullHits(BaseModel):
    hits: list[FullHit]
    took_ms: int


class SearchService:
    """A service that knows nothing of agents."""

    async def search(self, request: SearchRequest) -> FullHits:
        """Find documents."""
        hits = [
            FullHit(title=f"{request.text} {n} {request.language}", score=n) for n in range(request.limit)
        ]
        return FullHits(hits=hits, took_ms=3)

    def ping(self, word: str, times: int = 1) -> str:
        """Answer."""
        return word * times

    async def whose(self, word: str, meta: ToolCallMeta) -> str:
        return f"{word} of {meta.session_id}"

    def strict(self, request: Literal["a", "b"]) -> int:
        return 1

    def untyped(self, text: str):
        return text


class BetterSearchService(SearchService):
    pass


async def plan(_turn: Any) -> PlanResult:
    return PlanResult.final("done")


def app_with(tools: Toolset, *services: Any, **more: Any) -> App:
    """An app of one agent with these tools."""
    return App(agents=[Agent("test.agent", planner=plan, uses=[tools])], services=services, **more)


async def result_of(app: App, name: str, payload: dict[str, Any]) -> Any:
    """Call a bound tool with a valid payload, and return its result."""
    tool: Any = app.tools_of("test.agent")[name]
    assert tool.validator.is_valid(payload)
    value = tool.prepare(payload, ToolRequest(name=name, payload=payload, tool_call_id="c"), META)()
    return await value if tool.is_async else value


@pytest.fixture
def tools() -> Toolset:
    return Toolset("search.docs")


async def test_a_method_is_bound_with_everything_inferred(tools: Toolset) -> None:
    """Name, description and both shapes come from the method; nothing is converted (SR-17)."""
    ping = tools.bind(SearchService.ping)
    search = tools.bind(SearchService.search)
    assert (ping.id, ping.spec.description, ping.spec.kind) == ("search.docs.ping", "Answer.", "service")
    assert search.spec.payload.name == "SearchRequest"
    app = app_with(tools, SearchService())
    assert await result_of(app, ping.id, {"word": "a", "times": 2}) == "aa"
    found = await result_of(app, search.id, {"text": "x", "limit": 1})
    assert found == FullHits(hits=[FullHit(title="x 0 en", score=0)], took_ms=3)


async def test_a_bound_method_may_take_the_meta(tools: Toolset) -> None:
    """A parameter of type `ToolCallMeta` receives the meta, and is no field (SR-57, SR-62)."""
    whose = tools.bind(SearchService.whose)
    assert list(whose.spec.payload.json_schema["properties"]) == ["word"]
    assert await result_of(app_with(tools, SearchService()), whose.id, {"word": "a"}) == "a of s"


async def test_a_subclass_serves_for_its_base(tools: Toolset) -> None:
    """The service of a method may be an object of a subclass that inherits the method."""
    ping = tools.bind(SearchService.ping)
    assert await result_of(app_with(tools, BetterSearchService()), ping.id, {"word": "a"}) == "a"


async def test_shapes_that_fit_are_converted(tools: Toolset) -> None:
    """Arguments are matched by name; further fields of the request have defaults, further fields of the result are dropped (SR-80)."""
    search = tools.bind(SearchService.search, args=Search, result=Hits)
    found = await result_of(app_with(tools, SearchService()), search.id, {"text": "x", "limit": 2})
    assert found == Hits(hits=[Hit(title="x 0 en"), Hit(title="x 1 en")])


@pytest.mark.parametrize("service", ["SearchService", "search", None])
async def test_a_method_is_bound_by_names(tools: Toolset, service: str | None) -> None:
    """A service has the name of its class, also without `Service`; by default it is named as the toolset (SR-17, SR-32)."""
    search = tools.bind("search", service=service, method="search", args=Search, result=Hits)
    found = await result_of(app_with(tools, SearchService()), search.id, {"text": "x", "limit": 1})
    assert found == Hits(hits=[Hit(title="x 0 en")])


async def test_a_service_may_be_given_another_name(tools: Toolset) -> None:
    """A mapping gives services other names."""
    find = tools.bind("find", service="library", method="search", args=Search, result=Hits)
    app = App(agents=[Agent("test.agent", planner=plan, uses=[tools])], services={"library": SearchService()})
    assert len((await result_of(app, find.id, {"text": "x", "limit": 3})).hits) == 3


async def test_a_mapper_overrides(tools: Toolset) -> None:
    """`to_method` and `to_result` convert types that do not fit, each without the other (SR-60, SR-82)."""

    class Question(BaseModel):
        words: list[str]

    tools.bind(
        "ask",
        service="SearchService",
        method="search",
        args=Question,
        result=str,
        to_method=lambda asked: SearchRequest(text=" ".join(asked.words), limit=1),
        to_result=lambda found: found.hits[0].title,
    )
    tools.bind(
        "shout",
        service="search",
        method="ping",
        args=Question,
        result=str,
        to_method=lambda q: {"word": q.words[0]},
    )
    app = app_with(tools, SearchService())
    assert await result_of(app, "search.docs.ask", {"words": ["a", "b"]}) == "a b 0 en"
    assert await result_of(app, "search.docs.shout", {"words": ["a"]}) == "a"


class Unfit(BaseModel):
    txt: str
    limit: str = "1"


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda t: t.bind(SearchService.search, args=Unfit), ["txt", "limit", "to_method="]),
        (lambda t: t.bind(SearchService.search, result=Unfit), ["txt", "to_result="]),
        (lambda t: t.bind(SearchService.untyped, result=Hits), ["to_result="]),
        (
            lambda t: t.bind("x", service="SearchService", method="nope", args=Search, result=Hits),
            ["nope", "ping"],
        ),
        (
            lambda t: t.bind("x", service="Nope", method="search", args=Search, result=Hits),
            ["'Nope'", "SearchService"],
        ),
    ],
)
def test_a_binding_that_does_not_fit_is_refused_when_the_app_is_made(
    tools: Toolset, declare: Any, words: list[str]
) -> None:
    """Types that do not fit, and a missing method or service, are a `DefinitionError` that names fields and remedy."""
    declare(tools)
    with pytest.raises(DefinitionError) as caught:
        app_with(tools, SearchService())
    for word in ["search.docs.", *words]:
        assert word in str(caught.value)


def test_a_method_needs_exactly_one_object_of_its_class(tools: Toolset) -> None:
    """No object, a class in place of an object, or two objects are a `DefinitionError` that names the class."""
    tools.bind(SearchService.ping)
    with pytest.raises(DefinitionError, match="must hold one SearchService"):
        app_with(tools)
    with pytest.raises(DefinitionError, match=r"write SearchService\(\)"):
        app_with(tools, SearchService)
    with pytest.raises(DefinitionError, match="several of them have"):
        app_with(tools, SearchService(), BetterSearchService())


def test_names_need_types(tools: Toolset) -> None:
    """The types of a method that is bound by name are not known at import, so they must be declared."""
    with pytest.raises(DefinitionError, match="needs args= and result="):
        tools.bind("search", method="search", args=Search)  # type: ignore[call-overload]
    with pytest.raises(DefinitionError, match=r"Service\.method"):
        tools.bind(SearchService().ping)


async def test_an_executor_carries_out_what_is_declared(tools: Toolset) -> None:
    """An executor receives the meta and the call, decodes the call and encodes its result by the tool (SR-6, SR-20)."""
    summarize = tools.declare("summarize", args=Search, result=Hits, description="Summarise")
    seen = []

    class Executes:
        async def execute(self, meta: ToolCallMeta, call: ToolRequest) -> ToolResult:
            seen.append((meta, call.name))
            asked = summarize.decode(call)
            return summarize.result(call, Hits(hits=[Hit(title=asked.text)]))

    assert summarize.spec.kind == "executor"
    app = app_with(tools, executors={tools: Executes()})
    result = await result_of(app, summarize.id, {"text": "x"})
    assert result.result == {"hits": [{"title": "x"}]}
    assert seen == [(META, "search.docs.summarize")]
    assert summarize.result_of(result) == Hits(hits=[Hit(title="x")])


def test_a_declared_tool_needs_an_executor(tools: Toolset) -> None:
    """A tool without an executor, an executor of an unused toolset, and an object that is no executor are refused."""
    tools.declare("summarize", args=Search, result=Hits)

    async def execute(meta, call): ...

    with pytest.raises(DefinitionError, match=r"search.docs.summarize is declared .*executors="):
        app_with(tools)
    with pytest.raises(DefinitionError, match="which no agent uses"):
        app_with(tools, executors={tools: execute, "x.y": execute})
    with pytest.raises(DefinitionError, match="async execute"):
        app_with(tools, executors={tools: lambda meta, call: None})


class Few(BaseModel):
    """What a model may be shown."""

    hits: list[Hit]
    took_ms: int = 0

    @field_validator("took_ms")
    @classmethod
    def _quick(cls, value: int) -> int:
        if value > 1:
            raise ValueError("too slow to be true")
        return value


async def test_a_result_that_does_not_fit_by_value_is_malformed(tools: Toolset) -> None:
    """A result whose type fits, but whose value does not, is an error that does not repeat the value (SR-90)."""
    search = tools.bind(SearchService.search, args=Search, result=Few)
    with pytest.raises(MalformedResultError, match=r"took_ms: Value error, too slow to be true$"):
        await result_of(app_with(tools, SearchService()), search.id, {"text": "x", "limit": 1})


async def test_a_pydantic_validator_refuses_a_call_before_its_executor(tools: Toolset) -> None:
    """A pydantic validator is applied for declared tools as for functions (SR-118, SR-141)."""

    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def _even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("odd")
            return value

    ran = []

    async def execute(meta, call):
        ran.append(call)

    even = tools.declare("even", args=Even, result=Hits)
    app = app_with(tools, executors={tools: execute})
    with pytest.raises(ValidationError, match="odd"):
        await result_of(app, even.id, {"n": 1})
    assert ran == []
