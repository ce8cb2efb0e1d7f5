"""The limits of a conversation as a whole: what they leave for a turn, and why no further turn begins."""

from datetime import timedelta

from sojourn.contracts.plan import Finalize
from sojourn.contracts.run_policy import Caps, RunPolicy
from sojourn.core.run.limits import caps_left, lowered
from sojourn.core.run.totals import RunTotals, cost_of, tokens_of
from sojourn.core.values.text import counted

__all__ = ["IDLE_TIMEOUT", "idle_end", "session_end", "turn_policy"]

IDLE_TIMEOUT = "idle_timeout"
"""Why a conversation ended to which nobody sent a message."""


def turn_policy(policy: RunPolicy, earlier: RunTotals) -> RunPolicy:
    """The policy of a turn: its tokens and money are at most what the turns before have left."""
    session = policy.session
    if session is None:
        return policy
    whole = policy.model_copy(update={"max_tokens": session.max_tokens, "max_cost": session.max_cost})
    left = caps_left(whole, earlier)
    return lowered(policy, Caps(tokens=left.tokens, cost=left.cost), RunTotals(), timedelta(0))


def session_end(policy: RunPolicy, turns: int, earlier: RunTotals) -> Finalize | None:
    """Why no further turn begins, or None.

    Args:
        policy: The policy, with the limits of the conversation.
        turns: The number of turns that have ended.
        earlier: Their totals.
    """
    session = policy.session
    if session is None:
        return None
    if session.max_turns is not None and turns >= session.max_turns:
        return _end("max_turns", f"The conversation has had its {counted(session.max_turns, 'turn')}.")
    if session.max_tokens is not None and tokens_of(earlier) >= session.max_tokens:
        return _end("max_tokens", "The conversation's tokens are used up.")
    if session.max_cost is not None and cost_of(earlier) >= session.max_cost:
        return _end("max_cost", "The conversation's money is used up.")
    return None


def idle_end(timeout: timedelta) -> Finalize:
    """The end of a conversation to which nobody sent a message for this long."""
    return _end(IDLE_TIMEOUT, f"Nobody sent a message for {timeout}.")


def _end(reason: str, message: str) -> Finalize:
    return Finalize(reason=reason, message=message, instruction="")
