"""The benchmark's work as a Sojourn app."""

from typing import Any

from bench import load
from sojourn import Agent, App, PlanResult, RunPolicy, Toolset, Turn
from sojourn.authoring import Tool
from sojourn.planner import PlanFunction

__all__ = ["app", "echo", "echo_locally", "planning", "policy", "tools"]

tools = Toolset("bench.load", description="Work of a known size")


@tools.tool
async def echo(text: str) -> str:
    """Return 200 bytes."""
    return load.result(text)


@tools.tool(local=True, read_only=True)
async def echo_locally(text: str) -> str:
    """Return 200 bytes, in a local activity."""
    return load.result(text)


def planning(tool: Tool[..., Any]) -> PlanFunction:
    """Return a planner that requests as many calls as the first message says, one a plan."""

    async def plan(turn: Turn) -> PlanResult:
        wanted = int(turn.messages[0].text)
        made = len(turn.messages) // 2  # after the first message, two for each call
        return (
            PlanResult.calls(tool.call(text=load.argument(made)))
            if made < wanted
            else PlanResult.final("done")
        )

    return plan


policy = RunPolicy(max_tool_rounds=1_000_000)
app = App(
    agents=[
        Agent("bench.agent", planner=planning(echo), uses=[tools], policy=policy),
        Agent("bench.local", planner=planning(echo_locally), uses=[tools], policy=policy),
    ]
)
