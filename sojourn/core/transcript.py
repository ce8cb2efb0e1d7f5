"""The transcript as others read it: in byte slices, of a fixed part."""

from collections.abc import Iterable, Sequence

from sojourn.contracts.message import Message
from sojourn.contracts.tool_result import ToolResult, ToolTelemetry
from sojourn.core.limits import MAX_SLICE_BYTES

__all__ = ["call_ids", "for_planner", "slice_of"]


def slice_of(messages: Iterable[bytes], after: int, until: int | None, offset: int) -> tuple[bytes, bool]:
    """Bytes of the JSON array `messages[after:until]` from `offset`, and whether they are the whole array.

    At most 1.5 MB, cut inside a message where needed; a slice shorter than that is the last.

    Args:
        messages: Each as JSON.
        after: The first one's place.
        until: The place after the last one's; None for all.
        offset: Bytes to leave out.
    """
    data = b"[" + b",".join(list(messages)[max(after, 0) : until]) + b"]"
    part = data[max(offset, 0) : max(offset, 0) + MAX_SLICE_BYTES]
    return part, len(part) == len(data)


def for_planner(result: ToolResult) -> ToolResult:
    """A result as the transcript holds it: less a telemetry that tells nothing but the time of one attempt."""
    spent = result.telemetry
    if spent is None or result.run_link or spent != ToolTelemetry(duration_ms=spent.duration_ms):
        return result
    return result.model_copy(update={"telemetry": None})


def call_ids(messages: Sequence[Message]) -> set[str]:
    """Every tool_call_id asked for in these messages."""
    return {call.tool_call_id for message in messages for call in message.tool_calls}
