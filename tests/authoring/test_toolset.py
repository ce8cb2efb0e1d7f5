"""Toolset and Tool: functions declared as tools; mistakes are found at import (SR-2, SR-3)."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError
from typing_extensions import TypedDict  # pydantic asks for it before Python 3.12

from sojourn import Retry, ToolCallMeta, ToolError, ToolRequest, ToolResult, Toolset
from sojourn.authoring import Tool
from sojourn.contracts import Annotations, ToolId
from sojourn.errors import DefinitionError

META = ToolCallMeta(run_id="r", tool_call_id="c1")


class Query(BaseModel):
    """What to list."""

    site_id: str
    status: Literal["online", "offline", "unknown"] | None = None
    limit: Annotated[int, Field(description="How many.", le=500)] = 50


@dataclass
class DataQuery:
    site_id: str
    limit: int = 50


class TypedQuery(TypedDict, total=False):
    site_id: str


class Page(BaseModel):
    items: list[str]
    returned: int
    total: int | None = None


class Node(BaseModel):
    """A tree, whose schema is a reference to itself."""

    children: list["Node"] = []
    returned: int = 0


@pytest.fixture
def tools() -> Toolset:
    return Toolset("ops.devices", description="Devices", task_queue="edge")


# What a declaration says.


def test_plain_parameters_are_the_payload(tools: Toolset) -> None:
    """Names, types, defaults, constraints and descriptions of parameters become the schema (SR-19, SR-126)."""

    @tools.tool
    async def list_devices(
        site_id: Annotated[str, Field(description="Where.")],
        status: Literal["online", "offline"] | None = None,
        limit: Annotated[int, Field(le=500)] = 50,
        tags: list[str] = [],  # noqa: B006 - pydantic copies it
    ) -> list[str]:
        """List devices.

        More for the reader of the code.
        """
        return [site_id]

    schema = list_devices.spec.payload.json_schema
    assert list(schema["properties"]) == ["site_id", "status", "limit", "tags"]
    assert schema["required"] == ["site_id"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["limit"] == {
        "default": 50,
        "maximum": 500,
        "title": "Limit",
        "type": "integer",
    }
    assert list_devices.spec.payload.field_descriptions == {"site_id": "Where."}
    assert list_devices.spec.description == "List devices."
    assert list_devices.spec.title == "List devices"
    assert list_devices.id == "ops.devices.list_devices"


def test_a_default_may_be_a_field(tools: Toolset) -> None:
    """`Field(default, ...)` as a parameter's default works as in a model."""

    @tools.tool
    def page(limit: int = Field(default=5, ge=1, description="How many.")) -> int:
        return limit

    assert page.spec.payload.json_schema["properties"]["limit"]["minimum"] == 1
    assert arguments(page, {}) == {"limit": 5}


@pytest.mark.parametrize("kind", [Query, DataQuery, TypedQuery], ids=lambda kind: kind.__name__)
def test_one_model_is_the_whole_payload(tools: Toolset, kind: type) -> None:
    """A single pydantic model, dataclass or TypedDict is the payload itself, decoded for the function (SR-17)."""

    def find(query, meta: ToolCallMeta) -> str:
        return "x"

    find.__annotations__["query"] = kind
    tool = tools.tool(find)
    assert tool.source.signature.model_parameter == "query"
    assert "site_id" in tool.spec.payload.json_schema["properties"]
    assert tool.spec.payload.name == kind.__name__
    decoded = arguments(tool, {"site_id": "s-1"})
    assert isinstance(decoded["query"], dict if kind is TypedQuery else kind)
    assert decoded["meta"] is META


def test_two_models_are_two_fields(tools: Toolset) -> None:
    """Only a single model is the whole payload; beside another parameter it is a field."""

    @tools.tool
    def move(source: DataQuery, target: DataQuery) -> None: ...

    assert set(move.spec.payload.json_schema["properties"]) == {"source", "target"}
    given = arguments(move, {"source": {"site_id": "a"}, "target": {"site_id": "b", "limit": 1}})
    assert given == {"source": DataQuery("a"), "target": DataQuery("b", 1)}


def test_a_tool_without_parameters_takes_an_empty_object(tools: Toolset) -> None:
    """No parameters, no fields, and none allowed."""

    @tools.tool
    def ping() -> str:
        return "pong"

    assert ping.validator.is_valid({})
    assert not ping.validator.is_valid({"x": 1})
    assert arguments(ping, {}) == {}


def arguments(tool: Any, payload: dict[str, Any]) -> dict[str, Any]:
    """The arguments with which the function of a tool is called."""
    return tool.source.signature.arguments(tool.payload.decode(payload), META)


def first(meta: ToolCallMeta, a: int) -> int:
    return a


def middle(a: int, whose: ToolCallMeta, b: int = 2) -> int:
    return a


def by_name(a: int, *, meta: ToolCallMeta) -> int:
    return a


def optional(a: int, meta: ToolCallMeta | None = None) -> int:
    return a


def annotated(a: int, meta: Annotated[ToolCallMeta, "whose call it is"]) -> int:
    return a


@pytest.mark.parametrize("function", [first, middle, by_name, optional, annotated], ids=lambda f: f.__name__)
def test_the_meta_stands_anywhere_in_the_signature(tools: Toolset, function: Any) -> None:
    """The parameter annotated `ToolCallMeta` receives it, under any name, and is no field (SR-57, SR-68)."""
    tool = tools.tool(function)
    assert set(tool.spec.payload.json_schema["properties"]) <= {"a", "b"}
    given = arguments(tool, {"a": 1})
    assert META in given.values()
    assert tool(**given) == 1


def test_a_parameter_may_have_any_name(tools: Toolset) -> None:
    """Names of attributes of pydantic models are allowed, without a warning."""

    @tools.tool
    def call(json: str, schema: str, copy: str, model_fields: str, self_: str, id: str) -> str:
        return json + schema + copy

    payload = {name: name for name in ("json", "schema", "copy", "model_fields", "self_", "id")}
    assert call.validator.is_valid(payload)
    assert arguments(call, payload) == payload


def test_options_become_the_spec(tools: Toolset) -> None:
    """Everything that is declared can be read from the spec (SR-33, SR-95 to SR-100)."""

    @tools.tool(
        name="list",
        title="List",
        description="All of them",
        tags=["read"],
        bounded=True,
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
        timeout=timedelta(seconds=5),
        retry=Retry(max_attempts=2),
        examples=[{"site_id": "s-1"}, {"site_id": "s-2", "limit": 1}],
    )
    def list_(query: Query) -> Page:
        """Not this."""
        return Page(items=[], returned=0)

    spec = list_.spec
    assert spec.id == "ops.devices.list"
    assert (spec.title, spec.description, spec.tags) == ("List", "All of them", ["read"])
    assert spec.bounded
    assert spec.annotations == Annotations(
        read_only=True, destructive=False, idempotent=True, open_world=False
    )
    assert (spec.timeout, spec.retry, spec.task_queue) == (
        timedelta(seconds=5),
        Retry(max_attempts=2),
        "edge",
    )
    assert spec.payload.example == {"site_id": "s-1"}
    assert spec.kind == "service"
    assert tools.tools == {"list": list_}


def test_nothing_declared_is_undeclared(tools: Toolset) -> None:
    """A plain tool declares no effects, no time limit, no example; a docstring is not needed."""

    @tools.tool
    def ping(): ...

    assert ping.spec.annotations == Annotations()
    assert (ping.spec.timeout, ping.spec.retry, ping.spec.bounded) == (None, Retry(), False)
    assert (ping.spec.description, ping.spec.payload.example) == ("", None)
    assert ping.result_shape.encode({"any": ["thing"]}) == {"any": ["thing"]}


def test_a_recursive_result_may_be_bounded(tools: Toolset) -> None:
    """A graph or tree with `returned` is a bounded view too (SR-39)."""

    @tools.tool(bounded=True)
    def tree() -> Node:
        return Node()

    assert tree.spec.bounded


# What a tool does.


async def test_a_tool_is_still_the_function(tools: Toolset) -> None:
    """Sync and async functions can be called as before, with their name and docstring."""

    @tools.tool
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    @tools.tool
    async def slow(a: int) -> int:
        """Wait."""
        await asyncio.sleep(0)
        return a

    assert add(1) == 3
    assert await slow(a=4) == 4
    assert add.source.signature.is_async is False
    assert slow.source.signature.is_async is True
    assert (add.__name__, add.__doc__, repr(add)) == ("add", "Add.", "<Tool ops.devices.add>")


def test_a_typed_call_is_a_request(tools: Toolset) -> None:
    """`call` builds a request from a model or from plain fields; the run gives it its id (SR-85)."""

    @tools.tool
    def find(query: Query) -> Page: ...

    @tools.tool
    def add(a: int, b: int = 2) -> int: ...

    assert find.call(Query(site_id="s-1")) == ToolRequest(name="ops.devices.find", payload={"site_id": "s-1"})
    assert add.call(a=1) == ToolRequest(name="ops.devices.add", payload={"a": 1})
    assert isinstance(add.call(a=1).name, str)


def test_a_typed_result_is_read_from_a_result(tools: Toolset) -> None:
    """`result_of` gives the author's type back (SR-37)."""

    @tools.tool
    def find(query: Query) -> Page: ...

    result = ToolResult(name="ops.devices.find", result={"items": ["x"], "returned": 1, "total": None})
    assert find.result_of(result) == Page(items=["x"], returned=1)


def test_a_failure_or_anothers_result_holds_no_value(tools: Toolset) -> None:
    """A result of another tool, or an error, is not read as a value; the message says what it is."""

    @tools.tool
    def find(query: Query) -> Page: ...

    with pytest.raises(
        ValueError,
        match=r"ops\.devices\.other \(a success\) is not a successful result of ops\.devices\.find",
    ):
        find.result_of(ToolResult(name="ops.devices.other", result=1))
    with pytest.raises(ValueError, match="the site is closed"):
        find.result_of(ToolResult(name="ops.devices.find", error=ToolError.new("the site is closed")))


def test_a_model_refuses_wrong_arguments_when_decoding(tools: Toolset) -> None:
    """Decoding validates the arguments with the model."""

    @tools.tool
    def find(query: Query) -> Page: ...

    with pytest.raises(ValidationError):
        arguments(find, {"site_id": 3})


# What is wrong at import.


def test_a_toolsets_id_has_two_parts(subtests: pytest.Subtests) -> None:
    """An id that is not `<service>.<toolset>` is refused at import; the error has the id."""
    rows = ["devices", "a.b.c", "", "a b.c", "ops.", "1.x"]
    for id in rows:
        with subtests.test(id=id):
            with pytest.raises(DefinitionError, match=r"<service>\.<toolset>") as caught:
                Toolset(id)
            assert repr(id) in str(caught.value)


@pytest.mark.parametrize("name", ["a b", "-x", "ü", "x" * 101])
def test_a_tools_name_is_plain(tools: Toolset, name: str) -> None:
    """A tool's name has letters, digits and a few other characters, at most 100."""
    with pytest.raises(DefinitionError, match="a tool's name has"):
        tools.tool(name=name)(first)


@pytest.mark.parametrize(
    ("example", "message"),
    [({"a": "x"}, "/a invalid_field_type"), ({}, "/a missing_field"), ({"a": 1, "z": 1}, "/z unknown_field")],
    ids=str,
)
def test_an_example_validates(tools: Toolset, example: dict[str, Any], message: str) -> None:
    """Any example that does not fit the tool's schema is refused, with the field (SR-144)."""
    with pytest.raises(DefinitionError, match=rf"ops\.devices\.first: the example .* {message}"):
        tools.tool(examples=[{"a": 1}, example])(first)


@pytest.mark.parametrize("result", [int, list[str], Query], ids=str)
def test_a_bounded_tool_says_how_much_it_returned(tools: Toolset, result: Any) -> None:
    """`bounded` without `returned` in the result is refused (SR-32)."""

    def listing() -> Any: ...

    listing.__annotations__["return"] = result
    with pytest.raises(DefinitionError, match=r"ops\.devices\.listing: .*`returned`"):
        tools.tool(bounded=True)(listing)


@pytest.mark.parametrize("timeout", [timedelta(0), timedelta(seconds=-1)], ids=str)
def test_a_time_limit_is_longer_than_zero(tools: Toolset, timeout: timedelta) -> None:
    """A limit that Temporal would refuse, in every run, is refused at import."""
    with pytest.raises(DefinitionError, match="timeout is longer than zero"):
        tools.tool(timeout=timeout)(first)


def test_an_id_splits_into_its_parts(tools: Toolset) -> None:
    """A tool's id is typed: service, toolset and tool can be read from it (SR-83)."""
    tool: Tool[Any, Any] = tools.tool(first)
    assert isinstance(tool.id, ToolId)
    assert (tool.id.service, tool.id.toolset, tool.id.tool) == ("ops", "devices", "first")
