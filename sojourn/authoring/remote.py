"""RemoteToolset: the tools of another process, known only while that process can be reached."""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from sojourn.authoring.runnable import Runnable

__all__ = ["RemoteToolset", "instructions_of", "left_out_of", "why_left_out"]


@runtime_checkable
class RemoteToolset(Protocol):
    """A toolset that a worker opens when it starts, such as an MCP server."""

    id: str
    description: str

    @property
    def tools(self) -> Mapping[str, Runnable]:
        """The tools known now, by bare name; replaced as a whole."""
        ...

    @property
    def unavailable(self) -> str | None:
        """Why the toolset is unavailable now, as a clause, or None."""
        ...

    async def open(self) -> None:
        """Connect and list the tools, within a bounded time; never raises because the other process is down."""
        ...

    async def close(self) -> None:
        """Close connections and processes."""
        ...


def left_out_of(toolset: RemoteToolset) -> Mapping[str, str]:
    """The tools of a toolset that cannot be used, by name, with the reasons: its `left_out`, if it has one."""
    return getattr(toolset, "left_out", {})


def instructions_of(toolset: RemoteToolset) -> str:
    """What the other process says of how to use its tools: the toolset's `instructions`, if it has them."""
    return getattr(toolset, "instructions", "")


def why_left_out(toolset: RemoteToolset, tool_id: str) -> str | None:
    """Why the other process lists a tool that cannot be used; None if it does not list the tool."""
    id_of: Callable[[str], str] | None = getattr(toolset, "id_of", None)
    for name, why in left_out_of(toolset).items():
        if tool_id in (f"{toolset.id}.{name}", id_of(name) if id_of else ""):
            return f"it is left out: {why}"
    return None
