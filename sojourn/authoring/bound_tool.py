"""BoundTool: a declared tool, bound to the function, method or executor that runs its calls in one app."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from sojourn.authoring.runnable import Filler
from sojourn.authoring.tool import Tool
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload import boundary
from sojourn.core.payload.parse import same_arguments
from sojourn.core.schema.validate import Validator

__all__ = ["BoundTool"]


class BoundTool(ABC):
    """A `Runnable` with the shapes of its declaration; each kind of source implements `prepare`.

    Args:
        tool: The declaration.
        is_async: Whether the result of the prepared function is awaited.
    """

    def __init__(self, tool: Tool[..., Any], *, is_async: bool = True) -> None:
        self.tool = tool
        self.is_async = is_async

    @property
    def spec(self) -> ToolSpec:
        """The tool's spec."""
        return self.tool.spec

    @property
    def fillers(self) -> Mapping[str, Filler | None]:
        """The injected fields, each with its filler, if it has one."""
        return self.tool.fillers

    @property
    def validator(self) -> Validator:
        """Validates a payload without injected fields."""
        return self.tool.validator

    @property
    def whole_validator(self) -> Validator:
        """Validates a payload with its injected fields."""
        return self.tool.whole_validator

    def takes(self, payload: dict[str, Any]) -> bool:
        """Whether the payload's type accepts a payload that fits the schema."""
        return self.tool.takes(payload)

    def is_same(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        """Whether two payloads are the same by the schema, or decoded by the type."""
        return same_arguments(self.validator, one, other) or self.tool.decodes_alike(one, other)

    def check(self, call: ToolRequest) -> dict[str, Any] | ToolResult:
        """The payload, valid by the schema and, without injected fields, by its type; or the result that refuses it."""
        payload = boundary.checked(self.spec, self.validator, call, self.takes)
        if isinstance(payload, ToolResult) or self.fillers:
            return payload
        try:
            self.tool.payload.decode(payload)
        except ValidationError as error:
            issues = boundary.issues_of(error)
            return boundary.refused(self.spec, call, payload, issues, self.validator, self.takes)
        return payload

    def read(self, call: ToolRequest) -> ToolRequest | ToolResult:
        """The call with its arguments parsed, or the result that says why they cannot be read."""
        return boundary.read(self.spec, call, self.takes)

    @abstractmethod
    def prepare(self, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> Callable[[], Any]:
        """The function to run (see `Runnable.prepare`)."""

    def deliver(self, call: ToolRequest, value: Any) -> ToolResult:
        """The result and artifacts, encoded by their declared types, or why they cannot be encoded."""
        artifacts = {kind: shape.encode for kind, shape in self.tool.artifacts.items()}
        return boundary.delivered(self.spec, call, value, self.tool.result_shape.encode, artifacts)

    def accept(self, call: ToolRequest, value: Any) -> ToolResult:
        """An external result, decoded by its declared type, or why it cannot be decoded."""
        try:
            decoded = self.tool.result_shape.decode(value)
        except ValidationError as error:
            return boundary.malformed(self.spec, call, boundary.brief(error))
        return self.deliver(call, decoded)

    def __repr__(self) -> str:
        """The class and the tool's id."""
        return f"<{type(self).__name__} {self.spec.id}>"
