"""Advice: what a model lacks of the tools that it chooses from, as warnings.

A planner in code needs no docstring and no return type, so only agents whose planner reads descriptions are looked at.
"""

import warnings
from collections.abc import Iterator

from sojourn.authoring.agent import Agent, AgentToolset, ExportedTool
from sojourn.authoring.tool import Tool
from sojourn.authoring.toolset import Toolset

__all__ = ["DefinitionWarning", "warn_of_tools"]


class DefinitionWarning(UserWarning):
    """A declaration is valid, and a model will do worse with it than it could; the text names the place and the correction."""


def warn_of_tools(agent: Agent, *, stacklevel: int) -> None:
    """Warn of each tool of an agent with a model that has no description or no return type.

    Args:
        agent: The agent; nothing is said where its planner is code.
        stacklevel: As for `warnings.warn`, counted from here.
    """
    if not getattr(agent.planner, "reads_descriptions", False):
        return
    for toolset in agent.uses:
        for tool in toolset.tools.values() if isinstance(toolset, (Toolset, AgentToolset)) else ():
            for text in _advice(tool):
                warnings.warn(f"tool {tool.id}: {text}", DefinitionWarning, stacklevel=stacklevel + 1)


def _advice(tool: "Tool[..., object] | ExportedTool[..., object]") -> Iterator[str]:
    if not tool.spec.description.strip():
        mend = "description=..." if isinstance(tool, ExportedTool) else "a docstring, or description=..."
        yield f"it has no description, by which a model chooses it; write {mend}"
    function = tool.function if isinstance(tool, Tool) else None
    if function is not None and tool.spec.result.json_schema == {} and not _has_return(function):
        yield "it has no return type, so its result is not checked; write one, such as -> str"


def _has_return(function: object) -> bool:
    return "return" in getattr(function, "__annotations__", {})
