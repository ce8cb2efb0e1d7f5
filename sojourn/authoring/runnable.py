"""Runnable: what a worker can carry out, whoever implements it.

Functions, methods of services and executors are bound to an app as `BoundTool`; the tools of a remote toolset, such
as an MCP server's, are their own. The tool boundary knows no other difference than the members here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.schema.validate import Validator

__all__ = ["Filler", "Runnable"]

Filler = Callable[[ToolCallMeta], Any]
"""Gives the value of an injected field, or an awaitable of it."""


class Runnable(Protocol):
    """One tool that a worker carries out; its members stand in the order in which a call meets them."""

    @property
    def spec(self) -> ToolSpec:
        """What the tool is."""
        ...

    @property
    def validator(self) -> Validator:
        """Checks what a planner sends."""
        ...

    @property
    def whole_validator(self) -> Validator:
        """Checks a payload with its injected fields."""
        ...

    @property
    def fillers(self) -> Mapping[str, Filler | None]:
        """The injected fields, each with what fills it, if anything does."""
        ...

    @property
    def is_async(self) -> bool:
        """Whether what `prepare` gives is awaited; else it runs in a thread."""
        ...

    def takes(self, payload: dict[str, Any]) -> bool:
        """Whether the tool's own types take a payload that fits the schema."""
        ...

    def check(self, call: ToolRequest) -> dict[str, Any] | ToolResult:
        """The payload of a call that is shown to a person or sent outside, or why it is not valid."""
        ...

    def read(self, call: ToolRequest) -> ToolRequest | ToolResult:
        """The call with its payload parsed, as it came with `decode_in_executor`, or why it cannot be read."""
        ...

    def prepare(self, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> Callable[[], Any]:
        """What is left to run: the tool's own work, with decoded arguments.

        Args:
            payload: Valid against the whole schema, injected fields included; empty with `decode_in_executor`.
            call: The call as it came out of the interceptors.
            meta: Whose call it is.

        Raises:
            pydantic.ValidationError: a type's own validators refuse the payload.
        """
        ...

    def deliver(self, call: ToolRequest, value: Any) -> ToolResult:
        """The result made of what the tool's work gave, or why that cannot be used."""
        ...

    def accept(self, call: ToolRequest, value: Any) -> ToolResult:
        """The result made of the JSON value that somebody outside sent, or why that cannot be used."""
        ...
