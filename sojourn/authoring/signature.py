"""A function's parameters and result, and the fields that a call leaves out.

So that a hidden value is not recorded, a typed call has no injected field. The setter validates a value at
once, when its author gets the error, and no message repeats the value.
"""

import dataclasses
import functools
import inspect
import typing
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from types import UnionType
from typing import Any, cast

from pydantic import BaseModel, PydanticUserError, SecretBytes, SecretStr, create_model
from pydantic.fields import FieldInfo

from sojourn.authoring.shape import Shape, as_payload, odd_field, odd_type
from sojourn.contracts.memory import WithMemory
from sojourn.contracts.taint import FromOutside
from sojourn.contracts.tool_call import ToolCallMeta
from sojourn.contracts.tool_result import ToolResult, WithArtifacts
from sojourn.core.schema.validate import Validator
from sojourn.errors import DefinitionError
from sojourn.values.json_value import Schema, resolve
from sojourn.values.text import with_article

__all__ = ["Injected", "Signature", "is_model"]


class Signature:
    """A function's parameters as a payload, and its result's type."""

    def __init__(self, function: Callable[..., Any], place: str, *, method: bool = False) -> None:
        self.function = function
        self.place = place
        self.is_async = inspect.iscoroutinefunction(function)
        hints = _hints_of(function, place)
        self._found = _read_annotations(function, hints, place, method=method)
        self.meta_parameter = next((name for name, (hint, _) in self._found.items() if _is_meta(hint)), None)
        rest = [name for name in self._found if name != self.meta_parameter]
        self.model_parameter = rest[0] if len(rest) == 1 and is_model(self._found[rest[0]][0]) else None
        self.payload_type: Any = self._found[self.model_parameter][0] if self.model_parameter else None
        """The type of the single model parameter; None with plain parameters."""
        self.result: Any = _value_type(hints.get("return", Any))

    @functools.cached_property
    def payload(self) -> Shape:
        if self.model_parameter:
            return Shape(self.payload_type, place=self.place)
        fields: dict[str, Any] = {}
        for name, (hint, parameter) in self._found.items():
            if name != self.meta_parameter:
                default = ... if parameter.default is parameter.empty else parameter.default
                fields[name] = (hint, cast("FieldInfo | Any", default))
        model = _model_of(getattr(self.function, "__name__", "payload"), fields, self.place)
        try:
            return Shape(model, place=self.place)
        except DefinitionError as error:
            _refuse_odd(fields, self.place, error)
            raise

    def arguments(self, decoded: Any, meta: ToolCallMeta) -> dict[str, Any]:
        """Return a decoded payload as keyword arguments, with the meta if it has one."""
        if self.model_parameter:
            arguments: dict[str, Any] = {self.model_parameter: decoded}
        elif isinstance(decoded, Mapping):
            arguments = dict(cast("Mapping[str, Any]", decoded))
        else:
            model: BaseModel = decoded
            arguments = {name: getattr(model, name) for name in type(model).model_fields}
        if self.meta_parameter:
            arguments[self.meta_parameter] = meta
        return arguments


def is_model(annotation: Any) -> bool:
    """Check for a pydantic model, a dataclass or a TypedDict, a payload by itself."""
    bare: Any = typing.get_origin(annotation) or annotation
    if not isinstance(bare, type):
        return False
    kind = cast("type[Any]", bare)
    return issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind) or _is_typed_dict(kind)


def _is_typed_dict(kind: type[Any]) -> bool:
    """Check for a TypedDict, from typing_extensions too (pydantic before 3.12)."""
    return typing.is_typeddict(kind) or type(kind).__name__ == "_TypedDictMeta"


def _is_meta(annotation: Any) -> bool:
    return annotation is ToolCallMeta or ToolCallMeta in typing.get_args(annotation)


_WRAPPERS = (WithArtifacts, WithMemory, FromOutside)


def _value_type(annotation: Any) -> Any:
    """Return the type inside the wrappers of a result, and inside `| ToolResult`."""
    if typing.get_origin(annotation) in (typing.Union, UnionType):
        parts = [part for part in typing.get_args(annotation) if part is not ToolResult]
        rest = tuple(dict.fromkeys(map(_without_mark, parts)))
        return _value_type(rest[0]) if len(rest) == 1 else typing.Union[rest]  # noqa: UP007 - of a tuple
    if annotation in (ToolResult, *_WRAPPERS):
        return Any
    if typing.get_origin(annotation) in _WRAPPERS:
        return _value_type(typing.get_args(annotation)[0])
    return annotation


def _without_mark(annotation: Any) -> Any:
    """Return the type inside `FromOutside`, which one of several return values may be."""
    is_marked = typing.get_origin(annotation) is FromOutside
    return typing.get_args(annotation)[0] if is_marked else annotation


def _hints_of(function: Callable[..., Any], place: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise DefinitionError(
            f"{place}: an annotation cannot be read ({error}); define its types at module level, "
            "not under TYPE_CHECKING"
        ) from error


def _read_annotations(
    function: Callable[..., Any], hints: dict[str, Any], place: str, *, method: bool
) -> dict[str, tuple[Any, inspect.Parameter]]:
    found: dict[str, tuple[Any, inspect.Parameter]] = {}
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters[1:] if method else parameters:
        if fault := _fault(parameter, hints):
            raise DefinitionError(f"{place}: {fault}")
        found[parameter.name] = (hints[parameter.name], parameter)
    if sum(_is_meta(hint) for hint, _ in found.values()) > 1:
        raise DefinitionError(f"{place}: only one parameter can be a ToolCallMeta; two are")
    return found


def _fault(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> str | None:
    name = parameter.name
    match parameter.kind:
        case parameter.VAR_POSITIONAL:
            return f"parameter *{name} takes values without names; write one parameter with a list, such as {name}: list[str]"
        case parameter.VAR_KEYWORD:
            return f"parameter **{name} takes any names; write one parameter for each field, or {name}: dict[str, str]"
        case parameter.POSITIONAL_ONLY:
            return f"parameter {name!r} cannot be passed by name; leave out the / after it"
        case _ if name not in hints:
            return f"parameter {name!r} has no type annotation; write one, such as {name}: str"
        case _:
            return None


def _refuse_odd(fields: dict[str, Any], place: str, error: Exception) -> None:
    if odd := odd_field({field: hint for field, (hint, _) in fields.items()}):
        raise DefinitionError(f"{place}: {odd_type(fields[odd][0], parameter=odd)}") from error


def _model_of(name: str, fields: dict[str, Any], place: str) -> type[BaseModel]:
    if private := next((field for field in fields if field.startswith("_")), None):
        raise DefinitionError(f"{place}: parameter {private!r} starts with '_'; give it another name")
    if "model_config" in fields:
        raise DefinitionError(
            f"{place}: the name of parameter 'model_config' is pydantic's; give it another name"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a parameter may well be called `json`, `schema` or `copy`
            return create_model("".join(part.title() for part in name.split("_")), **fields)
    except (TypeError, ValueError, PydanticUserError) as error:
        _refuse_odd(fields, place, error)
        first = str(error).split("\n", 1)[0]
        raise DefinitionError(f"{place}: its parameters cannot be a payload ({first})") from error


class Injected:
    def __init__(self, place: str, names: Collection[str], schema: Schema) -> None:
        self._place = place
        self._names = names
        self._schema = schema

    def remove_from(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return the payload without injected fields. Each other field must be declared."""
        if not self._names:
            return payload
        sent = {name: value for name, value in payload.items() if name not in self._names}
        if self._top.get("additionalProperties") is False:
            for name in sent:
                if name not in self._properties:
                    known = ", ".join(each for each in self._properties if each not in self._names) or "none"
                    raise TypeError(f"{self._place} has no field {name!r}; its fields are {known}")
        return sent

    def fill(self, values: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, value in values.items():
            if name not in self._names:
                known = ", ".join(self._names) or "none"
                raise TypeError(
                    f"{self._place} has no injected field {name!r}; its injected fields are {known}"
                )
            shown = value.get_secret_value() if isinstance(value, (SecretStr, SecretBytes)) else value
            try:
                made |= as_payload((), {name: shown})
            except ValueError as error:
                raise TypeError(
                    f"{self._place}: {name}: a value of type {type(value).__name__} does not fit"
                ) from error
        return made

    def check(self, filled: Mapping[str, Any]) -> None:
        """Refuse a value that does not fit, without repeating it."""
        for name, value in filled.items():
            faults = self._validators[name].issues({name: value})
            if faults:
                where = ".".join(faults[0].field.split("/")[1:])
                wanted = faults[0].expected_type
                why = f"{faults[0].constraint}" + (f", it must be {with_article(wanted)}" if wanted else "")
                raise TypeError(f"{self._place}: the value of {where} does not fit ({why})")

    @cached_property
    def _top(self) -> Schema:
        found = resolve(self._schema, self._schema.get("$ref", "")) if "$ref" in self._schema else None
        return found if isinstance(found, dict) else self._schema

    @property
    def _properties(self) -> dict[str, Any]:
        return self._top.get("properties", {})

    @cached_property
    def _validators(self) -> dict[str, Validator]:
        rest = {word: value for word, value in self._schema.items() if word == "$defs"}
        return {
            name: Validator({**rest, "type": "object", "properties": {name: self._properties[name]}})
            for name in self._names
        }
