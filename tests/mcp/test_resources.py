"""Resources and instructions of a server: a link that a result gives can be read, and what the server says is known."""

import base64

import pytest

from sojourn.contracts.tool_call import ToolRequest

TOOLS = [{"name": "list", "inputSchema": {"type": "object"}}]
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 20).decode()
RESOURCES = {
    "note://short": [{"uri": "note://short", "mimeType": "text/plain", "text": "three apples"}],
    "note://long": [{"uri": "note://long", "text": "x" * 100_050}],
    "shot://1": [{"uri": "shot://1", "mimeType": "image/png", "blob": PNG}],
    "file://x": [{"uri": "file://x", "mimeType": "application/zip", "blob": PNG}],
    "note://two": [{"uri": "note://a", "text": "a"}, {"uri": "note://b", "text": "b"}],
}


@pytest.fixture
async def toolset(opened, raw):
    """A toolset of a server with resources."""
    return await opened(
        raw(tools=TOOLS, resources=RESOURCES, instructions="List first.\x1b[31m" + "x" * 3_000)
    )


@pytest.mark.parametrize(
    ("uri", "result"),
    [
        ("note://short", "three apples"),
        ("note://long", "x" * 100_000 + "\n[50 more characters are left out]"),
        ("note://two", ["a", "b"]),
        ("file://x", {"type": "resource", "uri": "file://x", "mime_type": "application/zip", "bytes": 28}),
    ],
)
async def test_a_resource_can_be_read(uri, result, toolset, run):
    """A text is the result, up to a limit; a file is an artifact."""
    assert (await run(toolset, "read_resource", uri=uri)).result == result


async def test_a_picture_of_a_resource_is_one_for_models_too(toolset, run):
    """A picture is an artifact `image` that models see."""
    tool = toolset["read_resource"]
    given = tool.deliver(ToolRequest(name=tool.id), await run(toolset, "read_resource", uri="shot://1"))
    assert [(each.kind, each.media_type) for each in given.artifacts] == [("image", "image/png")]


async def test_a_resource_that_is_not_there_is_an_error(toolset, run):
    """The server's error is the result; a call without an address is refused here."""
    assert (await run(toolset, "read_resource", uri="note://none")).error.message == "Resource not found"
    assert (await run(toolset, "read_resource")).retry_hint.missing_fields == ["uri"]


async def test_reading_a_resource_is_read_only(toolset):
    """The tool changes nothing; whether approval relies on that is the toolset's `trusted`."""
    spec = toolset["read_resource"].spec
    assert (spec.annotations.read_only, spec.trusted) == (True, False)
    assert list(toolset.tools) == ["list", "read_resource"]


@pytest.mark.parametrize(
    ("script", "options"),
    [
        ({"tools": TOOLS}, {}),
        ({"tools": TOOLS, "resources": {}}, {}),
        ({"tools": TOOLS, "resources": RESOURCES}, {"include": ["list"]}),
        ({"tools": TOOLS, "resources": RESOURCES}, {"exclude": ["read_*"]}),
    ],
    ids=["no resources", "none listed", "not included", "excluded"],
)
async def test_the_tool_is_there_only_for_resources_that_are_wanted(script, options, opened, raw):
    """A server without resources has no such tool, also where it declares that it may have some; and an app may leave it out by its name."""
    assert list((await opened(raw(**script), **options)).tools) == ["list"]


async def test_a_template_is_enough(opened, raw):
    """A server that lists only a template of resources has something to read."""
    template = {"uriTemplate": "note://{name}", "name": "note"}
    found = await opened(raw(tools=TOOLS, resources={}, templates=[template]))
    assert list(found.tools) == ["list", "read_resource"]


async def test_a_tool_of_the_server_keeps_its_name(opened, raw, run):
    """A server with a tool `read_resource` of its own has only that one."""
    own = {"name": "read_resource", "inputSchema": {"type": "object"}}
    toolset = await opened(raw(tools=[own], resources=RESOURCES))
    assert (await run(toolset, "read_resource", id=1)).result["arguments"] == {"id": 1}


async def test_what_a_server_says_is_known_within_bounds(toolset, opened, raw):
    """Instructions have 2,000 characters at most, without control characters; an app may do without them."""
    assert toolset.instructions.startswith("List first. [31mxxx")
    assert len(toolset.instructions) == 2_000
    assert not (await opened(raw(tools=TOOLS, instructions="List first."), instructions=False)).instructions
