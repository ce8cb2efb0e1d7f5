"""The active time of child runs, counted once."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from sojourn.core.run.child_runs import ChildTime

SECOND = timedelta(seconds=1)
SPANS = st.integers(0, 100).map(lambda n: n * SECOND)


def test_parallel_child_runs_count_once() -> None:
    """Of child runs that started together, the longest active time counts."""
    time = ChildTime()
    for active in (2 * SECOND, 5 * SECOND, None, 3 * SECOND):
        time.count_ended(timedelta(0), active)
    assert time.total == 5 * SECOND


def test_consecutive_child_runs_add_up() -> None:
    """The active time of a child run that began after another ended is added."""
    time = ChildTime()
    for active in (2 * SECOND, 5 * SECOND):
        time.count_ended(time.total, active)
    assert time.total == 7 * SECOND


@given(st.lists(SPANS), SPANS)
def test_the_runs_own_active_time_is_not_counted_again(spans: list[timedelta], own: timedelta) -> None:
    """The run's own time and the added time are together the longer of own time and child time."""
    time = ChildTime()
    for active in spans:
        time.count_ended(timedelta(0), active)
    assert own + time.beyond(own) == max(own, time.total)
