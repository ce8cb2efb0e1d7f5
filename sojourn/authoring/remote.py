"""RemoteToolset: the tools of another process, known only while that process can be reached."""

from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

from sojourn.authoring.runnable import Runnable
from sojourn.core.values.text import closest_name

__all__ = ["LISTING", "RemoteToolset", "instructions_of", "left_out_of", "why_left_out"]

LISTING = "tools/list"
"""Stands for the list itself among what is left out; MCP's name of the request."""


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
    why = left_out_of(toolset).get(LISTING)
    if not why:
        return None
    ids = {name: str(tool.spec.id) for name, tool in toolset.tools.items()}
    close = closest_name(tool_id.removeprefix(f"{toolset.id}."), list(ids))
    similar = f"; a similar one in it is {ids[close]}" if close else ""
    return f"it is not in the list of its server's tools: {why}{similar}"
