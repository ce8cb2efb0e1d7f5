"""`python -m bench.mcp`: the cost of a call through a toolset beside that of a bare call of the MCP SDK.

The two take turns, call by call, so that the machine's other load falls on both alike.
"""

import asyncio
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from mcp import Client, StdioServerParameters
from rich.console import Console
from rich.table import Table

from sojourn import mcp
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult

CALLS = 300
SERVER = str(Path(__file__).parents[1] / "tests" / "mcp" / "server.py")
ARGUMENTS = {"sku": "ABC", "count": 3}
RAW = '{"sku": "ABC", "count": 3}'


async def main() -> None:
    """Measure both transports, and print a table."""
    table = Table(
        "transport", "bare SDK, median ms", "toolset, median ms", "ratio", "bare p95", "toolset p95"
    )
    table.add_row("stdio", *await over_stdio())
    table.add_row("http", *await over_http())
    Console().print(table)


async def over_stdio() -> list[str]:
    """Measure over stdio, where each side has a server process of its own."""
    bare = Client(StdioServerParameters(command=sys.executable, args=[SERVER, "stdio"]))
    return await compared(bare, mcp.Stdio(sys.executable, SERVER, "stdio"))


async def over_http() -> list[str]:
    """Measure over HTTP, where one server serves both sides."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, SERVER, "http", str(port)])
    try:
        await listening(port)
        url = f"http://127.0.0.1:{port}/mcp"
        return await compared(Client(url), mcp.Http(url))
    finally:
        process.kill()
        process.wait()


async def listening(port: int) -> None:
    """Wait until a port accepts connections."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return


async def compared(bare: Client, transport: mcp.Transport) -> list[str]:
    """The cells of one transport's row: medians in ms, their ratio, and 95th percentiles in ms."""
    toolset = mcp.McpToolset("bench.mcp", transport=transport)
    await toolset.open()
    tool = toolset["order"]
    request = ToolRequest(name=tool.id, raw=RAW)
    meta = ToolCallMeta(run_id="bench")

    async def through_toolset() -> None:
        result = await tool.prepare({}, request, meta)()
        assert isinstance(result, ToolResult)
        assert result.result == ARGUMENTS

    async with bare:
        await bare.list_tools()

        async def through_sdk() -> None:
            result = await bare.call_tool("order", ARGUMENTS)
            assert result.structured_content == ARGUMENTS

        ours, theirs = await measured(through_toolset, through_sdk)
    await toolset.close()
    ratio = statistics.median(ours) / statistics.median(theirs)
    return [
        f"{statistics.median(theirs) * 1000:.2f}",
        f"{statistics.median(ours) * 1000:.2f}",
        f"{ratio:.2f}",
        f"{tail(theirs) * 1000:.2f}",
        f"{tail(ours) * 1000:.2f}",
    ]


async def measured(*contenders: Callable[[], Awaitable[None]]) -> list[list[float]]:
    """Seconds of each call of each contender, which take turns; the first 20 calls of each are left out."""
    seconds: list[list[float]] = [[] for _ in contenders]
    for turn in range(CALLS + 20):
        for index, call in enumerate(contenders):
            started = time.perf_counter()
            await call()
            if turn >= 20:
                seconds[index].append(time.perf_counter() - started)
    return seconds


def tail(seconds: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(seconds, n=20)[-1]


if __name__ == "__main__":
    asyncio.run(main())
