"""Agents with models as planners, one for each protocol; the environment holds the addresses."""

from sojourn import Agent, App, ModelPlanner, Toolset

sums = Toolset("model.sums")


@sums.tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


MODELS = {
    "chat": "openai-chat:gpt-5-mini",
    "responses": "openai:gpt-5-mini",
    "claude": "anthropic:claude-sonnet-4-6",
    "gemini": "google:gemini-3.8-flash",
}

app = App(
    agents=[
        Agent(f"model.{name}", planner=ModelPlanner(model, settings={"max_tokens": 1000}), uses=[sums])
        for name, model in MODELS.items()
    ]
)
