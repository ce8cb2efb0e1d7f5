"""More runs wait than a worker keeps in memory: the others are evicted, and rebuilt when they are answered (SR-72)."""

import asyncio
import logging
import uuid

import pytest
from pydantic import BaseModel

from sojourn import (
    Agent,
    App,
    AwaitClarification,
    AwaitConfirmation,
    Client,
    PlanResult,
    RunPolicy,
    ToolRequest,
    Toolset,
    Worker,
)
from sojourn.testing.scripted import ScriptedPlanner

RUNS = 15
CACHED = 3
ASKS = RunPolicy(interrupts_allowed=True)

paid: list[str] = []
till = Toolset("test.till")
shop = Toolset("test.shop", external=True)


@till.tool(destructive=True)
async def pay(slip: str) -> str:
    """Pay a slip."""
    paid.append(slip)
    return f"paid {slip}"


class Fetch(BaseModel):
    slip: str


class Fetched(BaseModel):
    count: int


shop.declare("fetch", args=Fetch, result=Fetched, description="Fetch what a slip says.")


def report(turn):
    """Answer with the call's result, or with the last message."""
    results = [part.result for message in turn.messages for part in message.tool_results]
    return PlanResult.final(str(results[0]) if results else turn.messages[-1].text)


def asker(name: str, ask, uses: list[Toolset]) -> Agent:
    """An agent that waits once."""
    return Agent(f"test.{name}", planner=ScriptedPlanner([ask, report]), uses=uses, policy=ASKS)


def calling(name: str):
    """A plan that calls a tool for the run's slip."""
    return lambda turn: PlanResult.calls(
        ToolRequest(name=name, payload={"slip": turn.messages[0].text}, tool_call_id="c1")
    )


app = App(
    agents=[
        asker("clarifies", PlanResult.ask(AwaitClarification(id="q", question="?")), []),
        asker("confirms", calling("test.till.pay"), [till]),
        asker("fetches", calling("test.shop.fetch"), [shop]),
    ]
)
AGENTS = ["test.clarifies", "test.confirms", "test.fetches"]


async def answered(run, wait, number: int) -> str:
    """Answer a run's wait with the run's number; return the text that the run will answer."""
    if isinstance(wait, AwaitClarification):
        await run.answer(wait.id, f"a{number}")
        return f"a{number}"
    if isinstance(wait, AwaitConfirmation):
        await run.approve(wait.id)
        return f"paid s{number}"
    await run.provide_tool_results(wait.id, [{"tool_call_id": "c1", "result": {"count": number}}])
    return f"{{'count': {number}}}"


@pytest.fixture
async def client(temporal_address, caplog):
    """A client whose worker keeps three runs in memory; the worker's log is captured."""
    caplog.set_level(logging.DEBUG, logger="temporalio.worker")
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client, max_cached_runs=CACHED):
        yield client


async def test_every_run_is_answered(client, status_when, traces, caplog):
    """15 runs with room for 3: each goes on with its own answer, and none has a workflow task that failed."""
    runs = [await client.start(AGENTS[number % 3], f"s{number}") for number in range(RUNS)]
    waits = [(await status_when(run, lambda status: status.awaits)).awaits[0] for run in runs]
    texts = await asyncio.gather(*(answered(run, waits[number], number) for number, run in enumerate(runs)))
    outputs = await asyncio.gather(*(run.result() for run in runs))
    assert [output.text for output in outputs] == texts
    assert sorted(paid) == sorted(f"s{number}" for number in range(RUNS) if number % 3 == 1)
    for run in runs:
        await traces(run).check()
        kinds = [event.type async for event in run.events()]
        assert kinds.count("await_answered") == 1, run.id
    assert caplog.text.count("message: Workflow cache full") >= RUNS - CACHED
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
