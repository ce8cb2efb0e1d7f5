"""Runnable: a tool that a worker can execute, local or remote.

Functions, methods of services and executors are bound to an app as `BoundTool`; the tools of a remote
toolset, such as an MCP server's, implement it themselves. The tool boundary distinguishes tools only by the
members here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.schema.validate import Validator

__all__ = ["Filler", "Runnable"]

Filler = Callable[[ToolCallMeta], Any]
"""Returns the value of an injected field, or an awaitable of it."""


class Runnable(Protocol):
    """One tool that a worker executes; its members are in the order in which a call uses them."""

    @property
    def spec(self) -> ToolSpec:
        """The tool's spec."""
        ...

    @property
    def validator(self) -> Validator:
        """Validates a payload without injected fields."""
        ...

    @property
    def whole_validator(self) -> Validator:
        """Validates a payload with its injected fields."""
        ...

    @property
    def fillers(self) -> Mapping[str, Filler | None]:
        """The injected fields, each with its filler, if it has one."""
        ...

    @property
    def is_async(self) -> bool:
        """Whether the prepared function is async; a sync one runs in a thread."""
        ...

    def takes(self, payload: dict[str, Any]) -> bool:
        """Whether the tool's own types accept a payload that fits the schema."""
        ...

    def is_same(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        """Whether two payloads mean the same to the tool: with the schema's defaults filled in, and decoded by the tool's own types."""
        ...

    def check(self, call: ToolRequest) -> dict[str, Any] | ToolResult:
        """The valid payload of a call that needs approval or is external, or the result that says why it is invalid."""
        ...

    def read(self, call: ToolRequest) -> ToolRequest | ToolResult:
        """The call with its arguments parsed, or the result that says why they cannot be read."""
        ...

    def prepare(self, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> Callable[[], Any]:
        """The function to run: the tool's own work, with decoded arguments.

        Args:
            payload: Valid against the whole schema, injected fields included; empty with `decode_in_executor`.
            call: The call after the interceptors.
            meta: The run, turn and agent of the call.

        Raises:
            pydantic.ValidationError: A type's own validators refuse the payload.
        """
        ...

    def deliver(self, call: ToolRequest, value: Any) -> ToolResult:
        """The result of a call from the function's return value, or why that cannot be used."""
        ...

    def accept(self, call: ToolRequest, value: Any) -> ToolResult:
        """The result of a call from an external JSON value, or why that cannot be used."""
        ...
