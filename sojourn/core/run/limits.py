"""The remaining limits of a run and of a conversation."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sojourn.contracts.plan import Finalize, Usage
from sojourn.contracts.run_policy import Caps, Limits, RunPolicy, stricter
from sojourn.contracts.tool_error import ToolError
from sojourn.contracts.tool_result import ToolResult
from sojourn.core.awaits.factories import lacks_fields
from sojourn.core.run.totals import RunTotals, cost_of, tokens_of
from sojourn.values.text import count_noun

__all__ = [
    "IDLE_TIMEOUT",
    "caps_after",
    "caps_left",
    "exhausted_limit",
    "finalize",
    "idle_end",
    "limit_error",
    "limits_of",
    "lower_policy",
    "session_end",
    "stricter_caps",
    "stricter_limits",
    "turn_policy",
    "used_up_limit",
]

_TIGHTENED = ("tool_calls", "rounds", "time", "tokens", "cost")
"""The caps that a policy engine may lower."""


def caps_left(policy: RunPolicy, counts: RunTotals, spent: timedelta = timedelta(0)) -> Caps:
    """Return what remains of the policy's limits, less child runs' consumption too."""
    streak = policy.max_consecutive_failed_tool_calls
    return Caps(
        tool_calls=_subtract(policy.max_tool_calls, counts.children_count),
        rounds=max(policy.max_tool_rounds - counts.turn_rounds, 0),
        failed_steps=_subtract(streak, counts.failed_steps),
        time=None if policy.time_budget is None else max(policy.time_budget - spent, timedelta(0)),
        tokens=_subtract(policy.max_tokens, tokens_of(counts)),
        cost=None if policy.max_cost is None else max(policy.max_cost - cost_of(counts), 0.0),
    )


def lower_policy(policy: RunPolicy, caps: Caps, counts: RunTotals, spent: timedelta) -> RunPolicy:
    """Return the policy lowered so that no more than these caps is left.

    A cap of None changes nothing.
    """
    now = caps_left(policy, counts, spent)
    less = {
        name: value
        for name in _TIGHTENED
        if (value := getattr(caps, name)) is not None
        and ((before := getattr(now, name)) is None or value < before)
    }
    used: dict[str, tuple[str, Any]] = {
        "tool_calls": ("max_tool_calls", counts.children_count),
        "rounds": ("max_tool_rounds", counts.turn_rounds),
        "time": ("time_budget", spent),
        "tokens": ("max_tokens", tokens_of(counts)),
        "cost": ("max_cost", cost_of(counts)),
    }
    changes = {used[name][0]: used[name][1] + value for name, value in less.items()}
    return policy.model_copy(update=changes) if changes else policy


def stricter_caps(caps: Caps, other: Caps | None) -> Caps:
    """Return the lower of two caps, name by name.

    None in `other` changes nothing.
    """
    if other is None:
        return caps
    changes = {
        name: value
        for name in _TIGHTENED
        if (value := getattr(other, name)) is not None
        and ((ours := getattr(caps, name)) is None or value < ours)
    }
    return caps.model_copy(update=changes) if changes else caps


def caps_after(caps: Caps, usage: Usage | None) -> Caps:
    """Return the caps for a plan's calls, reduced by the plan's own usage."""
    if usage is None:
        return caps
    changes: dict[str, Any] = {}
    if caps.tokens is not None:
        changes["tokens"] = max(caps.tokens - usage.input_tokens - usage.output_tokens, 0)
    if caps.cost is not None:
        changes["cost"] = max(caps.cost - (usage.cost or 0.0), 0.0)
    return caps.model_copy(update=changes) if changes else caps


def _subtract(most: int | None, used: int) -> int | None:
    return None if most is None else max(most - used, 0)


def stricter_limits(limits: Limits, other: Limits) -> Limits:
    return Limits(
        **{name: stricter(name, getattr(limits, name), getattr(other, name)) for name in Limits.model_fields}
    )


def limits_of(policy: RunPolicy) -> Limits:
    """Return the part of a policy that concerns one plan.

    The task of a later plan carries it in this form.
    """
    return Limits(**{name: getattr(policy, name) for name in Limits.model_fields})


_ENDINGS = {
    "max_tool_calls": "The run has used all of its tool calls.",
    "max_tool_rounds": "The maximum tool depth of this turn was exceeded.",
    "failure_streak": "Every call of the last {steps} failed.",
    "time_budget": "The run's time budget of {budget} is used up.",
    "max_tokens": "The run's tokens are used up.",
    "history": "The run has gone on for as long as one can.",
    "max_cost": "The run's money is used up.",
    "missing_fields": "A call lacks fields that nobody gave.",
}


_INSTRUCTIONS = {"missing_fields": "Say what is missing, and answer with what you know."}
_INSTRUCTION = "Answer now with what you know."


def finalize(policy: RunPolicy, reason: str) -> Finalize:
    """Return why a turn is the last, with the notice for the planner."""
    streak = policy.max_consecutive_failed_tool_calls
    steps = "step" if streak == 1 else f"{streak} steps"
    message = _ENDINGS[reason].format(steps=steps, budget=policy.time_budget)
    return Finalize(reason=reason, message=message, instruction=_INSTRUCTIONS.get(reason, _INSTRUCTION))


def exhausted_limit(
    policy: RunPolicy, counts: RunTotals, refused: str | None, results: Sequence[ToolResult] = ()
) -> Finalize | None:
    """Return why the next turn must be the last, or None (ME-18 to ME-25).

    A limit on calls or rounds is reached when a call is refused for it: twenty rounds run, the
    twenty-first does not. Limits on tokens, money and failed steps are reached when they are used up.
    """
    streak = policy.max_consecutive_failed_tool_calls
    if refused in ("max_tool_calls", "max_tool_rounds"):
        return finalize(policy, refused)
    if spent := used_up_limit(policy, counts):
        return spent
    if streak is not None and counts.failed_steps >= streak:
        return finalize(policy, "failure_streak")
    if policy.on_missing_fields == "finalize" and any(lacks_fields(result) for result in results):
        return finalize(policy, "missing_fields")
    return None


def used_up_limit(policy: RunPolicy, counts: RunTotals) -> Finalize | None:
    """Return why the next turn must be the last, or None.

    Used-up tokens or money are a reason. The check follows every plan.
    """
    if policy.max_tokens is not None and tokens_of(counts) >= policy.max_tokens:
        return finalize(policy, "max_tokens")
    if policy.max_cost is not None and cost_of(counts) >= policy.max_cost:
        return finalize(policy, "max_cost")
    return None


def limit_error(finalize: Finalize, failure: ToolError | None = None) -> ToolError:
    """Return the limit that ended a run, as an error.

    Its cause is the failure of the last turn, if there was one.
    """
    why = ToolError.new(finalize.message, code=finalize.reason)
    return why if failure is None else why.model_copy(update={"cause": failure}).without_repeats()


IDLE_TIMEOUT = "idle_timeout"
"""Why a conversation ended that received no message in time."""


def turn_policy(policy: RunPolicy, earlier: RunTotals) -> RunPolicy:
    """Return the policy of a turn.

    Its tokens and money are at most the rest of the earlier turns.
    """
    session = policy.session
    if session is None:
        return policy
    whole = policy.model_copy(update={"max_tokens": session.max_tokens, "max_cost": session.max_cost})
    left = caps_left(whole, earlier)
    return lower_policy(policy, Caps(tokens=left.tokens, cost=left.cost), RunTotals(), timedelta(0))


def session_end(policy: RunPolicy, turns: int, earlier: RunTotals) -> Finalize | None:
    """Return why no further turn begins, or None."""
    session = policy.session
    if session is None:
        return None
    if session.max_turns is not None and turns >= session.max_turns:
        return _end("max_turns", f"The conversation has had its {count_noun(session.max_turns, 'turn')}.")
    if session.max_tokens is not None and tokens_of(earlier) >= session.max_tokens:
        return _end("max_tokens", "The conversation's tokens are used up.")
    if session.max_cost is not None and cost_of(earlier) >= session.max_cost:
        return _end("max_cost", "The conversation's money is used up.")
    return None


def idle_end(timeout: timedelta) -> Finalize:
    return _end(IDLE_TIMEOUT, f"Nobody sent a message for {timeout}.")


def _end(reason: str, message: str) -> Finalize:
    return Finalize(reason=reason, message=message, instruction="")
