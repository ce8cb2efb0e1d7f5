"""Compacted: the transcript as models read it, after a recorded compaction.

Of the messages that the summary stands for, models read those that are kept, then the summary as a message of a user, since a
summary is a model's text about what tools returned, and no instruction of the application.
"""

from collections.abc import Callable, Sequence
from typing import Any

from sojourn.contracts.message import CompactionPart, Message, OtherPart, ToolResultPart
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.values.text import counted

__all__ = ["SHORTEST", "ResultRead", "compacted", "compaction_of", "with_part"]

SHORTEST = 200
"""Characters of a result up to which it is not cleared: the line in its place would be as long."""


class ResultRead(ToolResult):
    """A result of which models read another text."""

    text: str
    """The text."""


def compaction_of(message: Message) -> CompactionPart | None:
    """The compaction that a message records; None for most."""
    if message.role != "assistant":
        return None
    return next((part for part in message.parts if isinstance(part, CompactionPart)), None)


def with_part(message: Message, part: CompactionPart | OtherPart) -> Message:
    """The message of a plan, which records what models read of the transcript from then on."""
    return message.model_copy(update={"parts": [part, *message.parts]})


def compacted(
    messages: Sequence[Message], part: CompactionPart | None, text_of: Callable[[ToolResult], Any]
) -> list[Message]:
    """The messages that models read in place of a whole transcript.

    Args:
        messages: The transcript.
        part: Its last compaction; None for none.
        text_of: Makes the text of a result.
    """
    if part is None:
        return [*messages]
    until = max(min(part.until, len(messages)), 0)
    kept = [messages[index] for index in part.kept if 0 <= index < until]
    summary = [Message.user(_introduced(part.summary, until))] if until else []
    tail = [
        _shortened(
            message,
            text_of,
            is_cleared=index < part.cleared,
            most=part.max_result if index < part.at else None,
        )
        for index, message in enumerate(messages[until:], until)
    ]
    return [*kept, *summary, *tail]


def _introduced(summary: str, count: int) -> str:
    return f"(Summary of the conversation so far, in place of its first {counted(count, 'message')}:)\n\n{summary}"


def _shortened(
    message: Message, text_of: Callable[[ToolResult], Any], *, is_cleared: bool, most: int | None
) -> Message:
    """The message with its results cleared, or cut to a length."""
    if message.role != "tool" or not (is_cleared or most):
        return message
    parts = [
        part.model_copy(update={"result": _read(part.result, text_of, is_cleared=is_cleared, most=most)})
        if isinstance(part, ToolResultPart)
        else part
        for part in message.parts
    ]
    return message.model_copy(update={"parts": parts})


def _read(
    result: ToolResult, text_of: Callable[[ToolResult], Any], *, is_cleared: bool, most: int | None
) -> ToolResult:
    made = text_of(result)
    text = made if isinstance(made, str) else str(made)
    has_pictures = any(artifact.media_type for artifact in result.artifacts)
    if is_cleared and (has_pictures or len(text) > SHORTEST):
        outcome = "result" if result.ok else "failure"
        text = f"[The {outcome}, of {len(text):,} characters, was cleared to save room; call the tool again if it is needed.]"
    elif most is not None and len(text) > most:
        text = f"{text[:most]}\n[{len(text) - most:,} more characters are left out to save room.]"
    else:
        return result
    return ResultRead.model_construct(**dict(result), text=text)
