"""Catalogue of agents at `/agents`, with their limits, tools, schemas and workers."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from sojourn.authoring.agent import Agent
from sojourn.authoring.app import App
from sojourn.authoring.runnable import RemoteToolset, unusable_tools_of
from sojourn.checks.workers import ServedQueue
from sojourn.console.page import Pages, Visit
from sojourn.contracts.ids import ToolId
from sojourn.contracts.run_policy import RunPolicy
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.errors import SojournError
from sojourn.forms import SchemaTable, example_of, schema_table
from sojourn.http.problems import Problem
from sojourn.values.json_value import is_array, is_object
from sojourn.values.visible import format_duration, format_money

__all__ = ["pages"]

pages = Pages()

MANY = 40
"""Tools above which no example is made for those that have none."""

Mark = tuple[str, str, str]
"""A word, its meaning, and its colour: `ask`, `bad`, `good` or none."""


@dataclass(frozen=True, slots=True)
class AgentRow:
    agent_id: str
    description: str
    model: str
    """The model that plans. Empty if code does."""
    tools: int
    asking: int
    """Number of tools whose calls need approval by a person."""
    children: Sequence[str]
    """Agents that it uses as tools."""
    queues: Sequence[str]
    """Task queues with workers that serve it."""
    workers: int


@dataclass(frozen=True, slots=True)
class ToolCard:
    tool_id: str
    name: str
    title: str
    description: str
    takes: str
    """Names of the fields on one line. Optional ones end with a question mark."""
    marks: Sequence["Mark"]
    """Marks that a caller should know."""
    payload: SchemaTable
    payload_schema: Mapping[str, Any]
    result: SchemaTable
    result_schema: Mapping[str, Any]
    artifacts: Mapping[str, SchemaTable]
    example: Any
    """A valid payload, or None."""
    is_example_made: bool
    """Whether it was generated from the schema, and is not the author's."""
    injected: Sequence[str]
    confirmation: str
    facts: Sequence[tuple[str, str]]
    """The time-out and the like, in words."""
    agent_id: str
    """The agent behind it. Empty if the tool is not an agent."""


@dataclass(frozen=True, slots=True)
class ToolsetCard:
    toolset_id: str
    description: str
    tools: Sequence[ToolCard]
    is_remote: bool
    """Whether another process has its tools, which this one may not know."""
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    """Tools that cannot be used, by the other process's names, with the reasons."""
    unavailable: str = ""
    """Why the other process cannot be used now."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A line of the policy."""

    name: str
    value: str
    about: str
    is_own: bool
    """Whether the agent sets it, and it is not the default."""


def model_of(agent: Agent) -> str:
    """Return the planner's model name, or an empty text if code plans."""
    name = getattr(agent.planner, "model_name", "")
    return name if isinstance(name, str) else ""


def card_of(app: App, agent: Agent, queues: Sequence[ServedQueue]) -> AgentRow:
    specs = app.tool_specs_for_agent(agent.id) or []
    serving = [queue for queue in queues if agent.id in queue.agents]
    return AgentRow(
        agent_id=agent.id,
        description=agent.description,
        model=model_of(agent),
        tools=len(specs),
        asking=sum(app.approvals(spec, agent.id).get(agent.id) == "ask" for spec in specs),
        children=list(dict.fromkeys(spec.agent_id for spec in specs if spec.agent_id)),
        queues=[queue.name for queue in serving],
        workers=sum(agent.id in worker.agents for queue in serving for worker in queue.workers),
    )


def users_of(app: App, agent_id: str) -> list[str]:
    return [
        each
        for each in app.list_agents()
        if any(spec.agent_id == agent_id for spec in app.tool_specs_for_agent(each) or [])
    ]


def toolsets_of(app: App, agent: Agent) -> list[ToolsetCard]:
    """Return the toolsets of an agent, with the tools that are known here."""
    specs: dict[str, list[ToolSpec]] = {}
    for spec in app.tool_specs_for_agent(agent.id) or []:
        specs.setdefault(ToolId(spec.id).toolset_id, []).append(spec)
    return [
        ToolsetCard(
            toolset_id=toolset.id,
            description=app.toolset_description(toolset.id),
            tools=[
                _tool(
                    spec,
                    app.approvals(spec, agent.id).get(agent.id),
                    is_one_of_many=sum(map(len, specs.values())) > MANY,
                )
                for spec in specs.get(toolset.id, [])
            ],
            is_remote=isinstance(toolset, RemoteToolset),
            left_out=unusable_tools_of(toolset) if isinstance(toolset, RemoteToolset) else {},
            unavailable=(toolset.unavailable or "") if isinstance(toolset, RemoteToolset) else "",
        )
        for toolset in agent.uses
    ]


def _tool(spec: ToolSpec, approval: str | None, *, is_one_of_many: bool) -> ToolCard:
    made = (
        None if is_one_of_many or spec.payload.example is not None else example_of(spec.payload.json_schema)
    )
    return ToolCard(
        tool_id=str(spec.id),
        name=ToolId(spec.id).rpartition(".")[2],
        title=spec.title,
        description=spec.description,
        takes=_takes(spec.payload.json_schema),
        marks=_marks(spec, approval),
        payload=schema_table(spec.payload.json_schema),
        payload_schema=spec.payload.json_schema,
        result=schema_table(spec.result.json_schema),
        result_schema=spec.result.json_schema,
        artifacts={kind: schema_table(shape.json_schema) for kind, shape in spec.artifacts.items()},
        example=spec.payload.example if made is None else made,
        is_example_made=made is not None,
        injected=spec.injected,
        confirmation=spec.confirmation or "",
        facts=_facts(spec),
        agent_id=spec.agent_id or "",
    )


def _takes(schema: Mapping[str, Any]) -> str:
    fields, required = schema.get("properties"), schema.get("required")
    names = list(fields) if is_object(fields) else []
    needed = required if is_array(required) else []
    return ", ".join(name if name in needed else f"{name}?" for name in names)


_MARKS: Sequence[tuple[Callable[[ToolSpec], bool], Mark]] = (
    (
        lambda spec: bool(spec.annotations.destructive),
        ("destructive", "Can delete or overwrite data.", "bad"),
    ),
    (lambda spec: bool(spec.annotations.read_only), ("read-only", "Changes nothing.", "good")),
    (
        lambda spec: spec.annotations.idempotent is True,
        ("idempotent", "Safe to repeat.", ""),
    ),
    (
        lambda spec: spec.annotations.idempotent is False,
        ("at most once", "A call whose worker is lost is never repeated.", ""),
    ),
    (
        lambda spec: bool(spec.annotations.open_world),
        ("open world", "Reaches external systems.", ""),
    ),
    (
        lambda spec: not spec.trusted,
        ("not trusted", "Its own claims are ignored for approvals.", ""),
    ),
    (lambda spec: spec.kind == "agent", ("agent", "Each call is a run of another agent.", "")),
    (lambda spec: spec.kind == "mcp", ("MCP", "A tool of an MCP server.", "")),
    (lambda spec: spec.kind == "executor", ("executor", "Run by an executor of the app.", "")),
    (
        lambda spec: spec.kind == "external",
        ("external", "An external system runs it and sends the result.", ""),
    ),
    (lambda spec: spec.bounded, ("bounded", "Returns part of a larger result, with the total.", "")),
    (lambda spec: spec.local, ("local", "Runs as a local activity.", "")),
    (lambda spec: spec.memory, ("memory", "Reads the run's memory.", "")),
)

_DECIDED: Mapping[str, Mark] = {
    "ask": ("needs approval", "A person approves each call.", "ask"),
    "deny": ("denied", "Denied by this agent's policy.", "bad"),
}


def _marks(spec: ToolSpec, approval: str | None) -> list[Mark]:
    decided = [_DECIDED[approval]] if approval and approval in _DECIDED else []
    return [*decided, *(mark for holds, mark in _MARKS if holds(spec))]


def _facts(spec: ToolSpec) -> list[tuple[str, str]]:
    facts = [
        ("Time limit", format_duration(spec.timeout) if spec.timeout else "that of the policy"),
        ("Attempts", f"{spec.retry.max_attempts} if a failure is transient"),
    ]
    if spec.task_queue:
        facts.append(("Task queue", spec.task_queue))
    if spec.tags:
        facts.append(("Tags", ", ".join(spec.tags)))
    if spec.injected:
        facts.append(("Filled in by the service", ", ".join(spec.injected)))
    return facts


_NAMES = {
    "max_cost": "Model cost",
    "max_tokens": "Model tokens",
    "max_tool_calls": "Tool calls",
    "max_tool_rounds": "Plans with calls per turn",
    "max_calls_per_step": "Calls per plan",
    "max_parallel_calls": "Parallel calls",
    "max_consecutive_failed_tool_calls": "Failed steps in a row",
    "similar_errors": "Similar errors in a row",
    "time_budget": "Active time",
    "plan_timeout": "Time per plan",
    "tool_timeout": "Time per call",
    "finalizer_grace": "Time for the last answer",
    "interrupts_allowed": "Can ask a person",
    "on_missing_fields": "If required fields are missing",
    "allowed_tools": "Allowed tools",
    "allowed_tags": "Allowed tags",
    "denied_tools": "Denied tools",
    "denied_tags": "Denied tags",
    "max_depth": "Depth of sub-agents",
    "asks_for": "Asks about",
    "asks": "Asks instead of denying",
    "expires_after": "Decision expires after",
    "allows_edits": "Approvers can edit arguments",
    "approvals": "Approvals of a call",
    "escalate_after": "Escalates after",
    "escalate_to": "Escalates to",
    "read_only_runs": "Read-only tools run without asking",
    "run_tools": "Tools that run without asking",
    "run_tags": "Tags that run without asking",
    "max_turns": "Turns per conversation",
    "idle_timeout": "Conversation idle timeout",
}
"""Labels of the fields, in the order of the page."""

_GROUPS = {"approval": "Approval: ", "session": "Conversation: "}


def limits_of(policy: RunPolicy) -> list[Limit]:
    """Return the lines of a policy: the agent's own values first, then the defaults."""
    lines = _lines(policy, RunPolicy(), "")
    return sorted(lines, key=lambda line: not line.is_own)


def _lines(policy: BaseModel, default: BaseModel, above: str) -> list[Limit]:
    lines: list[Limit] = []
    fields = type(policy).model_fields
    order = [*(name for name in _NAMES if name in fields), *(name for name in fields if name not in _NAMES)]
    for name in order:
        value, usual = getattr(policy, name), getattr(default, name, None)
        if isinstance(value, BaseModel):
            usual = usual if isinstance(usual, BaseModel) else type(value)()
            lines += _lines(value, usual, _GROUPS.get(name, f"{name}: "))
        elif name not in _GROUPS:
            about = _plain(fields[name].description or "")
            title = _NAMES.get(name, name.replace("_", " ").capitalize())
            lines.append(Limit(f"{above}{title}", _value(name, value), about, value != usual))
    return lines


_NOTES = re.compile(r" \((?:SR|ME)-[^)]*\)|[;.]? None (?:means|allows|waits)[^.]*(?=\.)|`")
"""Parts of a docstring that are for programmers only."""


def _plain(docstring: str) -> str:
    return _NOTES.sub("", " ".join(docstring.split()))


def _value(name: str, value: Any) -> str:
    if value is None:
        return "all" if name.startswith("allowed") else "no limit"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"  # pyright: ignore[reportUnknownArgumentType] - of any policy
    if name == "max_cost":
        return format_money(float(value))
    if isinstance(value, int):
        return f"{value:,}"
    return str(value).replace("_", " ")


FEW = 2
"""Tools up to which all of an agent are shown unfolded."""


@pages.get("/agents")
async def agents(visit: Visit) -> Response:
    """The agents, and the task queues with their workers."""
    app = visit.service.app
    queues, fault = await _queues(visit)
    cards = [card_of(app, agent, queues) for each in app.list_agents() if (agent := app.agent(each))]
    return visit.page(
        "agents.html",
        app_name=app.name or "",
        cards=cards,
        elsewhere=sorted({each for queue in queues for each in queue.agents} - set(app.list_agents())),
        queues=queues,
        fault=fault,
        sees=visit.service.sees_deployment(visit.asking),
    )


@pages.get("/agents/{agent_id}")
async def agent(visit: Visit, agent_id: str) -> Response:
    app = visit.service.app
    found = app.agent(agent_id)
    if found is None:
        raise Problem(
            404,
            "agent_not_found",
            f"the app has no agent {agent_id[:200]!r}",
            then="Choose one from the list of agents.",
        )
    queues, fault = await _queues(visit)
    toolsets = toolsets_of(app, found)
    return visit.page(
        "agent.html",
        card=card_of(app, found, queues),
        agent=found,
        toolsets=toolsets,
        unfolded=sum(len(toolset.tools) for toolset in toolsets) <= FEW,
        limits=limits_of(found.policy),
        users=users_of(app, agent_id),
        queues=[queue for queue in queues if agent_id in queue.agents],
        fault=fault,
        sees=visit.service.sees_deployment(visit.asking),
        as_json=_as_json,
    )


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


async def _queues(visit: Visit) -> tuple[Sequence[ServedQueue], str]:
    if not visit.service.sees_deployment(visit.asking):
        return [], ""
    try:
        return await visit.console.checkup.queues(), ""
    except (SojournError, TimeoutError) as error:
        return [], str(error) or "the server did not answer in time"
