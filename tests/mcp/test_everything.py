"""The MCP project's reference server, a Node program, over its three transports."""

import os
import subprocess

import pytest

from sojourn import mcp


@pytest.mark.parametrize("kind", ["stdio", "streamableHttp", "sse"])
async def test_the_reference_server_is_a_toolset(kind, everything, free_port, opened, run, until):
    """The tools of a server with the older handshake and draft-07 schemas are listed and called."""
    process = None
    if kind == "stdio":
        transport = mcp.Stdio("node", everything, "stdio", env={"TOKEN": "one"})
    else:
        port = free_port
        process = subprocess.Popen(
            ["node", everything, kind], env={**os.environ, "PORT": str(port)}, stdout=subprocess.DEVNULL
        )
        path, declared = ("sse", mcp.Sse) if kind == "sse" else ("mcp", mcp.Http)
        transport = declared(f"http://127.0.0.1:{port}/{path}")
    try:
        toolset = await opened(transport, include=["echo", "get-*"])
        await until(lambda: toolset.tools)
        assert (await run(toolset, "echo", raw='{"message": "hi"}')).result == "Echo: hi"
        assert (await run(toolset, "echo")).retry_hint.missing_fields == ["message"]
        weather = await run(toolset, "get-structured-content", location="New York")
        assert weather.result.keys() == {"temperature", "conditions", "humidity"}
        picture = await run(toolset, "get-tiny-image")
        assert picture.artifacts[0].data["mime_type"] == "image/png"
        if kind == "stdio":
            assert '"TOKEN": "one"' in (await run(toolset, "get-env")).result
            assert "HOME" not in (await run(toolset, "get-env")).result
    finally:
        if process is not None:
            process.kill()
            process.wait()
