"""Any plans, results and signals: caps and budgets hold in the whole tree, every call is answered, one end, same replay."""

import asyncio
import contextlib
import random
import uuid
from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    AwaitClarification,
    AwaitConfirmation,
    AwaitExternalTools,
    Client,
    InputForm,
    InputRequired,
    PlanResult,
    RunError,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
    Usage,
    Worker,
    data_converter,
)
from sojourn.worker import shell

ENDS = {"run_completed", "run_failed", "run_canceled", "run_terminated", "run_timed_out"}
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
        """Succeed beside the workflow."""
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
    """Plans by dice that are thrown anew for each length of the transcript, so that a retried plan is the same."""

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
    """Answer whatever waits, after a while of nonsense, pauses and silence."""
    patience = dice.randint(0, 6)
    while not ended.is_set():
        with contextlib.suppress(RunError):
            await deed(run, dice, nonsense=patience > 0)
        patience -= 1
        await asyncio.sleep(0.03)


async def deed(run, dice, *, nonsense: bool) -> None:
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
                await answer(run.client.get_run(child_id), wait, dice)


async def answer(run, wait, dice) -> None:
    if isinstance(wait, AwaitConfirmation):
        deed = dice.choice([run.approve, run.approve, run.deny])
        await deed(wait.id)
        if dice.random() < 0.3:
            await deed(wait.id)
    elif isinstance(wait, AwaitExternalTools):
        given = [
            {"tool_call_id": item.tool_call_id, "result": dice.choice([1, 1, "x"])} for item in wait.items
        ]
        await run.provide_tool_results(wait.id, dice.sample(given, dice.randint(1, len(given))))
    elif dice.random() < 0.2:
        await run.decline(wait.id, "no")
    else:
        await run.answer(wait.id, {"n": 1})


@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 10**6), policy=policies, below=policies)
async def test_a_run_keeps_its_promises(seed, policy, below, temporal_address, traces):
    """Whatever the planner plans, the tools do and people send (SR-130, SR-137, ME-18 to ME-25)."""
    upper, lower = AnyPlanner(f"{seed}", NAMES), AnyPlanner(f"{seed}", [n for n in NAMES if n != "below.ask"])
    toolsets = make_tools()
    child = Agent("any.child", planner=lower, uses=toolsets, policy=below)
    asked = child.export("any.below", tools=[AgentTool("ask", args=Question)])
    app = App(agents=[Agent("any.agent", planner=upper, uses=[*toolsets, asked], policy=policy), child])
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client), asyncio.timeout(40):
        run = await client.start("any.agent", "go")
        ended = asyncio.Event()
        operator = asyncio.create_task(operate(run, random.Random(seed), ended))
        try:
            out = await run.result()
        except asyncio.CancelledError:
            print("STUCK", seed, policy, below, await run.status(), sep="\n")
            for e in [e async for e in run.events(follow=False)][-25:]:
                print(
                    e.type, e.text, e.await_id, e.call and e.call.name, e.result and e.result.error, e.limit
                )
            raise
        finally:
            ended.set()
            await operator
        runs = [run, *[client.get_run(run_id) for run_id in lower.seen]]
        for each in runs:
            await check(each, traces, {**upper.seen, **lower.seen}, policy if each is run else below, app)
    assert policy.max_tool_calls is None or out.children_count <= policy.max_tool_calls


async def check(run, traces, seen, policy: RunPolicy, app: App) -> None:
    out = await run.result()
    transcript = await traces(run).check()
    # The query was answered by a replay: what the planner saw live is how the replayed transcript begins.
    live = seen[run.id]
    assert transcript[: len(live)] == live
    events = [event async for event in run.events()]
    assert [event.type for event in events if event.type in ENDS] == ["run_completed"]
    started = [event.call.tool_call_id for event in events if event.type == "tool_start"]
    done = [event.result.tool_call_id for event in events if event.type == "tool_end"]
    assert sorted(started) == sorted(done)
    assert len(set(done)) == len(done)
    answered = {result.tool_call_id for message in transcript for result in message.tool_results}
    assert answered == set(done)
    waits = [
        getattr(event, field, None) for event in events for field in ("question", "confirmation", "external")
    ]
    opened = [wait.id for wait in waits if wait]
    assert len(set(opened)) == len(opened)
    closed = [event.await_id for event in events if event.type == "await_answered"]
    assert len(set(closed)) == len(closed)
    assert set(closed) <= set(opened)
    assert policy.max_tool_calls is None or out.tool_calls <= policy.max_tool_calls
    rounds: dict[str, int] = {}
    for event in events:
        if event.type == "assistant_message" and event.message.tool_calls:
            rounds[event.turn_id] = rounds.get(event.turn_id, 0) + 1
    assert max(rounds.values(), default=0) <= policy.max_tool_rounds + 1  # the one over it is refused
    history = await run.client.temporal.get_workflow_handle(run.id).fetch_history()
    replayer = Replayer(
        workflows=list(shell(app).workflows),
        workflow_runner=UnsandboxedWorkflowRunner(),
        data_converter=data_converter,
    )
    await replayer.replay_workflow(history)
