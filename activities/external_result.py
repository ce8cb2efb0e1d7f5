"""Results of external calls: checked like results of a worker, by the same gate."""

from typing import Any, cast

from pydantic import ValidationError

from sojourn.authoring.runnable import Runnable
from sojourn.contracts.tool_call import ToolRequest
from sojourn.contracts.tool_error import RetryHint, ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.payload import hints
from sojourn.core.payload.boundary import refusal
from sojourn.core.payload.result_check import checked_result

__all__ = ["check_external_result"]


def check_external_result(tool: Runnable, call: ToolRequest, sent: dict[str, Any]) -> ToolResult:
    """The call's result from what was sent: `result`, or `error` and perhaps `retry_hint`."""
    made = checked_result(tool.spec, call, _answer(tool, call, sent))
    if isinstance(made, ToolResult):
        return made
    return refusal(call, hints.oversized_result(tool.spec, made.size))


def _answer(tool: Runnable, call: ToolRequest, sent: dict[str, Any]) -> ToolResult:
    if "error" in sent:
        return refusal(call, (_error(sent["error"]), _hint(call, sent.get("retry_hint"))))
    return tool.accept(call, sent.get("result"))


def _error(value: Any) -> ToolError:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        code = fields.get("code")
        return ToolError.new(str(fields.get("message")), code=code if isinstance(code, str) else None)
    return ToolError.new(str(value))


def _hint(call: ToolRequest, value: Any) -> RetryHint | None:
    """The hint that was sent, with this call's tool; None for one that cannot be read."""
    if not isinstance(value, dict):
        return None
    try:
        return RetryHint.model_validate({**cast("dict[str, Any]", value), "tool": call.name})
    except ValidationError:
        return None
