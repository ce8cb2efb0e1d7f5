"""BoundTool: a declared tool together with what carries out its calls in one app."""

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
from sojourn.core.schema.validate import Validator

__all__ = ["BoundTool"]


class BoundTool(ABC):
    """A `Runnable` in the shapes of its declaration; each kind of source has its own `prepare`.

    Args:
        tool: The declaration.
        is_async: Whether what `prepare` gives is awaited.
    """

    def __init__(self, tool: Tool[..., Any], *, is_async: bool = True) -> None:
        self.tool = tool
        self.is_async = is_async

    @property
    def spec(self) -> ToolSpec:
        """What the tool is."""
        return self.tool.spec

    @property
    def fillers(self) -> Mapping[str, Filler | None]:
        """The injected fields, each with what fills it, if anything does."""
        return self.tool.fillers

    @property
    def validator(self) -> Validator:
        """Checks what a planner sends."""
        return self.tool.validator

    @property
    def whole_validator(self) -> Validator:
        """Checks a payload with its injected fields."""
        return self.tool.whole_validator

    def takes(self, payload: dict[str, Any]) -> bool:
        """Whether the payload's type reads a payload that fits the schema."""
        return self.tool.takes(payload)

    def check(self, call: ToolRequest) -> dict[str, Any] | ToolResult:
        """The payload, valid by the schema and, where nothing is injected yet, by its type; or why it is not."""
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
        """The call with its payload parsed, as it came with `decode_in_executor`, or why it cannot be read."""
        if self.spec.decode_in_executor:
            return call
        payload = boundary.parsed(self.spec, call, self.takes)
        if isinstance(payload, ToolResult):
            return payload
        return call.model_copy(update={"payload": payload, "raw": None})

    @abstractmethod
    def prepare(self, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> Callable[[], Any]:
        """What is left to run (see `Runnable.prepare`)."""

    def deliver(self, call: ToolRequest, value: Any) -> ToolResult:
        """The result and artifacts, encoded by their declared types, or why they cannot be."""
        beside = {kind: shape.encode for kind, shape in self.tool.artifacts.items()}
        return boundary.delivered(self.spec, call, value, self.tool.result_shape.encode, beside)

    def accept(self, call: ToolRequest, value: Any) -> ToolResult:
        """The result that somebody outside sent, read by its declared type, or why it cannot be."""
        try:
            decoded = self.tool.result_shape.decode(value)
        except ValidationError as error:
            return boundary.malformed(self.spec, call, boundary.brief(error))
        return self.deliver(call, decoded)

    def __repr__(self) -> str:
        """Its id."""
        return f"<{type(self).__name__} {self.spec.id}>"
