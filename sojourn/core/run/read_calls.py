"""The calls of a plan with their arguments as they were read: what is decided about, carried out, and sent back to the model."""

from collections.abc import Sequence

from sojourn.contracts.message import Message, ToolCallPart
from sojourn.contracts.tool_call import ToolRequest
from sojourn.core.values.json_fault import ParseFault

__all__ = ["as_calls_were_read", "with_readings"]


def with_readings(
    asked: Sequence[ToolRequest], read: Sequence[ToolRequest | ParseFault]
) -> list[ToolRequest]:
    """The calls of a plan, those with readings as they were read.

    Args:
        asked: The calls as they were planned.
        read: Each with its arguments parsed, or why they cannot be read.
    """
    return [
        found if isinstance(found, ToolRequest) and found.readings else call
        for call, found in zip(asked, read, strict=True)
    ]


def as_calls_were_read(message: Message | None, calls: Sequence[ToolRequest]) -> Message | None:
    """The model's message, in which each call with readings has its arguments as they were read.

    Args:
        message: The message, with the final ids of its calls.
        calls: The calls.
    """
    read = {call.tool_call_id: call for call in calls if call.readings}
    if message is None or not read:
        return message
    parts = [
        part.as_read(read[part.tool_call_id])
        if isinstance(part, ToolCallPart) and part.tool_call_id in read
        else part
        for part in message.parts
    ]
    return message.model_copy(update={"parts": parts})
