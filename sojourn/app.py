"""App: the agents of a deployment, checked as a whole, and their catalogue."""

from collections.abc import Mapping, Sequence
from typing import Any

from sojourn.agent import Agent, AgentToolset, ExportedTool
from sojourn.contracts.ids import ToolId
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.errors import DefinitionError
from sojourn.toolset import Tool, Toolset

__all__ = ["App"]

AnyTool = Tool[..., Any] | ExportedTool


class App:
    """What a worker serves.

    Args:
        agents: Every agent whose runs this deployment plans, those used as tools included.

    Raises:
        DefinitionError: two agents, toolsets or tools share an id, or an exported agent is missing.
    """

    def __init__(self, *, agents: Sequence[Agent]) -> None:
        if not agents:
            raise DefinitionError("App(agents=[...]) has at least one agent")
        self._agents: dict[str, Agent] = {}
        self._toolsets: dict[str, Toolset | AgentToolset] = {}
        self._tools: dict[str, AnyTool] = {}
        self._tools_of: dict[str, dict[str, AnyTool]] = {}
        for agent in agents:
            self._add(agent)
        for toolset in self._toolsets.values():
            if isinstance(toolset, AgentToolset) and self._agents.get(toolset.agent.id) is not toolset.agent:
                raise DefinitionError(
                    f"toolset {toolset.id} is agent {toolset.agent.id} as a tool, which is not in App(agents=[...]); "
                    "add it"
                )

    def _add(self, agent: Agent) -> None:
        if agent.id in self._agents:
            raise DefinitionError(f"agent {agent.id} is in App(agents=[...]) twice; give one another id")
        self._agents[agent.id] = agent
        for toolset in agent.uses:
            known = self._toolsets.setdefault(toolset.id, toolset)
            if known is not toolset:
                raise DefinitionError(f"two toolsets are called {toolset.id}; give one another id")
        used = {str(tool.spec.id): tool for toolset in agent.uses for tool in toolset.tools.values()}
        self._tools_of[agent.id] = used
        self._tools.update(used)

    def agent(self, agent_id: str) -> Agent | None:
        """The agent of this id."""
        return self._agents.get(agent_id)

    def tools_of(self, agent_id: str) -> Mapping[str, AnyTool]:
        """The tools an agent uses, by id; empty for an unknown agent."""
        return self._tools_of.get(agent_id, {})

    def list_agents(self) -> list[str]:
        """The agents' ids (SR-100)."""
        return list(self._agents)

    def list_toolsets(self) -> list[str]:
        """The toolsets' ids (SR-100)."""
        return list(self._toolsets)

    def tool_spec(self, tool_id: str) -> ToolSpec | None:
        """A tool's spec, or None (SR-84, SR-100)."""
        tool = self._tools.get(tool_id)
        return tool.spec if tool else None

    def tool_schema(self, tool_id: str) -> dict[str, Any] | None:
        """A tool's `payload` and `result` schemas, or None (SR-84, SR-100)."""
        spec = self.tool_spec(tool_id)
        return {"payload": spec.payload.json_schema, "result": spec.result.json_schema} if spec else None

    def tool_specs_for_agent(self, agent_id: str) -> list[ToolSpec] | None:
        """The specs of the tools an agent uses, or None for an unknown agent (SR-100)."""
        tools = self._tools_of.get(agent_id)
        return None if tools is None else [tool.spec for tool in tools.values()]

    def catalog(self) -> list[dict[str, Any]]:
        """Every tool as an entry for machines (SR-95 to SR-99)."""
        return [
            {
                "id": str(spec.id),
                "service": ToolId(spec.id).service,
                "toolset": ToolId(spec.id).toolset,
                "title": spec.title,
                "description": spec.description,
                "tags": spec.tags,
                "payload": {"schema": spec.payload.json_schema},
                "result": {"schema": spec.result.json_schema},
            }
            for spec in (tool.spec for tool in self._tools.values())
        ]

    def serve(self, *, task_queue: str | None = None) -> None:
        """Serve runs until SIGTERM or Ctrl-C, then drain; the same as `sojourn worker`."""
        from sojourn.worker import serve  # noqa: PLC0415 - a worker is needed only here

        serve(self, task_queue=task_queue)
