"""RemoteToolset: the tools of another process, known only while that process can be reached."""

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
