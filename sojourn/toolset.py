"""Toolset and Tool: functions under the tool contract.

A tool is declared where its function is; its schema, decoder and encoder are made then, so
that whatever is wrong with the declaration is a `DefinitionError` at import.
"""

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from pydantic import BaseModel, create_model
from pydantic.fields import FieldInfo

from sojourn.contracts.ids import TOOL_NAME, TOOLSET_ID, ToolId
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import Annotations, Retry, ToolSpec
from sojourn.core.validate import Validator
from sojourn.errors import DefinitionError
from sojourn.shape import Shape, as_payload

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
        payload = _payload_shape(function, place, examples[0] if examples else None)
        hints = typing.get_type_hints(function, include_extras=True)
        result = Shape(hints.get("return", Any), place=f"{place} -> result", output=True)
        if bounded and "returned" not in result.spec.json_schema.get("properties", {}):
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
            faults = tool.validator.issues(example)
            if faults:
                raise DefinitionError(
                    f"{place}: the example {example!r} does not validate: {faults[0].field or 'payload'} "
                    f"{faults[0].constraint}"
                )
        self.tools[name] = tool
        return tool


def _first_paragraph(function: Callable[..., Any]) -> str:
    return " ".join((inspect.getdoc(function) or "").split("\n\n", 1)[0].split())


def _is_model(annotation: Any) -> bool:
    bare: Any = typing.get_origin(annotation) or annotation
    if not isinstance(bare, type):
        return False
    kind = cast("type[Any]", bare)
    return issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)


def _annotated(function: Callable[..., Any], place: str) -> dict[str, tuple[Any, inspect.Parameter]]:
    hints = typing.get_type_hints(function, include_extras=True)
    found: dict[str, tuple[Any, inspect.Parameter]] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise DefinitionError(f"{place}: parameter {parameter.name!r} cannot be passed by name")
        if parameter.name not in hints:
            raise DefinitionError(f"{place}: parameter {parameter.name!r} has no type annotation")
        found[parameter.name] = (hints[parameter.name], parameter)
    return found


def _parameters(function: Callable[..., Any]) -> tuple[str | None, str | None]:
    """The names of the parameters that take the meta and, when there is one, the whole payload."""
    found = _annotated(function, function.__name__)
    meta = next((name for name, (hint, _) in found.items() if hint is ToolCallMeta), None)
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
        if hint is not ToolCallMeta:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (hint, cast("FieldInfo | Any", default))
    model = create_model("".join(part.title() for part in function.__name__.split("_")), **fields)
    return Shape(model, place=place, example=example)
