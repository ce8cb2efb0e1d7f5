"""Any run in short executions is the run that it would be in one: the same transcript, events and answer.

`SOJOURN_CASES=500 pytest tests/workflows/test_any_continued.py` compares as many runs.
"""

import asyncio
import contextlib
import importlib
import os
import random
import uuid

import pytest

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    Client,
    Run,
    RunPolicy,
    Worker,
)
from sojourn.errors import RunError
from tests.durability.story import Story, comparable

from .anything import NAMES, AnyPlanner, Question, make_tools

CASES = int(os.environ.get("SOJOURN_CASES", "8"))

room = importlib.import_module("workflows.history_budget")


class Steady(AnyPlanner):
    """Plans by the seed in its run's labels; none of its questions expires, since that depends on the clock."""

    def plan(self, turn):
        plan = AnyPlanner(turn.run.labels["seed"], self.names).plan(turn)
        if isinstance(plan.await_, AwaitClarification):
            plan = plan.model_copy(update={"await_": plan.await_.model_copy(update={"expires_after": None})})
        return plan


def policy_of(dice: random.Random) -> RunPolicy:
    """A policy without a limit that depends on the clock, or on which of the parallel calls ends first."""
    return RunPolicy(
        max_tool_calls=dice.choice([None, 3, 9]),
        max_tool_rounds=dice.randint(1, 8),
        max_calls_per_step=dice.randint(1, 5),
        max_parallel_calls=1,
        max_tokens=dice.choice([None, 60, 200]),
        interrupts_allowed=True,
        on_missing_fields=dice.choice(["resume", "await_clarification", "finalize"]),
        approval=dice.choice(
            [
                ApprovalPolicy(),
                ApprovalPolicy.unattended(),
                ApprovalPolicy.supervised(),
                ApprovalPolicy.read_only(),
            ]
        ),
    )


def app_of(dice: random.Random) -> App:
    toolsets = make_tools()
    child = Agent(
        "any.child",
        planner=Steady("", [n for n in NAMES if n != "below.ask"]),
        uses=toolsets,
        policy=policy_of(dice),
    )
    asked = child.export("any.below", tools=[AgentTool("ask", args=Question)])
    return App(
        agents=[
            Agent("any.agent", planner=Steady("", NAMES), uses=[*toolsets, asked], policy=policy_of(dice)),
            child,
        ]
    )


async def answer_all(run: Run, ended: asyncio.Event) -> None:
    """Answer each wait of the run and its child runs as soon as it opens: approve, answer, return a result."""
    while not ended.is_set():
        with contextlib.suppress(RunError):
            status = await run.status()
            for run_id, waits in {run.id: status.awaits, **status.child_awaits}.items():
                for wait in waits:
                    await answer(Run(run.client, run_id), wait)
        await asyncio.sleep(0.02)


async def answer(run: Run, wait) -> None:
    with contextlib.suppress(RunError):
        if isinstance(wait, AwaitConfirmation):
            await run.approve(wait.id)
        elif isinstance(wait, AwaitExternalTools):
            await run.provide_tool_results(
                wait.id, [{"tool_call_id": item.tool_call_id, "result": 1} for item in wait.items]
            )
        else:
            await run.answer(wait.id, {"n": 1})


async def told(client: Client, seed: str) -> tuple[Story, int]:
    """The records of one run, and the number of its continuations."""
    run = await client.start("any.agent", "go", labels={"seed": seed})
    ended = asyncio.Event()
    answering = asyncio.create_task(answer_all(run, ended))
    try:
        async with asyncio.timeout(100):
            output = await run.result()
    finally:
        ended.set()
        await answering
    transcript = "[" + ",".join([m.model_dump_json() for m in await run.transcript()]) + "]"
    events = [event async for event in run.events()]
    story = Story(output, comparable(transcript.encode(), run.id), events, [], [])
    return story, sum(event.type == "run_continued" for event in events)


def assert_same(short: Story, whole: Story) -> None:
    """Assert that both tell the same; calls and waits of one step may end in any order."""
    assert short.transcript == whole.transcript
    assert between_steps(short) == between_steps(whole)
    assert short.comparable_events() == whole.comparable_events()
    mine, theirs = short.output, whole.output
    assert (mine.text, mine.reason, mine.tool_calls, mine.rounds, mine.children_count, mine.usage) == (
        theirs.text,
        theirs.reason,
        theirs.tool_calls,
        theirs.rounds,
        theirs.children_count,
        theirs.usage,
    )


def between_steps(story: Story) -> list[str]:
    return [event.type for event in story.told if not event.type.startswith(("tool_", "await_", "child_"))]


@pytest.mark.timeout(120 + 10 * CASES)
async def test_a_run_is_the_same_in_short_executions(temporal_address, monkeypatch):
    """Transcript, events and answer are those of the same plans in one execution, but for `run_continued`."""
    usual = room.CONTINUE_EVENTS
    continued = 0
    for case in range(CASES):
        seed, limit = f"{case}", (12, 30, 60)[case % 3]
        client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
        async with Worker(app_of(random.Random(seed)), client):
            monkeypatch.setattr(room, "CONTINUE_EVENTS", 1_000_000)
            whole, none = await told(client, seed)
            monkeypatch.setattr(room, "CONTINUE_EVENTS", limit)
            short, some = await told(client, seed)
            monkeypatch.setattr(room, "CONTINUE_EVENTS", usual)
        assert none == 0
        continued += some
        try:
            assert_same(short, whole)
        except AssertionError as error:
            raise AssertionError(f"case {case}, executions of {limit} events") from error
    assert continued >= CASES // 2
