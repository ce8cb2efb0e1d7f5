"""Fixtures: servers as processes, toolsets that are closed again, and one way to call."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn import mcp
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.errors import ToolUnavailable

HERE = Path(__file__).parent
SERVER = str(HERE / "server.py")
ROGUE = str(HERE / "rogue.py")
META = ToolCallMeta(run_id="run-1")

Opened = Callable[..., Awaitable[mcp.McpToolset]]


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Served:
    """A server on a port, which can be killed and started again."""

    def __init__(self, kind: str, **env: str) -> None:
        self.kind = kind
        self.port = find_port()
        self.env = env
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def transport(self) -> mcp.Http:
        path = "sse" if self.kind == "sse" else "mcp"
        declared = mcp.Sse if self.kind == "sse" else mcp.Http
        return declared(
            f"http://127.0.0.1:{self.port}/{path}?key=secret-query", headers={"X-Token": "secret-header"}
        )

    def start(self) -> "Served":
        command = [sys.executable, SERVER, self.kind, str(self.port)]
        self.process = subprocess.Popen(command, env={**os.environ, **self.env})
        return self

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def free_port() -> int:
    """A loopback port that nobody listens on."""
    return find_port()


@pytest.fixture
def serving() -> Iterator[Callable[..., Served]]:
    """Make a server of a kind; it is killed at the end, if it was started."""
    made: list[Served] = []

    def make(kind: str, **env: str) -> Served:
        made.append(Served(kind, **env))
        return made[-1]

    yield make
    for served in made:
        served.kill()


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Open a toolset on a transport; it is closed at the end."""
    made: list[mcp.McpToolset] = []

    async def make(transport: mcp.Transport, **options: Any) -> mcp.McpToolset:
        toolset = mcp.McpToolset("ops.test", transport=transport, **options)
        made.append(toolset)
        await toolset.open()
        return toolset

    yield make
    for toolset in made:
        await toolset.close()


@pytest.fixture
def stdio() -> Callable[..., mcp.Stdio]:
    """The test server as a process of the toolset's."""
    return lambda **env: mcp.Stdio(sys.executable, SERVER, "stdio", env=env)


@pytest.fixture
def rogue() -> Callable[..., mcp.Stdio]:
    """A server that does not keep to the protocol, in one of its ways."""
    return lambda way: mcp.Stdio(sys.executable, ROGUE, way)


@pytest.fixture
def run() -> Callable[..., Awaitable[Any]]:
    """Call a tool once, as the boundary does."""

    async def call(toolset: mcp.McpToolset, name: str, raw: str | None = None, **fields: Any) -> Any:
        request = ToolRequest(name=f"{toolset.id}.{name}", payload=fields, raw=raw)
        return await toolset[name].prepare({}, request, META)()

    return call


@pytest.fixture
def persist(run) -> Callable[..., Awaitable[Any]]:
    """Call a tool as the activity does, which repeats what was unavailable."""

    async def call(toolset: mcp.McpToolset, name: str, **fields: Any) -> Any:
        for attempt in range(60):
            try:
                return await run(toolset, name, **fields)
            except ToolUnavailable:
                if attempt == 59:
                    raise
                await asyncio.sleep(0.25)
        return None

    return call


@pytest.fixture(scope="session")
def everything(tmp_path_factory) -> str:
    """The reference server of the MCP project, installed by npm; gives its script."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("everything")
    package = "@modelcontextprotocol/server-everything"
    flags = ["--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--loglevel=error"]
    command = ["npm", "install", "--prefix", str(folder), *flags, f"{package}@2026.8.31"]
    subprocess.run(command, check=True, cwd=folder, timeout=200)
    return str(folder / "node_modules" / package / "dist" / "index.js")
