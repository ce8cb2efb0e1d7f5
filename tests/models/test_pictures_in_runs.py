"""Pictures in runs: a model that sees gets the pictures of tools, over each protocol, and the history does not hold them twice."""

import base64
import json
import sys
import uuid
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import BaseModel

from activities.transcripts import PICTURES
from sojourn import Agent, App, Client, ModelPlanner, Toolset, WithArtifacts, Worker, mcp
from sojourn.testing.providers import HttpError, ProviderServer, ToolCall, calls, says

pytestmark = pytest.mark.usefixtures("processes")

RAW = Path(__file__).parents[1] / "mcp" / "raw.py"


def chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


HEAD = (1).to_bytes(4, "big") * 2 + b"\x08\x00\x00\x00\x00"
PNG = base64.b64encode(
    b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", HEAD) + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")
).decode()
"""One black pixel."""

cameras = Toolset("test.cameras")


class Picture(BaseModel):
    mime_type: str
    base64: str


@cameras.tool(artifacts={"image": Picture})
async def look() -> WithArtifacts[str]:
    """Take a picture."""
    return WithArtifacts("taken", image=Picture(mime_type="image/png", base64=PNG))


def browser(**options: bool) -> mcp.McpToolset:
    block = {"type": "image", "mimeType": "image/png", "data": PNG}
    script = {
        "tools": [{"name": "shot", "inputSchema": {"type": "object"}}],
        "answers": {"shot": {"content": [block]}},
        "instructions": "Shots are small.",
    }
    return mcp.McpToolset(
        "test.browser", transport=mcp.Stdio(sys.executable, str(RAW), json.dumps(script)), **options
    )


@pytest.fixture
def served(temporal_address, standin: ProviderServer, protocol):
    """Serve an agent with toolsets, whose model follows a script; yields its client."""

    @asynccontextmanager
    async def serve(*toolsets, script) -> AsyncIterator[Client]:
        standin.script = list(script)
        planner = ModelPlanner(standin.model(protocol), settings={"max_tokens": 1000})
        app = App(agents=[Agent("test.agent", planner=planner, uses=list(toolsets))])
        client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
        async with Worker(app, client):
            yield client

    return serve


def sent(standin: ProviderServer) -> list[int]:
    """Return how often each request has the picture; Google's has the alphabet of URLs."""
    bodies = [json.dumps(request.body) for request in standin.requests]
    return [body.replace("-", "+").replace("_", "/").count(PNG) for body in bodies]


def call(name: str, id: str) -> ToolCall:
    return ToolCall(name=name, arguments="{}", id=id)


LOOK, SHOT = "test__cameras__look", "test__browser__shot"


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["here", "another worker"])
async def test_a_model_sees_the_pictures_of_tools(is_elsewhere, served, standin, monkeypatch):
    """The picture of a function and that of an MCP server are in each later request, once, read from the history where need be."""
    if is_elsewhere:
        monkeypatch.setattr(PICTURES, "keep", lambda *_: None)
    script = [calls(call(LOOK, "c1")), calls(call(SHOT, "c2")), says("two black pixels")]
    async with served(cameras, browser(), script=script) as client:
        run = await client.start("test.agent", "what do you see?")
        assert (await run.result()).text == "two black pixels"
        transcript = await run.transcript()
    assert sent(standin) == [0, 1, 2]
    note = "About the tools of test.browser, in the words of their server:\\nShots are small."
    assert all(note in json.dumps(request.body) for request in standin.requests)
    assert PNG not in "".join(message.model_dump_json() for message in transcript)


async def test_a_toolset_may_keep_its_pictures_for_people(served, standin):
    """With `pictures=False` a model reads that there is one, and does not see it."""
    script = [calls(call(SHOT, "c1")), says("I cannot see it")]
    async with served(browser(pictures=False), script=script) as client:
        await client.execute("test.agent", "what do you see?")
    assert sent(standin) == [0, 0]
    assert "kept for the people who follow the run" in json.dumps(standin.requests[1].body)


async def test_a_picture_that_a_provider_refuses_ends_no_run(served, standin):
    """The request is made again without the pictures, and says so, in this plan and the next."""
    refused = HttpError(error="image")
    script = [calls(call(SHOT, "c1")), refused, calls(call(LOOK, "c2")), says("done")]
    async with served(cameras, browser(), script=script) as client:
        assert (await client.execute("test.agent", "what do you see?")).text == "done"
    assert sent(standin) == [0, 1, 0, 1]
    assert "not shown to you: 1 picture" in json.dumps(standin.requests[2].body)
