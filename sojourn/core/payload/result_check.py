"""The last check of every tool result before it may enter a history.

Functions, executors, MCP servers and external programs produce results; errors that they raise become results
too. A result that can be written but not read would fail every workflow task that reads it, for ever; one
that is too large would be executed again, since the server refuses its completion; a negative cost would lift
a limit. A result that fails the check is replaced by a plain error, so that the tool is not executed again
because of it.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaSerializer
from pydantic_core.core_schema import any_schema

from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import MAX_MESSAGE, ToolError
from sojourn.contracts.tool_result import Artifact, ToolResult, ToolTelemetry
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload.boundary import describe_misfit, malformed_result, refusal
from sojourn.values.json_fault import wrong_figure
from sojourn.values.text import clip
from sojourn.values.wire import (
    ENVELOPE,
    MAX_ARTIFACT_BYTES,
    MAX_LOCAL_BYTES,
    MAX_RESULT_BYTES,
    encode,
    non_finite,
)

__all__ = ["Oversized", "check_result"]

Hide = Callable[[ToolResult], ToolResult]

_ENCODER = SchemaSerializer(any_schema())

_READER: TypeAdapter[Any] = TypeAdapter(
    functools.reduce(lambda kind, _: list[kind], range(ENVELOPE), ToolResult)
)
"""Reads a result at the depth that it may have in a transcript."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """A valid result that is larger than a run's history may hold."""

    result: ToolResult
    size: int


def check_result(
    spec: ToolSpec, call: ToolRequest, result: ToolResult, hide: Hide | None = None, *, local: bool = False
) -> ToolResult | Oversized:
    """Return the result as the run will read it.

    A plain error replaces a result that cannot, or must not, be read.
    """
    most = MAX_LOCAL_BYTES if local else MAX_RESULT_BYTES
    answer, size = _make_readable(spec, call, result)
    if hide is not None:
        answer = hide(answer)
        size = len(encode(answer))
    if size <= most and not answer.artifacts:
        return answer
    answer, artifact_bytes = _measure(answer)
    apart = 0 if local else artifact_bytes
    if artifact_bytes <= MAX_ARTIFACT_BYTES and size - apart <= most:
        return answer
    if answer.error is None:
        return Oversized(answer, size)
    why = f"{size:,} bytes are more than the {most:,} allowed"
    return _keep_error(call, answer.error, why)


def _make_readable(spec: ToolSpec, call: ToolRequest, result: ToolResult) -> tuple[ToolResult, int]:
    error: ToolError | None = None
    try:
        error = result.error and result.error.without_repeats()
        data = _encode(result if error is None else result.model_copy(update={"error": error}))
        answer = _read_again(data)
        why = (_non_finite_value(result) if b"null" in data else None) or wrong_figure(_figures(answer))
    except (ValueError, TypeError, AttributeError, RecursionError) as fault:
        data, answer, why = b"", None, _describe_fault(fault)
    if answer is None or why is not None:
        why = why or "it cannot be read"
        answer = _keep_error(call, error, why) if error else malformed_result(spec, call, why)
        data = encode(answer)
    if (answer.name, answer.tool_call_id) != (call.name, call.tool_call_id):
        answer = answer.model_copy(update={"name": call.name, "tool_call_id": call.tool_call_id})
    return answer, len(data)


def _encode(result: ToolResult) -> bytes:
    # `model_copy` does not validate. `_read_again` does.
    return _ENCODER.to_json(result, exclude_defaults=True, warnings=False)


def _read_again(data: bytes) -> ToolResult:
    nested = _READER.validate_json(b"[" * ENVELOPE + data + b"]" * ENVELOPE)
    for _ in range(ENVELOPE):
        (nested,) = nested
    return nested


def _describe_fault(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return describe_misfit(error)
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"][ENVELOPE:])
    return clip(f"{place}: {first['msg']}" if place else first["msg"], 300)


def _keep_error(call: ToolRequest, error: ToolError, why: str) -> ToolResult:
    # The hint and the other parts, which failed the check, are dropped.
    message = f"{clip(error.message, MAX_MESSAGE - 400)} (what came with this error cannot be recorded: {clip(why, 300)})"
    return refusal(call, (error.model_copy(update={"message": message}), None))


def _non_finite_value(result: ToolResult) -> str | None:
    # JSON would write it as null.
    telemetry = dict(result.telemetry) if isinstance(result.telemetry, ToolTelemetry) else None
    values = (result.result, telemetry, [artifact.data for artifact in result.artifacts])
    return next((fault for value in values if value is not None and (fault := non_finite(value))), None)


def _figures(result: ToolResult) -> Iterator[tuple[str, float | None]]:
    """Yield the counts and costs that a run's limits are compared with."""
    yield "children_count", result.children_count
    if spent := result.telemetry:
        for name in ("duration_ms", "attempts", "input_tokens", "output_tokens", "cost"):
            yield f"telemetry.{name}", getattr(spent, name)


def _measure(result: ToolResult) -> tuple[ToolResult, int]:
    artifacts: list[Artifact] = []
    total = 0
    for artifact in result.artifacts:
        if artifact.claim is None and artifact.attachment is None:
            size = len(encode(artifact.data))
            total += size
            artifacts.append(artifact.model_copy(update={"size": size}))
        else:
            artifacts.append(artifact)
    return result.model_copy(update={"artifacts": artifacts}), total
