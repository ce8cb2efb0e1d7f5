"""The gate: what every answer to a call passes, once, before it may stand in a history.

Functions, executors, MCP servers and people outside answer; so do those that raise, with a hint of their own.
What can be written but not read again would fail every workflow task that meets it, for ever; what is too large
would be executed again, since its completion is refused; a negative cost would lift a limit. An answer that does
not pass is replaced by a plain error, so that the tool is not executed again because of it.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaSerializer
from pydantic_core.core_schema import any_schema

from sojourn.contracts.artifact import Artifact
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import MAX_MESSAGE, ToolError
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core.payload.boundary import brief, malformed, refusal
from sojourn.core.values.json_fault import wrong_figure
from sojourn.core.values.sizes import MAX_ARTIFACT_BYTES, MAX_LOCAL_BYTES, MAX_RESULT_BYTES
from sojourn.core.values.text import clip
from sojourn.core.values.wire import ENVELOPE, encode, non_finite

__all__ = ["Oversized", "passed"]

Hide = Callable[[ToolResult], ToolResult]
"""Masks what must not be told."""

_ENCODER = SchemaSerializer(any_schema())

_READER: TypeAdapter[Any] = TypeAdapter(
    functools.reduce(lambda kind, _: list[kind], range(ENVELOPE), ToolResult)
)
"""Reads a result as deep in a transcript as it may come to stand."""


@dataclass(frozen=True, slots=True)
class Oversized:
    """A result that is good, and larger than a run's history may carry."""

    result: ToolResult
    size: int
    """Bytes of the whole as JSON."""


def passed(
    spec: ToolSpec, call: ToolRequest, result: ToolResult, hide: Hide | None = None, *, local: bool = False
) -> ToolResult | Oversized:
    """The answer as the run will read it; a plain error in place of one that it could not, or must not, read.

    Args:
        spec: The tool that was called.
        call: The call.
        result: What came of it.
        hide: Masks what the answer must not tell.
        local: Whether the call is a local activity's, whose answer shares a message with others.
    """
    most = MAX_LOCAL_BYTES if local else MAX_RESULT_BYTES
    answer, size = _readable(spec, call, result)
    if hide is not None:
        answer = hide(answer)
        size = len(encode(answer))
    if size <= most and not answer.artifacts:
        return answer
    answer, beside = _measured(answer)
    apart = 0 if local else beside
    if beside <= MAX_ARTIFACT_BYTES and size - apart <= most:
        return answer
    if answer.error is None:
        return Oversized(answer, size)
    why = f"{size:,} bytes are more than the {most:,} allowed"
    return _words_alone(call, answer.error, why)


def _readable(spec: ToolSpec, call: ToolRequest, result: ToolResult) -> tuple[ToolResult, int]:
    """The answer, written and read again, or the plain error in its place; with its size as JSON."""
    error: ToolError | None = None
    try:
        error = result.error and result.error.told_once()
        data = _written(result if error is None else result.model_copy(update={"error": error}))
        read = _read_again(data)
        why = (_endless(result) if b"null" in data else None) or wrong_figure(_figures(read))
    except (ValueError, TypeError, AttributeError, RecursionError) as fault:
        data, read, why = b"", None, _why(fault)
    if read is None or why is not None:
        why = why or "it cannot be read"
        read = _words_alone(call, error, why) if error else malformed(spec, call, why)
        data = encode(read)
    if (read.name, read.tool_call_id) != (call.name, call.tool_call_id):
        read = read.model_copy(update={"name": call.name, "tool_call_id": call.tool_call_id})
    return read, len(data)


def _written(result: ToolResult) -> bytes:
    """A record that may be none, since a copy of one is not validated; reading it tells."""
    return _ENCODER.to_json(result, exclude_defaults=True, warnings=False)


def _read_again(data: bytes) -> ToolResult:
    read = _READER.validate_json(b"[" * ENVELOPE + data + b"]" * ENVELOPE)
    for _ in range(ENVELOPE):
        (read,) = read
    return read


def _why(error: Exception) -> str:
    """Why something cannot be read, without the value."""
    if not isinstance(error, ValidationError):
        return brief(error)
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"][ENVELOPE:])
    return clip(f"{place}: {first['msg']}" if place else first["msg"], 300)


def _words_alone(call: ToolRequest, error: ToolError, why: str) -> ToolResult:
    """A failure's own error, less the hint and all else that did not pass with it."""
    said = f"{clip(error.message, MAX_MESSAGE - 400)} (what came with this error cannot be recorded: {clip(why, 300)})"
    return refusal(call, (error.model_copy(update={"message": said}), None))


def _endless(result: ToolResult) -> str | None:
    """A number that JSON has none for, which is written as null."""
    telemetry = dict(result.telemetry) if isinstance(result.telemetry, ToolTelemetry) else None
    values = (result.result, telemetry, [one.data for one in result.artifacts])
    return next((said for value in values if value is not None and (said := non_finite(value))), None)


def _figures(result: ToolResult) -> Iterator[tuple[str, float | None]]:
    """The counts and costs by which a run's limits go."""
    yield "children_count", result.children_count
    if spent := result.telemetry:
        for name in ("duration_ms", "attempts", "input_tokens", "output_tokens", "cost"):
            yield f"telemetry.{name}", getattr(spent, name)


def _measured(result: ToolResult) -> tuple[ToolResult, int]:
    """The result with the sizes of its artifacts, and how much they are together."""
    artifacts: list[Artifact] = []
    beside = 0
    for one in result.artifacts:
        if one.claim is None:
            size = len(encode(one.data))
            beside += size
            artifacts.append(one.model_copy(update={"size": size}))
        else:
            artifacts.append(one)
    return result.model_copy(update={"artifacts": artifacts}), beside
