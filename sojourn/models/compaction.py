"""Options of compaction, and what models read after it.

In place of the summarised messages, models read a few of them unchanged, then the summary as a
message of a user, since a summary is a model's text about what tools returned, and no
instruction of the application.

A cleared result still says how its call ended, since a model that cannot know whether it has paid
pays again. The text advises a repeated call only for a tool that changes nothing.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_ai.models import Model

from sojourn.authoring.options import TEXT, Kind, declares
from sojourn.contracts.message import CompactionPart, Message, OtherPart, ToolResultPart
from sojourn.contracts.tool_result import ToolResult
from sojourn.errors import DefinitionError
from sojourn.models.model_name import model_name_fault
from sojourn.values.text import count_noun

__all__ = [
    "SHORTEST",
    "Compaction",
    "ResultRead",
    "Summarize",
    "compact_messages",
    "compaction_of",
    "with_part",
]

Summarize = Callable[[Sequence[Message]], str | Awaitable[str]]
_SHARE = Kind("a number between 0 and 1", lambda value: isinstance(value, (int, float)) and 0 < value < 1)
_TOKENS = Kind(
    "a number of tokens, 4,000 at least",
    lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 4_000,
)
_COUNT = Kind("a number", lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 0)


@declares(
    "Compaction",
    mends={"threshold": "trigger=...", "max_tokens": "window=...", "prompt": "instructions=..."},
    trigger=_SHARE,
    keep=_SHARE,
    window=_TOKENS,
    keep_results=_COUNT,
    model=Kind("a model, or its name", lambda value: isinstance(value, (str, Model))),
    summarize=Kind("a function of the messages", callable),
    instructions=TEXT,
)
@dataclass(frozen=True, kw_only=True)
class Compaction:
    """Options that fit a model's transcript into its context window.

    At `trigger` of the window, old tool results are cleared. If that is not enough, a summary replaces the
    older messages. The run's transcript stays as it is.

    Args:
        trigger: The share of the window, used by the next request, at which the transcript is compacted.
        keep: The share of the window, of the newest messages, that a summary leaves as they are.
        window: The context window, in tokens, at least 4,000; by default that of the model's profile, with fallbacks the
            smallest. Without either the transcript is compacted once the provider refuses a request as too long.
        keep_results: The number of newest tool results that are not cleared; with None no result is cleared.
        model: The model that writes summaries; by default the planner's own.
        summarize: Makes the summary in place of a model.
        instructions: What summaries have to keep, beside Sojourn's own instructions.

    Raises:
        DefinitionError: A share, a number or the model is not valid, or there are both a model and a function.
    """

    trigger: float = 0.8
    keep: float = 0.25
    window: int | None = None
    keep_results: int | None = 5
    model: str | Model | None = None
    summarize: Summarize | None = None
    instructions: str = ""

    def __post_init__(self) -> None:
        if self.keep >= self.trigger:
            raise DefinitionError(
                f"Compaction: keep={self.keep} is a smaller share than trigger={self.trigger}, or nothing would be compacted"
            )
        if self.model is not None and self.summarize is not None:
            raise DefinitionError("Compaction takes a model or summarize=..., not both")
        if isinstance(self.model, str) and (fault := model_name_fault(self.model)):
            raise DefinitionError(f"Compaction: {fault}")

    @classmethod
    def of(cls, given: Any) -> "Compaction | None":
        """Return the compaction that `ModelPlanner(compaction=...)` names, or None."""
        if given is True:
            return cls()
        if given is False:
            return None
        if isinstance(given, cls):
            return given
        raise DefinitionError(
            f"ModelPlanner: compaction is True, False or Compaction(...), not {type(given).__name__}"
        )


MAX_LISTED = 20
"""Most attachments of summarized messages that a summary names."""

SHORTEST = 200
"""Characters of a result up to which it is not cleared: the line in its place would be as long."""


class ResultRead(ToolResult):
    text: str


def compaction_of(message: Message) -> CompactionPart | None:
    """Return the compaction that a message records, or None."""
    if message.role != "assistant":
        return None
    return next((part for part in message.parts if isinstance(part, CompactionPart)), None)


def with_part(message: Message, part: CompactionPart | OtherPart) -> Message:
    """Return a plan's message with a part that changes what models read from then on."""
    return message.model_copy(update={"parts": [part, *message.parts]})


def compact_messages(
    messages: Sequence[Message],
    part: CompactionPart | None,
    text_of: Callable[[ToolResult], Any],
    reads: Collection[str] = (),
) -> list[Message]:
    """Return the messages that models read in place of a whole transcript."""
    if part is None:
        return [*messages]
    until = max(min(part.until, len(messages)), 0)
    kept = [messages[index] for index in part.kept if 0 <= index < until]
    summary = [Message.user(_introduce(part.summary, messages[:until]))] if until else []
    tail = [
        _shorten(
            message,
            text_of,
            reads,
            is_cleared=index < part.cleared,
            most=part.max_result if index < part.at else None,
        )
        for index, message in enumerate(messages[until:], until)
    ]
    return [*kept, *summary, *tail]


def _introduce(summary: str, messages: Sequence[Message]) -> str:
    count = count_noun(len(messages), "message")
    text = f"(Summary of the conversation so far, in place of its first {count}:)\n\n{summary}"
    files = {file.id: file for message in messages for file in message.attachments}
    listed = ", ".join(f"{file.id} ({file.name!r})" for file in [*files.values()][-MAX_LISTED:])
    return f"{text}\n\n(Their attachments, which tools can still read: {listed})" if listed else text


def _shorten(
    message: Message,
    text_of: Callable[[ToolResult], Any],
    reads: Collection[str],
    *,
    is_cleared: bool,
    most: int | None,
) -> Message:
    if message.role != "tool" or not (is_cleared or most):
        return message
    parts = [
        part.model_copy(
            update={"result": _read(part.result, text_of, reads, is_cleared=is_cleared, most=most)}
        )
        if isinstance(part, ToolResultPart)
        else part
        for part in message.parts
    ]
    return message.model_copy(update={"parts": parts})


def _read(
    result: ToolResult,
    text_of: Callable[[ToolResult], Any],
    reads: Collection[str],
    *,
    is_cleared: bool,
    most: int | None,
) -> ToolResult:
    made = text_of(result)
    text = made if isinstance(made, str) else str(made)
    has_pictures = any(artifact.media_type for artifact in result.artifacts)
    if is_cleared and (has_pictures or len(text) > SHORTEST):
        what = "result" if result.ok else "failure"
        advice = "call the tool again if it is needed" if result.name in reads else _outcome(result)
        text = f"[The {what}, of {len(text):,} characters, was cleared to save room; {advice}.]"
    elif most is not None and len(text) > most:
        text = f"{text[:most]}\n[{len(text) - most:,} more characters are left out to save room.]"
    else:
        return result
    return ResultRead.model_construct(**dict(result), text=text)


def _outcome(result: ToolResult) -> str:
    error = result.error
    if error is None:
        return "the call succeeded and its effect took place, so do not make it again to read the result"
    if error.outcome_unknown:
        return "the call failed and may have taken effect, so find out before you make it again"
    return f"the call failed{' without an effect' if error.without_effect else ''} ({error.code})"
