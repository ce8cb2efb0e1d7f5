"""Expected: the schema of the typed answer that the planner's `result`, or the agent that calls, requires of a model."""

from functools import cached_property
from typing import Any

from pydantic import ValidationError

from sojourn.authoring.shape import Shape
from sojourn.contracts.retry_hint import FieldIssue
from sojourn.core.payload.boundary import issues_of
from sojourn.core.payload.reading import read_payload
from sojourn.core.schema.issue_text import sentence
from sojourn.core.schema.validate import Validator
from sojourn.core.values.text import clip
from sojourn.errors import DefinitionError
from sojourn.models.offered import FINAL_RESULT
from sojourn.models.projection import Projection, project

__all__ = ["Expected"]

MAX_ISSUES = 10
"""Most issues of one answer that its correction lists."""

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

    def mismatch(self, arguments: dict[str, Any]) -> str | None:
        """Return the faults of arguments, as a correction for the model; None when the arguments are valid."""
        is_valid = self._validator.is_valid(arguments)
        issues = self._type_issues(arguments) if is_valid else self._validator.issues(arguments)
        if not issues:
            return None
        keys = self.projection.keys
        listed = "; ".join(keys.in_text(sentence(issue)) for issue in issues[:MAX_ISSUES])
        more = f"; and {len(issues) - MAX_ISSUES} more" if len(issues) > MAX_ISSUES else ""
        return clip(f"Correct your answer and call `{FINAL_RESULT}` again: {listed}{more}", 1_500)

    @property
    def _is_object(self) -> bool:
        return self.answer.get("type") == "object"

    @cached_property
    def _validator(self) -> Validator:
        return Validator(self.arguments, typed=self._shape is not None)

    def _type_issues(self, arguments: dict[str, Any]) -> list[FieldIssue]:
        """Return the faults that the type's own validators find in arguments that fit the schema."""
        if self._shape is None:
            return []
        try:
            self._shape.decode(self.value(arguments))
        except ValidationError as error:
            return issues_of(error)
        return []
