"""The limits of a conversation as a whole: what they leave for a turn, and when no further one begins."""

import pytest

from sojourn import RunPolicy, SessionPolicy, Usage
from sojourn.core.run.limits import caps_left, session_end, turn_policy
from sojourn.core.run.totals import RunTotals


def test_what_the_session_leaves_of_a_turn() -> None:
    """A turn has the tokens and the money of its policy, and no more than the turns before have left."""
    policy = RunPolicy(max_tokens=100, session=SessionPolicy(max_tokens=150, max_cost=1.0))
    spent = RunTotals(usage=Usage(input_tokens=60, output_tokens=20, cost=0.25))
    caps = caps_left(turn_policy(policy, spent), RunTotals())
    assert (caps.tokens, caps.cost) == (70, 0.75)
    assert caps_left(turn_policy(policy, RunTotals()), RunTotals()).tokens == 100
    assert session_end(policy, 1_000, spent) is None
    assert turn_policy(RunPolicy(), spent) == RunPolicy()


def test_no_turn_begins_once_a_limit_is_reached(subtests: pytest.Subtests) -> None:
    """A conversation has as many turns, tokens and dollars as its policy says, and then no further turn."""
    rows = [
        ({"max_turns": 2}, 1, {}, None),
        ({"max_turns": 2}, 2, {}, "max_turns"),
        ({"max_tokens": 10}, 1, {"input_tokens": 4, "output_tokens": 5}, None),
        ({"max_tokens": 10}, 1, {"input_tokens": 5, "output_tokens": 5}, "max_tokens"),
        ({"max_cost": 1.0}, 1, {"cost": 0.75}, None),
        ({"max_cost": 1.0}, 1, {"cost": 1.0}, "max_cost"),
    ]
    for limits, turns, usage, reason in rows:
        with subtests.test(limits=limits, turns=turns, usage=usage, reason=reason):
            ended = session_end(
                RunPolicy(session=SessionPolicy(**limits)), turns, RunTotals(usage=Usage(**usage))
            )
            assert (ended and ended.reason) == reason
