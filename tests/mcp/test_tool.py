"""Calls: arguments reach the server unchanged, and results and errors are those of any other tool."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
from opentelemetry import trace
from pydantic import BaseModel, ConfigDict, Field

from sojourn import Toolset, mcp
from sojourn.authoring.runnable import reporter
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.core.payload import boundary

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.essential]

PIXELS = 64


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sku: Annotated[str, Field(pattern="^[A-Z]{3}$")]
    count: Annotated[int, Field(ge=1, le=9)] = 1
    kind: Literal["new", "used"] = "new"


ordinary = Toolset("ops.test")


@ordinary.tool(name="order")
async def order(args: Order) -> str:
    """The same tool as a function."""
    return args.sku


@pytest.fixture(scope="module")
async def toolset():
    """A toolset on one test server, for all tests of this module."""
    server = str(Path(__file__).with_name("server.py"))
    transport = mcp.Stdio(sys.executable, server, "stdio", env={"TOKEN": "secret-token"})
    shared = mcp.McpToolset("ops.test", transport=transport)
    await shared.open()
    yield shared
    await shared.close()


@pytest.mark.parametrize(
    "raw",
    [
        '{"a": 1.50, "b": 12345678901234567890123, "c": 1e-7}',
        '{ "text" : "h\\u00e9llo \\ud83d\\ude00 \\n" }',
        '{"nested": {"list": [null, true, {"x": []}]}}',
    ],
)
async def test_a_models_own_text_reaches_the_server(raw, toolset, run):
    """The server gets the same JSON values that the model wrote."""
    assert (await run(toolset, "echo", raw=raw)).result == json.loads(raw)


async def test_a_server_that_is_not_listed_yet_gets_what_was_meant(toolset, run):
    """A call that nobody has read before is read where it is sent."""
    sent = await run(toolset, "order", raw='"{\\"sku\\": \\"ABC\\", \\"count\\": 2.0}"')
    assert sent.error is None


def bad_calls() -> list[ToolRequest]:
    name = "ops.test.order"
    payloads = [
        {},
        {"sku": "abc"},
        {"sku": "ABC", "count": 10},
        {"sku": 5, "kind": "old"},
        {"sku": "ABC", "cuont": 2},
    ]
    texts = ["", "{", "[1]", '{"sku": "ABC", "sku": "ABD"}', '{"sku": ' + "[" * 100 + "]" * 100 + "}", "no"]
    return [
        *(ToolRequest(name=name, payload=payload) for payload in payloads),
        *(ToolRequest(name=name, raw=text) for text in texts),
    ]


@pytest.mark.parametrize(
    "call", bad_calls(), ids=lambda call: repr(call.payload if call.raw is None else call.raw)[:30]
)
async def test_a_bad_payload_is_answered_as_by_any_other_tool(call, toolset):
    """Error and hint are those of a function with the same schema (SR-141)."""
    given = await toolset["order"].prepare({}, call, ToolCallMeta(run_id="r"))()
    expected = boundary.check_payload(order.spec, order.validator, call)
    assert given.error == expected.error
    assert given.retry_hint.reason == expected.retry_hint.reason
    assert given.retry_hint.message == expected.retry_hint.message
    assert given.retry_hint.issues == expected.retry_hint.issues
    assert given.retry_hint.missing_fields == expected.retry_hint.missing_fields
    assert given.retry_hint.restrict_to_tool
    assert (given.retry_hint.example_input is None) == (expected.retry_hint.example_input is None)


async def test_a_refused_call_is_never_sent(toolset, run):
    """A call that breaks the server's schema is not sent (SR-14)."""
    before = (await run(toolset, "counts")).result["call"]
    assert not (await run(toolset, "order", sku="abc")).ok
    assert (await run(toolset, "counts")).result["call"] == before + 1


async def test_an_older_draft_is_enforced(toolset, run):
    """Lists of `items`, `definitions` and `dependencies` have their meaning of draft-07."""
    assert (await run(toolset, "draft-7", pair=["a", 1], site="ab")).ok
    for wrong in ({"pair": ["a", "b"]}, {"pair": ["a", 1, 2]}, {"site": "a", "pair": []}, {"site": "ab"}):
        result = await run(toolset, "draft-7", **wrong)
        assert result.retry_hint.reason in ("invalid_arguments", "missing_fields")


@pytest.mark.parametrize(
    ("name", "result"),
    [("structured", {"count": 3}), ("structured-as-text", {"count": 4}), ("nothing", None), ("slow", "done")],
)
async def test_results(name, result, toolset, run):
    """Structured content, JSON in a text of a tool with an `outputSchema`, no content, and a text are results."""
    assert (await run(toolset, name, seconds=0)).result == result


async def test_a_result_that_breaks_its_schema_is_delivered_with_a_note(toolset, run):
    """A result that breaks the `outputSchema` is of use all the same; a note names the field."""
    result = await run(toolset, "badly-structured")
    assert result.result == {"count": "three"}
    assert result.remarks[1:] == [
        "note: this result does not fit the tool's own schema: count must be an integer, not a string"
    ]


async def test_a_result_that_breaks_its_schema_is_refused_where_the_app_says_so(opened, run):
    """With `results="checked"` such a result is `malformed_response`, with the field."""
    server = str(Path(__file__).with_name("server.py"))
    checked = await opened(mcp.Stdio(sys.executable, server, "stdio"), results="checked")
    result = await run(checked, "badly-structured")
    assert result.retry_hint.reason == "malformed_response"
    assert [issue.field for issue in result.retry_hint.issues] == ["/count"]
    assert (await run(checked, "structured")).result == {"count": 3}


NAIVE = {
    "type": "object",
    "properties": {"at": {"type": "string", "format": "date-time"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("answer", "result", "note"),
    [
        ({"structuredContent": {"at": "2026-09-05T10:00:00.123"}}, {"at": "2026-09-05T10:00:00.123"}, " at "),
        ({"structuredContent": {"at": "2026-09-05T10:00:00Z", "more": 1}}, {"at": "2026-09-05T10:00:00Z", "more": 1}, " more "),
        ({"structuredContent": {"at": None}}, {"at": None}, " at "),
        ({"content": [{"type": "text", "text": "all done"}]}, "all done", "its text is not JSON"),
    ],
)  # fmt: skip
async def test_what_servers_get_wrong_in_results_reaches_the_planner(answer, result, note, opened, raw, run):
    """A naive time, one more field, a null and a text in place of the structure are delivered, with a note."""
    tool = {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": NAIVE}
    toolset = await opened(raw(tools=[tool], answers={"t": {"content": [], **answer}}))
    given = await run(toolset, "t")
    assert given.result == result
    assert note in given.remarks[-1]


ODD_ANSWERS = {
    "a": ({"structuredContent": {"x": 1}}, {"x": 1}),
    "b": ({"content": None, "structuredContent": {"x": 1}}, {"x": 1}),
    "c": ({"content": "a text"}, "a text"),
    "d": ({"content": {"type": "text", "text": "a block"}}, "a block"),
    "e": ({"content": ["one", {"type": "text", "text": 2}, {"type": "text", "text": None}]}, ["one", "2", ""]),
    "f": ({"content": [{"type": "text", "text": "x"}], "isError": None}, "x"),
    "g": ({"content": [{"type": "resource_link", "uri": "x://1"}]}, {"type": "resource_link", "uri": "x://1", "name": "x://1"}),
    "h": ({"content": [{"type": "image", "data": "iVBORw0KGgo="}]}, {"type": "image", "mime_type": "image/png", "bytes": 8}),
    "i": ({"content": [{"type": "resource", "resource": {"text": "t"}}]}, {"type": "resource", "uri": "", "text": "t"}),
    "j": ({"content": [], "structuredContent": [1, 2]}, "[1, 2]"),
    "k": ({"toolResult": {"old": True}}, '{"old": true}'),
}  # fmt: skip


async def test_an_answer_in_another_form_is_read_by_its_obvious_meaning(opened, raw, run):
    """A tool may have had its effect, so that its answer is not thrown away for a missing list or media type."""
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in (*ODD_ANSWERS, "failed")]
    answers = {name: answer for name, (answer, _) in ODD_ANSWERS.items()}
    answers["failed"] = {"content": ["no"], "isError": "true"}
    toolset = await opened(raw(tools=tools, answers=answers))
    assert {name: (await run(toolset, name)).result for name in ODD_ANSWERS} == {
        name: result for name, (_, result) in ODD_ANSWERS.items()
    }
    assert (await run(toolset, "failed")).error.message == "no"


async def test_an_error_without_a_text_says_why_it_failed(opened, raw, run):
    """The cause of an error may be in its structure only, with a code; a picture of an error is an artifact."""
    structure = {"error": {"code": "NEEDS_HUMAN", "hint": "sign in", "url": "https://x.example"}}
    picture = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    answers = {
        "a": {"isError": True, "content": [], "structuredContent": structure},
        "b": {"isError": True, "content": [picture]},
    }
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in answers]
    toolset = await opened(raw(tools=tools, answers=answers))
    failed = await run(toolset, "a")
    assert failed.error.code == "NEEDS_HUMAN"
    assert failed.error.message == json.dumps(structure)
    pictured = toolset["b"].deliver(ToolRequest(name="ops.test.b"), await run(toolset, "b"))
    assert (pictured.error.code, [each.kind for each in pictured.artifacts]) == ("mcp_tool_error", ["image"])


async def test_an_error_says_where_a_server_may_read(opened, raw, run):
    """A path is no secret, so that the model learns what is allowed; a declared one is."""
    text = "/etc/passwd not in /srv/photos, ask ana-of-ops"
    answers = {"t": {"isError": True, "content": [{"type": "text", "text": text}]}}
    transport = raw(
        tools=[{"name": "t", "inputSchema": {"type": "object"}}], answers=answers, secrets=["ana-of-ops"]
    )
    failed = await run(await opened(transport), "t")
    assert failed.error.message == "/etc/passwd not in /srv/photos, ask ***"


async def test_pictures_and_files_go_beside_the_result(toolset, run):
    """The result describes images, audio and files in order; the artifacts hold their data."""
    given = await run(toolset, "several")
    artifacts = {artifact.kind: artifact.data for artifact in given.artifacts}
    assert [part if isinstance(part, str) else part["type"] for part in given.result] == [
        "one", "image", "image", "audio", "resource", "resource", "resource_link",
    ]  # fmt: skip
    assert given.result[1] == {"type": "image", "mime_type": "image/png", "bytes": PIXELS}
    assert given.result[4] == {
        "type": "resource",
        "uri": "note://1",
        "mime_type": "text/plain",
        "text": "short",
    }
    assert artifacts.keys() == {"image", "image_2", "audio", "resource"}
    assert artifacts["image"]["mime_type"] == "image/png"
    assert artifacts["resource"].keys() == {"uri", "base64"}


async def test_a_tools_own_error_is_an_error(toolset, run):
    """The text of an `isError` answer is kept, without escape characters and secrets."""
    result = await run(toolset, "fails", what="secret-token")
    assert result.error.code == "mcp_tool_error"
    assert result.error.message == "no  ]0;x such ***"


async def test_an_answer_of_ten_megabytes_is_too_large(toolset, run):
    """An answer that is too large is dropped with a hint, and the session continues."""
    result = await run(toolset, "large", size=10_000_000)
    assert result.retry_hint.reason == "malformed_response"
    assert "Ask for a smaller part" in result.retry_hint.message
    assert (await run(toolset, "echo")).ok


async def test_calls_share_a_session(toolset, run):
    """Parallel calls share one server process, and none waits for another."""
    slow = asyncio.create_task(run(toolset, "slow", seconds=600))
    pids = {
        result.result["pid"] for result in await asyncio.gather(*(run(toolset, "counts") for _ in range(50)))
    }
    assert len(pids) == 1
    assert not slow.done()
    slow.cancel()


@pytest.mark.parametrize("kind", ["stdio", "http", "sse"])
async def test_a_cancelled_call_is_cancelled_at_the_server(kind, toolset, shared_server, opened, run, until):
    """The cancellation of a call stops the tool at the server."""
    toolset = toolset if kind == "stdio" else await opened(shared_server(kind).transport)
    before = (await run(toolset, "counts")).result["slow"]
    call = asyncio.create_task(run(toolset, "slow", mark="mine"))

    async def has_begun():
        return (await run(toolset, "counts")).result["slow"] > before

    await until(has_begun)
    call.cancel()

    async def was_cancelled():
        return "mine" in (await run(toolset, "cancelled")).result["cancelled"]

    await until(was_cancelled)


async def test_progress_goes_out_with_the_calls_heartbeats(toolset, run):
    """Each progress notification becomes a note, like that of `sojourn.progress`."""
    notes: list[str] = []
    token = reporter.set(lambda progress: notes.append(progress.note))
    try:
        await run(toolset, "progress")
    finally:
        reporter.reset(token)
    assert notes == ["1 of 3: step 1", "2 of 3: step 2", "3 of 3: step 3"]


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_the_trace_goes_on_at_the_server(kind, toolset, shared_server, opened, run):
    """The current span is in `_meta` and, over HTTP, in a header too, in the format of W3C Trace Context."""
    toolset = toolset if kind == "stdio" else await opened(shared_server(kind).transport)
    span = trace.NonRecordingSpan(
        trace.SpanContext(0xABC, 0xDEF, is_remote=False, trace_flags=trace.TraceFlags(1))
    )
    with trace.use_span(span):
        seen = (await run(toolset, "meta")).result
    expected = f"00-{0xABC:032x}-{0xDEF:016x}-01"
    assert seen["meta"]["traceparent"] == expected
    if kind == "http":
        assert seen["headers"]["traceparent"] == expected
        assert seen["headers"]["x-token"] == "secret-header"
