"""Discovery: the tools of a server are listed over every transport, and kept fresh (SR-12, SR-15)."""

import asyncio
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from structlog.testing import capture_logs

from sojourn import Agent, App, ToolRequest, mcp
from sojourn.checks.application import check_toolsets
from sojourn.contracts import Bounds
from sojourn.contracts.tool_spec import Annotations, Retry
from sojourn.core.payload import boundary
from sojourn.errors import DefinitionError, ToolUnavailable
from sojourn.mcp import catalogue as catalogue_module
from sojourn.mcp.catalogue import Catalogue
from sojourn.mcp.errors import ErrorResponse
from sojourn.mcp.limits import MAX_PAGES

SERVER = str(Path(__file__).with_name("server.py"))
KINDS = ["stdio", "http", "sse"]
GOOD = {"name": "good", "inputSchema": {"type": "object"}}


@pytest.fixture
def http(shared_server):
    """The transport to the shared server."""
    return shared_server("http").transport


@pytest.fixture(scope="module", params=KINDS)
async def toolset(request, shared_server):
    """A toolset on the test server, over each transport in turn."""
    kind = request.param
    transport = (
        mcp.Stdio(sys.executable, SERVER, "stdio") if kind == "stdio" else shared_server(kind).transport
    )
    made = mcp.McpToolset("ops.test", transport=transport)
    await made.open()
    yield made
    await made.close()


async def test_tools_are_found_over_every_transport(toolset, run, until):
    """Over every transport the same tools are listed, with the server's unchanged schema, and can be called."""
    await until(lambda: toolset.tools)
    assert toolset.unavailable is None
    assert "echo" in toolset.tools
    spec = toolset["order"].spec
    assert spec.id == "ops.test.order"
    assert spec.kind == "mcp"
    assert spec.decode_in_executor
    assert spec.payload.json_schema["properties"]["count"] == {"type": "integer", "minimum": 1, "maximum": 9}
    assert (await run(toolset, "echo", a=1)).result == {"a": 1}


async def test_a_spec_holds_what_the_server_says(opened, http):
    """A spec has title, description without control characters, and annotations of the server, and the toolset's options."""
    retry = Retry(max_attempts=5)
    toolset = await opened(http, timeout=timedelta(seconds=7), retry=retry, task_queue="elsewhere")
    spec = toolset["echo"].spec
    assert spec.title == "Echo"
    assert spec.description == "Gives its arguments back. [31m\n\nAll of them."
    assert spec.annotations == Annotations(read_only=True, open_world=False)
    assert (spec.timeout, spec.retry, spec.task_queue) == (timedelta(seconds=7), retry, "elsewhere")
    assert toolset["counts"].spec.annotations == Annotations()
    assert toolset["counts"].spec.result.json_schema == {}
    assert toolset["structured"].spec.result.json_schema["required"] == ["count"]


async def test_what_cannot_be_a_tool_is_left_out_and_logged(opened, raw, until):
    """A tool without a name, or with that of another, is left out, with one warning for any number of listings; `left_out` has the reason."""
    with capture_logs() as logs:
        toolset = await opened(
            raw(tools=[GOOD, {"inputSchema": {"type": "object"}}, {**GOOD, "name": 7}, GOOD])
        )
        before = toolset.tools
        toolset.refresh()
        await until(lambda: toolset.tools is not before)
    assert [log["tool"] for log in logs if log["event"] == "mcp_tool_skipped"] == [
        "(tool 2 of the list)",
        "7",
        "(another good)",
    ]
    assert toolset.tools.keys() == {"good"}
    assert toolset.left_out["(tool 2 of the list)"] == "it has no name"
    assert toolset.left_out["7"].startswith("name: ")
    assert "more than once" in toolset.left_out["(another good)"]


async def test_what_is_excluded_is_not_left_out(opened, raw):
    """A tool that the app does not want is no fault of the server."""
    assert not (await opened(raw(tools=[GOOD, {**GOOD, "name": 7}]), exclude=["7"])).left_out


async def test_a_broken_entry_does_not_break_the_list(opened, rogue):
    """Of entries that break the protocol all that have a name can be called; a schema that is no use is one for any object."""
    with capture_logs() as logs:
        toolset = await opened(rogue("broken-tools"))
    names = {"good", "no-schema", "not-an-object", "bad-title", "bad-words", "endless", "huge", "bad-result"}
    assert toolset.tools.keys() == names
    unused = {log["tool"] for log in logs if log["event"] == "mcp_schema_unused"}
    assert unused == {"no-schema", "not-an-object", "endless", "huge"}
    for name in unused:
        assert toolset[name].spec.payload.json_schema == {"type": "object"}
        assert "The server itself checks them" in toolset[name].spec.description
    assert {"7"} < toolset.left_out.keys()
    assert toolset.unavailable is None


ODD_RESULTS = [
    {"$id": "x", "description": "no type"},
    {"type": "array"},
    {"oneOf": [{"type": "object"}, {"type": "object", "required": ["a"]}]},
    {"$ref": "https://elsewhere.example/x.json"},
    {"$dynamicRef": "#x"},
    {"type": "object", "required": 1},
    {"type": "object", "properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}},
    {},
    True,
    None,
    [],
]


async def test_an_odd_schema_of_a_result_loses_no_tool(opened, raw, run):
    """Whatever an `outputSchema` is, its tool is listed and its result is delivered."""
    tools = [
        {**GOOD, "name": f"t{number}", "outputSchema": schema} for number, schema in enumerate(ODD_RESULTS)
    ]
    toolset = await opened(
        raw(tools=tools, answers={f"t{n}": {"content": [], "structuredContent": {"a": 1}} for n in range(20)})
    )
    assert not toolset.left_out
    assert [(await run(toolset, tool["name"])).result for tool in tools] == [{"a": 1}] * len(tools)


TEXT = {"type": "string"}
ODD_PAYLOADS = [
    {"type": "object", "properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#", **TEXT}}},
    {"type": "object", "properties": {"a": {"$ref": "#Anchor"}}, "$defs": {"x": {"$anchor": "Anchor", **TEXT}}},
    {"$id": "https://e.example/t", "type": "object", "properties": {"a": {"$ref": "https://e.example/t#/$defs/x"}}, "$defs": {"x": TEXT}},
    {"properties": {"a": TEXT}},
    {"$ref": "#/definitions/Args", "definitions": {"Args": {"type": "object", "properties": {"a": TEXT}}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/Args", "definitions": {"Args": {"properties": {"a": TEXT}}}},
    {"type": ["object", "null"], "properties": {"a": TEXT}},
    {"type": "object", "required": None, "properties": {"a": {**TEXT, "description": None, "title": ["x"]}}},
    {"type": "object", "properties": {"a": {**TEXT, "required": False, "minLength": "1"}}, "required": ["b", "b"]},
    {"type": "object", "properties": {"a": {"type": "file"}, "c": {"type": "any"}}},
    {"type": "object", "properties": {"a": TEXT, "c": {"items": [TEXT], "exclusiveMinimum": True, "minimum": 1}}},
]  # fmt: skip


async def test_an_odd_schema_of_arguments_is_enforced_as_far_as_it_goes(opened, raw, run):
    """Each tool is listed, its server gets what fits, and what does not fit is refused here."""
    tools = [{"name": f"t{number}", "inputSchema": schema} for number, schema in enumerate(ODD_PAYLOADS)]
    toolset = await opened(raw(tools=tools))
    assert not toolset.left_out
    for tool in tools:
        sent = await run(toolset, tool["name"], a="x", b=1)
        assert sent.result == {"name": tool["name"], "arguments": {"a": "x", "b": 1}}, tool
        assert (await run(toolset, tool["name"], a=5, b=1)).retry_hint.reason == "invalid_arguments", tool


async def test_nullable_takes_null(opened, raw, run):
    """`nullable: true`, of OpenAPI, is honoured; the model is offered a list of types, which each provider knows."""
    schema = {"type": "object", "properties": {"a": {**TEXT, "nullable": True}, "b": TEXT}, "required": ["b"]}
    toolset = await opened(raw(tools=[{"name": "t", "inputSchema": schema}]))
    assert toolset["t"].spec.payload.json_schema["properties"]["a"] == {"type": ["string", "null"]}
    sent = await run(toolset, "t", a=None, b="x")
    assert sent.result["arguments"] == {"a": None, "b": "x"}
    assert not (await run(toolset, "t", b=None)).ok


NAMES = [
    "search issues",
    "a:b",
    "日本",
    "x" * 101,
    "a[0]",
    "-dash",
    "user@host",
    "a.b",
    "a__b",
    "a b",
    "a_b",
    "",
    "naïve",
]


async def test_a_tool_of_any_name_can_be_called(opened, raw, run):
    """An id that is readable and unique stands for a name that is none; the server gets its own name back."""
    toolset = await opened(raw(tools=[{**GOOD, "name": name} for name in NAMES]))
    assert toolset.tools.keys() == set(NAMES)
    assert not toolset.left_out
    ids = [tool.id for tool in toolset.tools.values()]
    assert len(set(ids)) == len(NAMES)
    assert {"ops.test.a.b", "ops.test.a__b", "ops.test.a_b"} < set(ids)
    assert toolset["search issues"].id.tool.startswith("search_issues_")
    for name in NAMES:
        assert (await run(toolset, name)).result["name"] == name
        assert toolset.call(name).name == toolset[name].id


async def test_the_order_of_a_list_is_that_of_its_names(opened, raw, until):
    """A server that shuffles its list changes no request: the tools keep their order, in each listing."""
    names = [f"tool-{number:02}" for number in range(20)]
    toolset = await opened(raw(tools=[{**GOOD, "name": name} for name in names[::-1]], shuffle=True))
    for _ in range(2):
        assert list(toolset.tools) == names
        before = toolset.tools
        toolset.refresh()
        await until(lambda before=before: toolset.tools is not before)


@pytest.mark.parametrize("cursor", ["", "next"])
async def test_an_empty_cursor_ends_a_list(cursor, opened, raw):
    """A server that says `nextCursor: ""` and refuses that cursor has listed all its tools; one that refuses another cursor has not."""
    page = {"tools": [GOOD], "nextCursor": cursor}
    toolset = await opened(raw(pages={"?": page}))
    assert (toolset.unavailable is None) == (cursor == "")
    assert toolset.tools.keys() == ({"good"} if cursor == "" else set())


async def test_a_cursor_may_be_a_number(opened, raw):
    """A server that counts its pages gets its number back, as the text that the protocol has."""
    first, second = {**GOOD, "name": "a"}, {**GOOD, "name": "b"}
    toolset = await opened(raw(pages={"?": {"tools": [first], "nextCursor": 2}, "2": {"tools": [second]}}))
    assert list(toolset.tools) == ["a", "b"]


@pytest.mark.parametrize(("is_modern", "names"), [(True, ["a", "b"]), (False, ["a"])])
async def test_behind_an_empty_cursor_there_may_be_a_page(is_modern, names, catalogue):
    """Since the protocol of 2026-07-28 an empty cursor is a cursor."""
    known = catalogue()
    session = Listing([listed("a")], [listed("b")])
    session.is_modern, session.empty = is_modern, True
    await known.refresh(session)
    assert list(known.tools) == names


@pytest.mark.parametrize(("way", "count"), [("pages", 1_000), ("circle", 1)])
async def test_endless_pages_end(way, count, opened, rogue):
    """A listing without end is cut at 1,000 tools, or where a cursor repeats."""
    toolset = await opened(rogue(way))
    assert len(toolset.tools) == count


async def test_tools_are_taken_and_left_by_name(opened, http):
    """`include` and `exclude` accept names and patterns."""
    toolset = await opened(http, include=["echo", "structured*"], exclude=["*-as-text"])
    assert toolset.tools.keys() == {"echo", "structured"}


async def test_a_single_text_is_one_pattern(opened, http):
    """`include`, `exclude` and `bounded` accept a text in place of a list, and an iterator is read once for all tools."""
    toolset = await opened(http, include="*structured*", exclude="structured-*", bounded="page*")
    assert toolset.tools.keys() == {"structured", "badly-structured"}
    once = await opened(http, include=iter(["pages", "echo"]), bounded="page*")
    assert once.tools.keys() == {"pages", "echo"}
    assert once["pages"].spec.bounded


async def test_bounded_tools_are_named(opened, http, run):
    """Results of the named tools carry their bounds; a name without effect is logged (SR-22)."""
    with capture_logs() as logs:
        toolset = await opened(http, bounded=["page*", "structured", "nothing-of-this"])
    bounded = {name for name, tool in toolset.tools.items() if tool.spec.bounded}
    assert bounded == {"pages"}
    stated = {}
    for name in ("pages", "structured"):
        spec, value = toolset[name].spec, await run(toolset, name)
        stated[name] = boundary.build_result(
            spec, ToolRequest(name=spec.id), value, lambda given: given
        ).bounds
    assert stated == {
        "pages": Bounds(returned=2, total=9, truncated=True, next_cursor="p2"),
        "structured": None,
    }
    unused = [log["names"] for log in logs if log["event"] == "mcp_bounded_unused"]
    assert unused == [["structured", "nothing-of-this"]]


async def test_a_server_says_that_its_tools_changed(toolset, persist, until):
    """The new list replaces the whole old list; unchanged tools stay the same objects."""
    await until(lambda: toolset.tools)
    before = toolset.tools
    await persist(toolset, "change", names=["fresh"])
    await until(lambda: "fresh" in toolset.tools)
    assert "fresh" not in before
    assert toolset["echo"] is before["echo"]
    await persist(toolset, "change", names=[])
    await until(lambda: "fresh" not in toolset.tools)
    with pytest.raises(KeyError):
        toolset["fresh"]


async def test_an_old_list_is_asked_for_again(opened, rogue, run, until):
    """Tools are listed again when the list reaches `ttl`, and not for each call."""
    patient = await opened(rogue("lists"), ttl=timedelta(hours=1))
    for _ in range(5):
        assert (await run(patient, "good")).result == "1"
    toolset = await opened(rogue("lists"), ttl=timedelta(seconds=1))

    async def listed_again():
        return int((await run(toolset, "good")).result) >= 2

    await until(listed_again)


async def test_a_storm_of_changes_is_a_few_lists(opened, rogue, run):
    """However often a server says that its tools changed, listings are at least a second apart."""
    toolset = await opened(rogue("changes"))
    began = time.monotonic()
    for _ in range(3):
        await run(toolset, "good")
    await asyncio.sleep(2.2)
    lists = int((await run(toolset, "good")).result)
    assert lists <= 3 + (time.monotonic() - began)


async def test_a_list_that_fails_leaves_the_old_one(opened, serving, run, until):
    """If listing fails, the tools of the old list stay."""
    served = serving("http").start()
    toolset = await opened(served.transport)
    await until(lambda: toolset.tools)
    tools = toolset.tools
    served.kill()
    served.env["LIST_FAILS"] = "1"
    served.start()

    async def answers():
        try:
            return await run(toolset, "echo", a=1)
        except Exception:
            return None

    assert (await until(answers)).result == {"a": 1}
    with capture_logs() as logs:
        toolset.refresh()
        await until(lambda: any(log.get("tool") == "tools/list" for log in logs))
    assert toolset.tools is tools


class Listing:
    """A session that only lists pages of tools."""

    is_modern = False

    async def has_resources(self, _caller: object) -> bool:
        return False

    instructions = ""
    empty = False
    """Whether the cursor of the second page is empty."""

    def __init__(self, *pages: list[types.Tool]) -> None:
        self._pages = pages

    async def page(self, cursor: str | None, _caller: object) -> types.ListToolsResult:
        number = int(cursor or 0) if not self.empty else int(cursor is not None)
        following = str(number + 1) if number + 1 < len(self._pages) else None
        following = "" if following and self.empty else following
        return types.ListToolsResult(tools=self._pages[number], next_cursor=following)


def listed(name: str, **schema: Any) -> types.Tool:
    return types.Tool(name=name, input_schema={"type": "object", **schema})


@pytest.fixture
def catalogue():
    """Make the catalogue of a toolset whose server was never reached."""

    def make(**options: Any) -> Catalogue:
        return mcp.McpToolset("ops.test", transport=mcp.Stdio("x"), **options)._catalogue

    return make


class Failing(Listing):
    """A session that cannot list."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def page(self, cursor: str | None, _caller: object) -> types.ListToolsResult:
        raise self._error


async def test_a_lost_server_is_distinguished_from_one_that_does_not_list(catalogue):
    """The loss of a server is raised; if a server refuses to list, the old list stays, if there is one."""
    gone, refuses = Failing(ToolUnavailable("broke off")), Failing(ErrorResponse("no list today", -32_000))
    known = catalogue()
    for session in (gone, refuses):
        with pytest.raises(ToolUnavailable):
            await known.refresh(session)
        assert not known.is_known
    await known.refresh(Listing([listed("a")]))
    tools = known.tools
    with pytest.raises(ToolUnavailable, match="broke off"):
        await known.refresh(gone)
    await known.refresh(refuses)
    assert known.tools is tools


async def test_a_tool_that_changed_is_checked_by_its_new_schema(catalogue):
    """A changed tool is a new object with a new validator; an unchanged tool stays the same object."""
    known = catalogue()
    await known.refresh(Listing([listed("same"), listed("changed", required=["a"])]))
    before = known.tools
    assert not before["changed"].validator.is_valid({"b": 1})
    await known.refresh(Listing([listed("same"), listed("changed", required=["b"])]))
    assert known.tools["same"] is before["same"]
    assert known.tools["changed"].spec.payload.json_schema["required"] == ["b"]
    assert known.tools["changed"].validator.is_valid({"b": 1})


async def test_a_listing_is_cut_at_its_limit_with_a_warning(catalogue, monkeypatch):
    """The last tool within the limit is used; a further tool is left out, with a warning."""
    monkeypatch.setattr(catalogue_module, "MAX_TOOLS", 5)
    tools = [listed(f"tool-{number}") for number in range(6)]
    for count, warned in ((5, []), (6, ["tools/list"])):
        known = catalogue()
        with capture_logs() as logs:
            await known.refresh(Listing(tools[:3], [tools[0], *tools[3:count]]))
        assert list(known.tools) == [tool.name for tool in tools[:5]]
        assert [log["tool"] for log in logs if log["event"] == "mcp_tool_skipped"] == warned


async def test_the_last_page_that_is_read_is_the_fiftieth(catalogue):
    """A tool on page 51 is left out."""
    known = catalogue()
    await known.refresh(Listing(*([listed(f"tool-{number:02}")] for number in range(MAX_PAGES + 1))))
    assert list(known.tools) == [f"tool-{number:02}" for number in range(MAX_PAGES)]


@pytest.mark.parametrize(
    "declare",
    [
        pytest.param(lambda: mcp.McpToolset("test", transport=mcp.Stdio("x")), id="id"),
        pytest.param(lambda: mcp.McpToolset("a.b", transport=mcp.Stdio("x"), ttl=timedelta(0)), id="ttl"),
        pytest.param(lambda: mcp.Stdio(""), id="no command"),
        pytest.param(lambda: mcp.Stdio("x", "a\0b"), id="NUL"),
        pytest.param(lambda: mcp.Http("ftp://example.com"), id="scheme"),
        pytest.param(lambda: mcp.Http("http:///path"), id="no host"),
        pytest.param(lambda: mcp.Sse("http://example.com:99999/"), id="port"),
        pytest.param(lambda: mcp.Http("http://example.com", headers={"X": "a\r\nB: c"}), id="header"),
    ],
)
def test_a_wrong_declaration_is_refused_at_once(declare):
    """A wrong declaration raises before anything is connected."""
    with pytest.raises(DefinitionError):
        declare()


def test_a_call_needs_no_discovery():
    """A planner may call a tool by name before it was listed."""
    toolset = mcp.McpToolset("ops.test", transport=mcp.Stdio("x"))
    assert toolset.call("echo", a=1).name == "ops.test.echo"
    assert toolset["echo"].call(a=1) == toolset.call("echo", a=1)
    assert toolset["any name"].call(a=1) == toolset.call("any name", a=1)


@pytest.mark.usefixtures("processes")
def test_declaring_a_toolset_loads_no_protocol():
    """The SDK takes most of a second to load, so `import sojourn` and commands do not load it."""
    code = "import sys; from sojourn import mcp; mcp.Http('http://x'); sys.exit('mcp' in sys.modules or 'httpx2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_the_check_of_toolsets_says_who_mends_what(raw, tmp_path):
    """A server that answers with an error is not told to start; a tool without a name of its own cannot be excluded by one."""

    async def plan(turn):
        return None

    async def checked(transport):
        toolset = mcp.McpToolset("test.mcp", transport=transport)
        app = App(agents=[Agent("test.agent", planner=plan, uses=[toolset])])
        assert app.unknown_toolsets("test.agent") == ["test.mcp"]
        return [(each.found, each.mend) for each in await check_toolsets(app)]

    (tmp_path / "refusing.py").write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    error = {'code': -32000, 'message': 'the licence has ended'}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': asked.get('id'), 'error': error}), flush=True)\n"
    )
    [(found, mend)] = await checked(mcp.Stdio(sys.executable, str(tmp_path / "refusing.py")))
    assert "answers with an error: the licence has ended" in found
    assert mend.startswith("mend it at the server;")
    named, unnamed = {**GOOD, "name": 7}, {"inputSchema": {"type": "object"}}
    mends = [mend for _, mend in await checked(raw(tools=[GOOD, unnamed, named, GOOD]))]
    assert ["exclude=" in mend for mend in mends] == [False, True, False]
    [(found, mend)] = await checked(mcp.Stdio("no-such-program-anywhere"))
    assert mend.startswith("start it, or correct its transport")
    changes = {**GOOD, "annotations": {"readOnlyHint": False}}
    [_, (found, mend)] = await checked(raw(tools=[changes, {**GOOD, "name": "silent"}]))
    assert found.endswith(f"after a result from outside, it denies test.mcp.{GOOD['name']}")
    assert "tainted=" in mend
