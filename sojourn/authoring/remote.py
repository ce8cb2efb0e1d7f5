"""RemoteToolset: tools that another process has, known only while it can be asked."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from sojourn.authoring.runnable import Runnable

__all__ = ["RemoteToolset"]


@runtime_checkable
class RemoteToolset(Protocol):
    """A toolset that a worker opens when it starts, such as an MCP server."""

    id: str
    description: str

    @property
    def tools(self) -> Mapping[str, Runnable]:
        """What is known now, by bare name; replaced as a whole."""
        ...

    @property
    def unavailable(self) -> str | None:
        """Why it cannot be used now, in a clause, or None."""
        ...

    async def open(self) -> None:
        """Connect and learn the tools, within a bounded time; never raises because the other side is down."""
        ...

    async def close(self) -> None:
        """Let go of connections and processes."""
        ...
