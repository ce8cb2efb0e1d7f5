"""A Python type as JSON Schema, with its decoder and encoder, and conversions.

If every value of one shape can be read as another, by the names of fields in JSON, no mapper is needed. The
schemas decide that when the tool is declared, so that only a value (a bound, a pattern, a validator) can
fail in a run, never a name or a type.
"""

import re
import types
import typing
from collections.abc import Mapping
from typing import Any, Final, Generic, Literal, LiteralString, TypeVar, cast

from pydantic import BaseModel, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema, to_json, to_jsonable_python

from sojourn.contracts.attachment import ATTACHMENT_PATTERN
from sojourn.contracts.tool_spec import TypeSpec
from sojourn.core.payload.parse import find_changed_number, find_merged_name, has_maps
from sojourn.core.schema import enforceable
from sojourn.core.schema.compatibility import mismatches
from sojourn.core.schema.validate import Validator
from sojourn.errors import DefinitionError
from sojourn.values.json_value import Schema, children, expand
from sojourn.values.text import echo
from sojourn.values.wire import non_finite

__all__ = ["Shape", "Transform", "as_payload", "check_example", "odd_field", "odd_type", "type_name"]

_FITS = "use str, int, float, bool, list[...], dict[str, ...], an Enum, a dataclass, a TypedDict or a pydantic model"
_SAME_NAME: Final = "its name {name} is the same as another one of its names, so that one value would be lost"

_DIGITS: Final = "the digits of {name} would change: they are more than a float holds"


def _has_numbers(schema: Any) -> bool:
    if isinstance(schema, dict):
        part = cast("dict[str, Any]", schema)
        return part.get("type") == "number" or any(map(_has_numbers, part.values()))
    return isinstance(schema, list) and any(map(_has_numbers, cast("list[Any]", schema)))


class Shape:
    """The type of a payload or a result.

    It is a pydantic model, a dataclass, a TypedDict or any annotation. A payload's is an object.
    """

    def __init__(
        self, source: Any, *, name: str | None = None, place: str, output: bool = False, example: Any = None
    ) -> None:
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(source)
            made = self._adapter.json_schema(mode="serialization" if output else "validation")
            closed = made if output else enforceable.forbid_unknown_fields(made)
            enforceable.check(closed)
        except (PydanticUserError, PydanticSchemaGenerationError, PydanticInvalidForJsonSchema) as error:
            raise DefinitionError(f"{place}: {odd_type(source)}") from error
        except NameError as error:
            raise DefinitionError(
                f"{place}: the type {type_name(source)} names {error.name!r}, which is not defined at module level"
            ) from error
        except KeyError as error:  # pydantic's, for a schema of `WithJsonSchema`
            raise DefinitionError(
                f"{place}: the type {type_name(source)} has a schema with the reference {error}, which is not found; "
                "write the schema out, without references"
            ) from error
        except ValueError as error:
            raise DefinitionError(f"{place}: {error}") from error
        if not output and not any(part.get("type") == "object" for part in expand(closed, closed)):
            raise DefinitionError(
                f"{place}: a payload must be an object with named fields; {type_name(source)} is not; use a pydantic "
                "model, a dataclass or a TypedDict"
            )
        self.source = source
        self._may_merge = not output and has_maps(closed)
        self._has_numbers = not output and (self._may_merge or _has_numbers(closed))
        self._aliases = _aliases(source)
        self.takes_attachments = not output and ATTACHMENT_PATTERN in str(closed)
        self.spec = TypeSpec(
            name=name or _recorded_name(source),
            json_schema=closed,
            example=example,
            field_descriptions=enforceable.field_descriptions(closed),
        )

    def decode(self, value: Any) -> Any:
        """Decode a JSON value into a typed value.

        Raises:
            pydantic.ValidationError: The type's own validators refuse the value, two names in it would be one key, or the
                digits of a number would change.
        """
        try:
            made = self._adapter.validate_python(value)
        except ValidationError:
            # A strict type accepts the text of a date or an id only from JSON.
            made = self._adapter.validate_json(to_json(value))
        if self._may_merge and (merged := find_merged_name(value, made)) is not None:
            raise self._lossy("same_name", _SAME_NAME, *merged)
        if self._has_numbers and (number := find_changed_number(value, made)) is not None:
            raise self._lossy("digits", _DIGITS, *number)
        return made

    def _lossy(
        self, kind: LiteralString, message: LiteralString, place: tuple[str | int, ...], name: str
    ) -> ValidationError:
        why = PydanticCustomError(kind, message, {"name": echo(name)})
        return ValidationError.from_exception_data(
            type_name(self.source), [InitErrorDetails(type=why, loc=place, input=None)]
        )

    def takes(self, value: Any) -> bool:
        """Check whether the type decodes a value, with validators that no schema states."""
        try:
            self.decode(value)
        except Exception:  # noqa: BLE001 - a validator is the author's code
            return False
        return True

    def encode(self, value: Any) -> Any:
        """Encode a tool's return value as JSON, after validating it with the type.

        Raises:
            pydantic.ValidationError: The value is not of the type.
            ValueError: The value holds a number that JSON does not have.
        """
        checked = self._adapter.validate_python(value)
        if not isinstance(checked, (str, bool, int)) and (why := non_finite(checked)):
            raise ValueError(why)
        return self._adapter.dump_python(checked, mode="json", by_alias=True)

    def payload_of(self, args: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
        """Return the JSON payload of a typed call, by the schema's names, unvalidated."""
        return as_payload(args, {self._aliases.get(name, name): value for name, value in fields.items()})


def _recorded_name(source: Any) -> str:
    """Return the name of a type in a spec, also in Python 3.14 (`Union`)."""
    if typing.get_origin(source) in (typing.Union, types.UnionType):
        return " | ".join(_qualify(each) for each in typing.get_args(source))
    return getattr(source, "__name__", str(source))


def _qualify(part: Any) -> str:
    if part is types.NoneType:
        return "None"
    if not isinstance(part, type) or typing.get_args(part):
        return str(part)
    return part.__qualname__ if part.__module__ == "builtins" else f"{part.__module__}.{part.__qualname__}"


def type_name(source: Any) -> str:
    """Return a type as its author wrote it: `list[Device]`, `Device`."""
    if isinstance(source, type) and not typing.get_args(source):
        return source.__name__
    if isinstance(source, str) or not (typing.get_origin(source) or type(source).__module__ == "typing"):
        return repr(source)
    return re.sub(r"\b(?:\w+\.)+(?:<locals>\.)?(?=\w)", "", repr(source))


def odd_field(fields: Mapping[str, Any]) -> str | None:
    return next((name for name, hint in fields.items() if not _has_schema(hint)), None)


def odd_type(source: Any, *, parameter: str | None = None) -> str:
    """Return why a type, of a parameter or a field, has no JSON Schema."""
    try:
        fields = typing.get_type_hints(source, include_extras=True) if isinstance(source, type) else {}
    except (NameError, TypeError):
        fields = {}
    if name := odd_field(fields):
        return f"field {name!r} of {type_name(source)} has the type {type_name(fields[name])}, which has no JSON Schema; {_FITS}"
    if parameter:
        return f"parameter {parameter!r} has the type {type_name(source)}, which has no JSON Schema; {_FITS}"
    return f"the type {type_name(source)} has no JSON Schema; {_FITS}"


def _has_schema(hint: Any) -> bool:
    try:
        TypeAdapter(hint).json_schema()
    except (PydanticUserError, PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, TypeError):
        return False
    return True


def _aliases(source: Any) -> dict[str, str]:
    if not (isinstance(source, type) and issubclass(source, BaseModel)):
        return {}
    aliases = {name: field.validation_alias for name, field in source.model_fields.items()}
    return {name: alias for name, alias in aliases.items() if isinstance(alias, str)}


def check_example(place: str, example: Any, validator: Validator) -> None:
    """Check that an author's example is a valid payload (SR-144)."""
    if faults := validator.issues(example):
        field = faults[0].field or "payload"
        raise DefinitionError(
            f"{place}: the example {example!r} is not valid: {field} {faults[0].constraint}"
        )


def as_payload(args: tuple[Any, ...], fields: dict[str, Any]) -> dict[str, Any]:
    """Return the payload of a typed call, from a model or fields, unvalidated."""
    if args:
        (model,) = args
        if isinstance(model, BaseModel):
            return model.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return {**to_jsonable_python(model), **to_jsonable_python(fields)}
    return to_jsonable_python(fields)


A = TypeVar("A")
B = TypeVar("B")


class Transform(Generic[A, B]):
    """Converts values of one shape to another, by field (SR-60, SR-80 to SR-82).

    `bind` makes transforms itself. An executor makes its own, at import: `to_query = Transform(Ask,
    Query)`, and then calls `to_query(ask)`.

    Args:
        source: The shape of the written values: a tool's arguments, or a method's result.
        target: The shape that reads them: the method's payload, or the tool's result.
        place: The place of the declaration, for messages.
        lossless: Whether the target must take every field (arguments). Otherwise a field that the target does not declare is
            dropped at every level (a result).
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
        if self._is_same:
            return self.target.decode(value)
        # Read as JSON, since a strict target accepts the text of a date or an id only from JSON.
        return self._reader.validate_json(to_json(self.source.encode(value)), extra=self._extra)


def _shape(source: Any, place: str) -> Shape:
    return source if isinstance(source, Shape) else Shape(source, place=place, output=True)


class _WrittenSchema(GenerateJsonSchema):
    """The schema of what `Shape.encode` writes, whose `required` is exact."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Omit the default, which is written too, unless `exclude_if` leaves it out."""
        return self.generate_inner(schema["schema"])

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        """Check whether a field is always written, such as one with a factory."""
        always = field.get("required", total) if field["type"] == "typed-dict-field" else True
        return always and field.get("serialization_exclude_if") is None


def _unknown_kept(schema: Schema) -> set[bool]:
    """Return whether each object keeps undeclared fields."""
    states_rest = "properties" in schema and "additionalProperties" in schema
    own = {schema["additionalProperties"] is not False} if states_rest else set[bool]()
    return own.union(*(_unknown_kept(child) for _, child in children(schema)))
