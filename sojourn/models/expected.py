"""Expected: the schema of the typed answer that the planner's `result`, or the agent that calls, requires of a model."""

from functools import cached_property
from typing import Any

from pydantic import ValidationError

from sojourn.authoring.shape import Shape
from sojourn.contracts.tool_error import FieldIssue
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec, TypeSpec
from sojourn.core.payload.boundary import issues_of
from sojourn.core.payload.hints import hint_for_issues
from sojourn.core.payload.reading import read_payload
from sojourn.core.schema.validate import Validator
from sojourn.errors import DefinitionError
from sojourn.models.offered import FINAL_RESULT
from sojourn.models.projection import Projection, project

__all__ = ["Expected"]

_WRAPPED = "answer"


class Expected:
    """The schema that an answer must satisfy.

    Providers accept only objects as arguments: any other value is the field `answer` of an object.

    Args:
        schema: JSON Schema of the answer.
        shape: The type of the answer, whose own validators are applied too; None when only a schema is known.
    """

    def __init__(self, schema: dict[str, Any], shape: Shape | None = None) -> None:
        self.answer = schema
        self._shape = shape

    @classmethod
    def of(cls, source: Any) -> "Expected":
        """Return the expectation of a Python type.

        Raises:
            DefinitionError: The type has no JSON Schema.
        """
        place = "ModelPlanner(result=...)"
        try:
            shape = Shape(source, place=place)
        except DefinitionError:  # only an object can be a payload; an output may be any type
            shape = Shape(source, place=place, output=True)
        return cls(shape.spec.json_schema, shape)

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """JSON Schema of the arguments of `final_result`, always an object."""
        if self._is_object:
            return self.answer
        inner = {word: value for word, value in self.answer.items() if word not in ("$defs", "$schema")}
        outer = {"type": "object", "properties": {_WRAPPED: inner}, "required": [_WRAPPED]}
        return {**outer, "$defs": self.answer["$defs"]} if "$defs" in self.answer else outer

    @property
    def projection(self) -> Projection:
        """The arguments of `final_result` as a model is offered them."""
        return project(self.arguments)

    def value(self, arguments: dict[str, Any]) -> Any:
        """Return the answer that arguments of `final_result` hold."""
        return arguments if self._is_object else arguments.get(_WRAPPED)

    def read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return arguments of `final_result` as those of a tool are read before they are validated."""
        return read_payload(self._validator, arguments).payload

    def mismatch(self, arguments: dict[str, Any]) -> ToolResult | None:
        """Return the refusal of arguments, with the hint of a tool's refused call; None when the arguments are valid."""
        is_valid = self._validator.is_valid(arguments)
        issues = self._type_issues(arguments) if is_valid else self._validator.issues(arguments)
        if not issues:
            return None
        error, hint = hint_for_issues(self._spec, arguments, issues, self._validator, self._fits)
        return ToolResult(name=FINAL_RESULT, error=error, retry_hint=hint)

    @property
    def _is_object(self) -> bool:
        return self.answer.get("type") == "object"

    @cached_property
    def _validator(self) -> Validator:
        return Validator(self.arguments, typed=self._shape is not None)

    @cached_property
    def _spec(self) -> ToolSpec:
        """`final_result` as hints know a tool; it has no tool id, since no run ever executes it."""
        payload = TypeSpec(name="answer", json_schema=self.arguments)
        return ToolSpec.model_construct(
            id=FINAL_RESULT, title=FINAL_RESULT, description="", payload=payload, result=payload
        )

    def _fits(self, arguments: dict[str, Any]) -> bool:
        return not self._type_issues(arguments)

    def _type_issues(self, arguments: dict[str, Any]) -> list[FieldIssue]:
        """Return the faults that the type's own validators find in arguments that fit the schema."""
        if self._shape is None:
            return []
        try:
            self._shape.decode(self.value(arguments))
        except ValidationError as error:
            return issues_of(error)
        return []
