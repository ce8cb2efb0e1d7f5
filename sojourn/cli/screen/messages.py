"""Messages of a transcript in lines of text, for people."""

from collections.abc import Iterable
from typing import Any

from sojourn.cli.screen.text import plain
from sojourn.contracts import wire_names
from sojourn.contracts.message import (
    CompactionPart,
    Message,
    OtherPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from sojourn.values.json_value import is_array
from sojourn.values.text import counted

__all__ = ["MessageLines"]

_MAX_PLACES = 10


class MessageLines:
    """The lines of consecutive messages, with each summary shown once.

    Args:
        before: The messages before the first, whose summaries count as shown.
    """

    def __init__(self, before: Iterable[Message] = ()) -> None:
        self._summary = ""
        for message in before:
            self.of(message)

    def of(self, message: Message) -> list[str]:
        """Return the lines of the next message."""
        return [line for part in message.parts for line in self._of_part(part)]

    def _of_part(self, part: Part) -> list[str]:
        match part:
            case TextPart(text=text):
                return [plain(line, 1_000) for line in text.splitlines()]
            case ToolCallPart():
                sent = part.raw if part.raw is not None else part.payload
                return [f"→ {plain(part.name)} {plain(sent, 1_000)}  ({plain(part.tool_call_id)})"]
            case ToolResultPart(result=result):
                answer = f"error: {result.error.message}" if result.error else result.result
                return [f"← {plain(result.name)} {plain(answer, 1_000)}  ({plain(result.tool_call_id)})"]
            case CompactionPart():
                return self._of_compaction(part)
            case OtherPart(type=wire_names.SET_ASIDE) if "message" in (part.model_extra or {}):
                return [_set_aside_by_hand(part.model_extra or {})]
            case OtherPart(type=wire_names.SET_ASIDE):
                return [_set_aside(part.model_extra or {})]
            case _:
                return [f"({plain(part.type)})"]

    def _of_compaction(self, part: CompactionPart) -> list[str]:
        lines: list[str] = []
        if part.summary and part.summary != self._summary:
            self._summary = part.summary
            lines += [f"(summary, in place of the first {counted(part.until, 'message')})"]
            lines += [plain(line, 1_000) for line in part.summary.splitlines()]
        if part.cleared > part.until:
            lines.append(
                f"(results in the first {counted(part.cleared, 'message')} are no longer read by the model)"
            )
        return lines or ["(compaction)"]


def _set_aside(fields: dict[str, Any]) -> str:
    what, places = plain(fields.get("what") or "parts", 20), fields.get("messages")
    is_one = what == "messages" and is_array(places) and len(places) == 1
    if what == "messages" and is_array(places):
        listed = ", ".join(plain(each, 20) for each in places[:_MAX_PLACES])
        what = f"message {listed}" if is_one else f"messages {listed}"
    were, them = ("was", "it") if is_one else ("were", "them")
    why = plain(fields.get("why") or "", 300)
    return f"({what} {were} set aside, because the model's provider refused {them}: {why})"


def _set_aside_by_hand(fields: dict[str, Any]) -> str:
    of_call = fields.get("tool_call_id")
    what = f"the result of {plain(of_call)} in " if of_call else ""
    by, why = fields.get("by"), fields.get("why")
    return (
        f"({what}message {plain(fields['message'], 20)} was set aside"
        f"{f' by {plain(by)}' if by else ''}{f': {plain(why, 300)}' if why else ''})"
    )
