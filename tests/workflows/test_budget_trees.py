"""Any tree of runs that fail, give up or are cancelled: all that is spent is reported, and budgets hold.

`SOJOURN_CASES=100 pytest tests/workflows/test_budget_trees.py` tries as many trees of each kind.
"""

import asyncio
import os
import random
import uuid
from datetime import timedelta

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from temporalio.exceptions import ApplicationError

from sojourn import (
    Agent,
    AgentTool,
    App,
    Client,
    PlanResult,
    RunOutput,
    RunPolicy,
    ToolCallMeta,
    ToolRequest,
    Toolset,
    Usage,
    Worker,
)

CASES = int(os.environ.get("SOJOURN_CASES", "3"))

MOST = 10
"""Tokens of one plan, at most."""

PRICE = 0.25
"""Price of a token; floats add such prices exactly."""

LEVELS = 3


class Question(BaseModel):
    n: int


class Verdict(BaseModel):
    guilty: bool


class Tree:
    """Agents on three levels that call those below and end in every way, and what they executed and used."""

    def __init__(self, seed: int, width: int, pace: float = 0.0) -> None:
        self.seed = seed
        self.width = width
        self.pace = pace
        """Seconds that each plan takes, at least."""
        self.spent = 0
        self.in_last_turns = 0
        self.is_over = False
        self.late: list[str] = []
        self.executed = 0
        self.ends: list[str] = []
        self.client: Client | None = None

    def app(self, policy: RunPolicy) -> App:
        tools, agents, below = self.tools(), [], None
        for level in reversed(range(LEVELS)):
            uses = [tools, *([below] if below else [])]
            own = policy if level == 0 else None
            agent = Agent(f"test.a{level}", planner=self.plan, uses=uses, policy=own)
            agents.append(agent)
            kinds = [AgentTool("ask", args=Question), AgentTool("judge", args=Question, result=Verdict)]
            below = agent.export(f"test.below{level}", tools=kinds)
        return App(agents=agents)

    def tools(self) -> Toolset:
        tools = Toolset("test.tools")

        @tools.tool
        async def good(n: int) -> int:
            """Succeed."""
            self.execute("good")
            return n

        @tools.tool
        async def bad(n: int) -> int:
            """Fail, always in the same way."""
            self.execute("bad")
            raise RuntimeError("No module named pandas")

        @tools.tool
        async def cut(n: int, meta: ToolCallMeta) -> int:
            """Cancel the run that makes this call."""
            self.execute("cut")
            await self.client.get_run(meta.run_id).cancel("cut")
            await asyncio.Event().wait()
            return n

        return tools

    def execute(self, what: str) -> None:
        """Count an execution; it is late when the root has already planned its last turn."""
        self.executed += 1
        if self.is_over:
            self.late.append(what)

    async def plan(self, turn) -> PlanResult:
        """Plan at random, seeded with the run and the length of its transcript, so that a retried plan is the same."""
        dice = random.Random(f"{self.seed} {turn.run.run_id.partition('/')[2]} {len(turn.messages)}")
        last = getattr(turn, "finalize", None) is not None
        self.is_over |= last and turn.run.depth == 0
        if self.is_over and turn.run.depth:
            self.late.append(turn.run.run_id)
        await asyncio.sleep(self.pace)
        plan = PlanResult.final("enough") if last else self.move(turn, dice)
        tokens = dice.randint(1, MOST)
        usage = Usage(input_tokens=tokens, cost=tokens * PRICE)
        self.spent += usage.input_tokens
        self.in_last_turns += usage.input_tokens if last else 0
        return plan.model_copy(update={"usage": usage})

    def move(self, turn, dice) -> PlanResult:
        root = turn.run.depth == 0
        kinds = ["calls", "cut", "fail", "raise", "nothing", "answer"]
        kind = dice.choices(kinds, [20, 0, 0, 0, 0, 1] if root else [8, 1, 1, 1, 1, 1])[0]
        if kind == "calls":
            return PlanResult.calls(*self.calls(turn.run.depth, dice))
        self.ends.append(kind)
        if kind == "cut":
            return PlanResult.calls(call("tools.cut", dice))
        if kind == "fail":
            return PlanResult.fail("no")
        if kind == "raise":
            raise ApplicationError("broken", non_retryable=True)
        return PlanResult.final("done") if kind == "answer" else PlanResult()

    def calls(self, depth: int, dice) -> list[ToolRequest]:
        tools = [call(dice.choice(["tools.good", "tools.good", "tools.bad"]), dice)]
        if depth == LEVELS - 1:
            return tools
        below = [f"below{depth + 1}.ask", f"below{depth + 1}.judge"]
        return [*tools[: dice.randint(0, 1)], *(call(dice.choice(below), dice) for _ in range(self.width))]


def call(name: str, dice) -> ToolRequest:
    return ToolRequest(
        name=f"test.{name}", payload={"n": dice.randint(0, 10**6)}, tool_call_id=f"c{dice.randint(0, 10**9)}"
    )


a_few_trees = settings(
    max_examples=CASES,
    derandomize=True,
    phases=(Phase.generate,),  # each example is a tree of runs on a server: too slow to shrink
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


async def grown(tree: Tree, policy: RunPolicy, address: str, traces) -> RunOutput:
    """Run a tree, and return its root's output."""
    tree.client = client = await Client.connect(address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(tree.app(policy), client), asyncio.timeout(120):
        run = await client.start("test.a0", "go")
        out = await run.result()
        messages = await traces(run).check()
        assert await run.transcript() == messages
    return out


@a_few_trees
@given(
    seed=st.integers(0, 10**6), width=st.integers(1, 2), calls=st.integers(5, 40), tokens=st.integers(50, 150)
)
async def test_budgets_hold_over_trees_of_failing_runs(seed, width, calls, tokens, temporal_address, traces):
    """All tokens and calls are reported; each of the runs side by side exceeds the limit by one plan at most (SR-53)."""
    tree = Tree(seed, width)
    policy = RunPolicy(max_tool_calls=calls, max_tokens=tokens)
    out = await grown(tree, policy, temporal_address, traces)
    assert tree.executed <= out.children_count <= calls
    assert out.total_usage.input_tokens == tree.spent
    assert tree.spent - tree.in_last_turns <= tokens + MOST * width ** (LEVELS - 1)


@a_few_trees
@given(seed=st.integers(0, 10**6), width=st.integers(1, 2), most=st.integers(50, 150))
async def test_money_holds_over_trees_of_failing_runs(seed, width, most, temporal_address, traces):
    """All money is reported; each of the runs side by side exceeds the limit by one plan at most (SR-53)."""
    tree = Tree(seed, width)
    out = await grown(tree, RunPolicy(max_cost=most * PRICE), temporal_address, traces)
    assert out.total_usage.cost == tree.spent * PRICE
    assert tree.spent - tree.in_last_turns <= most + MOST * width ** (LEVELS - 1)


@a_few_trees
@given(seed=st.integers(0, 10**6), width=st.integers(1, 2), budget=st.integers(300, 1500))
async def test_time_holds_over_trees_of_failing_runs(seed, width, budget, temporal_address, traces):
    """Time of child runs counts for the root: from its last turn on, no run below it plans or executes."""
    tree = Tree(seed, width, pace=0.05)
    policy = RunPolicy(time_budget=timedelta(milliseconds=budget))
    out = await grown(tree, policy, temporal_address, traces)
    assert tree.late == []
    assert out.active_time is not None
    assert out.reason in ("answered", "failure_streak", "retries_stopped", "time_budget")
    if out.reason == "time_budget":
        assert out.active_time >= policy.time_budget
