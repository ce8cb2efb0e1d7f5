"""The sources of tools, which execute their calls, with services and interceptors."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, cast, runtime_checkable

from pydantic import ValidationError

from sojourn.authoring.runnable import Filler, Runnable
from sojourn.authoring.shape import Shape, Transform
from sojourn.authoring.signature import Signature
from sojourn.authoring.tool import MalformedResultError, Parts, Tool
from sojourn.contracts.memory import WithMemory
from sojourn.contracts.taint import FromOutside
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult, WithArtifacts
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload import boundary
from sojourn.core.payload.boundary import describe_misfit
from sojourn.core.payload.parse import same_arguments
from sojourn.core.schema.validate import Validator
from sojourn.errors import DefinitionError, ToolUnavailable

__all__ = [
    "BoundTool",
    "DeclaredSource",
    "Executor",
    "FunctionSource",
    "Interceptor",
    "MethodSource",
    "NamedMethodSource",
    "Services",
]


class Services:
    """The services of an app.

    A service is known by its class's name, by that name without `Service`, ignoring case (`SiteService` is
    `site` too), and by its name in a mapping.
    """

    def __init__(self, services: Iterable[Any] | Mapping[str, Any] = ()) -> None:
        named: list[tuple[str | None, Any]]
        if isinstance(services, Mapping):
            named = list(cast("Mapping[str, Any]", services).items())
        else:
            named = [(None, item) for item in services]
        self._services: list[Any] = [service for _, service in named]
        self._by_name: dict[str, Any] = {}
        for name, service in named:
            if isinstance(service, type):
                raise DefinitionError(
                    f"App(services=[...]) takes objects; {service.__name__} is a class, so write {service.__name__}()"
                )
            for key in {_plain(type(service).__name__), _plain(name or type(service).__name__)}:
                if self._by_name.setdefault(key, service) is not service:
                    raise DefinitionError(
                        f"two services in App(services=...) are called {key!r}; name them: services={{'{key}': ...}}"
                    )

    def with_method(self, method: Callable[..., Any], place: str) -> Any:
        """Return the one service whose class, or a base of it, has this method."""
        found = [service for service in self._services if _has(cast("type[Any]", type(service)), method)]
        if len(found) == 1:
            return found[0]
        owner = method.__qualname__.rsplit(".", 1)[0]
        which = "several of them have" if found else "none of them has"
        raise DefinitionError(
            f"{place} is bound to {method.__qualname__}; App(services=[{self._list_names()}]) must hold one {owner}, "
            f"and {which} this method"
        )

    def find(self, name: str, place: str) -> Any:
        service = self._by_name.get(_plain(name))
        if service is None:
            raise DefinitionError(
                f"{place} is bound to service {name!r}, which is not in App(services=[{self._list_names()}]); "
                "add it, or name the service: bind(..., service=...)"
            )
        return service

    def _list_names(self) -> str:
        return ", ".join(type(service).__name__ for service in self._services)


def _plain(name: str) -> str:
    folded = name.replace("_", "").lower()
    return folded.removesuffix("service") or folded


def _has(kind: type[Any], method: Callable[..., Any]) -> bool:
    return any(vars(base).get(method.__name__) is method for base in kind.__mro__)


@runtime_checkable
class Interceptor(Protocol):
    """Prepares the calls of an app (SR-44, SR-47, SR-48).

    A worker's call is intercepted when it is executed, on every attempt. A child run's or external call is
    intercepted when it is dispatched, so that its changed arguments are recorded.
    """

    async def intercept_tool_call(self, meta: ToolCallMeta, call: ToolRequest) -> ToolRequest:
        """Return the call to continue with.

        `tool.inject(call, field=value)` sets an injected field. An exception is answered like a failure of
        the tool. If the return value is not this call, that is logged, and the call is answered as
        unavailable.
        """
        ...


class BoundTool(ABC):
    """A `Runnable` with the shapes of its declaration."""

    def __init__(self, tool: Tool[..., Any], *, is_async: bool = True) -> None:
        self.tool = tool
        self.is_async = is_async

    @property
    def spec(self) -> ToolSpec:
        return self.tool.spec

    @property
    def fillers(self) -> Mapping[str, Filler | None]:
        return self.tool.fillers

    @property
    def validator(self) -> Validator:
        return self.tool.validator

    @property
    def whole_validator(self) -> Validator:
        return self.tool.whole_validator

    def takes(self, payload: dict[str, Any]) -> bool:
        return self.tool.takes(payload)

    def is_same(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        return same_arguments(self.validator, one, other) or self.tool.decodes_alike(one, other)

    def check(self, call: ToolRequest) -> dict[str, Any] | ToolResult:
        payload = boundary.check_payload(self.spec, self.validator, call, self.takes)
        if isinstance(payload, ToolResult) or self.fillers:
            return payload
        try:
            self.tool.payload.decode(payload)
        except ValidationError as error:
            issues = boundary.issues_of(error)
            return boundary.refuse_payload(self.spec, call, payload, issues, self.validator, self.takes)
        return payload

    def read(self, call: ToolRequest) -> ToolRequest | ToolResult:
        return boundary.read_call(self.spec, call, self.takes)

    @abstractmethod
    def prepare(
        self, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta
    ) -> Callable[[], Any]: ...

    def deliver(self, call: ToolRequest, value: Any) -> ToolResult:
        """Return the encoded result and artifacts, or why they cannot be encoded."""
        artifacts = {kind: shape.encode for kind, shape in self.tool.artifacts.items()}
        return boundary.build_result(self.spec, call, value, self.tool.result_shape.encode, artifacts)

    def accept(self, call: ToolRequest, value: Any) -> ToolResult:
        try:
            decoded = self.tool.result_shape.decode(value)
        except ValidationError as error:
            return boundary.malformed_result(self.spec, call, boundary.describe_misfit(error))
        return self.deliver(call, decoded)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.spec.id}>"


Mapper = Callable[[Any], Any]
_BY_HAND = "pass {}= to convert by hand"


@runtime_checkable
class Executor(Protocol):
    """Executes the calls of a toolset (SR-6, SR-20, SR-56, SR-68)."""

    async def execute(self, meta: ToolCallMeta, call: ToolRequest) -> ToolResult:
        """Answer one call, whose payload is valid. An exception becomes the call's error."""
        ...


class FunctionSource:
    def __init__(self, signature: Signature) -> None:
        self.signature = signature

    def bind(self, tool: Tool[..., Any], parts: Parts) -> Runnable:
        del parts
        return _BoundFunction(tool, self.signature)


class _BoundFunction(BoundTool):
    def __init__(self, tool: Tool[..., Any], signature: Signature) -> None:
        super().__init__(tool, is_async=signature.is_async)
        self._signature = signature

    def prepare(self, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> Callable[[], Any]:
        del call
        arguments = self._signature.arguments(self.tool.payload.decode(payload), meta)
        return functools.partial(self._signature.function, **arguments)


class MethodSource:
    """A method of a service's class: `toolset.bind(SiteService.list_sites)` (SR-17)."""

    def __init__(
        self,
        signature: Signature,
        *,
        to_method: Mapper | None = None,
        to_result: Mapper | None = None,
    ) -> None:
        self._signature = signature
        self._to_method = to_method
        self._to_result = to_result

    def bind(self, tool: Tool[..., Any], parts: Parts) -> Runnable:
        service = parts.service(self._signature.function, str(tool.id))
        bound = getattr(service, self._signature.function.__name__)
        return _bind_method(tool, self._signature, bound, self._to_method, self._to_result)


class NamedMethodSource:
    """A method by name, of a named service or of the toolset's own (SR-17, SR-32)."""

    def __init__(
        self,
        service: str | None,
        method: str,
        *,
        to_method: Mapper | None = None,
        to_result: Mapper | None = None,
    ) -> None:
        self._service = service
        self._method = method
        self._to_method = to_method
        self._to_result = to_result

    def bind(self, tool: Tool[..., Any], parts: Parts) -> Runnable:
        place = str(tool.id)
        service = parts.service(self._service or tool.id.service, place)
        bound = getattr(service, self._method, None)
        if not callable(bound):
            known = [n for n in dir(service) if not n.startswith("_") and callable(getattr(service, n))]
            raise DefinitionError(
                f"{place}: {type(service).__name__} has no method {self._method!r}; it has {', '.join(known) or 'none'}"
            )
        return _bind_method(tool, Signature(bound, place), bound, self._to_method, self._to_result)


def _bind_method(
    tool: Tool[..., Any],
    signature: Signature,
    bound: Callable[..., Any],
    to_method: Mapper | None,
    to_result: Mapper | None,
) -> Runnable:
    place = str(tool.id)
    own = tool.payload is signature.payload or tool.payload.source == signature.payload_type
    if to_method is None and not own:
        to_arguments: Mapper = Transform[Any, Any](
            tool.payload, signature.payload, place=f"{place}: arguments", by_hand=_BY_HAND.format("to_method")
        )
    elif to_method is None:
        to_arguments = _as_it_is
    else:
        to_arguments = to_method
    if to_result is None and tool.result_shape.source != signature.result:
        method_shape = Shape(signature.result, place=place, output=True)
        to_result = Transform[Any, Any](
            method_shape,
            tool.result_shape,
            place=f"{place}: result",
            lossless=False,
            by_hand=_BY_HAND.format("to_result"),
        )
    return _BoundMethod(tool, signature, bound, to_arguments, to_result or _as_it_is)


def _as_it_is(value: Any) -> Any:
    return value


class _BoundMethod(BoundTool):
    def __init__(
        self,
        tool: Tool[..., Any],
        signature: Signature,
        bound: Callable[..., Any],
        to_arguments: Mapper,
        to_result: Mapper,
    ) -> None:
        super().__init__(tool, is_async=signature.is_async)
        self._signature = signature
        self._bound = bound
        self._to_arguments = to_arguments
        self._to_result = to_result

    def prepare(self, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> Callable[[], Any]:
        del call
        converted = self._to_arguments(self.tool.payload.decode(payload))
        arguments = self._signature.arguments(converted, meta)
        bound = self._bound
        if not self.is_async:
            return lambda: self._convert(bound(**arguments))

        async def run() -> Any:
            return self._convert(await bound(**arguments))

        return run

    def _convert(self, value: Any) -> Any:
        if isinstance(value, ToolResult):
            return value
        try:
            if isinstance(value, FromOutside):
                read = cast("FromOutside[Any]", value)
                return FromOutside(self._convert(read.result), read.source)
            if isinstance(value, WithMemory):
                kept = cast("WithMemory[Any]", value)
                return WithMemory(self._convert(kept.result), kept.patch)
            if isinstance(value, WithArtifacts):
                whole = cast("WithArtifacts[Any]", value)
                return WithArtifacts(self._to_result(whole.result), **whole.artifacts)
            return self._to_result(value)
        except ValidationError as error:
            raise MalformedResultError(describe_misfit(error)) from error


class DeclaredSource:
    """A tool declared with `toolset.declare`, which its toolset's executor executes."""

    def __init__(self, toolset_id: str) -> None:
        self._toolset_id = toolset_id

    def bind(self, tool: Tool[..., Any], parts: Parts) -> Runnable:
        return _BoundExecutor(tool, parts.executor(self._toolset_id, str(tool.id)))


class _BoundExecutor(BoundTool):
    def __init__(self, tool: Tool[..., Any], executor: Executor | Callable[..., Any]) -> None:
        super().__init__(tool)
        self._execute = executor.execute if isinstance(executor, Executor) else executor

    def prepare(self, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> Callable[[], Any]:
        if not self.tool.spec.decode_in_executor:
            self.tool.payload.decode(
                payload
            )  # decoded so that an error of the payload's type is reported as for every tool
        return functools.partial(self._execute, meta, call)


class OutsideSource:
    """A tool of an external toolset, for whose results the run waits."""

    def bind(self, tool: Tool[..., Any], parts: Parts) -> Runnable:
        del parts
        return _External(tool)


class _External(BoundTool):
    def prepare(self, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> Callable[[], Any]:
        del payload, meta
        raise ToolUnavailable(f"{call.name} is executed outside, not by a worker")
