"""A tool's identity, shapes and spec, with typed builders of calls and results.

The app binds the tool's `source` once (`Runnable`). Until then a tool needs no services.
"""

import functools
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

import typing_extensions

from sojourn.authoring.options import ApproverCheck
from sojourn.authoring.runnable import Filler, Runnable
from sojourn.authoring.shape import Shape
from sojourn.authoring.signature import Injected
from sojourn.contracts.ids import ToolId
from sojourn.contracts.memory import WithMemory
from sojourn.contracts.taint import FromOutside
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_result import Artifact, ToolResult, WithArtifacts
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.schema.sample import NoSampleError, sample
from sojourn.core.schema.validate import Validator
from sojourn.values.json_value import locate

__all__ = ["ArtifactKind", "MalformedResultError", "Parts", "Source", "Tool", "injecting"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ArtifactKind(Generic[T]):
    """A kind of artifact that a tool may return (SR-104, SR-108)."""

    name: str
    """The kind, such as `time_series`, which selects the view in a user interface."""
    data: type[T]


P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

A_co = typing_extensions.TypeVar("A_co", covariant=True, default=Any)

injecting: ContextVar[Callable[[Mapping[str, Any]], None] | None] = ContextVar(
    "sojourn_injecting", default=None
)
"""Called with the values that an interceptor injects, before it may log them."""


class MalformedResultError(Exception):
    """A tool's return value cannot be its result, for a reason without a value."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Parts(Protocol):
    def service(self, owner: Any, place: str) -> Any: ...

    def executor(self, toolset_id: str, place: str) -> Any: ...


class Source(Protocol):
    def bind(self, tool: "Tool[..., Any]", parts: Parts) -> Runnable: ...


class Tool(Generic[P, R_co, A_co]):
    """One tool, which is callable as its function (SR-83 to SR-85)."""

    def __init__(
        self,
        spec: ToolSpec,
        *,
        payload: Shape,
        result: Shape,
        source: Source,
        artifacts: Mapping[str, Shape] | None = None,
        fillers: Mapping[str, Filler | None] | None = None,
        function: Callable[..., R_co] | None = None,
        approver_check: ApproverCheck | None = None,
    ) -> None:
        self.spec = spec
        self.approver_check = approver_check
        self.payload = payload
        self.result_shape = result
        self.source = source
        self.artifacts = dict(artifacts or {})
        self.fillers = dict(fillers or {})
        self.function = function
        self._injected = Injected(spec.id, self.fillers, payload.spec.json_schema)
        if function is not None:
            functools.update_wrapper(self, function)

    @property
    def id(self) -> ToolId:
        """`<service>.<toolset>.<tool>`."""
        return self.spec.id

    @functools.cached_property
    def validator(self) -> Validator:
        """Validates a payload without injected fields."""
        return Validator(self.spec.payload.json_schema, typed=not self.spec.decode_in_executor)

    @functools.cached_property
    def whole_validator(self) -> Validator:
        """Validates a payload with its injected fields."""
        return Validator(self.payload.spec.json_schema, typed=True) if self.fillers else self.validator

    def takes(self, payload: dict[str, Any]) -> bool:
        """Check whether the payload's type accepts a payload that fits the schema."""
        if self.spec.decode_in_executor:
            return True
        try:
            whole = self._with_samples(payload)
        except NoSampleError:
            return False
        return self.payload.takes(whole)

    def decodes_alike(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        """Check whether two payloads are equal when decoded, as spellings of a time."""
        if self.spec.decode_in_executor:
            return False
        try:
            decoded = [self.payload.decode(self._with_samples(each)) for each in (one, other)]
            return bool(decoded[0] == decoded[1])
        except Exception:  # noqa: BLE001 - a validator is the author's code
            return False

    def _with_samples(self, payload: dict[str, Any]) -> dict[str, Any]:
        return {
            **payload,
            **{name: self._sample(name) for name in self.fillers if name not in payload},
        }

    def _sample(self, name: str) -> Any:
        root = self.payload.spec.json_schema
        found = locate(root, (name,))
        return sample(root, found[0] if found else {})

    def __call__(self, *args: Any, **kwargs: Any) -> R_co:
        if self.function is None:
            raise TypeError(f"{self.id} has no function of its own to call")
        return self.function(*args, **kwargs)

    def call(self, *args: P.args, **fields: P.kwargs) -> ToolRequest:
        """Return a call of this tool.

        Pass a model argument as the model, plain parameters by keyword. For a tool with injected fields,
        pass the other fields by keyword.

        Raises:
            TypeError: The tool has injected fields, and no field of this name.
        """
        return ToolRequest(
            name=self.id, payload=self._injected.remove_from(self.payload.payload_of(args, fields))
        )

    def inject(self, call: ToolRequest, **values: Any) -> ToolRequest:
        """Return the call with these injected fields set, for interceptors (SR-43).

        Raises:
            TypeError: A field is not an injected one of this tool, or its value does not fit.
            ValueError: The call is of another tool.
        """
        if call.name != self.id:
            raise ValueError(f"a call of {call.name} cannot get the injected fields of {self.id}")
        filled = self._injected.fill(values)
        if on_inject := injecting.get():
            on_inject(filled)
        self._injected.check(filled)
        return call.model_copy(update={"payload": {**call.payload, **filled}})

    def decode(self, call: ToolRequest) -> A_co:
        """Return the typed arguments of a call, for executors (SR-6).

        Raises:
            pydantic.ValidationError: The type's own validators refuse the payload.
        """
        return self.payload.decode(call.payload)

    def result(self, call: ToolRequest, value: Any, **artifacts: Any) -> ToolResult:
        """Return a result of this tool from a typed value, for executors (SR-60).

        Raises:
            pydantic.ValidationError: The value is not of the result's type.
        """
        return ToolResult(
            name=call.name,
            tool_call_id=call.tool_call_id,
            result=self.result_shape.encode(value),
            artifacts=[self._make_artifact(kind, data) for kind, data in artifacts.items()],
        )

    @overload
    def attach(self, result: ToolResult, kind: ArtifactKind[T], data: T) -> ToolResult: ...
    @overload
    def attach(self, result: ToolResult, kind: str, data: Any) -> ToolResult: ...
    def attach(self, result: ToolResult, kind: ArtifactKind[Any] | str, data: Any) -> ToolResult:
        """Return a result of this tool with an artifact, one of each kind (SR-108).

        Raises:
            ValueError: The result is another tool's, or a failure.
            KeyError: The tool declares no such kind, or declares it with another type.
            pydantic.ValidationError: The data is not of the artifact's type.
        """
        if result.name or result.error:
            self._check_own(result)
        made = self._make_artifact(kind, data)
        others = [artifact for artifact in result.artifacts if artifact.kind != made.kind]
        return result.model_copy(update={"name": self.id, "artifacts": [*others, made]})

    def _make_artifact(self, kind: ArtifactKind[Any] | str, data: Any) -> Artifact:
        name = kind if isinstance(kind, str) else kind.name
        return Artifact(kind=name, data=self.artifact_shape(kind).encode(data))

    @overload
    def result_of(self: "Tool[..., Coroutine[Any, Any, FromOutside[T]]]", result: ToolResult) -> T: ...
    @overload
    def result_of(self: "Tool[..., FromOutside[T]]", result: ToolResult) -> T: ...
    @overload
    def result_of(
        self: "Tool[..., Coroutine[Any, Any, WithMemory[WithArtifacts[T]]]]", result: ToolResult
    ) -> T: ...
    @overload
    def result_of(self: "Tool[..., WithMemory[WithArtifacts[T]]]", result: ToolResult) -> T: ...
    @overload
    def result_of(self: "Tool[..., Coroutine[Any, Any, WithMemory[T]]]", result: ToolResult) -> T: ...
    @overload
    def result_of(self: "Tool[..., WithMemory[T]]", result: ToolResult) -> T: ...
    @overload
    def result_of(self: "Tool[..., Coroutine[Any, Any, WithArtifacts[T]]]", result: ToolResult) -> T: ...
    @overload
    def result_of(self: "Tool[..., WithArtifacts[T]]", result: ToolResult) -> T: ...
    @overload
    def result_of(self: "Tool[..., Coroutine[Any, Any, T]]", result: ToolResult) -> T: ...
    @overload
    def result_of(self: "Tool[..., T]", result: ToolResult) -> T: ...
    def result_of(self, result: ToolResult) -> Any:
        """Return the typed value of a successful result of this tool.

        Raises:
            ValueError: The result is another tool's, or a failure.
        """
        self._check_own(result)
        return self.result_shape.decode(result.result)

    @overload
    def artifact(self, result: ToolResult, kind: ArtifactKind[T]) -> T | None: ...
    @overload
    def artifact(self, result: ToolResult, kind: str) -> Any: ...
    def artifact(self, result: ToolResult, kind: ArtifactKind[Any] | str) -> Any:
        """Return the typed artifact of this kind, or None (SR-108).

        Raises:
            ValueError: The result is another tool's, a failure, or has only the artifact's reference.
            KeyError: The tool declares no such kind, or declares it with another type.
        """
        shape = self.artifact_shape(kind)
        self._check_own(result)
        name = kind if isinstance(kind, str) else kind.name
        found = next((artifact for artifact in result.artifacts if artifact.kind == name), None)
        if found is None:
            return None
        if found.data is None:
            raise ValueError(
                f"this artifact has no data, only its reference; read the data with run.artifact({found.ref!r})"
            )
        return shape.decode(found.data)

    def artifact_shape(self, kind: ArtifactKind[Any] | str) -> Shape:
        """Return the declared shape of an artifact, else raise KeyError."""
        name = kind if isinstance(kind, str) else kind.name
        shape = self.artifacts.get(name)
        if shape is None:
            known = ", ".join(self.artifacts) or "none"
            raise KeyError(f"{self.id} declares no artifact {name!r}; its artifacts are {known}")
        if not isinstance(kind, str) and shape.source != kind.data:
            raise KeyError(f"{self.id} declares artifact {name!r} as {shape.source!r}, not as {kind.data!r}")
        return shape

    def _check_own(self, result: ToolResult) -> None:
        if result.name != self.id or result.error:
            raise ValueError(
                f"{result.name} ({result.error or 'a success'}) is not a successful result of {self.id}"
            )

    def __repr__(self) -> str:
        return f"<Tool {self.id}>"
