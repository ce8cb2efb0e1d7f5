"""Active time: it passes while something is at work and nothing is paused, and a budget says when it is used up."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.run.active_time import ActiveTime

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def at(seconds: int) -> datetime:
    return START + seconds * SECOND


def test_works_side_by_side_pass_in_the_same_time() -> None:
    """The stretch goes on until the last of them has ended."""
    active = ActiveTime().begun(at(0)).begun(at(2)).ended(at(3))
    assert active.spent(at(5)) == 5 * SECOND
    assert active.ended(at(6)).spent(at(9)) == 6 * SECOND


def test_a_pause_stops_the_time_of_what_is_at_work() -> None:
    """What begins or ends meanwhile counts from the resume on."""
    active = ActiveTime().begun(at(0)).stopped(at(2), paused=True)
    assert active.spent(at(5)) == 2 * SECOND
    active = active.begun(at(5)).ended(at(6)).stopped(at(7), paused=False)
    assert active.spent(at(10)) == 5 * SECOND
    idle = active.ended(at(10)).stopped(at(11), paused=True).stopped(at(12), paused=False)
    assert idle.spent(at(20)) == 5 * SECOND


def test_what_child_runs_spent_is_added_to_both_what_ended_and_what_goes_on() -> None:
    """It is lost neither in the middle of a stretch nor after it."""
    active = ActiveTime().begun(at(0)).added(4 * SECOND)
    assert active.spent(at(1)) == 5 * SECOND
    assert active.ended(at(2)).added(SECOND).spent(at(9)) == 7 * SECOND


@pytest.mark.parametrize(("seconds", "left"), [(0, 3), (2, 1), (3, 0), (4, 0)])
def test_a_budget_is_used_up_and_stays_so(seconds: int, left: int) -> None:
    """However much more was spent: nothing is left then, not less."""
    active = ActiveTime(budget=3 * SECOND).begun(at(0))
    assert active.left(at(seconds)) == left * SECOND
    assert active.is_used_up(at(seconds)) is (left == 0)
    assert active.ended(at(seconds)).is_used_up(at(99)) is (left == 0)


def test_without_a_budget_nothing_is_used_up() -> None:
    """Nor is anything left: there is no limit."""
    active = ActiveTime().begun(at(0))
    assert active.left(at(10**6)) is None
    assert not active.is_used_up(at(10**6))


def test_a_budget_that_expired_in_the_middle_of_something_is_used_up() -> None:
    """The timer decides, whatever the clock of an event says."""
    assert ActiveTime(budget=3 * SECOND, expired=True).is_used_up(at(0))


MOVES = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["begin", "end", "pause", "resume"])))


@given(MOVES)
def test_time_passes_only_while_something_works_and_nothing_is_paused(moves: list[tuple[int, str]]) -> None:
    """Second by second, over any order of beginnings, ends, pauses and resumes."""
    active, now, works, is_paused, passed = ActiveTime(), 0, 0, False, 0
    for seconds, move in moves:
        now += seconds
        passed += seconds if works and not is_paused else 0
        assert active.spent(at(now)) == passed * SECOND
        if move == "begin":
            active, works = active.begun(at(now)), works + 1
        elif move == "end" and works:
            active, works = active.ended(at(now)), works - 1
        elif move in ("pause", "resume"):
            is_paused = move == "pause"
            active = active.stopped(at(now), paused=is_paused)
