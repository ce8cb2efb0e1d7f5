"""Compaction: when a model reads a summary in place of the older part of a transcript, and who writes it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_ai.models import Model

from sojourn.authoring.options import TEXT, Kind, declares
from sojourn.contracts.message import Message
from sojourn.errors import DefinitionError
from sojourn.models.model_name import model_name_fault

__all__ = ["Compaction", "Summarize"]

Summarize = Callable[[Sequence[Message]], str | Awaitable[str]]
"""A function, sync or async, of the messages to summarise, of which the first may be the last summary; it returns the summary."""

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
    """How the transcript that a model reads is kept within the model's context window.

    At `trigger` of the window, old tool results are cleared first. Where that is not enough, a summary takes the place of the older
    messages. Neither changes the run's transcript: the plan records what models read from then on.

    Args:
        trigger: The share of the window, used by the next request, at which the transcript is compacted.
        keep: The share of the window, of the newest messages, that a summary leaves as they are.
        window: The model's context window, in tokens; when left out, that of the model's profile. Without either the transcript is compacted once the
            provider refuses a request as too long.
        keep_results: The number of newest tool results that are not cleared; with None no result is cleared.
        model: The model that writes summaries, by name or as a model object of pydantic-ai; when left out, the planner's own.
        summarize: Makes the summary in place of a model.
        instructions: What summaries have to keep, in addition to Sojourn's own instructions.

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
        """Refuse options that contradict each other."""
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
        """The compaction that `ModelPlanner(compaction=...)` names: True for the defaults, False for none.

        Raises:
            DefinitionError: It is neither.
        """
        if given is True:
            return cls()
        if given is False:
            return None
        if isinstance(given, cls):
            return given
        raise DefinitionError(
            f"ModelPlanner: compaction is True, False or Compaction(...), not {type(given).__name__}"
        )
