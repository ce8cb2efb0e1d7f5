"""Examples that fit: a tool's own types validate what no schema states (SR-144)."""

from typing import Any

from sojourn.authoring.runnable import Runnable
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult
from sojourn.serving.off_loop import run_in_thread

__all__ = ["prepares", "with_fitting_example"]


def prepares(tool: Runnable, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> bool:
    """Whether a tool's own types accept a payload that fits its schema."""
    try:
        tool.prepare(payload, call, meta)
    except Exception:  # noqa: BLE001 - validators and mappers are the author's code
        return False
    return True


async def with_fitting_example(tool: Runnable, result: ToolResult) -> ToolResult:
    """A result that the boundary did not make; the example of its hint is kept only where it fits."""
    example = result.retry_hint and result.retry_hint.example_input
    return await run_in_thread(lambda: _fitting(tool, result), on=example) if example else result


def _fitting(tool: Runnable, result: ToolResult) -> ToolResult:
    hint = result.retry_hint
    example = hint.example_input if hint and hint.tool == tool.spec.id else None
    if hint is None or example is None or tool.spec.decode_in_executor:
        return result
    if tool.validator.is_valid(example) and tool.takes(example):
        return result
    blank: dict[str, Any] = {"example_input": None, "invented": [], "template": None}
    return result.model_copy(update={"retry_hint": hint.model_copy(update=blank)})
