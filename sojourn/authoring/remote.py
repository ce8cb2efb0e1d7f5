"""RemoteToolset: tools that another process has, known only while it can be asked."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.schema.validate import Validator

__all__ = ["RemoteTool", "RemoteToolset"]


class RemoteTool(Protocol):
    """One tool of a remote toolset; it is its own body."""

    spec: ToolSpec
    is_async: bool

    @property
    def validator(self) -> Validator:
        """Checks what a planner sends."""
        ...

    def prepare(self, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> Callable[[], Any]:
        """What is left to run."""
        ...


@runtime_checkable
class RemoteToolset(Protocol):
    """A toolset that a worker opens when it starts, such as an MCP server."""

    id: str
    description: str

    @property
    def tools(self) -> Mapping[str, RemoteTool]:
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
