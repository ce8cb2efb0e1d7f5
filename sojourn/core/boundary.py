"""The tool boundary: what may go in, what may come out, each in one function.

In: size and depth, parse, validate once. Out: encode by the result's type, bounds, size. What
fails on the way is a `ToolResult` with its hint; nothing is validated again in services (SR-118).
"""

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from sojourn.contracts.retry_hint import FieldIssue, RetryHint
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.contracts.tool_spec import ToolSpec
from sojourn.core import hints
from sojourn.core.bounds import bounds_of
from sojourn.core.limits import MAX_RESULT_BYTES
from sojourn.core.parse import ParseFault, misfit, parse_arguments
from sojourn.core.validate import Validator
from sojourn.core.wire import encode_readable

__all__ = ["Answer", "checked", "delivered", "refusal", "refused_by_model"]

Answer = tuple[ToolError, RetryHint | None]
"""Why a call is answered with an error, and how to repair it."""


def refusal(call: ToolRequest, answer: Answer) -> ToolResult:
    """A call's answer made of an error and perhaps a hint."""
    error, hint = answer
    return ToolResult(name=call.name, tool_call_id=call.tool_call_id, error=error, retry_hint=hint)


def checked(spec: ToolSpec, validator: Validator, call: ToolRequest) -> dict[str, Any] | ToolResult:
    """The call's payload, valid against the tool's schema, or the answer that says what is wrong (SR-128)."""
    if call.raw is None:
        payload, fault = call.payload, misfit(call.payload)
    else:
        parsed = parse_arguments(call.raw)
        payload, fault = ({}, parsed) if isinstance(parsed, ParseFault) else (parsed.payload, None)
    if fault is not None:
        return refusal(call, hints.unparsable(spec, fault))
    if validator.is_valid(payload):
        return payload
    return refusal(call, hints.hint_for_issues(spec, payload, validator.issues(payload), validator))


def refused_by_model(
    spec: ToolSpec, validator: Validator, call: ToolRequest, payload: dict[str, Any], error: ValidationError
) -> ToolResult:
    """The answer when the schema accepts a payload and the model's own validators do not."""
    issues = [
        FieldIssue(
            field="".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in fault["loc"]),
            constraint="rejected",
            expected_type=fault["msg"][:200],
        )
        for fault in error.errors(include_url=False, include_input=False)[:20]
    ]
    return refusal(call, hints.hint_for_issues(spec, payload, issues, validator))


def delivered(spec: ToolSpec, call: ToolRequest, value: Any, encode: Callable[[Any], Any]) -> ToolResult:
    """What a tool returned as its result, or `malformed_response` with the reason (SR-37, SR-90)."""
    try:
        given = value if isinstance(value, ToolResult) else ToolResult(result=encode(value))
        size = len(encode_readable(given))
    except (ValueError, TypeError) as error:
        return refusal(call, hints.malformed_response(spec, _brief(error)))
    if size > MAX_RESULT_BYTES:
        return refusal(call, hints.oversized_result(spec, size))
    bounds = bounds_of(given.result) if spec.bounded and given.ok and not given.bounds else given.bounds
    if isinstance(bounds, str):
        return refusal(call, hints.malformed_response(spec, bounds))
    return given.model_copy(update={"name": call.name, "tool_call_id": call.tool_call_id, "bounds": bounds})


def _brief(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        return f"{place}: {first['msg']}" if place else first["msg"]
    return str(error)[:300]
