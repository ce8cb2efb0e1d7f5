"""Work orders of the sites, past, under way and planned, which match the incidents of `fleet`.

The grid operator cuts the power of s-7 for three days, which is why that site is dark. The mast of
s-16 will be inspected, but only the day after tomorrow, so that this does not explain its silence.
"""

from typing import NamedTuple

from toolsets.fleet import DAY, HOUR

__all__ = ["WORK_ORDERS", "WorkOrder"]


class WorkOrder(NamedTuple):
    """One piece of work; times are seconds after the data set's now, so most are below zero."""

    site_id: str
    summary: str
    priority: str
    opened: int
    starts: int | None = None
    ends: int | None = None
    cuts: str | None = None
    closed: int | None = None


WORK_ORDERS = (
    WorkOrder("s-3", "Mow the grass around the weather mast", "low", -28 * DAY, -22 * DAY, -22 * DAY + 3 * HOUR, closed=-22 * DAY + 2 * HOUR),
    WorkOrder("s-7", "Clean the level sensors", "normal", -26 * DAY, -20 * DAY, -20 * DAY + 4 * HOUR, closed=-20 * DAY + 5 * HOUR),
    WorkOrder("s-21", "Power cut: the grid operator tests its switchgear", "normal", -17 * DAY, -9 * DAY, -9 * DAY + 5 * HOUR, "power", -9 * DAY + 6 * HOUR),
    WorkOrder("s-5", "Join d-0509, which was never heard of", "low", -13 * DAY),
    WorkOrder("s-7", "Power cut: the grid operator replaces the transformer of the feed", "normal", -12 * DAY, -52 * HOUR, 12 * HOUR, "power"),
    WorkOrder("s-3", "Replace the lithium cell of d-0304", "high", -10 * DAY, 27 * HOUR, 29 * HOUR),
    WorkOrder("s-1", "Update the firmware of the flow meters", "normal", -6 * DAY, 5 * DAY + 3 * HOUR, 5 * DAY + 9 * HOUR),
    WorkOrder("s-16", "Inspect the antenna mast; the uplink is off meanwhile", "normal", -5 * DAY, 51 * HOUR, 55 * HOUR, "uplink"),
    WorkOrder("s-3", "Move the antenna of d-0309", "normal", -3 * DAY),
    WorkOrder("s-21", "Replace the lithium cell of d-2104", "normal", -46 * HOUR, 3 * DAY + 2 * HOUR, 3 * DAY + 3 * HOUR),
    WorkOrder("s-11", "Restart d-1103, which repeats one value", "high", -40 * HOUR),
)  # fmt: skip
