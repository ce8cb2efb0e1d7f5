"""From a hint to the question that a person is asked (SR-94, SR-136, SR-145)."""

from collections.abc import Sequence

from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.retry_hint import RetryHint
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.counts import lacks_fields
from sojourn.core.pointer import to_tokens

__all__ = ["question_for", "question_of"]


def question_of(hint: RetryHint) -> AwaitClarification:
    """The question whose answer repairs a call: what is missing, of which tool, and what would do."""
    return AwaitClarification(
        id=f"fix-{hint.tool}",
        question=hint.clarifying_question or hint.message or f"What should {hint.tool} be called with?",
        missing_fields=_missing(hint),
        restrict_to_tool=hint.tool,
        example_input=hint.example_input,
        clarifying_prompt=hint.message,
    )


def question_for(results: Sequence[ToolResult]) -> AwaitClarification | None:
    """The question about the last call that lacks required fields, or None when none does."""
    lacking = [result.retry_hint for result in results if lacks_fields(result)]
    return question_of(lacking[-1]) if lacking and lacking[-1] else None


def _missing(hint: RetryHint) -> list[str]:
    """By bare name, or as a pointer where another field of the payload may have the same name."""
    pointers = [one.field for one in hint.issues if one.constraint == "missing_field" and one.field]
    nested = [pointer for pointer in pointers if len(to_tokens(pointer)) > 1]
    own = [to_tokens(pointer)[0] for pointer in pointers if pointer not in nested]
    return [*own, *nested] if nested else hint.missing_fields
