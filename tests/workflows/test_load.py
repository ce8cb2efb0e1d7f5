"""Inputs and answers that are together larger than one message of Temporal's may be: no run is terminated for them."""

import asyncio
import uuid
from typing import Any

import pytest
from pydantic import BaseModel

from sojourn import (
    Agent,
    AgentTool,
    App,
    ApprovalPolicy,
    Client,
    InputForm,
    InputRequired,
    InvalidInput,
    PlanResult,
    RunPolicy,
    RunPolicyOverride,
    ToolCallMeta,
    ToolRequest,
    ToolResult,
    Toolset,
    Worker,
)
from sojourn.testing.scripted import ScriptedPlanner

MUCH = "x" * 950_000
FORM = {"type": "object", "properties": {"said": {"type": "string"}}, "required": ["said"]}


class Question(BaseModel):
    n: int
    note: str = ""


def tell(turn) -> PlanResult:
    """An answer with how many calls succeeded."""
    return PlanResult.final(str(sum(one.ok for one in turn.tool_results)))


def once(*calls: ToolRequest) -> ScriptedPlanner:
    """A planner that makes these calls, then answers with how many succeeded."""
    return ScriptedPlanner([PlanResult.calls(*calls), tell])


async def test_large_results_of_local_tools_are_refused(serve, traces):
    """All that end in one workflow task are one message, so results over 50,000 bytes are refused."""
    tools, executed = Toolset("load.near"), []

    @tools.tool(local=True, read_only=True)
    async def fetch(n: int) -> str:
        """Fetch."""
        executed.append(n)
        return "x" * (49_000 if n else 950_000)

    calls = [fetch.call(n=n % 40) for n in range(41)]
    client = await serve(planner=once(*calls), uses=(tools,))
    run = await client.start("test.agent", "go")
    assert (await run.result()).text == "39"
    messages = await traces(run).check()
    refused = [
        result.error.message for message in messages for result in message.tool_results if result.error
    ]
    assert len(refused) == 2
    assert all("50,000" in message for message in refused)
    assert len(executed) == 41


async def test_large_results_from_outside_arrive_together(temporal_address, traces):
    """Five results of 950 KB, sent while no worker runs, are all accepted."""
    outside = Toolset("load.outside", external=True)
    pick = outside.declare("pick", args=Question, result=str)
    calls = [pick.call(Question(n=n)).model_copy(update={"tool_call_id": f"c{n}"}) for n in range(5)]
    planner = once(*calls)
    app = App(
        agents=[
            Agent(
                "test.agent",
                planner=planner,
                uses=[outside],
                policy=RunPolicy(interrupts_allowed=True),
            )
        ]
    )
    client = await Client.connect(temporal_address, task_queue=f"q-{uuid.uuid4().hex[:8]}")
    async with Worker(app, client):
        run = await client.start("test.agent", "go")
        while not (waits := (await run.status()).awaits):
            await asyncio.sleep(0.1)
    for n in range(5):
        result = {"tool_call_id": f"c{n}", "result": MUCH}
        await traces(run).handle.signal("provide_tool_results", {"id": waits[0].id, "results": [result]})
    async with Worker(app, client):
        assert (await run.result()).text == "5"
        await traces(run).check(planner.turns[-1].messages)


async def test_large_limits_are_given_to_many_children(serve, traces):
    """A large override reaches 32 child runs; the client refuses an override over 64,000 bytes."""

    async def answer(_turn):
        return PlanResult.final("below")

    below = Agent("test.below", planner=answer)
    desk = below.export("test.desk", tools=[AgentTool("ask", args=Question)])
    calls = [desk.tools["ask"].call(Question(n=n, note="x" * 20_000)) for n in range(32)]
    policy = RunPolicy(max_calls_per_step=64, max_parallel_calls=64, max_tool_calls=1_000)
    client = await serve(
        App(agents=[Agent("test.agent", planner=once(*calls), uses=[desk], policy=policy), below])
    )
    names = ["\N{SNOWMAN}" * 100] * 200
    run = await client.start("test.agent", "go", policy=RunPolicyOverride(denied_tools=names))
    assert (await run.result()).text == "32"
    await traces(run).check()
    for much in (
        RunPolicyOverride(approval=ApprovalPolicy(denied_tools=["x" * 1_000] * 100)),
        RunPolicyOverride(denied_tools=["\N{SNOWMAN}" * 300] * 100),
    ):
        with pytest.raises(InvalidInput, match="at most 64,000 bytes"):
            await client.start("test.agent", "go", policy=much)


async def test_long_answers_to_many_forms(serve, status_when, traces):
    """Answers that are together too large for their call are the call's error, and the run goes on."""
    tools, executed = Toolset("load.forms"), []

    @tools.tool
    async def needy(meta: ToolCallMeta) -> Any:
        """Ask for ten texts."""
        executed.append(meta.tool_call_id)
        forms = [InputForm(key=f"k{n}", message="what?", form=FORM) for n in range(10)]
        return ToolResult(input_required=InputRequired(forms=forms))

    client = await serve(planner=once(needy.call()), uses=(tools,), policy=RunPolicy(interrupts_allowed=True))
    run = await client.start("test.agent", "go")
    for _ in range(10):
        (wait,) = (await status_when(run, lambda status: status.awaits)).awaits
        await run.answer(wait.id, {"said": "\N{SNOWMAN}" * 60_000})
    assert (await run.result()).text == "0"
    messages = await traces(run).check()
    (result,) = [result for message in messages for result in message.tool_results]
    assert "together more than 1,000,000 bytes" in result.error.message
    assert len(executed) == 1
