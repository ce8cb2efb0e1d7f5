"""A language model that answers a message while a call waits for an approval: every provider takes what it is sent, then and afterwards."""

import json
from typing import Any

from sojourn import Agent, App, ApprovalPolicy, ModelPlanner, RunPolicy, Toolset
from sojourn.testing.providers import Completion, Request, ToolCall, calls, says

tools = Toolset("meanwhile.tools")


@tools.tool(destructive=True)
async def wipe(disk: str) -> str:
    """Wipe a disk."""
    return f"wiped {disk}"


@tools.tool
async def look(disk: str) -> str:
    """Look at a disk."""
    return disk


async def test_every_provider_takes_the_messages(serve, standin, protocol):
    """The model reads that the call waits, is offered no tool, and later reads the result, what was said, and when."""

    def script(request: Request) -> Completion:
        sent = json.dumps(request.body, ensure_ascii=False)
        if "waits for the approval of a person, and may still be denied" in sent:
            return says("not yet")
        if "wiped a" in sent:
            return says("done")
        call = ToolCall(name="meanwhile__tools__wipe", arguments='{"disk": "a"}')
        other = ToolCall(name="meanwhile__tools__look", arguments='{"disk": "b"}')
        return calls(call, other)

    standin.script = script
    policy = RunPolicy(interrupts_allowed=True, approval=ApprovalPolicy(on_message="answer"))
    planner = ModelPlanner(standin.model(protocol), settings={"max_tokens": 1000})
    client = await serve(App(agents=[Agent("test.agent", planner=planner, uses=[tools], policy=policy)]))
    session = client.session("test.agent", f"meanwhile-{protocol}")
    first = await session.send("wipe a")
    (wait,) = await session.run.until_waiting()
    for text in ("why?", "when?"):
        assert (await (await session.send(text)).result()).text == "not yet"
    await session.run.approve(wait)
    assert (await first.result()).text == "done"
    assert (await (await session.send("thanks")).result()).text == "done"
    bodies: list[Any] = [json.dumps(request.body, ensure_ascii=False) for request in standin.requests]
    assert len(bodies) == 5
    assert "The results of these calls are above" in bodies[3]
    assert "may still be denied" not in bodies[3]
