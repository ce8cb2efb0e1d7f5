"""A named set of tools that one service owns, declared next to their code.

Schemas, decoders and encoders are made at the declaration, so that an error in it is a `DefinitionError` at
import.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from sojourn.authoring.options import (
    FLAG,
    TEXT,
    approver_fields,
    check_in,
    declares,
    show_value,
    takes_options,
)
from sojourn.authoring.shape import Shape, check_example
from sojourn.authoring.signature import Signature
from sojourn.authoring.sources import (
    DeclaredSource,
    FunctionSource,
    MethodSource,
    NamedMethodSource,
    OutsideSource,
)
from sojourn.authoring.tool import Source, Tool
from sojourn.authoring.tool_options import (
    OPTIONS,
    Inject,
    OpenOptions,
    ToolOptions,
    artifact_types,
    check_options,
    check_templates,
    fillers_of,
    read_options,
)
from sojourn.contracts.ids import TOOL_NAME, TOOLSET_ID, ToolId, task_queue_fault
from sojourn.contracts.record import declare_at
from sojourn.contracts.tool_call import ToolCallMeta
from sojourn.contracts.tool_spec import Annotations, Retry, ToolSpec, TypeSpec
from sojourn.core.payload.masking import advertised_schema
from sojourn.core.schema.enforceable import field_descriptions
from sojourn.errors import DefinitionError
from sojourn.values.text import count_noun

__all__ = ["Tool", "ToolOptions", "Toolset"]

P = ParamSpec("P")
A = TypeVar("A")
R = TypeVar("R")
S = TypeVar("S")


class _Declare(Protocol):
    @overload
    def __call__(self, function: Callable[[A, ToolCallMeta], R], /) -> Tool[[A], R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[ToolCallMeta, P], R], /) -> Tool[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...


class _DeclareInjected(Protocol):
    """The decorator `@toolset.tool(inject=...)`, whose call no type checker infers."""

    def __call__(self, function: Callable[..., R], /) -> Tool[..., R]: ...


def _tool(given: Mapping[str, Any]) -> str:
    target = given.get("target", given.get("name"))
    name = given.get("name") or getattr(target, "__name__", None) or target
    return f"tool {given['self'].id}.{name}" if isinstance(name, str) else f"toolset {given['self'].id}"


@declares("toolset", description=TEXT, task_queue=TEXT, external=FLAG)
class Toolset:
    """A named set of tools that one service owns (SR-1 to SR-3).

    Args:
        id: `<service>.<toolset>`.
        description: For catalogues.
        task_queue: The task queue of its tools; by default the run's own.
        external: Whether a program outside the run executes its tools, all of them declared, and sends the results.

    Raises:
        DefinitionError: The id has another form.
    """

    def __init__(
        self, id: str, *, description: str = "", task_queue: str | None = None, external: bool = False
    ) -> None:
        if not isinstance(id, str) or not TOOLSET_ID.match(id):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
            raise DefinitionError(f"toolset {id!r}: the id must have the form <service>.<toolset>")
        self.id = id
        self.description = description
        if task_queue is not None and (fault := task_queue_fault(task_queue)):
            raise DefinitionError(f"toolset {id}: {fault}")
        self.task_queue = task_queue
        self.external = external
        self.tools: dict[str, Tool[..., Any]] = {}

    def __repr__(self) -> str:
        return f"<Toolset {self.id}: {count_noun(len(self.tools), 'tool')}>"

    @overload
    def tool(self, function: Callable[[A, ToolCallMeta], R], /) -> Tool[[A], R]: ...
    @overload
    def tool(self, function: Callable[Concatenate[ToolCallMeta, P], R], /) -> Tool[P, R]: ...
    @overload
    def tool(self, function: Callable[P, R], /) -> Tool[P, R]: ...
    @overload
    def tool(self, /, **options: Unpack[OpenOptions]) -> _Declare: ...
    @overload
    def tool(self, /, *, inject: Inject, **options: Unpack[OpenOptions]) -> _DeclareInjected: ...
    def tool(self, function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
        """Declare a function, sync or async, as a tool of this set.

        Its parameters are the payload: one model (pydantic, dataclass or TypedDict), or plain annotated
        parameters. A parameter annotated `ToolCallMeta` receives the call's run, turn and ids. Put it after
        a model, but before plain parameters, so that type checkers know what `.call(...)` takes.

        Args:
            function: The function, when used without arguments.
            **options: See `ToolOptions`.

        Raises:
            DefinitionError: The name is already in use, a parameter has no annotation or no schema, an example is invalid,
                or an injected field is not a parameter.
        """
        if function is None:
            return functools.partial(self._function, options)
        return self._function(options, function)

    def _function(self, options: ToolOptions, function: Callable[..., Any]) -> Tool[..., Any]:
        if not callable(function) or isinstance(function, type):  # pyright: ignore[reportUnnecessaryComparison] - a caller's mistake
            raise DefinitionError(
                f"toolset {self.id}: @tool takes a function, not {show_value(function)}; options have a name, as in @tool(name=...)"
            )
        name = options.get("name") or getattr(function, "__name__", None)
        place = f"tool {self.id}.{name}"
        options = read_options(place, options)
        if not isinstance(name, str):
            raise DefinitionError(f"toolset {self.id}: a function without a name needs @tool(name=...)")
        signature = Signature(function, place)
        result = Shape(signature.result, place=f"{place} -> result", output=True)
        return self._add(
            name,
            options,
            payload=signature.payload,
            result=result,
            source=FunctionSource(signature),
            function=function,
        )

    @overload
    def bind(
        self, method: Callable[[S, A, ToolCallMeta], R], /, **options: Unpack[OpenOptions]
    ) -> Tool[[A], R]: ...
    @overload
    def bind(
        self, method: Callable[Concatenate[S, ToolCallMeta, P], R], /, **options: Unpack[OpenOptions]
    ) -> Tool[P, R]: ...
    @overload
    def bind(
        self, method: Callable[Concatenate[S, P], R], /, **options: Unpack[OpenOptions]
    ) -> Tool[P, R]: ...
    @overload
    def bind(
        self, method: Callable[..., R], /, *, inject: Inject, **options: Unpack[OpenOptions]
    ) -> Tool[..., R]: ...
    @overload
    def bind(
        self,
        target: Callable[..., Any] | str,
        /,
        *,
        args: type[A],
        result: type[R],
        method: str | None = None,
        service: str | None = None,
        to_method: Callable[[A], Any] | None = None,
        to_result: Callable[[Any], R] | None = None,
        **options: Unpack[OpenOptions],
    ) -> Tool[[A], R, A]: ...
    @overload
    def bind(
        self,
        target: Callable[..., Any] | str,
        /,
        *,
        inject: Inject,
        args: type[A],
        result: type[R],
        method: str | None = None,
        service: str | None = None,
        to_method: Callable[[A], Any] | None = None,
        to_result: Callable[[Any], R] | None = None,
        **options: Unpack[OpenOptions],
    ) -> Tool[..., R, A]: ...
    @overload
    def bind(
        self,
        method: Callable[..., R],
        /,
        *,
        args: type[A],
        to_method: Callable[[A], Any] | None = None,
        **options: Unpack[OpenOptions],
    ) -> Tool[[A], R, A]: ...
    @overload
    def bind(
        self,
        method: Callable[Concatenate[S, P], Any],
        /,
        *,
        result: type[R],
        to_result: Callable[[Any], R] | None = None,
        **options: Unpack[OpenOptions],
    ) -> Tool[P, R]: ...
    @takes_options(_tool, more=OPTIONS)
    def bind(
        self,
        target: Any,
        /,
        *,
        args: Any = None,
        result: Any = None,
        method: str | None = None,
        service: str | None = None,
        to_method: Callable[[Any], Any] | None = None,
        to_result: Callable[[Any], Any] | None = None,
        **options: Unpack[ToolOptions],
    ) -> Tool[..., Any]:
        """Bind a tool to a service method (SR-16, SR-17, SR-32, SR-80).

        The service is in `App(services=[...])`. Either `bind(SiteService.list_sites)`, with name and types
        from the method, or `bind("search", service="SearchService", method="search", args=Search,
        result=Hits)`. If the tool's types differ from the method's, fields are converted by name when every
        value fits; else `to_method` and `to_result` convert.

        Args:
            target: The method of the class, or the tool's name.
            args: The payload's type, if it differs from the method's.
            result: The result's type, if it differs from the method's.
            method: The method's name, for binding by names.
            service: The service's name; by default the toolset's own service.
            to_method: Converts the typed arguments to the method's one argument, or to its keyword arguments.
            to_result: Converts the method's return value to the tool's result.
            **options: See `ToolOptions`.

        Raises:
            DefinitionError: Here for an invalid declaration; at `App(...)` for a missing service or method, and for types
                that do not fit, with the fields.
        """
        if isinstance(target, str):
            return self._bind_by_name(target, service, method, args, result, to_method, to_result, options)
        if not inspect.isfunction(target):
            raise DefinitionError(
                f"toolset {self.id}: bind takes a method of a class (Service.method), or a name; {show_value(target)} is neither"
            )
        place = f"tool {self.id}.{options.get('name') or target.__name__}"
        options = read_options(place, options)
        name = options.get("name") or target.__name__
        signature = Signature(target, place, method=True)
        result_type = signature.result if result is None else result
        return self._add(
            name,
            options,
            payload=signature.payload if args is None else Shape(args, place=place),
            result=Shape(result_type, place=f"{place} -> result", output=True),
            source=MethodSource(signature, to_method=to_method, to_result=to_result),
            function=target,
        )

    def _bind_by_name(
        self,
        name: str,
        service: str | None,
        method: str | None,
        args: Any,
        result: Any,
        to_method: Callable[[Any], Any] | None,
        to_result: Callable[[Any], Any] | None,
        options: ToolOptions,
    ) -> Tool[..., Any]:
        place = f"tool {self.id}.{name}"
        options = read_options(place, options)
        if "name" in options:
            raise DefinitionError(f"{place}: its name is given twice; leave out name={options['name']!r}")
        if args is None or result is None:
            raise DefinitionError(
                f"{place}: binding by name needs args= and result=, since the method is not known yet; "
                "or bind the method itself: bind(Service.method)"
            )
        return self._add(
            name,
            options,
            payload=Shape(args, place=place),
            result=Shape(result, place=f"{place} -> result", output=True),
            source=NamedMethodSource(service, method or name, to_method=to_method, to_result=to_result),
        )

    @overload
    def declare(
        self,
        name: str,
        /,
        *,
        args: type[A],
        result: type[R],
        decode_in_executor: bool = False,
        **options: Unpack[OpenOptions],
    ) -> Tool[[A], R, A]: ...
    @overload
    def declare(
        self,
        name: str,
        /,
        *,
        inject: Inject,
        args: type[A],
        result: type[R],
        decode_in_executor: bool = False,
        **options: Unpack[OpenOptions],
    ) -> Tool[..., R, A]: ...
    @takes_options(_tool, more=[each for each in OPTIONS if each != "name"], decode_in_executor=FLAG)
    def declare(
        self,
        name: str,
        /,
        *,
        args: type[A],
        result: type[R],
        decode_in_executor: bool = False,
        **options: Unpack[ToolOptions],
    ) -> Tool[..., R, A]:
        """Declare a tool that an executor of the app executes (SR-18 to SR-20).

        The app has it in `App(executors={toolset: ...})`. In an external toolset a program outside the run
        executes the tool, and `timeout` is how long the run waits for the result.

        Args:
            name: The last part of the id.
            args: The payload's type.
            result: The result's type.
            decode_in_executor: Whether the executor gets the arguments unchanged, neither parsed nor validated (SR-13,
                SR-14).
            **options: See `ToolOptions`.

        Raises:
            DefinitionError: The name is already in use, a type has no schema, or an example is invalid.
        """
        place = f"tool {self.id}.{name}"
        return self._add(
            name,
            read_options(place, options),
            payload=Shape(args, place=place),
            result=Shape(result, place=f"{place} -> result", output=True),
            source=OutsideSource() if self.external else DeclaredSource(self.id),
            kind="external" if self.external else "executor",
            decode_in_executor=decode_in_executor,
        )

    def _add(
        self,
        name: str,
        options: ToolOptions,
        *,
        payload: Shape,
        result: Shape,
        source: Source,
        function: Callable[..., Any] | None = None,
        **more: Any,
    ) -> Tool[..., Any]:
        place = f"tool {self.id}.{name}"
        if not isinstance(name, str) or not TOOL_NAME.match(name):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller's mistake
            raise DefinitionError(
                f"{place}: a tool's name has 1 to 100 letters, digits, '_', '-', '.', '/', and begins with a letter, a digit or '_'"
            )
        if self.external and more.get("kind") != "external":
            raise DefinitionError(
                f"{place}: toolset {self.id} is external, so its tools have no code here; use declare(...)"
            )
        if name in self.tools:
            raise DefinitionError(f"{place} is declared twice; give one of them another name=")
        fillers = fillers_of(options.get("inject", ()))
        artifacts = {
            kind: Shape(shape, place=f"{place} -> artifact {kind}", output=True)
            for kind, shape in artifact_types(options.get("artifacts", {}), place).items()
        }
        examples = options.get("examples", ())
        with declare_at(place):
            spec = ToolSpec(
                id=ToolId(f"{self.id}.{name}"),
                title=options.get("title") or name.replace("_", " ").capitalize(),
                description=options.get("description") or _first_paragraph(function),
                tags=list(options.get("tags", ())),
                payload=_advertise(payload, fillers, place, examples[0] if examples else None),
                result=result.spec,
                artifacts={kind: shape.spec for kind, shape in artifacts.items()},
                injected=list(fillers),
                memory=options.get("memory", False),
                attachments=options.get("attachments", False) or payload.takes_attachments,
                bounded=options.get("bounded", False),
                annotations=Annotations(
                    read_only=options.get("read_only"),
                    destructive=options.get("destructive"),
                    idempotent=options.get("idempotent"),
                    open_world=options.get("open_world"),
                ),
                confirmation=options.get("confirmation"),
                **approver_fields(options.get("approvers"), four_eyes=options.get("four_eyes", False)),
                allows_edits=options.get("allows_edits", True),
                local=options.get("local", False),
                timeout=options.get("timeout"),
                retry=options.get("retry", Retry()),
                task_queue=self.task_queue,
                **more,
            )
        check_options(spec)
        check_templates(place, spec.payload.json_schema, confirmation=spec.confirmation)
        tool: Tool[..., Any] = Tool(
            spec,
            payload=payload,
            result=result,
            source=source,
            artifacts=artifacts,
            fillers=fillers,
            function=function,
            approver_check=check_in(options.get("approvers")),
        )
        for example in examples:
            check_example(place, example, tool.validator)
        self.tools[name] = tool
        return tool


def _advertise(payload: Shape, injected: Mapping[str, Any], place: str, example: Any) -> TypeSpec:
    try:
        shown = advertised_schema(payload.spec.json_schema, injected)
    except ValueError as error:
        raise DefinitionError(f"{place}: {error}") from error
    return TypeSpec(
        name=payload.spec.name,
        json_schema=shown,
        example=example,
        field_descriptions=field_descriptions(shown) if injected else payload.spec.field_descriptions,
    )


def _first_paragraph(function: Callable[..., Any] | None) -> str:
    return " ".join((inspect.getdoc(function) or "").split("\n\n", 1)[0].split()) if function else ""
