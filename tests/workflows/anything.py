"""Anything: agents that plan at random, and an operator who sends valid and invalid messages."""

import asyncio
import contextlib
import random
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

from sojourn import (
    ApprovalPolicy,
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    InputForm,
    InputRequired,
    PlanResult,
    Run,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
    Usage,
)
from sojourn.errors import RunError

FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def make_tools() -> list[Toolset]:
    tools, outside = Toolset("any.tools"), Toolset("any.outside", external=True)

    @tools.tool
    async def good(n: int) -> int:
        """Succeed."""
        return n

    @tools.tool
    async def bad(n: int) -> int:
        """Fail, each time differently."""
        raise RuntimeError("abcdefghijklmnopqrstuvwxyz"[n % 26] * 5)

    @tools.tool(timeout=timedelta(seconds=0.1))
    async def slow(n: int) -> int:
        """Take too long."""
        await asyncio.sleep(60)
        return n

    @tools.tool(local=True, read_only=True)
    async def near(n: int) -> int:
        """Succeed, as a local activity."""
        return n

    @tools.tool(destructive=True)
    async def wipe(n: int) -> int:
        """Destroy."""
        return n

    @tools.tool
    async def needy(n: int, meta: ToolCallMeta) -> Any:
        """Ask a person."""
        if meta.input is None:
            return ToolResult(
                input_required=InputRequired(forms=[InputForm(key="k", message="n?", form=FORM)])
            )
        return meta.input.responses["k"]["action"]

    class Number(BaseModel):
        n: int

    outside.declare("pick", args=Number, result=int)
    return [tools, outside]


class Question(BaseModel):
    n: int


NAMES = ["tools.good"] * 4 + ["tools.bad", "tools.slow", "tools.near", "tools.wipe", "tools.needy", "outside.pick", "below.ask", "tools.none"]  # fmt: skip


class AnyPlanner:
    """Plans at random, seeded with the length of the transcript, so that a retried plan is the same."""

    def __init__(self, seed: str, names: list[str]) -> None:
        self.seed = seed
        self.names = names
        self.seen: dict[str, list[Any]] = {}

    async def plan_start(self, turn):
        return self.plan(turn)

    async def plan_resume(self, turn):
        return self.plan(turn)

    def plan(self, turn) -> PlanResult:
        self.seen[turn.run.run_id] = list(turn.messages)
        dice = random.Random(f"{self.seed} {turn.run.depth} {len(turn.messages)}")
        usage = Usage(input_tokens=dice.randint(0, 20))
        return self.move(turn, dice).model_copy(update={"usage": usage})

    def move(self, turn, dice) -> PlanResult:
        if turn.finalize or len(turn.messages) > 24:
            return PlanResult.final("enough")
        kind = dice.choices(["calls", "ask", "wait", "final", "fault"], [12, 2, 1, 2, 1])[0]
        if kind == "calls" or len(turn.messages) < 3:
            calls = [self.call(dice) for _ in range(dice.randint(1, 5))]
            return PlanResult.calls(*calls)
        if kind == "ask" and turn.run.interrupts_allowed:
            expires = dice.choice([None, timedelta(seconds=0.2)])
            return PlanResult.ask(AwaitClarification(id="q", question="?", expires_after=expires))
        if kind == "wait":
            return PlanResult.wait(timedelta(milliseconds=20), counts=dice.random() < 0.5)
        if kind == "fault" and not turn.reminders:
            return PlanResult()
        return PlanResult.final("done")

    def call(self, dice) -> ToolRequest:
        payload: dict[str, Any] = {"n": dice.randint(0, 10**6)}
        if dice.random() < 0.15:
            payload = dice.choice([{}, {"n": "x"}, {"m": 1}])
        return ToolRequest(name=f"any.{dice.choice(self.names)}", payload=payload)


policies = st.builds(
    RunPolicy,
    max_tool_calls=st.none() | st.integers(0, 12),
    max_tool_rounds=st.integers(1, 5),
    max_calls_per_step=st.integers(1, 5),
    max_parallel_calls=st.integers(1, 3),
    max_tokens=st.none() | st.integers(0, 120),
    time_budget=st.none() | st.just(timedelta(seconds=2)),
    interrupts_allowed=st.just(True),
    on_missing_fields=st.sampled_from(["resume", "await_clarification", "finalize"]),
    approval=st.sampled_from(
        [
            ApprovalPolicy(),
            ApprovalPolicy.unattended(),
            ApprovalPolicy.supervised(),
            ApprovalPolicy(denied_tools=["any.tools.bad"]),
        ]
    ),
)


async def operate(run, dice, ended: asyncio.Event) -> None:
    """Pause the run and send it invalid messages for a while, and answer its waits until it has ended."""
    patience = dice.randint(0, 6)
    while not ended.is_set():
        with contextlib.suppress(RunError):
            await act(run, dice, nonsense=patience > 0)
        patience -= 1
        await asyncio.sleep(0.03)


async def act(run, dice, *, nonsense: bool) -> None:
    handle = run.client.temporal.get_workflow_handle(run.id)
    if nonsense and dice.random() < 0.5:
        name = dice.choice(
            ["provide_clarification", "provide_confirmation", "provide_tool_results", "resume", "what"]
        )
        junk = dice.choice(
            [None, 3, {"id": "q", "answer": ""}, {"approved": 1}, {"results": [{}]}, ["x"] * 9]
        )
        with contextlib.suppress(Exception):
            await handle.signal(name, junk)
    if nonsense and dice.random() < 0.3:
        await run.pause("dice")
    status = await run.status()
    if status.paused is not None and not (nonsense and dice.random() < 0.5):
        await run.resume(messages=["go on"] if dice.random() < 0.2 else [])
    for child_id, waits in {run.id: status.awaits, **status.child_awaits}.items():
        for wait in waits:
            with contextlib.suppress(RunError):
                await answer(Run(run.client, child_id), wait, dice)


async def answer(run, wait, dice) -> None:
    if isinstance(wait, AwaitConfirmation):
        decide = dice.choice([run.approve, run.approve, run.deny])
        await decide(wait.id)
        if dice.random() < 0.3:
            await decide(wait.id)
    elif isinstance(wait, AwaitExternalTools):
        given = [
            {"tool_call_id": item.tool_call_id, "result": dice.choice([1, 1, "x"])} for item in wait.items
        ]
        await run.provide_tool_results(wait.id, dice.sample(given, dice.randint(1, len(given))))
    elif dice.random() < 0.2:
        await run.decline(wait.id, "no")
    else:
        await run.answer(wait.id, {"n": 1})
