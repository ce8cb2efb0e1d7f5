"""Any plans, results and signals: limits hold in the whole tree, every call is answered, each run ends once and replays."""

import asyncio
import os
import random
import uuid

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sojourn import Agent, AgentTool, App, Client, RunPolicy, Worker
from tests.chain import replay

from .anything import NAMES, AnyPlanner, Question, make_tools, operate, policies

CASES = int(os.environ.get("SOJOURN_CASES", "6"))
"""Runs; a campaign takes a hundred."""

ENDS = {"run_completed", "run_failed", "run_canceled", "run_terminated", "run_timed_out"}


@settings(
    max_examples=CASES,
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
    async with Worker(app, client), asyncio.timeout(100):
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
    assert (
        max(rounds.values(), default=0) <= policy.max_tool_rounds + 1
    )  # the round over the limit is refused
    await replay(run.client.temporal, run.id)
