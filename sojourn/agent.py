"""Agent: a planner with tools and limits; and agents used as tools."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sojourn.contracts.ids import AGENT_ID, TOOL_NAME, TOOLSET_ID, ToolId
from sojourn.contracts.message import Message
from sojourn.contracts.run_policy import RunPolicy
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.validate import Validator
from sojourn.errors import DefinitionError
from sojourn.planner import Planner, as_planner
from sojourn.shape import Shape, as_payload, check_example
from sojourn.toolset import Toolset

__all__ = ["Agent", "AgentTool", "AgentToolset", "ExportedTool"]

Prompt = str | Callable[[Any], str]
"""A template in which `{field}` is filled for declared fields only, or a function of the typed payload."""


@dataclass(frozen=True, slots=True)
class AgentTool:
    """One way to ask an agent, declared in `Agent.export`."""

    name: str
    """The tool's name in the exported toolset."""
    args: Any
    """The payload's type."""
    result: Any = str
    """The answer's type."""
    system: Prompt | None = None
    """The child's system message."""
    user: Prompt | None = None
    """The child's user message; the payload's own JSON when left out."""
    title: str | None = None
    description: str = ""
    tags: Sequence[str] = ()
    example: dict[str, Any] | None = None
    """A payload that validates."""


class ExportedTool:
    """A tool that an agent implements: each call is a child run (SR-7 to SR-11, SR-52 to SR-54)."""

    def __init__(self, agent: "Agent", toolset_id: str, declared: AgentTool) -> None:
        place = f"{toolset_id}.{declared.name}"
        if not TOOL_NAME.match(declared.name):
            raise DefinitionError(f"{place}: a tool's name is letters, digits, '_', '-', '.', '/'")
        self.agent = agent
        self.declared = declared
        self.payload = Shape(declared.args, place=place, example=declared.example)
        self.result = Shape(declared.result, place=f"{place} -> result", output=True)
        self.spec = ToolSpec(
            id=ToolId(place),
            title=declared.title or declared.name.replace("_", " ").capitalize(),
            description=declared.description or agent.description,
            tags=list(declared.tags),
            payload=self.payload.spec,
            result=self.result.spec,
            kind="agent",
            task_queue=agent.task_queue,
            agent_id=agent.id,
        )
        if declared.example is not None:
            check_example(place, declared.example, self.validator)

    @property
    def id(self) -> ToolId:
        """`<service>.<toolset>.<tool>`."""
        return self.spec.id

    @cached_property
    def validator(self) -> Validator:
        """Checks a payload against the schema."""
        return Validator(self.spec.payload.json_schema)

    def call(self, *args: Any, **fields: Any) -> ToolRequest:
        """A request to this tool."""
        return ToolRequest(name=self.id, payload=as_payload(args, fields))

    def messages(self, payload: dict[str, Any]) -> list[Message]:
        """The child's first messages: the system prompt, then the user message (SR-53).

        The payload is decoded only when a prompt is a function (SR-11).
        """
        system, user = self.declared.system, self.declared.user
        messages = [Message.system(self._filled(system, payload))] if system else []
        text = self._filled(user, payload) if user else json.dumps(payload, ensure_ascii=False)
        return [*messages, Message.user(text)]

    def _filled(self, prompt: Prompt, payload: dict[str, Any]) -> str:
        if callable(prompt):
            return prompt(self.payload.decode(payload))
        declared = self.spec.payload.json_schema.get("properties", {})

        def fill(match: re.Match[str]) -> str:
            name = match[1]
            if name not in declared:
                return match[0]
            value = payload.get(name, declared[name].get("default", ""))
            return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

        return re.sub(r"\{(\w+)\}", fill, prompt)


class AgentToolset:
    """An agent under the tool contract, for other agents to use."""

    def __init__(self, id: str, agent: "Agent", tools: Sequence[AgentTool], description: str) -> None:
        if not TOOLSET_ID.match(id):
            raise DefinitionError(f"toolset {id!r}: an id has the form <service>.<toolset>")
        if not tools:
            raise DefinitionError(f"toolset {id!r}: an exported toolset has at least one AgentTool")
        self.id = id
        self.description = description
        self.agent = agent
        self.tools: dict[str, ExportedTool] = {}
        for declared in tools:
            if declared.name in self.tools:
                raise DefinitionError(f"{id}.{declared.name} is declared twice")
            self.tools[declared.name] = ExportedTool(agent, id, declared)

    def __getitem__(self, name: str) -> ExportedTool:
        """The tool of this name."""
        return self.tools[name]


class Agent:
    """A planner with the tools it may use and the limits of its runs.

    Args:
        id: `<service>.<agent>`.
        planner: An object with `plan_start` and `plan_resume`, or an async function of the turn.
        uses: The toolsets, its own service's or others'.
        policy: The limits of its runs.
        description: For catalogues and for agents that use it.
        task_queue: Where its runs live when started as a tool; the caller's queue when left out.

    Raises:
        DefinitionError: the id, the planner or a toolset is not one.
    """

    def __init__(
        self,
        id: str,
        *,
        planner: Any,
        uses: Sequence[Toolset | AgentToolset] = (),
        policy: RunPolicy | None = None,
        description: str = "",
        task_queue: str | None = None,
    ) -> None:
        if not AGENT_ID.match(id):
            raise DefinitionError(f"agent {id!r}: an id has the form <service>.<agent>")
        for toolset in uses:
            if not isinstance(toolset, (Toolset, AgentToolset)):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
                raise DefinitionError(f"agent {id}: uses=[...] takes toolsets; {toolset!r} is none")
        self.id = id
        self.planner: Planner = as_planner(planner, f"agent {id}")
        self.uses = list(uses)
        self.policy = policy or RunPolicy()
        self.description = description
        self.task_queue = task_queue

    def export(self, id: str, *, tools: Sequence[AgentTool], description: str = "") -> AgentToolset:
        """This agent as a toolset for others (SR-7); each call of it is a child run.

        Raises:
            DefinitionError: the id has another form, a name is taken, a type has no schema.
        """
        return AgentToolset(id, self, tools, description or self.description)
