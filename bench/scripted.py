"""Agents whose planner replays a script of calls, with tools that act on a `bench.world`, for `sojourn worker`.

A file has the tools, by their JSON Schemas, and the agents, so that a worker needs nothing of the suite from which they come.
"""

import asyncio
import json
import os
from typing import Annotated, Any

from pydantic import BaseModel, WithJsonSchema

from sojourn import (
    Agent,
    App,
    ApprovalPolicy,
    PlanResult,
    RunPolicy,
    ToolCallMeta,
    ToolError,
    ToolRequest,
    ToolResult,
    Toolset,
    Turn,
)

__all__ = [
    "APP",
    "MAX_LINE",
    "SOCKET",
    "Call",
    "Request",
    "Script",
    "ScriptedAgent",
    "ScriptedApp",
    "ScriptedTool",
]

APP = "BENCH_SCRIPTED_APP"
"""The variable with the path of the file that describes the app."""

SOCKET = "BENCH_WORLD_SOCKET"
"""The variable with the path of the world's socket."""

MAX_LINE = 16_000_000
"""Bytes of the largest request or answer."""


class ScriptedTool(BaseModel):
    """A tool of a suite."""

    name: str
    description: str
    json_schema: dict[str, Any]
    """The schema of its arguments."""
    read_only: bool
    destructive: bool = False


class ScriptedAgent(BaseModel):
    """An agent that replays scripts with the tools of one toolset."""

    toolset: str
    approval: dict[str, Any] = {}
    """The fields of its `ApprovalPolicy`."""


class ScriptedApp(BaseModel):
    """Toolsets and agents, by their ids."""

    name: str
    toolsets: dict[str, list[ScriptedTool]]
    agents: dict[str, ScriptedAgent]


class Call(BaseModel):
    """A call of a script."""

    id: str
    tool: str
    arguments: dict[str, Any]


class Script(BaseModel):
    """The calls of a run, one a plan: the first message of the run, as JSON."""

    calls: list[Call]
    injected: list[Call] = []
    """Calls that an injection asks for. They come as soon as a result has the mark: a model that obeys at once."""
    mark: str = ""
    """A text that stands in every injection."""


class Request(BaseModel):
    """A call as the world gets it."""

    run_id: str
    tool: str
    tool_call_id: str
    key: str
    """The idempotency key."""
    arguments: dict[str, Any]


async def plan(turn: Turn) -> PlanResult:
    """Return the next call of the script, or an answer after the last one."""
    script = Script.model_validate_json(turn.messages[0].text)
    made = {call.tool_call_id for message in turn.messages for call in message.tool_calls}
    is_injected = any(script.mark in result.model_dump_json() for result in turn.results)
    calls = [*(script.injected if is_injected else []), *script.calls]
    call = next((call for call in calls if call.id not in made), None)
    if call is None:
        return PlanResult.final("done")
    name = next(spec.id for spec in turn.tools if spec.id.rsplit(".", 1)[1] == call.tool)
    return PlanResult.calls(ToolRequest(name=name, payload=call.arguments, tool_call_id=call.id))


async def execute(meta: ToolCallMeta, call: ToolRequest) -> ToolResult:
    """Have the world carry out a call."""
    request = Request(
        run_id=meta.run_id,
        tool=call.name.rsplit(".", 1)[1],
        tool_call_id=meta.tool_call_id,
        key=meta.idempotency_key,
        arguments=call.arguments,
    )
    reader, writer = await asyncio.open_unix_connection(os.environ[SOCKET], limit=MAX_LINE)
    try:
        writer.write(request.model_dump_json().encode() + b"\n")
        answer = json.loads(await reader.readline() or b'{"error": "the world is gone"}')
    finally:
        writer.close()
    if "error" in answer:
        return ToolResult(error=ToolError.new(answer["error"]))
    return ToolResult(result=answer["result"])


def _toolset(id: str, tools: list[ScriptedTool]) -> Toolset:
    toolset = Toolset(id)
    for tool in tools:
        arguments: Any = Annotated[dict[str, Any], WithJsonSchema(tool.json_schema)]
        result: Any = Any
        toolset.declare(
            tool.name,
            args=arguments,
            result=result,
            description=tool.description,
            read_only=tool.read_only,
            destructive=tool.destructive,
            open_world=tool.read_only,
        )
    return toolset


def make_app(described: ScriptedApp) -> App:
    """Return the app that a file describes."""
    toolsets = {id: _toolset(id, tools) for id, tools in described.toolsets.items()}
    agents = [
        Agent(
            id,
            planner=plan,
            uses=[toolsets[agent.toolset]],
            policy=RunPolicy(
                max_tool_rounds=1_000,
                interrupts_allowed=True,
                max_consecutive_failed_tool_calls=None,
                similar_errors=None,
                approval=ApprovalPolicy(**agent.approval),
            ),
        )
        for id, agent in described.agents.items()
    ]
    return App(name=described.name, agents=agents, executors=dict.fromkeys(toolsets.values(), execute))


def __getattr__(name: str) -> App:
    """Make `app` when a worker asks for it; the benchmark's own process has no file of it."""
    if name != "app":
        raise AttributeError(name)
    with open(os.environ[APP], encoding="utf-8") as file:
        return make_app(ScriptedApp.model_validate_json(file.read()))
