"""Budgets as a tree: what a child run may spend of what its parent has left."""

from datetime import timedelta

from sojourn.contracts.run_policy import Caps, Limits, RunPolicyOverride

__all__ = ["inherited", "lacking_in", "share_of"]


def share_of(caps: Caps, calls: int, children: int, limits: Limits) -> RunPolicyOverride:
    """An equal share for each child of one step, so that all together never exceed what is left.

    Args:
        caps: What is left before the step.
        calls: The step's own calls, the children's included.
        children: How many of them are child runs.
        limits: The parent's own.
    """
    left = None if caps.tool_calls is None else max(caps.tool_calls - calls, 0)
    return RunPolicyOverride(
        max_tool_calls=None if left is None else left // children,
        max_tokens=None if caps.tokens is None else caps.tokens // children,
        max_cost=None if caps.cost is None else caps.cost / children,
        max_depth=limits.max_depth,
    )


def lacking_in(share: RunPolicyOverride) -> str | None:
    """Which limit leaves a child run nothing to plan with, or None; one that may call nothing still may answer."""
    if share.max_tokens == 0:
        return "max_tokens"
    return "max_cost" if share.max_cost == 0 else None


def inherited(
    own: RunPolicyOverride | None, share: RunPolicyOverride | None, time_left: timedelta | None
) -> RunPolicyOverride | None:
    """The limits a child run starts with: its share, the time left now, and what was forbidden for the whole tree.

    Time is not shared out, since children of one step run side by side.

    Args:
        own: The override the parent was started with.
        share: What the parent's plan gave.
        time_left: Of the parent's time budget; None is no budget.
    """
    passed = RunPolicyOverride(
        time_budget=None if time_left is None else max(time_left, timedelta(milliseconds=1)),
        interrupts_allowed=False if own and own.interrupts_allowed is False else None,
        approval=own.approval if own else None,
        denied_tools=own.denied_tools if own else None,
        denied_tags=own.denied_tags if own else None,
    )
    whole = passed.tightened(share)
    return whole if whole.given() else None
