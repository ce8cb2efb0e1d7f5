"""Fixtures: MCP servers as processes, toolsets that are closed after a test, and calls of their tools."""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sojourn import Agent, PlanResult, Run, RunPolicy, mcp
from sojourn.contracts.plan import Turn
from sojourn.contracts.tool_call import ToolCallMeta, ToolInput, ToolRequest
from sojourn.errors import ToolUnavailable
from sojourn.server import ports
from sojourn.testing.scripted import ScriptedPlanner
from tests.node_modules import installed
from tests.programs import Program

HERE = Path(__file__).parent
CONFORMANCE = HERE.parent / "http" / "conformance"
SERVER = str(HERE / "server.py")
ROGUE = str(HERE / "rogue.py")
OUTPUT = Path("/dev/stderr")
META = ToolCallMeta(run_id="run-1")

ASKING = str(HERE / "asking_server.py")

IMPORTS = (
    "mcp.server.mcpserver",
    "mcp.server.sse",
    "mcp.server.streamable_http_manager",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.lifespan.on",
)
"""What a server imports, which takes over a second of a new interpreter."""

Opened = Callable[..., Awaitable[mcp.McpToolset]]


def find_port() -> int:
    return ports.pick(0, 0)  # not ephemeral: a connection might take such a port before the server starts


class Served:
    """A server on a port, which can be killed and started again."""

    def __init__(self, kind: str, **env: str) -> None:
        self.kind = kind
        self.port = find_port()
        self.env = env
        self.process: Program | None = None

    @property
    def transport(self) -> mcp.Http:
        path = "sse" if self.kind == "sse" else "mcp"
        declared = mcp.Sse if self.kind == "sse" else mcp.Http
        return declared(
            f"http://127.0.0.1:{self.port}/{path}?key=secret-query", headers={"X-Token": "secret-header"}
        )

    def start(self) -> "Served":
        """Start the test server, and return when it can be reached."""
        self._start(SERVER, self.kind)
        return self

    def start_other(self, script: str, *arguments: str) -> mcp.Http:
        """Start another server on the port, and return its transport when it can be reached."""
        self._start(script, *arguments, "http")
        return mcp.Http(f"http://127.0.0.1:{self.port}/mcp")

    def _start(self, *command: str) -> None:
        self.process = Program(
            *command,
            str(self.port),
            cwd=HERE,
            env={**os.environ, **self.env},
            out=OUTPUT,
            err=OUTPUT,
            imports=IMPORTS,
        )
        while self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                break
            time.sleep(0.05)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()


class Asking:
    """The asking server, which asks what its arguments say, and records its calls in a file."""

    def __init__(self, folder: Path) -> None:
        self.notes = folder / "notes"
        self.notes.touch()

    def stdio(self, **env: str) -> mcp.Stdio:
        """Return the transport to the server in a process of the toolset."""
        return mcp.Stdio(sys.executable, ASKING, str(self.notes), "stdio", env=env)

    def http(self, served: Served) -> mcp.Http:
        """Start the server on a port, and return its transport."""
        return served.start_other(ASKING, str(self.notes))

    def calls(self, mark: str = "") -> list[dict[str, Any]]:
        """Return the calls that the server got: all, or those with a mark."""
        noted = [json.loads(line) for line in self.notes.read_text().splitlines()]
        return [each for each in noted if not mark or each["arguments"].get("mark") == mark]


def one_call(toolset: mcp.McpToolset, name: str, *, policy: RunPolicy, agent_id: str = "test.agent") -> Agent:
    """Return an agent that calls a tool with the arguments in its message, and answers with the call's result or error."""

    def call(turn: Turn) -> PlanResult:
        return PlanResult.calls(toolset.call(name, **json.loads(turn.messages[0].text)))

    def answer(turn: Turn) -> PlanResult:
        (result,) = turn.messages[-1].tool_results
        failure = {"error": result.error and result.error.model_dump(exclude_none=True)}
        return PlanResult.final(json.dumps(result.result if result.ok else failure))

    return Agent(agent_id, planner=ScriptedPlanner([call, answer]), uses=[toolset], policy=policy)


@pytest.fixture
def asking(tmp_path: Path) -> Asking:
    """The asking server, for one test."""
    return Asking(tmp_path)


@pytest.fixture(scope="module")
def shared_asking(tmp_path_factory: pytest.TempPathFactory) -> Asking:
    """The asking server, for the tests of a module."""
    return Asking(tmp_path_factory.mktemp("asking"))


@pytest.fixture(scope="module")
def shared_asking_transport(shared_asking: Asking) -> Iterator[mcp.Http]:
    """The transport to one process of the shared asking server, for any number of toolsets."""
    served = Served("http")
    yield shared_asking.http(served)
    served.kill()


@pytest.fixture(scope="module")
def calling() -> Callable[..., Agent]:
    """Make an agent that makes one call."""
    return one_call


@pytest.fixture
def asked(status_when) -> Callable[..., Awaitable[Any]]:
    """Wait until a run has a new wait, and return it; it must be the only one."""

    async def wait(run: Run, *before: Any) -> Any:
        status = await status_when(run, lambda status: any(each not in before for each in status.awaits))
        (found,) = status.awaits
        return found

    return wait


@pytest.fixture
def answered() -> Callable[..., ToolCallMeta]:
    """Make the meta of a call that continues, with the same response to each form."""

    def meta(asking: Any, **response: Any) -> ToolCallMeta:
        needed = asking.input_required
        responses = {**needed.responses, **{form.key: response for form in needed.forms}}
        given = ToolInput(responses=responses, request_state=needed.request_state)
        return META.model_copy(update={"input": given})

    return meta


@pytest.fixture
def free_port() -> int:
    """A loopback port on which nothing listens."""
    return find_port()


@pytest.fixture
def serving(processes) -> Iterator[Callable[..., Served]]:
    """Make a server of a kind; it is killed after the test, if it was started."""
    made: list[Served] = []

    def make(kind: str, **env: str) -> Served:
        made.append(Served(kind, **env))
        return made[-1]

    yield make
    for served in made:
        served.kill()


@pytest.fixture(scope="session")
def shared_server(processes) -> Iterator[Callable[[str], Served]]:
    """Return the server of a kind that all harmless tests share."""
    made: dict[str, Served] = {}

    def stand(kind: str) -> Served:
        if kind not in made:
            made[kind] = Served(kind).start()
        return made[kind]

    yield stand
    for served in made.values():
        served.kill()


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Open a toolset on a transport; it is closed after the test."""
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
def rogue(processes) -> Callable[..., mcp.Stdio]:
    """Return the transport to a server that breaks the protocol in the given way."""
    return lambda way, **env: mcp.Stdio(sys.executable, ROGUE, way, env=env)


@pytest.fixture
def raw(processes) -> Callable[..., mcp.Stdio]:
    """Return the transport to a server that sends what its script says."""
    return lambda *, secrets=(), **script: mcp.Stdio(
        sys.executable, str(HERE / "raw.py"), json.dumps(script), secrets=secrets
    )


@pytest.fixture
def run() -> Callable[..., Awaitable[Any]]:
    """Call a tool once, as the boundary does."""

    async def call(
        toolset: mcp.McpToolset,
        name: str,
        raw: str | None = None,
        meta: ToolCallMeta = META,
        **fields: Any,
    ) -> Any:
        request = ToolRequest(name=f"{toolset.id}.{name}", payload=fields, raw=raw)
        return await toolset[name].prepare({}, request, meta)()

    return call


@pytest.fixture
def persist(run) -> Callable[..., Awaitable[Any]]:
    """Call a tool, and repeat the call while it is unavailable, as Temporal does."""

    async def call(toolset: mcp.McpToolset, name: str, **fields: Any) -> Any:
        for attempt in range(160):
            try:
                return await run(toolset, name, **fields)
            except ToolUnavailable:
                if attempt == 159:
                    raise
                await asyncio.sleep(0.25)
        return None

    return call


@pytest.fixture(scope="session")
def everything(processes) -> str:
    """Install the MCP project's reference server, beside its conformance suite, and return the path of its script."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    package = "@modelcontextprotocol/server-everything"
    return str(installed(CONFORMANCE) / package / "dist" / "index.js")
