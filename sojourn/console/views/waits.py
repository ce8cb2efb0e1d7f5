"""Waits in a line: what a run asks whom."""

from collections.abc import Sequence

from sojourn.contracts.awaits import Await, AwaitClarification, AwaitConfirmation
from sojourn.core.values.visible import one_line

__all__ = ["wait_line"]


def wait_line(waits: Sequence[Await]) -> str:
    """What the first of these waits is for, and how many others there are; empty where there is none."""
    if not waits:
        return ""
    wait, more = waits[0], f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    if isinstance(wait, AwaitClarification):
        return f"asks: {one_line(wait.question, 160)}{more}"
    if isinstance(wait, AwaitConfirmation):
        return f"asks whether to call {one_line(wait.title or wait.tool, 120)}{more}"
    tools = ", ".join(dict.fromkeys(one_line(item.tool, 80) for item in wait.items[:3]))
    return f"waits for a result from outside: {tools}{more}"
