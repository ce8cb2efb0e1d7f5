"""A Sojourn agent with a model as its planner."""

from bench import load
from bench.agents import policy
from bench.fake_model import model
from sojourn import Agent, App, Toolset
from sojourn.models import ModelPlanner

__all__ = ["app"]

tools = Toolset("bench.load", description="Work of a known size")


@tools.tool
async def echo(text: str) -> str:
    """Return 200 bytes."""
    return load.result(text)


app = App(agents=[Agent("bench.model", planner=ModelPlanner(model), uses=[tools], policy=policy)])
