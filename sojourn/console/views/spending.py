"""The runs of the last days and what they used, as rows of numbers with bars."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from sojourn.reader import DaySpending, RecentSpending

__all__ = ["AgentRows", "DayRow", "SpendingView", "spending_view"]

WIDTH = 100.0
"""Units of the longest bar."""

MOST_AGENTS = 8
"""Most agents that have a row of their own."""


@dataclass(frozen=True, slots=True)
class DayRow:
    day: date
    runs: int
    failed: int
    cost: float | None
    """US dollars, or None if no cost is known."""
    width: float
    """Of the bar of all runs, of `WIDTH`."""
    failed_width: float
    """The part of it for runs that failed."""


@dataclass(frozen=True, slots=True)
class AgentRows:
    agent_id: str
    """Empty for all agents together."""
    days: Sequence[DayRow]
    runs: int
    failed: int
    cost: float | None
    unpriced: int
    """Runs whose tokens have no known cost."""


@dataclass(frozen=True, slots=True)
class SpendingView:
    total: AgentRows
    agents: Sequence[AgentRows]
    """Those with the highest cost first."""
    more_agents: int
    """Agents that are only in the total."""
    unread: int
    """Runs whose usage is not known, or not yet."""
    is_whole: bool
    """Whether the agents' rows and all costs have every run of these days."""
    read: int
    """Runs that were added up."""


def spending_view(found: RecentSpending) -> SpendingView:
    whole: dict[date, DaySpending] = {}
    for days in found.agents.values():
        for day, each in days.items():
            whole.setdefault(day, DaySpending()).add(each)
    read = sum(each.runs for each in whole.values())
    unread = sum(len(each.spending.unread) for each in whole.values())
    agents = [_rows(agent_id, found.days, days) for agent_id, days in found.agents.items()]
    agents.sort(key=lambda rows: (-(rows.cost or 0.0), -rows.runs, rows.agent_id))
    return SpendingView(
        _rows("", found.days, whole, found.counts),
        agents[:MOST_AGENTS],
        len(agents[MOST_AGENTS:]),
        unread,
        found.is_whole,
        read,
    )


def _rows(
    agent_id: str,
    days: Iterable[date],
    found: Mapping[date, DaySpending],
    counts: Mapping[date, int] | None = None,
) -> AgentRows:
    known = {day: found.get(day) or DaySpending() for day in days}
    runs = {day: counts.get(day, 0) if counts else each.runs for day, each in known.items()}
    unit = WIDTH / max(*runs.values(), 1)
    rows = [
        DayRow(
            day,
            runs[day],
            each.failed,
            each.spending.cost,
            round(runs[day] * unit, 1),
            round(each.failed * unit, 1),
        )
        for day, each in reversed(known.items())
    ]
    costs = [row.cost for row in rows if row.cost is not None]
    return AgentRows(
        agent_id,
        rows,
        sum(row.runs for row in rows),
        sum(row.failed for row in rows),
        sum(costs) if costs else None,
        sum(each.spending.unpriced for each in known.values()),
    )
