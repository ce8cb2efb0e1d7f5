"""The limits of child runs: their share of what the parent run has left."""

from datetime import timedelta

from sojourn.contracts.run_policy import Caps, Limits, RunPolicyOverride

__all__ = ["inherited", "lacking_in", "share_of"]


def share_of(caps: Caps, calls: int, children: int, limits: Limits) -> RunPolicyOverride:
    """An equal share for each child run of one step, so that all together never exceed the caps.

    Args:
        caps: The caps before the step.
        calls: Number of calls in the step, those of agent tools included.
        children: Number of child runs in the step.
        limits: The parent run's limits.
    """
    left = None if caps.tool_calls is None else max(caps.tool_calls - calls, 0)
    return RunPolicyOverride(
        max_tool_calls=None if left is None else left // children,
        max_tokens=None if caps.tokens is None else caps.tokens // children,
        max_cost=None if caps.cost is None else caps.cost / children,
        max_depth=limits.max_depth,
    )


def lacking_in(share: RunPolicyOverride) -> str | None:
    """Which limit leaves a child run no tokens or money to plan with, or None; without calls left it may still answer."""
    if share.max_tokens == 0:
        return "max_tokens"
    return "max_cost" if share.max_cost == 0 else None


def inherited(
    own: RunPolicyOverride | None, share: RunPolicyOverride | None, time_left: timedelta | None
) -> RunPolicyOverride | None:
    """The limits that a child run starts with: its share, the time left, and the prohibitions for the whole tree.

    Time is not divided, since the child runs of one step run in parallel.

    Args:
        own: The override that the parent run was started with.
        share: The share that the parent's plan recorded.
        time_left: What is left of the parent's time budget; None means no limit.
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
