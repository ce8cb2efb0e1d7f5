"""The active time of child runs: counted once, and all of it."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.run.child_outcomes import ChildTime

SECOND = timedelta(seconds=1)
SPANS = st.integers(0, 100).map(lambda n: n * SECOND)


def test_child_runs_side_by_side_count_once() -> None:
    """The busiest is the time that passed."""
    time = ChildTime()
    for active in (2 * SECOND, 5 * SECOND, None, 3 * SECOND):
        time.ended(timedelta(0), active)
    assert time.total == 5 * SECOND


def test_child_runs_one_after_the_other_add_up() -> None:
    """With fewer slots than calls, a later one begins when an earlier one has ended."""
    time = ChildTime()
    for active in (2 * SECOND, 5 * SECOND):
        time.ended(time.total, active)
    assert time.total == 7 * SECOND


@given(st.lists(SPANS), SPANS)
def test_what_the_run_itself_was_active_is_not_counted_again(spans: list[timedelta], own: timedelta) -> None:
    """Own time and what is added are together the longer of both."""
    time = ChildTime()
    for active in spans:
        time.ended(timedelta(0), active)
    assert own + time.beyond(own) == max(own, time.total)
