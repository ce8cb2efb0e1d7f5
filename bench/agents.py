"""The same work as a Sojourn app."""

from bench import load
from sojourn import Agent, App, PlanResult, RunPolicy, Toolset, Turn

__all__ = ["app", "echo", "tools"]

tools = Toolset("bench.load", description="Work of a known size")


@tools.tool
async def echo(text: str) -> str:
    """Return 200 bytes."""
    return load.result(text)


async def plan(turn: Turn) -> PlanResult:
    """Ask for as many calls as the first message says, one a turn."""
    wanted = int(turn.messages[0].text)
    made = sum(1 for message in turn.messages if message.role == "tool")
    return (
        PlanResult.calls(echo.call(text=load.argument(made))) if made < wanted else PlanResult.final("done")
    )


app = App(agents=[Agent("bench.agent", planner=plan, uses=[tools], policy=RunPolicy(max_tool_rounds=10_000))])
