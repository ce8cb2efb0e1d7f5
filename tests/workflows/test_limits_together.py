"""Limits that meet: an engine's caps and child runs or time, a plan's usage and its calls, a last turn and a new one."""

import asyncio
from datetime import timedelta

from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    PlanResult,
    RunPolicy,
    ToolRequest,
    Toolset,
    Usage,
    WithArtifacts,
)
from sojourn.policy import Caps, PolicyDecision
from sojourn.testing.scripted import ScriptedPlanner


class Question(BaseModel):
    text: str = "?"


def engine(caps: Caps):
    """A policy engine that sets these caps for each plan of the root run that has calls."""

    class Engine:
        async def decide(self, given):
            lowers = given.requested and given.run.depth == 0
            return PolicyDecision(caps=caps) if lowers else PolicyDecision()

    return Engine()


def families(policy: RunPolicy, caps: Caps | None, asks: int, usage: Usage | None = None):
    """An app whose parent calls a child `asks` times at once, the caps of the child runs, and the parent's planner."""
    left = []

    async def child(turn):
        left.append(turn.caps)
        return PlanResult.final("done")

    kid = Agent("test.child", planner=child)
    below = kid.export("test.below", tools=[AgentTool("ask", args=Question)])
    calls = PlanResult.calls(*[ToolRequest(name="test.below.ask")] * asks)
    script = ScriptedPlanner([calls.model_copy(update={"usage": usage}), PlanResult.final("done")])
    parent = Agent("test.agent", planner=script, uses=[below], policy=policy)
    return App(agents=[parent, kid], policy_engine=engine(caps) if caps else None), left, script


async def test_the_engines_caps_are_shared_by_children(serve):
    """What an engine leaves is what the children of that plan share, not what the run had left before (SR-53)."""
    caps = Caps(tool_calls=6, tokens=100, cost=2.0)
    app, left, _ = families(RunPolicy(max_tool_calls=50, max_tokens=1_000), caps, asks=2)
    client = await serve(app)
    await client.execute("test.agent", "go")
    assert [(one.tool_calls, one.tokens, one.cost) for one in left] == [(2, 50, 1.0)] * 2


async def test_a_plans_usage_is_not_shared_by_child_runs(serve):
    """Child runs share what is left after the tokens and the money of the plan that calls them."""
    policy = RunPolicy(max_tokens=100, max_cost=1.0)
    app, left, _ = families(policy, None, 2, Usage(input_tokens=30, output_tokens=10, cost=0.5))
    client = await serve(app)
    await client.execute("test.agent", "go")
    assert [(one.tokens, one.cost) for one in left] == [(30, 0.25)] * 2


async def test_with_nothing_left_no_child_is_started(serve, traces):
    """In a plan that uses up the tokens, calls of agents are answered `not_executed`."""
    app, left, script = families(RunPolicy(max_tokens=40), None, 2, Usage(input_tokens=41))
    client = await serve(app)
    run = await client.start("test.agent", "go")
    out = await run.result()
    assert (left, out.reason) == ([], "max_tokens")
    codes = {result.error.code for result in script.turns[-1].tool_results}
    assert codes == {"not_executed"}
    await traces(run).check()


async def test_tokens_run_out_in_plans_that_call_nothing(serve):
    """A planner that only sleeps and plans again gets its last turn too."""
    plans = []

    async def plan(turn):
        plans.append(turn)
        if getattr(turn, "finalize", None):
            return PlanResult.final("enough")
        sleep = PlanResult.wait(timedelta(milliseconds=1))
        return sleep.model_copy(update={"usage": Usage(input_tokens=10)})

    client = await serve(planner=plan, policy=RunPolicy(max_tokens=25))
    out = await client.execute("test.agent", "go")
    assert (out.text, out.reason, len(plans)) == ("enough", "max_tokens", 4)


async def test_a_lowered_time_budget_cuts_off_what_runs(serve):
    """An engine's cap of one second cuts off a call of a run that had an hour."""
    tools = Toolset("test.tools")

    @tools.tool(timeout=timedelta(seconds=15))
    async def hang() -> str:
        """Never answer."""
        await asyncio.Event().wait()
        return ""

    script = ScriptedPlanner(
        [PlanResult.calls(ToolRequest(name="test.tools.hang")), lambda turn: PlanResult.final("cut off")]
    )
    agent = Agent(
        "test.agent", planner=script, uses=[tools], policy=RunPolicy(time_budget=timedelta(hours=1))
    )
    client = await serve(App(agents=[agent], policy_engine=engine(Caps(time=timedelta(seconds=1)))))
    out = await client.execute("test.agent", "go")
    assert (out.text, out.reason) == ("cut off", "time_budget")
    assert script.turns[-1].tool_results[0].error.code == "time_budget"


async def test_a_new_turn_lifts_a_last_turn_of_rounds(serve, status_when):
    """A message of a person before the last turn begins a new user turn, in which tools may be called again (ME-25)."""
    tools, planning, go_on, looked = Toolset("test.tools"), asyncio.Event(), asyncio.Event(), []

    @tools.tool
    async def look(n: int) -> int:
        """Look."""
        looked.append(n)
        return n

    last_turns = []

    async def plan(turn):
        last_turns.append(getattr(turn, "finalize", None))
        made = sum(message.role == "assistant" for message in turn.messages)
        if made == 1:
            planning.set()
            await go_on.wait()
        call = ToolRequest(name="test.tools.look", payload={"n": made})
        return PlanResult.calls(call) if made < 3 else PlanResult.final("done")

    client = await serve(planner=plan, uses=(tools,), policy=RunPolicy(max_tool_rounds=1))
    run = await client.start("test.agent", "go")
    await planning.wait()
    await run.pause()
    go_on.set()
    await status_when(run, lambda status: "limit reached: max_tool_rounds" in status.notes)
    await run.resume(messages=["one more"])
    out = await run.result()
    assert (out.reason, looked, last_turns) == ("answered", [0, 2], [None] * 4)


async def test_the_last_hundred_artifacts_are_kept(serve):
    """Of 120 artifacts the first 20 are left out."""
    tools = Toolset("test.tools")
    kinds = {f"k{n:02}": int for n in range(60)}

    @tools.tool(artifacts=kinds)
    async def many(n: int) -> WithArtifacts[int]:
        """Give sixty."""
        return WithArtifacts(n, **dict.fromkeys(kinds, n))

    calls = [ToolRequest(name="test.tools.many", payload={"n": n}, tool_call_id=f"c{n}") for n in range(2)]
    script = ScriptedPlanner([*(PlanResult.calls(one) for one in calls), PlanResult.final("done")])
    client = await serve(planner=script, uses=(tools,))
    run = await client.start("test.agent", "go")
    out = await run.result()
    kept = [one.ref.partition("#")[2] for one in out.artifacts]
    assert kept == [f"c0/k{n:02}" for n in range(20, 60)] + [f"c1/k{n:02}" for n in range(60)]
