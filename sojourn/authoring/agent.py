"""A planner with tools and limits, and agents used as tools."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar, overload

from sojourn.authoring.options import (
    APPROVERS,
    FLAG,
    POLICY,
    TEXT,
    TEXTS,
    VISIBILITY,
    ApproverCheck,
    Approvers,
    Kind,
    approver_fields,
    check_in,
    declares,
    list_of,
    show_value,
    takes_options,
)
from sojourn.authoring.runnable import RemoteToolset
from sojourn.authoring.shape import Shape, check_example
from sojourn.authoring.tool import Tool
from sojourn.authoring.tool_options import check_options, check_templates
from sojourn.authoring.toolset import Toolset
from sojourn.contracts.ids import AGENT_ID, TOOL_NAME, TOOLSET_ID, ToolId, task_queue_fault
from sojourn.contracts.message import Message
from sojourn.contracts.principal import Visibility
from sojourn.contracts.record import declare_at
from sojourn.contracts.run_policy import RunPolicy
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload import boundary
from sojourn.core.payload.template import fill_template
from sojourn.core.schema.validate import Validator
from sojourn.errors import DefinitionError
from sojourn.planner import PlanFunction, Planner, as_planner
from sojourn.values.text import count_noun
from sojourn.values.timers import duration_fault

__all__ = ["Agent", "AgentTool", "AgentToolset", "ExportedTool"]

P = ParamSpec("P")
A = TypeVar("A")
V = TypeVar("V")

Prompt = str | Callable[[Any], str]

_PROMPT = Kind(
    "a text, or a function of the payload", lambda value: isinstance(value, str) or callable(value)
)


def _exports(given: Mapping[str, Any]) -> str:
    return (
        f"toolset {given['id']}" if isinstance(given.get("id"), str) else f"agent {given['self'].id}: export"
    )


@declares(
    "AgentTool",
    name=TEXT,
    title=TEXT,
    description=TEXT,
    tags=TEXTS,
    confirmation=TEXT,
    approvers=APPROVERS,
    four_eyes=FLAG,
    bounded=FLAG,
    example=Kind("a payload", lambda value: isinstance(value, dict)),
    system=_PROMPT,
    user=_PROMPT,
)
@dataclass(frozen=True, slots=True)
class AgentTool(Generic[A, V]):
    """One tool of an exported agent, declared in `Agent.export`."""

    name: str
    args: type[A]
    result: type[V] = str  # pyright: ignore[reportAssignmentType] - V is str if it is left out
    """The type of the answer. Unless it is `str`, an answer that does not fit is refused."""
    system: Prompt | None = None
    user: Prompt | None = None
    """The child run's user message; by default the payload as JSON."""
    title: str | None = None
    description: str = ""
    tags: Sequence[str] = ()
    example: dict[str, Any] | None = None
    confirmation: str | None = None
    """The question to a person before each call, with `{field}` filled in."""
    approvers: Approvers | None = None
    """Principals who may decide on a call, which then needs approval."""
    four_eyes: bool = False
    """Forbid the requester of a call to approve it; each call then needs approval."""
    bounded: bool = False
    """Whether the answer states `returned`, `total` and `truncated` (SR-22, SR-31)."""


class ExportedTool(Generic[P, V]):
    """A tool that an agent implements in child runs (SR-7 to SR-11, SR-52 to SR-54)."""

    def __init__(self, agent: "Agent", toolset_id: str, declared: "AgentTool[Any, V]") -> None:
        place = f"tool {toolset_id}.{declared.name}"
        if not TOOL_NAME.match(declared.name):
            raise DefinitionError(
                f"{place}: a tool's name has 1 to 100 letters, digits, '_', '-', '.', '/', and begins with a letter, a digit or '_'"
            )
        self.agent = agent
        self.declared = declared
        self.payload = Shape(declared.args, place=place, example=declared.example)
        self.result = Shape(declared.result, place=f"{place} -> result", output=True)
        with declare_at(place):
            self.spec = ToolSpec(
                id=ToolId(f"{toolset_id}.{declared.name}"),
                title=declared.title or declared.name.replace("_", " ").capitalize(),
                description=declared.description or agent.description,
                tags=list(declared.tags),
                payload=self.payload.spec,
                result=self.result.spec,
                kind="agent",
                attachments=self.payload.takes_attachments,
                confirmation=declared.confirmation,
                **approver_fields(declared.approvers, four_eyes=declared.four_eyes),
                bounded=declared.bounded,
                task_queue=agent.task_queue,
                agent_id=agent.id,
            )
        check_options(self.spec)
        templates = {"confirmation": declared.confirmation, "system": declared.system, "user": declared.user}
        check_templates(place, self.spec.payload.json_schema, **templates)
        if declared.example is not None:
            check_example(place, declared.example, self.validator)

    @property
    def id(self) -> ToolId:
        return self.spec.id

    @property
    def approver_check(self) -> ApproverCheck | None:
        return check_in(self.declared.approvers)

    @cached_property
    def validator(self) -> Validator:
        return Validator(self.spec.payload.json_schema, typed=True)

    def takes(self, payload: dict[str, Any]) -> bool:
        return self.payload.takes(payload)

    def check(self, call: ToolRequest) -> dict[str, Any] | ToolResult:
        return boundary.check_payload(self.spec, self.validator, call, self.takes)

    def call(self, *args: P.args, **fields: P.kwargs) -> ToolRequest:
        return ToolRequest(name=self.id, payload=self.payload.payload_of(args, fields))

    def result_of(self, result: ToolResult) -> V:
        """Return the typed answer of a successful result of this tool."""
        if result.name != self.id or result.error:
            raise ValueError(
                f"{result.name} ({result.error or 'a success'}) is not a successful result of {self.id}"
            )
        return self.result.decode(result.result)

    @property
    def answer_schema(self) -> dict[str, Any] | None:
        """The schema of the child run's typed answer, or None if the answer is text."""
        return None if self.declared.result is str else self.spec.result.json_schema

    def messages(self, payload: dict[str, Any], raw: str | None = None) -> list[Message]:
        """Return the child run's first messages (SR-53).

        The payload is decoded only when a prompt is a function. Without a prompt, the user message is the
        arguments unchanged (SR-11).
        """
        system, user = self.declared.system, self.declared.user
        messages = [Message.system(self._fill(system, payload))] if system else []
        text = self._fill(user, payload) if user else _as_written(raw, payload)
        return [*messages, Message.user(text)]

    def _fill(self, prompt: Prompt, payload: dict[str, Any]) -> str:
        if callable(prompt):
            return prompt(self.payload.decode(payload))
        return fill_template(prompt, self.spec.payload.json_schema, payload)


def _as_written(raw: str | None, payload: dict[str, Any]) -> str:
    """Return the model's arguments, or the payload if they are no JSON object."""
    try:
        if raw is not None and isinstance(json.loads(raw), dict):
            return raw
    except ValueError:
        pass
    return json.dumps(payload, ensure_ascii=False)


class AgentToolset:
    """An agent as a toolset, for other agents to use."""

    def __init__(
        self, id: str, agent: "Agent", tools: "Sequence[AgentTool[Any, Any]]", description: str
    ) -> None:
        if not TOOLSET_ID.match(id):
            raise DefinitionError(f"toolset {id!r}: the id must have the form <service>.<toolset>")
        if not tools:
            raise DefinitionError(f"toolset {id!r}: an exported toolset needs at least one AgentTool")
        self.id = id
        self.description = description
        self.agent = agent
        self.tools: dict[str, ExportedTool[..., Any]] = {}
        for declared in tools:
            if not isinstance(declared, AgentTool):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
                raise DefinitionError(
                    f"toolset {id}: tools=[...] takes AgentTools; {show_value(declared)} is not one; write AgentTool(name, args=...)"
                )
            if declared.name in self.tools:
                raise DefinitionError(
                    f"tool {id}.{declared.name} is declared twice; give one of them another name"
                )
            self.tools[declared.name] = ExportedTool(agent, id, declared)

    @overload
    def __getitem__(self, tool: str) -> ExportedTool[..., Any]: ...
    @overload
    def __getitem__(self, tool: AgentTool[A, V]) -> ExportedTool[[A], V]: ...
    def __getitem__(self, tool: str | AgentTool[Any, Any]) -> ExportedTool[..., Any]:
        """Return the tool with this name, or of this declaration, then with its types."""
        return self.tools[tool if isinstance(tool, str) else tool.name]

    def __repr__(self) -> str:
        return f"<AgentToolset {self.id} of {self.agent.id}: {count_noun(len(self.tools), 'tool')}>"


@declares(
    "agent",
    mends={
        "tools": "uses=[...] with toolsets",
        "toolsets": "uses=[...]",
        "model": "planner=ModelPlanner(...)",
        "instructions": "planner=ModelPlanner(..., instructions=...)",
        "system_prompt": "planner=ModelPlanner(..., instructions=...)",
        "planner": "planner=ModelPlanner(...), or an async function of the turn",
    },
    uses=list_of("toolsets"),
    policy=POLICY,
    description=TEXT,
    task_queue=TEXT,
    local=FLAG,
    visibility=VISIBILITY,
)
class Agent:
    """A planner with the tools it may use and the limits of its runs.

    Args:
        id: `<service>.<agent>`.
        planner: An object with `plan_start` and `plan_resume`, or an async function of the turn.
        uses: The toolsets that its planner may use.
        policy: The limits of its runs.
        description: For catalogues, and for agents that use this agent as a tool.
        task_queue: The task queue of its runs when started as a tool; by default the caller's.
        local: Whether local activities plan its turns, beside the workflow: for a planner that decides in
            milliseconds and does no I/O.
        visibility: Who sees its runs over HTTP, in place of the app's setting: everyone in the tenant, or only those
            they act for.

    Raises:
        DefinitionError: The id, the planner or a toolset is invalid, or the planner of a local agent is a model.
    """

    def __init__(
        self,
        id: str,
        *,
        planner: Planner | PlanFunction,
        uses: Sequence[Toolset | AgentToolset | RemoteToolset] = (),
        policy: RunPolicy | None = None,
        description: str = "",
        task_queue: str | None = None,
        local: bool = False,
        visibility: Visibility | None = None,
    ) -> None:
        if not isinstance(id, str) or not AGENT_ID.match(id):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
            raise DefinitionError(f"agent {id!r}: the id must have the form <service>.<agent>")
        for toolset in uses or ():
            if not isinstance(toolset, (Toolset, AgentToolset, RemoteToolset)):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
                raise DefinitionError(
                    f"agent {id}: uses=[...] takes toolsets; {show_value(toolset)} is not one{_mend(toolset)}"
                )
        self.id = id
        self.planner: Planner = as_planner(planner, f"agent {id}")
        self.uses = list(uses or ())
        self.policy = policy or RunPolicy()
        for name in type(self.policy).model_fields:
            limit = getattr(self.policy, name)
            if isinstance(limit, timedelta) and (fault := duration_fault(f"policy.{name}", limit)):
                raise DefinitionError(f"agent {id}: {fault}")
        self.description = description
        if task_queue is not None and (fault := task_queue_fault(task_queue)):
            raise DefinitionError(f"agent {id}: {fault}")
        self.task_queue = task_queue
        if local and getattr(self.planner, "reads_descriptions", False):
            raise DefinitionError(
                f"agent {id}: a local planner decides in milliseconds, and a model does not; leave out local="
            )
        self.local = local
        self.visibility: Visibility | None = visibility

    def __repr__(self) -> str:
        return f"<Agent {self.id}: {' '.join(toolset.id for toolset in self.uses) or 'no toolsets'}>"

    @takes_options(_exports, tools=list_of("AgentTools"), description=TEXT)
    def export(self, id: str, *, tools: Sequence[AgentTool[Any, Any]], description: str = "") -> AgentToolset:
        """Return this agent as a toolset for others (SR-7). Each call is a child run.

        Raises:
            DefinitionError: The id has another form, a name is already in use, or a type has no schema.
        """
        return AgentToolset(id, self, tools, description or self.description)


def _mend(used: Any) -> str:
    if isinstance(used, Tool):
        return "; use the toolset that declares it"
    return "; use what its export(...) returns" if isinstance(used, Agent) else ""
