"""Fixtures: a provider to record, and an agent whose own model needs a key that no test has."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from sojourn import Agent, App, RunOutput, RunPolicy, ToolCallMeta, Toolset
from sojourn.models import ModelPlanner
from tests.models.conftest import ask, protocol, standin, streamed  # noqa: F401 - fixtures

orders = Toolset("desk.orders", description="Orders of a shop")


@orders.tool(read_only=True)
async def find(id: int, meta: ToolCallMeta) -> dict[str, str]:
    """Find an order; its answer is another one in each run."""
    return {
        "status": f"order {id} is on its way",
        "asked_by": meta.run_id,
        "asked_in": meta.tool_call_id,
        "key": meta.idempotency_key,
        "at": datetime.now(UTC).isoformat(),
    }


def desk(instructions: str = "You answer for a shop.", **options) -> App:
    """An app whose agent has a model that cannot be asked here."""
    planner = ModelPlanner("openai:gpt-5-mini", instructions=instructions, **options)
    return App(
        agents=[
            Agent("desk.clerk", planner=planner, uses=[orders], policy=RunPolicy(interrupts_allowed=True))
        ]
    )


@pytest.fixture
def app() -> App:
    """The app with its own model."""
    return desk()


@pytest.fixture
def converse(serve) -> Callable[..., Awaitable[RunOutput]]:
    """Start a run of an app's clerk, answer its questions with `It is 7`, and return the run's output."""

    async def run(app: App, text: str = "Where is my order?") -> RunOutput:
        client = await serve(app)
        run = await client.start("desk.clerk", text)
        async for event in run.events():
            if event.type == "await_clarification":
                await run.answer(None, "It is 7")
        return await run.result()

    return run
