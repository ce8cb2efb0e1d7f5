"""Describe waits in one line.

The line has their kind, their question, and what runs wait for.
"""

from collections.abc import Sequence

from sojourn.answers import WaitView
from sojourn.values.visible import one_line

__all__ = ["KINDS", "title_of", "wait_line"]

KINDS = {"approval": "Approval", "question": "Question", "tool_results": "Result from outside"}
"""The kinds of waits, in a word or two."""


def title_of(view: WaitView) -> str:
    """Return the question of a wait in one line."""
    if view.kind == "tool_results":
        count = len(view.calls)
        return f"{count} results of {_tools(view)}" if count > 1 else f"Result of {_tools(view)}"
    if view.question is not None:
        return one_line(view.question.question, 160)
    return one_line(view.prompt or view.title or view.tool or "", 160)


def wait_line(waits: Sequence[WaitView]) -> str:
    """Describe the first of these waits, and count the others.

    Empty if there is none.
    """
    if not waits:
        return ""
    view, more = waits[0], f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    if view.question is not None:
        return f"asks: {one_line(view.question.question, 160)}{more}"
    if view.call is not None:
        return f"asks whether to call {one_line(view.title or view.call.tool, 120)}{more}"
    return f"waits for a result from outside: {_tools(view)}{more}"


def _tools(view: WaitView) -> str:
    return ", ".join(one_line(tool, 80) for tool in view.tools[:3])
