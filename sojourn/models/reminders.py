"""Notices for one request only: they are no part of the transcript, and gone at the next turn."""

from collections.abc import Callable

from sojourn.contracts.plan import PlanInput
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.values.text import clip

__all__ = ["reminders"]

MAX_REMINDER = 500
"""Characters of one notice."""


def reminders(turn: PlanInput, wire_name: Callable[[str], str]) -> list[str]:
    """What a model is told for this request, after all else: results that are a part, or say so oddly, and which tool to mend.

    What a run says itself (a refused plan, the last turn, a wait) is in the transcript, as system messages.
    """
    told = [_partial(result, wire_name) for result in turn.tool_results if _is_partial(result)]
    restricted = sorted({wire_name(hint.tool) for hint in turn.hints if hint.restrict_to_tool})
    if restricted and turn.finalize is None:
        told.append(
            f"Correct the call of {' and of '.join(restricted)} as its answer says, or answer without it."
        )
    return [clip(text, MAX_REMINDER) for text in told]


def _is_partial(result: ToolResult) -> bool:
    return result.bounds is not None and (result.bounds.truncated or result.bounds.note is not None)


def _partial(result: ToolResult, wire_name: Callable[[str], str]) -> str:
    bounds = result.bounds
    assert bounds
    of = f" of {bounds.total}" if bounds.total is not None else ""
    kind = "is a part" if bounds.truncated else "says how much it holds"
    said = f"The result of {wire_name(result.name)} {kind}: {bounds.returned}{of} items."
    if bounds.refinement_hint:
        said += f" To narrow it: {bounds.refinement_hint.rstrip('.')}."
    if bounds.next_cursor:
        said += f" The next part begins at cursor {bounds.next_cursor!r}."
    if bounds.note:
        said += f" Do not rely on these figures: {bounds.note}."
    return said
