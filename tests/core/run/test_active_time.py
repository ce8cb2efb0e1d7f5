"""Active time: the time in which activities run and the run is not paused, and the budget that limits it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.run.totals import ActiveTime

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def at(seconds: int) -> datetime:
    return START + seconds * SECOND


def test_parallel_work_counts_once() -> None:
    """Parallel work counts from the first beginning to the last end."""
    active = ActiveTime().begun(at(0)).begun(at(2)).ended(at(3))
    assert active.active_time(at(5)) == 5 * SECOND
    assert active.ended(at(6)).active_time(at(9)) == 6 * SECOND


def test_a_pause_stops_active_time() -> None:
    """During a pause no time counts; work that goes on, or began meanwhile, counts again from the resume."""
    active = ActiveTime().begun(at(0)).stopped(at(2), paused=True)
    assert active.active_time(at(5)) == 2 * SECOND
    active = active.begun(at(5)).ended(at(6)).stopped(at(7), paused=False)
    assert active.active_time(at(10)) == 5 * SECOND
    idle = active.ended(at(10)).stopped(at(11), paused=True).stopped(at(12), paused=False)
    assert idle.active_time(at(20)) == 5 * SECOND


def test_time_of_child_runs_is_added_during_work_and_after_it() -> None:
    """Added time counts whether or not work is going on."""
    active = ActiveTime().begun(at(0)).added(4 * SECOND)
    assert active.active_time(at(1)) == 5 * SECOND
    assert active.ended(at(2)).added(SECOND).active_time(at(9)) == 7 * SECOND


@pytest.mark.parametrize(("seconds", "left"), [(0, 3), (2, 1), (3, 0), (4, 0)])
def test_a_budget_is_used_up_and_stays_so(seconds: int, left: int) -> None:
    """A used-up budget leaves zero, never a negative time, and stays used up."""
    active = ActiveTime(budget=3 * SECOND).begun(at(0))
    assert active.time_left(at(seconds)) == left * SECOND
    assert active.is_used_up(at(seconds)) is (left == 0)
    assert active.ended(at(seconds)).is_used_up(at(99)) is (left == 0)


def test_without_a_budget_nothing_is_used_up() -> None:
    """Without a budget the time left is None."""
    active = ActiveTime().begun(at(0))
    assert active.time_left(at(10**6)) is None
    assert not active.is_used_up(at(10**6))


def test_an_expired_budget_is_used_up_at_any_time() -> None:
    """If the budget's timer has fired, the budget is used up, whatever time has been counted."""
    assert ActiveTime(budget=3 * SECOND, expired=True).is_used_up(at(0))


MOVES = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["begin", "end", "pause", "resume"])))


@given(MOVES)
def test_time_passes_only_while_something_works_and_nothing_is_paused(moves: list[tuple[int, str]]) -> None:
    """For any order of beginnings, ends, pauses and resumes, active time equals a count second by second."""
    active, now, works, is_paused, passed = ActiveTime(), 0, 0, False, 0
    for seconds, move in moves:
        now += seconds
        passed += seconds if works and not is_paused else 0
        assert active.active_time(at(now)) == passed * SECOND
        if move == "begin":
            active, works = active.begun(at(now)), works + 1
        elif move == "end" and works:
            active, works = active.ended(at(now)), works - 1
        elif move in ("pause", "resume"):
            is_paused = move == "pause"
            active = active.stopped(at(now), paused=is_paused)
