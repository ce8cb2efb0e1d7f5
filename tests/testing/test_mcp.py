"""An MCP toolset whose server is made of functions."""

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from sojourn import Agent, App, PlanResult, mcp
from sojourn.testing import ScriptedPlanner
from sojourn.testing.mcp import use_mcp


def read_order(order_id: str, lines: int = 3) -> dict[str, str | int]:
    """Read an order."""
    return {"order_id": order_id, "lines": lines}


async def close_order(order_id: str) -> str:
    """Close an order."""
    raise ToolError(f"{order_id} is closed already")


@pytest.fixture
def orders() -> mcp.McpToolset:
    """A toolset whose own server cannot be started."""
    return mcp.McpToolset("shop.orders", transport=mcp.Stdio("no-such-program"))


@pytest.fixture
def use_functions(orders):
    with use_mcp(orders, read_order, close_order) as server:
        yield server


async def test_functions_are_tools_of_a_server(orders, use_functions, serve):
    """Good calls are answered, bad ones refused by the schema of the listing, and errors are the server's."""
    script = ScriptedPlanner(
        [
            PlanResult.calls(
                orders["read_order"].call(order_id="o-1"),
                orders["read_order"].call(order_id="o-1", lines="many"),
                orders["close_order"].call(order_id="o-1"),
            ),
            PlanResult.final("done"),
        ]
    )
    client = await serve(App(agents=[Agent("shop.clerk", planner=script, uses=[orders])]))
    await client.execute("shop.clerk", "hello")
    read, refused, failed = script.turns[-1].tool_results
    assert read.result == {"order_id": "o-1", "lines": 3}
    assert refused.retry_hint.issues[0].field == "/lines"
    assert "o-1 is closed already" in failed.error.message
    assert orders.tools["read_order"].spec.description == "Read an order."


def test_the_transport_of_the_app_comes_back(orders):
    """After the block the toolset reaches its own server again."""
    before = orders.transport
    with use_mcp(orders, read_order):
        assert orders.transport is not before
    assert orders.transport is before


def test_what_cannot_be_a_server(orders):
    """Two functions of one name, and functions beside a server, are refused."""
    with pytest.raises(ValueError, match=r"two tools of toolset shop\.orders would have the name read_order"):
        use_mcp(orders, read_order, read_order).__enter__()
    with pytest.raises(ValueError, match="functions, or one MCPServer"):
        use_mcp(orders, MCPServer("own"), read_order).__enter__()
