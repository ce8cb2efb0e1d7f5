"""Toolset and Tool: functions under the tool contract.

A tool is declared where its function is; its schema, decoder and encoder are made then, so
that whatever is wrong with the declaration is a `DefinitionError` at import.
"""

import dataclasses
import functools
import inspect
import typing
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from pydantic import BaseModel, PydanticUserError, create_model
from pydantic.fields import FieldInfo

from sojourn.contracts.ids import TOOL_NAME, TOOLSET_ID, ToolId
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import Annotations, Retry, ToolSpec
from sojourn.core.pointer import Schema, expand
from sojourn.core.validate import Validator
from sojourn.errors import DefinitionError
from sojourn.shape import Shape, as_payload, check_example

__all__ = ["Tool", "Toolset"]

P = ParamSpec("P")
R = TypeVar("R")


class Tool(Generic[P, R]):
    """One tool: its spec, and the function behind it; still callable as that function (SR-83 to SR-85)."""

    def __init__(self, spec: ToolSpec, function: Callable[P, R], payload: Shape, result: Shape) -> None:
        self.spec = spec
        self.function = function
        self.payload = payload
        self.result = result
        self.is_async = inspect.iscoroutinefunction(function)
        self.meta_parameter, self.model_parameter = _parameters(function)
        functools.update_wrapper(self, function)

    @property
    def id(self) -> ToolId:
        """`<service>.<toolset>.<tool>`."""
        return self.spec.id

    @functools.cached_property
    def validator(self) -> Validator:
        """Checks a payload against the schema."""
        return Validator(self.spec.payload.json_schema)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the plain function."""
        return self.function(*args, **kwargs)

    def call(self, *args: Any, **fields: Any) -> ToolRequest:
        """A request to this tool: a model argument as the model, plain parameters by keyword."""
        return ToolRequest(name=self.id, payload=as_payload(args, fields))

    def result_of(self, result: ToolResult) -> Any:
        """The typed value of a successful result of this tool.

        Raises:
            ValueError: it is another tool's, or a failure.
        """
        if result.name != self.id or result.error:
            raise ValueError(f"{result.name} ({result.error or 'a success'}) holds no result of {self.id}")
        return self.result.decode(result.result)

    def arguments(self, payload: dict[str, Any], meta: ToolCallMeta) -> dict[str, Any]:
        """A valid payload as the function's keyword arguments.

        Raises:
            pydantic.ValidationError: a model's own validators refuse it.
        """
        decoded = self.payload.decode(payload)
        if self.model_parameter:
            arguments: dict[str, Any] = {self.model_parameter: decoded}
        else:
            model: BaseModel = decoded
            arguments = {name: getattr(model, name) for name in type(model).model_fields}
        if self.meta_parameter:
            arguments[self.meta_parameter] = meta
        return arguments

    def __repr__(self) -> str:
        """Its id."""
        return f"<Tool {self.id}>"


class Toolset:
    """A named set of tools that one service owns (SR-1 to SR-3).

    Args:
        id: `<service>.<toolset>`.
        description: For catalogues.
        task_queue: Where its tools run; the run's own queue when left out.

    Raises:
        DefinitionError: the id has another form.
    """

    def __init__(self, id: str, *, description: str = "", task_queue: str | None = None) -> None:
        if not TOOLSET_ID.match(id):
            raise DefinitionError(f"toolset {id!r}: an id has the form <service>.<toolset>")
        self.id = id
        self.description = description
        self.task_queue = task_queue
        self.tools: dict[str, Tool[..., Any]] = {}

    @overload
    def tool(self, function: Callable[P, R], /) -> Tool[P, R]: ...

    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        tags: Sequence[str] = (),
        bounded: bool = False,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        examples: Sequence[dict[str, Any]] = (),
    ) -> Callable[[Callable[P, R]], Tool[P, R]]: ...

    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Declare a function, sync or async, as a tool of this set.

        Its parameters are the payload: one model (pydantic, dataclass or TypedDict), or plain
        annotated parameters. A parameter annotated `ToolCallMeta` receives whose call it is.

        Args:
            function: The function, when used without arguments.
            **options: `name` (the function's), `title`, `description` (the docstring's first
                paragraph), `tags`, `bounded`, the annotations `read_only`, `destructive`,
                `idempotent`, `open_world`, `timeout`, `retry`, `examples` (payloads that validate).

        Raises:
            DefinitionError: the name is taken, a parameter has no annotation or no schema, an
                example does not validate.
        """
        if function is None:
            return functools.partial(self._declare, **options)
        return self._declare(function)

    def _declare(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        tags: Sequence[str] = (),
        bounded: bool = False,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        timeout: timedelta | None = None,
        retry: Retry | None = None,
        examples: Sequence[dict[str, Any]] = (),
    ) -> Tool[..., Any]:
        name = name or function.__name__
        place = f"{self.id}.{name}"
        if not TOOL_NAME.match(name):
            raise DefinitionError(f"{place}: a tool's name is letters, digits, '_', '-', '.', '/'")
        if name in self.tools:
            raise DefinitionError(f"{place} is declared twice; give one of them another name=")
        if timeout is not None and timeout <= timedelta(0):
            raise DefinitionError(f"{place}: timeout is longer than zero, not {timeout}")
        payload = _payload_shape(function, place, examples[0] if examples else None)
        hints = _hints_of(function, place)
        result = Shape(hints.get("return", Any), place=f"{place} -> result", output=True)
        if bounded and not _has_field(result.spec.json_schema, "returned"):
            raise DefinitionError(f"{place}: a bounded tool's result has a field `returned` (SR-32)")
        spec = ToolSpec(
            id=ToolId(place),
            title=title or name.replace("_", " ").capitalize(),
            description=description or _first_paragraph(function),
            tags=list(tags),
            payload=payload.spec,
            result=result.spec,
            bounded=bounded,
            annotations=Annotations(
                read_only=read_only, destructive=destructive, idempotent=idempotent, open_world=open_world
            ),
            timeout=timeout,
            retry=retry or Retry(),
            task_queue=self.task_queue,
        )
        tool = Tool(spec, function, payload, result)
        for example in examples:
            check_example(place, example, tool.validator)
        self.tools[name] = tool
        return tool


def _first_paragraph(function: Callable[..., Any]) -> str:
    return " ".join((inspect.getdoc(function) or "").split("\n\n", 1)[0].split())


def _is_model(annotation: Any) -> bool:
    bare: Any = typing.get_origin(annotation) or annotation
    if not isinstance(bare, type):
        return False
    kind = cast("type[Any]", bare)
    return issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind) or _is_typed_dict(kind)


def _is_typed_dict(kind: type[Any]) -> bool:
    """Whether it is a TypedDict, of typing_extensions too, which pydantic asks for before Python 3.12."""
    return typing.is_typeddict(kind) or type(kind).__name__ == "_TypedDictMeta"


def _is_meta(annotation: Any) -> bool:
    """Whether a parameter takes the meta, `Annotated` and optional ones included."""
    return annotation is ToolCallMeta or ToolCallMeta in typing.get_args(annotation)


def _has_field(schema: Schema, name: str) -> bool:
    return any(name in part.get("properties", {}) for part in expand(schema, schema))


def _hints_of(function: Callable[..., Any], place: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise DefinitionError(
            f"{place}: an annotation cannot be read ({error}); define its types at module level, "
            "not under TYPE_CHECKING"
        ) from error


def _annotated(function: Callable[..., Any], place: str) -> dict[str, tuple[Any, inspect.Parameter]]:
    hints = _hints_of(function, place)
    found: dict[str, tuple[Any, inspect.Parameter]] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise DefinitionError(f"{place}: parameter {parameter.name!r} cannot be passed by name")
        if parameter.name not in hints:
            raise DefinitionError(f"{place}: parameter {parameter.name!r} has no type annotation")
        found[parameter.name] = (hints[parameter.name], parameter)
    if sum(_is_meta(hint) for hint, _ in found.values()) > 1:
        raise DefinitionError(f"{place}: one parameter takes the ToolCallMeta; two are declared")
    return found


def _parameters(function: Callable[..., Any]) -> tuple[str | None, str | None]:
    """The names of the parameters that take the meta and, when there is one, the whole payload."""
    found = _annotated(function, function.__name__)
    meta = next((name for name, (hint, _) in found.items() if _is_meta(hint)), None)
    rest = [name for name in found if name != meta]
    whole = rest[0] if len(rest) == 1 and _is_model(found[rest[0]][0]) else None
    return meta, whole


def _payload_shape(function: Callable[..., Any], place: str, example: Any) -> Shape:
    found = _annotated(function, place)
    _, whole = _parameters(function)
    if whole:
        return Shape(found[whole][0], place=place, example=example)
    fields: dict[str, Any] = {}
    for name, (hint, parameter) in found.items():
        if not _is_meta(hint):
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (hint, cast("FieldInfo | Any", default))
    return Shape(_model_of(function.__name__, fields, place), place=place, example=example)


def _model_of(name: str, fields: dict[str, Any], place: str) -> type[BaseModel]:
    if private := next((field for field in fields if field.startswith("_")), None):
        raise DefinitionError(f"{place}: parameter {private!r} starts with '_'; give it another name")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a parameter may well be called `json`, `schema` or `copy`
            return create_model("".join(part.title() for part in name.split("_")), **fields)
    except (TypeError, ValueError, PydanticUserError) as error:
        first = str(error).split("\n", 1)[0]
        raise DefinitionError(f"{place}: its parameters make no payload ({first})") from error
