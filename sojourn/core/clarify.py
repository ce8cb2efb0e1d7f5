"""From a hint to the question that a person is asked (SR-94, SR-136, SR-145)."""

from collections.abc import Sequence

from sojourn.contracts.awaits import AwaitClarification
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.counts import lacks_fields
from sojourn.core.pointer import to_tokens

__all__ = ["placed", "question_for"]


def question_for(results: Sequence[ToolResult]) -> AwaitClarification | None:
    """The question about the last call that lacks required fields, or None when none does."""
    lacking = [result.retry_hint for result in results if lacks_fields(result)]
    return lacking[-1].question() if lacking and lacking[-1] else None


def placed(question: AwaitClarification, results: Sequence[ToolResult]) -> AwaitClarification:
    """The question with nested fields named by pointer, where they were named as `hint.missing_fields` has them.

    Args:
        question: Of a planner.
        results: Of the last step, whose hints tell where a missing field is.
    """
    hints = [result.retry_hint for result in results if result.retry_hint]
    places: dict[str, list[str]] = {}
    for hint in hints:
        if hint.tool == question.restrict_to_tool:
            for name in hint.question().missing_fields:
                bare = to_tokens(name)[-1] if name.startswith("/") else name
                places.setdefault(bare, []).append(name)
    named = [place for name in question.missing_fields for place in places.get(name, [name])]
    return question.model_copy(update={"missing_fields": list(dict.fromkeys(named))})
