"""Rows of what runs used: sums, bars and the order of agents."""

from datetime import date, timedelta

from hypothesis import given
from hypothesis import strategies as st

from sojourn.console.views.spending import MOST_AGENTS, WIDTH, spending_view
from sojourn.reader import DaySpending, RecentSpending, Spending

DAYS = [date(2027, 3, 1) + timedelta(days=n) for n in range(7)]

of_day = st.builds(
    lambda runs, failed, cost: DaySpending(runs, min(failed, runs), Spending(runs=runs, cost=cost)),
    st.integers(1, 500),
    st.integers(0, 500),
    st.none() | st.floats(0, 100),
)
recent = st.dictionaries(
    st.sampled_from([f"desk.{n}" for n in range(MOST_AGENTS + 3)]),
    st.dictionaries(st.sampled_from(DAYS), of_day, min_size=1),
)


@given(recent)
def test_the_total_is_the_sum_of_all_agents(agents):
    """Runs, failures and cost of a day are those of all agents; every day has a row, the newest first; no bar is longer than its track."""
    counts = {day: sum(days[day].runs for days in agents.values() if day in days) for day in DAYS}
    view = spending_view(RecentSpending(DAYS, agents, counts, is_whole=True))
    assert [row.day for row in view.total.days] == DAYS[::-1]
    assert view.total.runs == view.read == sum(counts.values())
    assert len(view.agents) + view.more_agents == len(agents)
    costs = [each.spending.cost for days in agents.values() for each in days.values()]
    known = [cost for cost in costs if cost is not None]
    assert (view.total.cost is None) == (not known)
    assert abs((view.total.cost or 0) - sum(known)) < 1e-6
    for rows in (view.total, *view.agents):
        assert all(0 <= row.failed_width <= row.width <= WIDTH for row in rows.days)
        assert max(row.width for row in rows.days) in (0, WIDTH)
    shown = [rows.cost or 0 for rows in view.agents]
    assert shown == sorted(shown, reverse=True)


def test_a_list_that_was_cut_off_has_the_counts_of_the_store():
    """The days of the total have all runs, though the agents' rows have only the newest."""
    agents = {"desk.clerk": {DAYS[-1]: DaySpending(2, 1, Spending(runs=2, cost=0.5))}}
    counts = dict.fromkeys(DAYS, 10)
    view = spending_view(RecentSpending(DAYS, agents, counts, is_whole=False))
    assert (view.total.runs, view.read, view.agents[0].runs) == (70, 2, 2)
    assert [row.runs for row in view.total.days] == [10] * 7
