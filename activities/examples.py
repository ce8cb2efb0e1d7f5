"""Examples of calls that fit: what no schema tells of a tool is asked of the tool itself (SR-144)."""

from typing import Any

from sojourn.authoring.app import BoundTool
from sojourn.authoring.tool import Body, Tool
from sojourn.contracts.tool_call import ToolCallMeta, ToolRequest
from sojourn.contracts.tool_result import ToolResult

__all__ = ["fitting", "prepares"]


def prepares(body: Body, payload: dict[str, Any], call: ToolRequest, meta: ToolCallMeta) -> bool:
    """Whether a tool's own types take a payload that fits its schema."""
    try:
        body.prepare(payload, call, meta)
    except Exception:  # noqa: BLE001 - validators and mappers are the author's code
        return False
    return True


def fitting(tool: BoundTool, result: ToolResult) -> ToolResult:
    """A result that somebody else made; the example of its hint only where it fits."""
    hint = result.retry_hint
    example = hint.example_input if hint and hint.tool == tool.spec.id else None
    if hint is None or example is None or tool.spec.decode_in_executor:
        return result
    if tool.validator.is_valid(example) and (not isinstance(tool, Tool) or tool.takes(example)):
        return result
    return result.model_copy(update={"retry_hint": hint.model_copy(update={"example_input": None})})
