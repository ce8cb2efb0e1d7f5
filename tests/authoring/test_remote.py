"""Remote toolsets: what their other process lists but cannot be used, and what it says, is told by the app."""

from typing import Any, ClassVar

import pytest

from sojourn import Agent, App, mcp


async def plan(turn: Any) -> Any:
    """Not called."""


class Plain:
    """A remote toolset by the protocol alone, without `left_out` and `instructions`."""

    id = "desk.plain"
    description = ""
    unavailable = None
    tools: ClassVar[dict[str, Any]] = {}

    async def open(self) -> None: ...

    async def close(self) -> None: ...


def toolset(**left_out: str) -> mcp.McpToolset:
    made = mcp.McpToolset("desk.files", transport=mcp.Stdio("x"))
    made._catalogue.left_out = left_out
    made._catalogue.instructions = "List first."
    return made


def app_of(*toolsets: Any) -> App:
    return App(agents=[Agent("desk.agent", planner=plan, uses=list(toolsets))])


@pytest.mark.parametrize(
    ("tool_id", "why"),
    [
        ("desk.files.plain", "it is left out: no reason"),
        (mcp.McpToolset("desk.files", transport=mcp.Stdio("x")).id_of("odd name"), "it is left out: odd"),
        ("desk.files.other", None),
        ("desk.elsewhere.plain", None),
    ],
)
def test_a_call_of_a_tool_that_is_left_out_is_told_why(tool_id, why):
    """A model that calls such a tool, by its name or by the id that its name would have, reads the reason."""
    app = app_of(toolset(**{"plain": "no reason", "odd name": "odd"}))
    assert app.why_unknown("desk.agent", tool_id) == why


def test_a_tool_beyond_the_end_of_a_list_is_told_why():
    """A list that was cut is the reason of a tool that is not in it, such as one of a server with thousands."""
    app = app_of(toolset(**{"tools/list": "only the first 1000 tools are used"}))
    assert app.why_unknown("desk.agent", "desk.files.tool_1500") == (
        "it is not in the list of its server's tools: only the first 1000 tools are used"
    )


def test_a_server_that_is_down_is_the_first_reason():
    """While the server cannot be used, that is why, whatever its last list was."""
    down = toolset(plain="no reason")
    down._connection.unavailable = "it is down"
    assert app_of(down).why_unknown("desk.agent", "desk.files.plain") == "it is down"


def test_what_is_left_out_and_said_is_told_by_agent():
    """Of a toolset that knows neither, nothing is told; of an unknown agent neither."""
    app = app_of(toolset(plain="no reason"), Plain())
    assert app.unusable_tools() == app.unusable_tools("desk.agent") == {"desk.files": {"plain": "no reason"}}
    assert app.server_instructions("desk.agent") == {"desk.files": "List first."}
    assert app.server_instructions("desk.nobody") == app.unusable_tools("desk.nobody") == {}
    assert app.why_unknown("desk.agent", "desk.plain.x") is None
