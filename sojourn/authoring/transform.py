"""Transform: convert values of one shape to another; made once, where a tool is bound or an executor declared.

A tool shows a model what the model needs to know; the service method behind it has shapes of
its own. Where every value of one shape can be read as the other, by the names of fields in
JSON, no mapper is needed. The schemas decide that when the tool
is declared, so that only a value (a bound, a pattern, a validator) can fail in a run,
never a name or a type.
"""

from typing import Any, Generic, Literal, TypeVar

from pydantic import PydanticUserError, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema, to_json

from sojourn.authoring.shape import Shape
from sojourn.core.schema.compatibility import mismatches
from sojourn.core.values.json_value import Schema, children
from sojourn.errors import DefinitionError

__all__ = ["Transform"]

A = TypeVar("A")
B = TypeVar("B")


class Transform(Generic[A, B]):
    """Converts values of one shape to another, by field (SR-60, SR-80 to SR-82).

    `bind` makes transforms itself; an executor makes its own, at import: `to_query = Transform(Ask, Query)`,
    and then calls `to_query(ask)`.

    Args:
        source: The shape of the written values: a tool's arguments, or a method's result.
        target: The shape that reads them: the method's payload, or the tool's result.
        place: The place of the declaration, for messages.
        lossless: Whether every field must be kept (arguments); otherwise a field that the target does
            not declare is dropped at every level (a result, of which the model sees less).
        by_hand: What to do instead, for messages.

    Raises:
        DefinitionError: Some value of the source cannot be read as the target; the message lists the fields.
    """

    def __init__(
        self,
        source: type[A] | Shape,
        target: type[B] | Shape,
        *,
        place: str = "transform",
        lossless: bool = True,
        by_hand: str = "convert by hand",
    ) -> None:
        source, target = _shape(source, place), _shape(target, place)
        self.source = source
        self.target = target
        self._is_same: bool = source.source == target.source
        self._reader: TypeAdapter[Any] = TypeAdapter(target.source)
        self._extra: Literal["ignore"] | None = None
        if self._is_same:
            return
        pair = f"{source.spec.name} does not fit {target.spec.name}"
        try:
            written = TypeAdapter(source.source).json_schema(
                mode="serialization", schema_generator=_WrittenSchema
            )
            read = self._reader.json_schema(mode="validation")
        except PydanticUserError as error:
            first = str(error).split("\n", 1)[0]
            raise DefinitionError(f"{place}: {pair}: no JSON Schema ({first}); {by_hand}") from error
        if reasons := mismatches(written, read, lossless=lossless):
            raise DefinitionError(f"{place}: {pair}: {'; '.join(reasons)}; {by_hand}")
        kept = _unknown_kept(read)
        if False in kept and not (lossless and True in kept):  # a kept field may be one that the model wrote
            self._extra = "ignore"

    def __call__(self, value: A) -> B:
        """Convert a value of the source, typed or as JSON, to a typed value of the target.

        Raises:
            pydantic.ValidationError: The value is not of the source, or the target's own constraints
                and validators refuse it.
        """
        if self._is_same:
            return self.target.decode(value)
        # Read as JSON, since a strict target accepts the text of a date or an id only from JSON.
        return self._reader.validate_json(to_json(self.source.encode(value)), extra=self._extra)


def _shape(source: Any, place: str) -> Shape:
    return source if isinstance(source, Shape) else Shape(source, place=place, output=True)


class _WrittenSchema(GenerateJsonSchema):
    """The schema of what `Shape.encode` writes: `required` has exactly the fields that are always written."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Omit the default: a field with a default is written too, unless `exclude_if` leaves it out."""
        return self.generate_inner(schema["schema"])

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        """Whether a field is always written, also where its default comes from a factory, which no schema states."""
        always = field.get("required", total) if field["type"] == "typed-dict-field" else True
        return always and field.get("serialization_exclude_if") is None


def _unknown_kept(schema: Schema) -> set[bool]:
    """For each object with named fields and `additionalProperties`: whether it keeps undeclared fields."""
    states_rest = "properties" in schema and "additionalProperties" in schema
    own = {schema["additionalProperties"] is not False} if states_rest else set[bool]()
    return own.union(*(_unknown_kept(child) for _, child in children(schema)))
