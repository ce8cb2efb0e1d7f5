"""ToolReference: a tool by its id, with the type of its result."""

import inspect
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from sojourn.contracts.ids import ToolId
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.errors import DefinitionError

__all__ = ["ToolReference"]

T = TypeVar("T")


class ToolReference(Generic[T]):
    """A tool that a planner knows by its id alone, as one of an MCP server; `Case.call` and `Turn.last` return its typed result.

    Args:
        id: The tool's id.
        result: The type of the result, such as a model with the fields that the planner reads.

    Raises:
        DefinitionError: `id` is no tool id, or `result` no type.
    """

    def __init__(self, id: str, result: type[T]) -> None:
        if not isinstance(id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise DefinitionError(
                f"ToolReference takes a tool's id, not {id!r}; a tool itself needs no reference"
            )
        try:
            self.id = ToolId(id)
        except ValueError as error:
            raise DefinitionError(f"ToolReference: {error}") from None
        if isinstance(result, str) or inspect.isroutine(result):
            raise DefinitionError(f"ToolReference {id}: result is a type, not {result!r}")
        self.result = result
        self._adapter = TypeAdapter(result)

    def call(self, **fields: Any) -> ToolRequest:
        """A call of the tool; a field that is None is left out."""
        return ToolRequest(
            name=self.id, payload={name: value for name, value in fields.items() if value is not None}
        )

    def result_of(self, result: ToolResult) -> T:
        """The typed value of a successful result.

        Raises:
            TypeError: The result does not have this type.
        """
        try:
            return self._adapter.validate_json(to_json(result.result))
        except ValidationError as error:
            raise TypeError(f"the result of {self.id} does not have the reference's type: {error}") from error
