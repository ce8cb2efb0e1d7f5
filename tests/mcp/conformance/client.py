"""A client for MCP's conformance suite: `python -m tests.mcp.conformance.client URL` runs an agent that calls the tools of the suite's server.

The suite names the scenario, and what to call, in the environment. Whatever the server asks is answered by the first value that fits.
"""

import asyncio
import json
import os
import sys
import uuid
from typing import Any

from sojourn import Agent, App, Client, PlanResult, RunPolicy, ToolRequest, Worker, mcp
from sojourn.core.schema.sample import sample


def wanted(tools: list[Any]) -> list[ToolRequest]:
    """The calls: those that the suite wants, or each tool once; a tool that sends back a schema gets that of the other tool."""
    told = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}").get("toolCalls", [])
    by_name = {tool.id.tool: tool for tool in tools}
    if told:
        return [
            ToolRequest(name=str(by_name[each["name"]].id), payload=each["arguments"])
            for each in told
            if each["name"] in by_name
        ]
    made = []
    for tool in by_name.values():
        schema = tool.payload.json_schema
        echoes = "schema" in schema.get("properties", {})
        other = next((each for each in by_name.values() if each is not tool), None)
        payload = {"schema": other.payload.json_schema} if echoes and other else sample(schema, schema)
        made.append(ToolRequest(name=str(tool.id), payload=payload))
    return made


async def plan(turn: Any) -> PlanResult:
    """Call each tool in a step of its own, then answer."""
    done = sum(bool(message.tool_calls) for message in turn.messages)
    left = wanted(turn.tools)[done:]
    return PlanResult.calls(left[0]) if left and not turn.finalize else PlanResult.final("done")


def answer_to(form: dict[str, Any] | None) -> Any:
    """An answer that fits."""
    return sample(form, form) if form else "yes"


async def main(url: str) -> None:
    """Run the agent against the server, and answer what is asked."""
    queue = f"conformance-{uuid.uuid4().hex[:8]}"
    toolset = mcp.McpToolset("suite.server", transport=mcp.Http(url))
    policy = RunPolicy(interrupts_allowed=True, max_consecutive_failed_tool_calls=None, similar_errors=None)
    app = App(agents=[Agent("suite.client", planner=plan, uses=[toolset], policy=policy)])
    client = await Client.connect(task_queue=queue)
    async with Worker(app, client):
        run = await client.start("suite.client", "go")
        async for event in run.events():
            if event.type == "await_clarification":
                await run.answer(event.question.id, answer_to(event.question.form))
        print(await run.result())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
